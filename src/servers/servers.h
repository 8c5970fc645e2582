/*
 * Communication servers: contexts of the program whose owners are threads of the library, and which
 * carry out requests that other contexts hand to them.
 *
 *   lane.c     what a context of the program has here
 *   request.c  the calls; a request's way to a server, and back
 *   choose.c   who carries a request
 *   plain.c    calls that need no such question (plain.h)
 *   server.c   a server's side: takes requests from its ring and starts the operations
 *   servers.c  create, start, stop, destroy, policy, counters
 *   fetch.c    large messages: servers fetch the data
 *   split.c    large puts and gets in pieces, which several carry at once
 *   fence.c    fences, which are also how servers stop
 *   learn.c    does forwarding pay? Measured on the program's own requests
 *   model.c    where it may: what has been measured on this machine
 *   process.c  servers that are processes, which are told by messages (protocol.h)
 *
 * A request lives in a pool of its lane, which is what one context of the program has here. It goes
 * through a ring to the server, and comes back as work posted to the context, or, where nobody
 * waits for it, through the lane's stack. So it has one owner at any time and no lock.
 *
 * Built on the public interface: what a server does is what a thread of the program could do.
 */
#ifndef LIBPAMI_SERVERS_SERVERS_H
#define LIBPAMI_SERVERS_SERVERS_H

#include <stdatomic.h>
#include <stdbool.h>

#include <pami/pamix.h>

#include "context/context.h"
#include "p2p/handle.h"
#include "p2p/message.h"
#include "p2p/mover.h"
#include "servers/ring.h"
#include "util/list.h"
#include "util/pool.h"

struct servers;
struct lane;
struct model;
struct request;

enum servers_state {
    SERVERS_STOPPED,
    SERVERS_RUNNING,
    SERVERS_WINDING, /* being stopped: rings are closed, and will be empty */
};

enum request_kind {
    REQUEST_PUT,
    REQUEST_GET,
    REQUEST_SEND,
    REQUEST_IMMEDIATE,
    REQUEST_FENCE, /* to server processes */
    REQUEST_FETCH, /* chosen and learned by itself, and then a get */
};

enum learn_way {
    LEARN_PLAIN,  /* as if there were no servers */
    LEARN_CLIENT, /* by the client, and counted */
    LEARN_SERVERS,
    LEARN_SHARED, /* by servers, and the client takes its turn */
};

/* learn.c: requests of one kind and of a size within a factor of two. */
struct learner {
    uint8_t phase, round;
    bool tried;    /* a trial has ended */
    bool again;    /* the window is the second of its kind, because the first was short and bad */
    uint8_t way;   /* enum learn_way */
    uint8_t found; /* LEARN_PLAIN, LEARN_SERVERS or LEARN_SHARED */
    uint8_t vain;  /* trials in a row that have found nothing */
    uint8_t hopeless; /* bits: ways that this trial tries no more */
    unsigned left;    /* requests until the next look */
    unsigned window;  /* requests since the last one */
    unsigned length;  /* of the last window that was measured */
    unsigned rests, doubts;
    uint64_t begun; /* clock_ticks: of the window */
    uint64_t pause; /* no trial before that */
    double before;  /* budget->spent when the trial began */
    double price;   /* ticks that the next one may cost, if it is in vain */
    double best[3]; /* ticks per request: by the client, by servers, shared */
    double plain;   /* the same in the rest before the trial; 0: servers carried it */
};

/* What all learners of a lane may cost together. */
struct learn_budget {
    uint64_t since; /* clock_ticks: of the first look */
    double spent;   /* ticks */
};

#define LEARN_CLASSES 32
#define LEARN_KINDS 4 /* puts, gets, messages that are not immediate; fetches */

/* None is left. `worthwhile`: servers may pay. `outstanding`: of the lane, known but during a rest.
 * `now`: clock_ticks. */
void learn_look(struct learner *learner, struct learn_budget *budget, bool worthwhile,
                size_t outstanding, uint64_t now);

