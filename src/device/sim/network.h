/*
 * The simulated network: many tasks of one process, joined by packets that take virtual time.
 *
 *   rules.c     the configuration
 *   network.c   making and unmaking, whose turn is next, time
 *   wire.c      packets: sending, arriving, delivering
 *   copy.c      single copies (get and put)
 *   fate.c      contexts that close, tasks that die, and who is told
 *   identity.c  the tasks' bootstraps
 *   sim.c       the device's table of operations
 *   queue.c     what happens next
 *
 * A *task* has up to `contexts` endpoints. An *endpoint* is the network's side of a context: it
 * exists from the first mention until the network ends, so packets may be sent to contexts that do
 * not exist yet, and keeps what must outlive a port. A *link* is what one endpoint knows of
 * another; it carries the order of that pair. Packets point at links, never at ports.
 *
 * A context may be destroyed and created again: each is another *life* of its endpoint. A packet is
 * for one life; it waits for that to begin, and is lost when that is over. fate.c has the rules.
 *
 * Contexts get *turns*, one at a time. An endpoint's clock says how far its context has come; it
 * moves when the context sends, receives or pauses, and may be ahead of the network's, never the
 * network's ahead of what is still to happen. The network knows nothing of contexts: whoever drives
 * it (src/client/sim_client.c) asks for the next turn, advances that context, and says how it went.
 *
 * Time is in picoseconds. Single thread, but for sim_wake. Nothing depends on addresses or on the
 * system's clock.
 */
#ifndef LIBPAMI_DEVICE_SIM_NETWORK_H
#define LIBPAMI_DEVICE_SIM_NETWORK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pamix.h>

#include "bootstrap/bootstrap.h"
#include "device/device.h"
#include "device/sim/queue.h"
#include "device/sim/random.h"
#include "util/hash.h"
#include "util/list.h"
#include "util/pool.h"

#define SIM_NEVER UINT64_MAX

/* A turn that did nothing on the network, and is wanted again, comes after this: 0.1 us. */
#define SIM_LEAST_PAUSE UINT64_C(100000)

struct sim_level {
    uint64_t latency, overhead, gap;
    double gap_per_byte;
    bool single_copy;
};

struct sim_packet {
    struct sim_event event;
    struct sim_packet *next; /* in an inbox */
    struct sim_link *link;
    uint64_t ready;            /* when it can be taken out of the inbox */
    uint64_t order;            /* of arrival, among all */
    uint32_t life;             /* of the destination, when it was sent */
    uint8_t level;             /* enum: pamix_sim_level_name_t */
    uint8_t size_class;        /* of its memory */
    struct packet_header head; /* then the body, aligned to 8 */
};

#define SIM_SIZE_CLASSES 11 /* bodies of up to 64 << class bytes */

/* Arrived packets, `ready` ascending. */
struct sim_inbox {
    struct sim_packet *first, *last;
};

/* When a port can take the next packet out, and in. */
struct sim_wire {
    uint64_t out, in;
};

struct sim_task {
    struct bootstrap bootstrap; /* of its client; first member */
    struct sim_network *network;
    bool slow, dead, left; /* left: no more contexts will be made */
    uint32_t open, ended;  /* contexts there are; how often the last of them was destroyed */
    uint64_t died;
    uint64_t latest;        /* time it was told last: never goes back */
    struct sim_event death; /* scheduled by the configuration */
    struct sim_heap *heap;  /* NULL: nobody has asked for it */
    bool heap_closed;       /* the client has gone */
};

struct sim_endpoint {
    struct sim_event turn;
    struct sim_network *network;
    struct sim_task *task;
    struct port *port; /* NULL: not open */
    uint32_t endpoint;
    uint32_t life; /* how often it was opened */

    uint64_t clock;   /* how far the context has come */
    uint64_t turn_at; /* SIM_NEVER: no turn is scheduled */
    bool is_ready;    /* in network->ready */
    bool soft;        /* the turn is a mere look */
    bool active;      /* something moved in this turn */
    bool delivering;  /* a packet is with its handler, ... */
    bool put_back;    /* ... who could not take it */
    uint64_t poll_from;
    struct list ready;

    struct sim_wire memory, network_port;
    struct sim_inbox inbox[2]; /* from memory, from the network */
    uint32_t held;             /* packets on their way here and in the inboxes */
    uint32_t waiting;          /* own links that wait for room */