/* What the client carries is not counted. */
static inline bool learn_rests(const struct learner *learner)
{
    return learner->phase == 0;
}

/* Is a processor idle at this moment? False when it was asked a short time ago. */
bool learn_processor_idle(struct lane *lane);

/* A callback of the user's. */
struct request_event {
    pami_event_function function;
    pami_result_t result;
    struct request *request;
    pami_work_t work;
};

#define REQUEST_COPY_BYTES 192

struct request {
    struct lane *lane;
    struct server *server; /* NULL: the client carries it */
    struct request *next;  /* on the lane's stack */
    uint8_t kind;          /* enum request_kind */
    uint8_t under_way;     /* callbacks that the operation will still make */
    uint32_t handle;       /* by which a server process answers */
    uint32_t fence;        /* number of the next fence of its lane */
    bool wanted;           /* the user wants any */
    bool refused;          /* the server's call was, and `more` says why, or is NULL */
    void *cookie;
    void *more; /* malloced, when `copy` is too small */
    union {
        pami_put_simple_t put;
        pami_get_simple_t get; /* a put begins like that */
        pami_send_t send;
    } call;
    struct request_event event[2]; /* put: done, rdone; send: local, remote */
    char copy[REQUEST_COPY_BYTES];
};

/* Counters have one writer, and readers anywhere. */
static inline void servers_count(atomic_ullong *counter, unsigned long long add)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + add,
                          memory_order_relaxed);
}

/* What joins several requests of a lane; malloced, and freed with the lane if it is still there. */
struct lane_record {
    struct list link;
    struct lane *lane;
};

/* What a context has here; its owner's, but for `outstanding` and `records_count`, which others may
 * read, `returned` and the counters. */
struct lane {
    struct servers *servers;
    struct context *context; /* NULL: it has gone, and so will the lane */
    uint32_t offset;         /* of the context */
    struct pool requests;
    atomic_size_t outstanding; /* requests taken from the pool; see lane_unfinished */
    unsigned next;     /* server of the current batch; behind the last one: the client itself */
    unsigned batched;  /* requests in it so far */
    uint64_t probe_at; /* clock_ticks: when it may be asked again whether a processor is idle */
    struct learn_budget budget;
    struct learner learners[LEARN_KINDS][LEARN_CLASSES];
    atomic_ullong forwarded, direct, refused;
    unsigned *waiting;  /* requests at each server process; NULL: servers are threads */
    size_t begun_again; /* gets of server processes that have died, not complete */
    uint32_t next_fence;
    struct handle_table handles;
    struct message_watch watch;
    pami_dispatch_p2p_function otherwise; /* gets answers when there is no lane */
    struct list records;                  /* struct lane_record */
    atomic_size_t records_count;          /* see lane_unfinished */
    CACHE_ALIGNED _Atomic(struct request *) returned;
};

static inline struct learner *learn_of(struct lane *lane, enum request_kind kind, size_t bytes)
{
    unsigned class = bytes == 0 ? 0 : 64u - (unsigned)__builtin_clzll(bytes);
    unsigned row = kind == REQUEST_FETCH ? LEARN_KINDS - 1 : (unsigned)kind;

    return &lane->learners[row][class < LEARN_CLASSES ? class : LEARN_CLASSES - 1];
}

struct server {
    struct servers *servers;
    struct context *context;
    uint32_t endpoint;    /* of a process ... */
    atomic_int dead;      /* ... that has died */
    bool stalled;         /* as many in flight as may be: their ends go on */
    unsigned in_flight;   /* requests that are not complete, see request_counts */
    struct request *held; /* has been taken, and could not be started yet */
    struct list fences;   /* struct fence_part that have not begun */
    atomic_ullong puts, gets, sends, bytes, failed, wakes;
    atomic_uint most;
    pami_work_t kick;     /* posted by whoever took `idle` away */
    pami_work_t retune;   /* ... set `retuning` */
    atomic_uint retuning; /* the policy has changed, and the server has not looked at it yet */
    CACHE_ALIGNED atomic_uint idle;
    struct ring ring;
};

#define PLAIN_KINDS 3 /* puts, gets, messages that are not immediate */

/* What a call looks at that needs no question, in a line of its own: see plain.h. */
struct plain {
    CACHE_ALIGNED _Atomic(struct context *) context; /* may have gone: its memory is kept */
    atomic_uint left;                 /* calls until the next question; the owner's */
    atomic_size_t below[PLAIN_KINDS]; /* bytes; whoever changes the policy takes them away, and
                                         context->short_of */
};

#define SERVERS_MAGIC UINT64_C(0x5e5e55e55e5e5101)

struct servers {
    uint64_t magic;
    struct client_core *core;
    struct plain plain[ENDPOINT_OFFSETS_MAX];
    pami_client_t client; /* core's */
    unsigned count;
    unsigned threads; /* that it takes for each of them to have one */
    bool processes;
    size_t queue;                    /* requests that may wait for each */
    uint64_t heap_begin, heap_bytes; /* what processes see of this task's memory */
    atomic_size_t under_way;         /* requests at processes, and gets begun again */
    char *cpus;
    atomic_int state;    /* enum servers_state */
    atomic_uint fencing; /* fences that servers still work for */
    atomic_uint operations, batch, few, in_flight;
    atomic_uint used; /* that get requests that are not ordered: 1 to count */
    atomic_int active, learn;
    bool fetch_learns;      /* fetches do, whatever the policy says */
    atomic_int by_learning; /* nothing but learning decides whether a request is tracked */
    atomic_bool spare;      /* servers do not take the program's processors; set by start */
    atomic_uint processors; /* that this task may use; set by start */
    struct mover mover;
    struct model *model; /* what has been measured; NULL: nothing */
    atomic_size_t bytes_least, bytes_most, split;
    _Atomic(struct lane *) lanes[ENDPOINT_OFFSETS_MAX];
    /* By context: something is lost that no callback tells of, or went with a process. A bit for
     * each of 64 fences, by number, which tells of it, or the stop does. */
    atomic_ullong lost[ENDPOINT_OFFSETS_MAX];
    pami_context_t contexts[ENDPOINT_OFFSETS_MAX];
    struct server *server;
    struct ring_slot *slots;
};

/* As for contexts: of any object of the library, or NULL; not of memory that is gone. */
static inline struct servers *servers_from_handle(pamix_servers_t handle)
{
    struct servers *servers = handle;

    return likely(servers != NULL && servers->magic == SERVERS_MAGIC) ? servers : NULL;
}

/* Of anything at all, and only of a client that is there; for what is called seldom. NULL: an error
 * has been set. */
struct servers *servers_find(const char *function, pamix_servers_t handle);

static inline const char *servers_fault(pamix_servers_t handle)
{
    return handle == NULL ? "servers: NULL" : "servers: not a handle of servers";
}

#define SERVERS_LOAD(member) atomic_load_explicit(&(member), memory_order_relaxed)

/* server.c */
void server_wake(struct server *server);

/* Another policy may let it have more in flight. Any thread, while it runs. */
void server_retune(struct server *server);

/* A call of the program's. */
struct request_call {
    const char *function;
    struct servers *servers;
    struct lane *lane;
    enum request_kind kind;
    size_t bytes;
    pami_endpoint_t dest;
    unsigned used;    /* servers that take turns */
    unsigned members; /* that may each carry a piece, the client too if `shared`; 0: no pieces */
    bool ordered, shared; /* shared: the client takes its turn */
};

/*
 * False: the client makes the call as if there were no servers, which costs nothing. Else a request
 * is made; *server NULL: the client carries it all the same, because it has to be counted.
 */
bool request_choose(struct request_call *call, struct server **server);

/* Hands the request to `server`; NULL, or there is no room and the call is `shared`: the client
 * carries it. The request is gone unless the result is PAMI_SUCCESS. */