    struct u64map map;     /* endpoint -> own link */
    struct list links;     /* own links, oldest first */
    struct list watchers;  /* links of others that lead here and want to know when it has gone */
    struct list waiters;   /* links of others that wait for room here, oldest first */
    struct list crowded;   /* in network->crowded while there are waiters */
    struct list gone;      /* own links whose destinations have gone, to be reported */
    struct list transfers; /* own copies under way */
    struct list finished;  /* own copies whose completion is due */

    atomic_bool is_woken;
    struct sim_endpoint *next_woken;
};

struct sim_path {
    struct path path; /* first member */
    struct sim_link *link;
    uint8_t level;
};

struct sim_link {
    struct sim_path usual, packets; /* the second one avoids memory */
    struct sim_endpoint *from, *to;
    uint32_t life;      /* of `to`, that the paths lead to */
    bool waits;         /* for that: its task is about to end the one before */
    uint64_t patience;  /* how long */
    uint32_t in_flight; /* packets accepted and not yet taken or lost */
    bool cut;           /* the sender has died and what is under way is lost */
    bool is_noticed;    /* `notice` is scheduled */
    bool is_reported;   /* that the destination has gone, and not opened again since */
    uint64_t last_arrival, last_ready;
    struct list own, watch, wait, gone;
    struct sim_event notice;
};

/* The configuration in the network's units. */
struct sim_rules {
    struct sim_level level[PAMIX_SIM_LEVELS];
    uint32_t contexts, tasks_per_core, tasks_per_node, nodes_per_switch;
    uint32_t packet_bytes, queue;
    bool node_ports;
    uint64_t jitter, reorder_delay, slow_delay, retry, detect;
    double reorder, refuse, copy_failure;
    int copy;
};

struct sim_network {
    struct sim_rules rules;
    uint64_t now;
    struct sim_queue queue;
    struct sim_random random;
    struct list ready;   /* endpoints whose turn is now */
    struct list crowded; /* endpoints with waiters */
    _Atomic(struct sim_endpoint *) woken;
    struct sim_endpoint *running;
    pthread_mutex_t heap_lock; /* for heap and heap_closed of the tasks */
    struct sim_task *tasks;
    uint32_t task_count;
    struct sim_endpoint **endpoints; /* [task * contexts + offset], NULL until mentioned */
    struct sim_wire *nodes;          /* [node], with node_ports */
    uint32_t *identity;              /* [task] = task: what local_tasks point into */
    struct pool packets[SIM_SIZE_CLASSES];
    struct pool copies;
    pamix_sim_counters_t counters;
    uint64_t digest;
    uint64_t arrivals;
    uint64_t progress; /* when something more than mere looks last happened */
    size_t references; /* open devices, and the maker */
    bool is_inside;    /* inside a run */
    bool is_ending;    /* packets go nowhere */
    bool is_roused;    /* the driver's: all contexts were given a turn and did nothing since */
};

/* ---- rules.c ---- */

/* Fills in what `given` (or NULL) has, checks it, and converts it. PAMI_INVAL with the text set. */
pami_result_t sim_rules_read(const pamix_sim_config_t *given, size_t ntasks,
                             pamix_sim_config_t *config, struct sim_rules *rules);

/* ---- network.c ---- */

/* The rules are valid. Draws who is slow and who will die. 0 or -ENOMEM. */
int sim_network_create(const struct sim_rules *rules, const pamix_sim_config_t *config,
                       uint32_t tasks, struct sim_network **network);
void sim_network_release(struct sim_network *network);

static inline uint64_t sim_picoseconds(double seconds)
{
    return (uint64_t)(seconds * 1e12 + 0.5);
}

/* The task's time, seconds; a clock for clients. `cookie` is the struct sim_task. */
double sim_task_now(void *cookie);

/* NULL until mentioned. */
static inline struct sim_endpoint *sim_endpoint_find(const struct sim_network *network,
                                                     uint32_t task, uint32_t offset)
{
    return network->endpoints[(size_t)task * network->rules.contexts + offset];
}

/* Makes it when it does not exist; NULL without memory or outside the job. */
struct sim_endpoint *sim_endpoint_get(struct sim_network *network, uint32_t endpoint);

/* The endpoint's context gets a turn at `time` or earlier. A soft turn is a mere look. */
void sim_schedule(struct sim_endpoint *endpoint, uint64_t time, bool soft);

/* From any thread: the endpoint's context gets a turn soon. */
void sim_wake(struct sim_endpoint *endpoint);

/* `event` happens at `time`, or at once for want of memory. */
void sim_schedule_event(struct sim_network *network, uint64_t time, struct sim_event *event);

enum sim_next {
    SIM_NEXT_TURN,  /* *endpoint has one: advance its context, then call sim_turn_end */
    SIM_NEXT_QUIET, /* nothing can happen */
    SIM_NEXT_LIMIT,
};

/* Lets time go on up to the next turn, `until`, or until counters.events reaches `events`. */
enum sim_next sim_next(struct sim_network *network, uint64_t until, uint64_t events,
                       struct sim_endpoint **endpoint);

/* How a turn ended, as the driver sees the context. */
struct sim_turn {
    bool wants_more; /* another pass would do something */
    bool looks;      /* something waits that only looking again can find out */
    bool is_deaf;    /* the context does not read its ports */
    int events;
};

void sim_turn_end(struct sim_endpoint *endpoint, const struct sim_turn *turn);

/* Everybody who waits for room gets a turn, and is not counted as waiting any more: whoever still
 * has something to send, and finds no room, comes back. Returns how many. */
size_t sim_wake_waiters(struct sim_network *network);

/* ---- wire.c ---- */

int sim_am(struct path *path, const struct packet *packet);
int sim_advance(struct port *port);
bool sim_put_back(struct port *port);
bool sim_pending(struct port *port);
uint64_t sim_inbox_ready(const struct sim_endpoint *endpoint); /* SIM_NEVER: empty */
void sim_inbox_flush(struct sim_endpoint *endpoint);
unsigned sim_level_between(const struct sim_rules *rules, uint32_t a, uint32_t b);

/* ---- copy.c ---- */

int sim_get(struct path *path, void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer);
int sim_put(struct path *path, const void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer);

/* Completes what is due; how many. */
int sim_copies_finish(struct sim_endpoint *endpoint);

/* The port closes: nobody will be told of them. */
void sim_copies_cancel(struct sim_endpoint *endpoint);
size_t sim_copy_size(void);

/* ---- fate.c ---- */

/* The destination, as this link knows it, will not take packets any more. */
static inline bool sim_link_is_broken(const struct sim_link *link)
{
    const struct sim_endpoint *to = link->to;

    return to->task->dead || to->life > link->life ||
           (to->life == link->life && to->port == NULL) || (to->task->left && to->port == NULL);
}

/* The destination has yet to end the life before: it gets nothing. */
bool sim_link_waits(struct sim_link *link);

/* The endpoint's port has been opened, or closed. */
void sim_begins(struct sim_endpoint *endpoint);
void sim_ends(struct sim_endpoint *endpoint);

/* No more contexts of the task will be made. */
void sim_leaves(struct sim_task *task);

void sim_kill(struct sim_task *task);
void sim_death(struct sim_network *network, struct sim_event *event);

/*
 * A path along this link is opened, as PATH_* say: 0, or -EPIPE when the destination is known to
 * have gone. When it has gone all the same, the paths' owner will be told.
 */
int sim_link_watch(struct sim_link *link, unsigned how);

/* The port closes, or its task dies: the link waits for nothing any more. */
void sim_link_rest(struct sim_link *link);
void sim_tend(struct port *port, void (*gone)(void *context, uint32_t endpoint));

/* ---- memory.c ---- */

int sim_heap_alloc(struct device *device, size_t bytes, size_t alignment, int node, void **address);
int sim_heap_free(struct device *device, void *address);
int sim_heap_view(struct device *device, uint32_t task, struct heap_view *view);

/* The client goes: no heap is made any more. What there is stays, neighbours may have it mapped. */
void sim_heap_close(struct sim_task *task);

/* All clients of the network have gone. */
void sim_heap_destroy(struct sim_task *task);

/* ---- identity.c ---- */

void sim_identity_fill(struct sim_network *network, uint32_t task);

extern const struct device_ops sim_device_ops;

/* The task whose device it is; NULL when it is not a simulated one. */
struct sim_task *sim_task_of(const struct device *device);
struct sim_endpoint *sim_endpoint_of(struct port *port);

#endif