pami_result_t request_hand(const struct request_call *call, struct request *request,
                           struct server *server);

pami_result_t request_no_memory(const struct request_call *call);

/* split.c: into how many pieces a put or get is to be cut; 1: none. */
unsigned split_pieces(const struct request_call *call, const pami_rma_addr_t *addr);

/* Hands them out. `put` or `get` is NULL. */
pami_result_t split_hand(const struct request_call *call, const pami_put_simple_t *put,
                         const pami_get_simple_t *get, unsigned pieces);

/* request.c: starts the operation on the context that carries it. */
pami_result_t request_start(struct request *request, struct context *context);

/* It could not be started: as if it had ended with `result`. */
void request_fail(struct request *request, pami_result_t result);

/* In servers->lost. */
static inline unsigned long long fence_bit(uint32_t fence)
{
    return 1ull << fence % 64;
}

/* No callback of the program's tells that something has failed which fence number `fence` of the
 * lane is the first to wait for. Any thread. */
static inline void lane_lost(const struct lane *lane, uint32_t fence)
{
    atomic_fetch_or(&lane->servers->lost[lane->offset], fence_bit(fence));
}

/* Was anything lost that the context's fence with this bit tells; or NULL, a stop: that no fence
 * has told? */
bool servers_take_loss(struct servers *servers, const struct context *context,
                       unsigned long long bit);

/* A server process has answered: by the first of two callbacks, which is run unless it has been; by
 * the last one. The owner. */
void request_first_here(struct request *request, pami_result_t result);
void request_end_here(struct request *request, pami_result_t result);

/* A request with nothing but its lane; NULL: out of memory. The context's owner; so all below. */
struct request *request_new(struct lane *lane, enum request_kind kind);
void request_free(struct request *request);
void request_events(struct request *request, void *cookie, pami_event_function first,
                    pami_event_function second);

/* What the context has here, made when it is first used; NULL with *result. */
struct lane *lane_of(const char *function, pamix_servers_t servers_handle, pami_context_t handle,
                     pami_result_t *result);

/* The requests that it still has end without a callback. The owner, or nobody else uses it. */
void lane_free(struct lane *lane);

/* The same, for a context that has asked for nothing itself; NULL: there is none. */
struct lane *request_lane(struct servers *servers, struct context *context);

/* fetch.c: the mover. */
int servers_fetch(struct mover *mover, const struct mover_fetch *fetch);

/* servers.c */
pami_result_t servers_config_check(const char *function, const pamix_servers_config_t *config);

/* Without any servers in it; `config` has been checked. NULL: out of memory. */
struct servers *servers_new(struct client_core *core, size_t count,
                            const pamix_servers_config_t *config);

/* All its callbacks have come, or would have: back to the lane. Any thread. */
void request_return(struct request *request);

void lane_collect(struct lane *lane);

/* Has the owner, who makes no requests any more, not seen the end of all? Any thread. False: he is
 * done with the lane. */
bool lane_unfinished(const struct lane *lane);

/* The owner. Of a record whose memory may be freed then. */
void lane_record_add(struct lane *lane, struct lane_record *record);
void lane_record_remove(struct lane_record *record);

/*
 * Does it count as in flight at its server? An immediate message has no end. That of a large one
 * may have to wait until a server has fetched its data, perhaps this one, by a request behind it.
 */
static inline bool request_counts(const struct request *request)
{
    return request->kind != REQUEST_IMMEDIATE &&
           (request->kind != REQUEST_SEND || request->call.send.send.data.iov_len < MOVER_BYTES);
}

/* server.c: one request less in flight. */
void server_less(struct server *server);

/* fence.c */
void server_fences(struct server *server);

/* As PAMIX_Servers_fence, over all that was forwarded by anybody; `fn` runs when no fence needs the
 * servers any more. The state is WINDING. */
pami_result_t fence_last(struct servers *servers, struct context *context, pami_event_function fn,
                         void *cookie);

#endif
