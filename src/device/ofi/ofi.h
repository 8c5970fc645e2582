/*
 * The ofi device's objects, shared by its files.
 *
 *   ofi.c         the device: opening, reach, the table of operations
 *   address.c     addresses of sockets
 *   interface.c   which network interface
 *   provider.c    which libfabric provider, and why
 *   slot.c        one libfabric endpoint with its queues and buffers, for each context
 *   link.c        one remote endpoint: order, credits, sending
 *   first.c       ... who speaks first over it
 *   buffers.c     what is sent from
 *   arrive.c      receiving
 *   port.c        completions, house-keeping
 *   news.c        what the reception tells a slot
 *   pulse.c       links that are cut although both ends live
 *   sever.c       ending the provider's connections to who is dead
 *   expose.c      memory that the provider knows
 *   remote.c      remote reads and writes
 *   sleep.c       contexts that sleep
 *   reception.c   the thread that knows the other tasks: who they are, where, and whether alive
 *   messages.c    ... what other tasks say to it
 *   door.c        ... what contexts ask of it, its start and end
 *   greeting.c    ... its attempts to reach others
 *   connection.c  its connections: proving who one is, messages
 *   sockets.c     ... and their sockets
 *   proof.c       keyed hashes
 *   host.c        what the module gets from the library
 *
 * Two planes. Packets and data go through libfabric, each context through an endpoint of its own,
 * which only the context's owner touches. Everything about endpoints (addresses, leaving, dying)
 * goes over a TCP connection per pair of tasks that have to do with each other, which one thread of
 * the process, the reception, looks after: a task answers such questions, and counts as alive,
 * also while it computes. The kernel's keep-alives on these connections are its heartbeats; links
 * have their own (pulse.c).
 *
 * Contexts and reception share the lists under device->lock and a few atomic flags, nothing else;
 * a slot whose context has closed belongs to who has the lock.
 */
#ifndef LIBPAMI_DEVICE_OFI_OFI_H
#define LIBPAMI_DEVICE_OFI_OFI_H

#include <errno.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdatomic.h>

#undef container_of /* libfabric has one as well */

#include "device/device.h"
#include "device/ofi/address.h"
#include "device/ofi/proof.h"
#include "util/hash.h"
#include "util/list.h"

/* Longest libfabric name of an endpoint. */
#define OFI_NAME_MAX 128u
/* Largest PAMI_OFI_RAILS. */
#define OFI_RAILS_MAX 8u
/* Completions taken from a queue at a time. */
#define OFI_BATCH 16u
/* Connections that a task can name, see sever.c. */
#define OFI_PORTS_MAX 32u
/* Room for a card with its NUL. */
#define OFI_CARD_MAX 160u

/* ---- on the wire ---- */

/*
 * What stands before every packet. `token` shows that the sender is who it says: a keyed hash of
 * the two endpoints. Packets of a link are numbered from 0; `read` says how much of the other
 * direction has been read, in units of credit (ofi_units). A frame's length is a multiple of 8. A
 * message of the provider is one frame, or several of one link.
 */
struct ofi_frame {
    uint64_t token;
    uint32_t sequence;
    uint32_t read;
    struct packet_header head;
};

_Static_assert(sizeof(struct ofi_frame) == 32, "bodies are aligned like frames");

/*
 * The life of the destination that a packet is for, its low two bits: above the origin's endpoint.
 * A context that has the place of another reads what was for that, as numbers go on, and drops it.
 */
#define OFI_LIFE_SHIFT 30
#define OFI_ORIGIN_MASK ((UINT32_C(1) << OFI_LIFE_SHIFT) - 1)

static inline uint32_t ofi_frame_origin(const struct ofi_frame *frame)
{
    return frame->head.origin & OFI_ORIGIN_MASK;
}

/* A frame of the device itself, without number: only `read` counts. aux 1: asks for another. */
#define PROTOCOL_READ 0xfe

static inline size_t ofi_frame_bytes(size_t body)
{
    return (sizeof(struct ofi_frame) + body + 7) & ~(size_t)7;
}

/* Frames up to this may gather, in buffers up to that. */
#define OFI_GATHER_FRAME 2048u
#define OFI_GATHER_BYTES 8192u

static inline size_t ofi_gather_frame(size_t packet_max)
{
    size_t part = ofi_frame_bytes(packet_max) / 4;

    return part < OFI_GATHER_FRAME ? part : OFI_GATHER_FRAME;
}

/* The longest message of the provider: the largest packet behind what has gathered before it. */
static inline size_t ofi_message_bytes(size_t packet_max)
{
    return ofi_frame_bytes(packet_max) + ofi_gather_frame(packet_max);
}

/*
 * What a packet takes of its link's credit: little when it is small, so that many can be under way,
 * more when it is the first of a message, because providers have trouble with many messages.
 */
static inline uint32_t ofi_units(size_t body, bool first)
{
    return 1 + (uint32_t)(ofi_frame_bytes(body) >> 9) + (first ? 31 : 0);
}

/* ---- what the device knows ---- */

/* The provider that was chosen. */
struct ofi_provider {
    struct fi_info *info;
    struct fid_fabric *fabric;
    bool multi_receive;
    bool remote; /* reads and writes memory of others */
    bool apart; /* ... by endpoints that packets do not use; hardware needs nobody to serve reads */
    bool lazy;  /* what is sent stays here until the queue is looked at */
};

/* How to talk to a remote endpoint. */
struct ofi_name {
    uint64_t key;   /* for remote reads of its memory; with `readable` */
    uint32_t bytes; /* of name */
    bool readable;
    uint8_t unused[3];         /* 0 */
    uint64_t heap, heap_bytes; /* what can be read there at any time; with `readable` */
    uint8_t name[OFI_NAME_MAX];
};

_Static_assert(sizeof(struct ofi_name) == 32 + OFI_NAME_MAX, "names are sent, and have no holes");

/* Ports of connections that were made to an endpoint, as the network has them, see sever.c. */
struct ofi_ports {
    uint64_t known_at; /* ns */
    uint32_t count;
    in_port_t port[OFI_PORTS_MAX];
};

/* What the reception tells a slot. */
enum notice_kind {
    NOTICE_NAME,    /* the remote endpoint is there, this is its name */
    NOTICE_ANSWER,  /* the same, because we asked, as which life `count` says */
    NOTICE_BACK,    /* the same, when it was created again */
    NOTICE_CLOSED,  /* it has closed, after `count` packets to us */
    NOTICE_DEAD,    /* all endpoints of task `endpoint` have gone */
    NOTICE_CONCEAL, /* from another context: exposure `endpoint` is over */
    NOTICE_PULSE,   /* it wants a sign of life, see pulse.c */
    NOTICE_BEAT,    /* it has given one */
};

struct ofi_notice {
    struct list link;
    enum notice_kind kind;
    uint32_t endpoint;
    uint32_t count;
    uint32_t life;  /* of the two tasks' acquaintance */
    uint32_t ended; /* names: see ofi_link.ended */
    bool counted;   /* `count` means something */
    bool asks;      /* for our name */
    struct ofi_name name;
};

struct ofi_port;
struct ofi_link;
struct ofi_buffer;
struct ofi_slot;
struct reception;

/* An operation that the provider completes: a send buffer or a piece of a remote read. */
struct ofi_operation {
    struct fi_context2 context; /* first: the provider's */
    struct list link;           /* free list, backlog, or what belongs together */
    void (*done)(struct ofi_slot *slot, struct ofi_operation *operation, int error);
    struct ofi_link *to;
};

struct ofi_receive {
    struct fi_context2 context;
    char *memory;
    bool posted;
};

/* PAMI_OFI_RMA. */
enum ofi_rma {
    RMA_ANY_MEMORY,
    RMA_NEVER,
    RMA_REGIONS,
};

/* What is registered with the provider, where that is asked for. */
struct ofi_region {
    struct fid_mr *mr;
    void *descriptor;
};

/* A place for what is exposed; those that are free are a stack. */
struct ofi_exposed {
    struct ofi_region region; /* mr NULL: it is free, ... */
    uint32_t below; /* ... and this is the id of the free one under it; 0: there is none */
};

/*
 * The endpoint of context `offset`. Made when the context is created for the first time, and kept
 * until the device is closed: a context that is created again goes on with it, and finds what came
 * for it meanwhile. Belongs to the context's owner but for what device->lock guards.
 */
struct ofi_slot {
    struct ofi_device *device;
    uint32_t offset, endpoint;
    struct ofi_port *port; /* NULL: no context is open */
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;                   /* of packets */
    struct fid_ep *rails[OFI_RAILS_MAX]; /* of remote reads and writes, since the first one */
    uint32_t rail_count, rail_next;
    bool no_rails;      /* they cannot be opened */
    bool multi_receive; /* a receive buffer takes many messages */
    struct ofi_name name;
    struct ofi_region all, receive_region;
    size_t packet_max, inject_max, receive_bytes;
    size_t gather_frame, gather_max; /* frames up to so many bytes gather, in so many together */
    size_t message_max;              /* ... and with a larger one behind them */
    uint32_t credits;                /* of a link, in units */
    uint32_t window; /* packets of a link that can be under way, at most: a power of two */
    uint32_t pass;   /* counts advances */

    struct ofi_receive *receives;
    uint32_t receive_count;
    char *receive_memory;
    struct list blocks;  /* of send buffers, */
    struct list free;    /* of which these are free */
    uint32_t free_count; /* so many, */
    uint32_t last_count; /* the last of which are for links that have none */
    bool came_back;      /* one has, since house-keeping has looked last */

    struct u64map map;     /* endpoint to link */
    struct list links;     /* all */
    bool changing;         /* one of them leaves, or has still to say something */
    struct list owing;     /* links whose packets were read, which their senders shall know */
    struct list blocked;   /* links with a backlog */
    struct list gathering; /* links with a buffer that is being filled */
    struct list remotes;   /* remote reads and writes under way */
    struct list orphans;   /* of those, nobody waits for these any more */
    struct list spare;     /* of those that are over: for later ones */
    uint32_t spare_count;
    uint32_t remotes_open;       /* remotes not finished */
    bool remotes_wait;           /* one may have pieces that the provider has not got yet, ... */
    bool remotes_refused;        /* ... and it has refused one that had no other under way */
    struct ofi_exposed *exposed; /* by id - 1 */
    uint32_t exposed_room, exposed_free; /* places; the id of a free one, 0: none is */
    int completed;                       /* transfers that ended since the last advance looked */
    struct ofi_link *last;
    struct fi_cq_data_entry stash[OFI_BATCH]; /* taken from the queue, not looked at */
    uint32_t stash_count, stash_next;
    int stash_error; /* not 0: of the only one there, which has failed */
    char *rest_at;   /* of the message that is being taken: what is behind the current frame */
    size_t rest_left;
    bool stuck; /* there is no memory for the frame there: its message is in the stash still, ... */
    bool stuck_first;           /* ... as the first of which it came, or not */
    struct ofi_link *from;      /* of the packet that is being delivered; NULL: none is */
    bool put_back;              /* ... and could not be taken */
    bool again;                 /* ... and links hold such packets */
    uint32_t idle;              /* looks that found nothing */
    struct ofi_frame *straight; /* room for a frame that arrived at an odd address */

    /* Under device->lock. */
    bool open;      /* a context is there, or has nearly been */
    uint32_t ended; /* device->ended when it came */
    bool armed;     /* it sleeps, or is about to */
    bool watched;   /* cq_fd is with the reception */
    bool rung;      /* that has ended the last sleep */
    struct list notices;
    atomic_uint news; /* notices are there */
    int cq_fd;        /* to wait for the queue; -1: cannot be waited for */
    bool sleeps;      /* has slept: whether there can be edges is known */
    bool edges;       /* cq_fd tells of changes, after epoll_wait has taken what was */

    /* Not under the lock. */
    uint32_t false_alarms; /* times that `rung` was for nothing, in a row */
    uint64_t pulse_at;     /* ns: the next look at the links' pulses */
    bool pulse_owed;       /* somebody waits for a sign of life */
};

struct ofi_port {
    struct port port;
    struct ofi_slot *slot;
};

enum link_state {
    LINK_NEW,    /* nobody has asked for its name */
    LINK_ASKED,  /* the reception is asking */
    LINK_MUTE,   /* its name is known, but it has to speak first */
    LINK_UP,     /* packets can go */
    LINK_ENDED,  /* the remote context has ended: packets have to wait until `gone` has been said */
    LINK_BROKEN, /* packets could go, but the link is `broken` */
    LINK_CLOSED, /* the remote context has left; asking may bring it back */
    LINK_DEAD,   /* the remote task has left for good */
};

/* Whether packets get through, see pulse.c: what was known when it was looked at last. */
struct ofi_pulse {
    uint64_t since; /* ns: when the present silence was noticed first; 0: there is none */
    uint32_t received, sent_read, held_count;
    uint32_t beats;   /* answers that ever came over the reception */
    uint32_t answers; /* ... that came during the silence, */
    bool answered;    /* ... or will count at the next look */
    bool asked;       /* one is to come */
    bool owed;        /* the other one wants one, ... */
    bool owed_ports;  /* ... with the ports of our connections */
    bool heard;       /* something came that is not counted elsewhere */
    bool expects;     /* a remote read is under way, or a way to the peer */
    uint32_t unread;  /* looks in a row that found some of ours unread, and none newly read */
    bool refused;     /* the provider would not take a remote access, ... */
    bool hopeless;    /* ... and has taken none, and had none, for long */
    uint32_t refusals, taken;
    /* Of the rails that are not for packets as well, a bit for each: */
    uint8_t rails_waiting; /* something has been under way there since the look before */
    uint8_t rails_heard;   /* something has been completed there since then, */
    uint8_t rails_proven;  /* ... or earlier */
    uint8_t rails_silent;  /* waiting and not heard in all of the present silence */
};

/* In the reception's list of what it is to say, under device->lock. */
struct ofi_errand {
    struct list link;
    bool farewell; /* of a link, or else a request */
};

/* That this endpoint has left the remote one. Part of the link, because the context that leaves
 * cannot wait for memory. */
struct ofi_farewell {
    struct ofi_errand errand;
    uint32_t from, to;
    uint32_t count; /* of packets sent */
    uint32_t ended; /* how often contexts of `from` were destroyed before */
};

/* One remote endpoint as one slot sees it; lives as long as the slot, as numbering goes on. */
struct ofi_link {
    struct path path;    /* the usual */
    struct path packets; /* another face: PATH_PACKETS_ONLY */
    struct ofi_slot *slot;
    enum link_state state;
    bool leaving;     /* has closed or died; `gone` is due when everything it sent is read */
    bool leave_known; /* ... which is leave_count packets */
    bool dead;
    bool severing; /* connections of it may be left */
    bool heard;    /* in this life something has come, or was waited for long enough (mute_since) */
    bool used;     /* a path was given out, so somebody wants to hear when it goes */
    bool told;   /* that it has gone, in this context's life: sends are refused until it is back */
    bool back;   /* leaving, but its name has come anew: it was created again, ... */
    bool behind; /* ... in a life that nothing is sent to until it was asked for its name */
    bool broken; /* the provider failed to send, so packets may be missing in this life */
    bool announced;   /* it knows that we are there, in this context's life: was told, or asked, */
    bool unannounced; /* ... or has still to be told, there was no memory */
    uint32_t life;    /* see reception.h; numbers begin anew with each */
    uint64_t mute_since; /* ns: from then on something is waited for; 0: nobody waits */
    uint32_t leave_count;
    uint64_t quiet_since;  /* when leaving: ns, 0: not yet looked at ... */
    uint32_t quiet_number; /* ... and what had been received then, ... */
    uint32_t quiet_pass;   /* ... in which pass: a context that holds too much makes none */
    uint32_t wanted; /* the sender has sent so many, and wants to be told when they are read */
    bool marked;     /* the context ends; what matters is ... */
    uint32_t mark;   /* ... that so much is read, units: more answers may go any time */
    uint32_t lost;   /* nobody waits for those sent up to here: it had gone */
    uint32_t asked;  /* ... and we asked the same when so many were sent */
    uint32_t ended;  /* how often its contexts have been destroyed: the life that is sent to */
    _Atomic uint32_t lives; /* the paths': that, or one more when that life is over */
    uint32_t ended_back;    /* ... that will be once `gone` has been said; when back */
    uint32_t asked_as;      /* as which life of ours it was asked for its name */
    fi_addr_t address;
    uint64_t key; /* for remote reads */
    bool readable;
    uint64_t token_out, token_in;
    uint32_t sent, received;           /* packets sent, delivered here */
    uint32_t sent_units, sent_read;    /* the same in units of credit; of them read there */
    uint32_t received_units, reported; /* ...; of them reported */
    uint32_t burst, singles; /* slot->pass when packets went out by themselves; how many */
    uint32_t taken, pieces;  /* of remote reads and writes: that the provider took; that are over */
    struct race *races;      /* ...: of remote.c, NULL until needed */
    uint32_t served_pieces;  /* when leaving: that were when we looked last, ... */
    uint32_t served_beats;   /* ... with so many answers (of the dead: looks) at the first look, */
    uint64_t served_since;   /* ... which was then; ns, 0: not yet looked at */
    uint32_t held_count;
    struct held **held;      /* by number modulo window: came before their turn */
    struct ofi_buffer *open; /* NULL: nothing has gathered */
    uint32_t buffers;        /* that it has, or the provider has for it */
    struct list backlog;
    struct list link, owing, blocked, gathering;
    struct ofi_pulse pulse;
    struct ofi_ports ports; /* that connections from there come from */
    struct ofi_farewell farewell;
};

struct ofi_device {
    struct device device;
    struct bootstrap *bootstrap;
    struct device *heap; /* the device with this task's shared heap, or NULL */
    char client[34];     /* its key */
    uint32_t contexts;
    struct ofi_provider provider;
    struct proof_key key;
    union ofi_address interface; /* address of the interface used, port 0 */
    uint32_t peer_timeout_ms;
    uint64_t rest_ticks; /* the shortest rest of a port while others are busy */
    pthread_mutex_t lock;
    struct ofi_slot **slots; /* by offset; NULL: never made */
    uint32_t ended;          /* under lock: how often all contexts were destroyed */
    struct reception *reception;
};

extern const struct device_ops ofi_device_ops;

/*
 * Around calls of libfabric, which are cancellation points: a thread that is cancelled inside one
 * would leave the endpoint in pieces.
 */
static inline int ofi_enter(void)
{
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    return state;
}

static inline void ofi_leave(int state)
{
    if (state != PTHREAD_CANCEL_DISABLE)
        pthread_setcancelstate(state, NULL);
}

/* How often its contexts have been destroyed, as far as is known. */
static inline uint32_t ofi_link_ended(const struct ofi_link *link)
{
    return link->back ? link->ended_back : link->ended;
}

/* The life that is sent to from now on. */
static inline void ofi_link_set_ended(struct ofi_link *link, uint32_t ended)
{
    link->ended = link->path.life = link->packets.life = ended;
    atomic_store_explicit(&link->lives, ended, memory_order_relaxed);
}

/* Of the life that leaves nothing is to come. Where it had left before we asked for it, what may
 * come late does not matter once it is back. */
static inline bool ofi_link_has_left(const struct ofi_link *link)
{
    return link->leave_known ? (int32_t)(link->received - link->leave_count) >= 0
                             : link->back && !link->dead;
}

/* interface.c: the address to use; `host_only`: all tasks are on this host. */
int ofi_interface(const char *wanted, bool host_only, union ofi_address *address, char *why,
                  size_t size);

/* provider.c: by the device's interface; and its place among the tasks of the host, which are known
 * by their numbers alone where it has no heap */
void ofi_environment(struct bootstrap *bootstrap);
int ofi_provider_choose(struct ofi_device *device, char *why, size_t size);
void ofi_provider_release(struct ofi_provider *provider);
void ofi_provider_explain(const struct ofi_device *device, device_explain_function *say,
                          void *cookie);

/* slot.c */
int ofi_slot_new(struct ofi_device *device, uint32_t offset, struct ofi_slot **slot);
void ofi_slot_free(struct ofi_slot *slot);
void ofi_slot_edges(struct ofi_slot *slot);
bool ofi_rails_are_apart(const struct ofi_slot *slot); /* all of them from that of packets */
bool ofi_rails_open(struct ofi_slot *slot);            /* true: rail_count is not 0 from then on */
void ofi_rails_close(struct ofi_slot *slot);
int ofi_slot_post(struct ofi_slot *slot, struct ofi_receive *receive);

/* link.c */
struct ofi_link *ofi_link_get(struct ofi_slot *slot, uint32_t endpoint); /* NULL: no memory */
bool ofi_link_is_from(const struct ofi_slot *slot, const struct ofi_frame *frame);
void ofi_link_ask(struct ofi_link *link, uint32_t as);
int ofi_link_address(struct ofi_link *link, const struct ofi_name *name);
int ofi_link_named(struct ofi_link *link, const struct ofi_notice *notice);
void ofi_link_announce(struct ofi_link *link);
void ofi_link_leaves(struct ofi_link *link);
enum link_state ofi_link_next(const struct ofi_link *link); /* when it has left */
void ofi_link_free(struct ofi_link *link);
void ofi_link_forget(struct ofi_link *link); /* drop what cannot be sent any more */
int ofi_link_backlog(struct ofi_link *link);
void ofi_link_flush(struct ofi_link *link); /* send what has gathered */
void ofi_links_flush(struct ofi_slot *slot);
bool ofi_link_report(struct ofi_link *link, bool ask);
bool ofi_link_live(struct ofi_link *link, uint32_t life); /* begin it; false: not yet */

/* arrive.c: a message has come; returns how many packets were taken. */
int ofi_take_message(struct ofi_slot *slot, char *at, size_t bytes);
int ofi_take_again(struct ofi_slot *slot); /* what could not be taken before; how many were */
int ofi_take_stuck(struct ofi_slot *slot); /* the rest of the message in the stash */
void ofi_take_rest(struct ofi_slot *slot); /* behind a packet whose delivery never returns */

/* news.c */
void ofi_news(struct ofi_slot *slot);
void ofi_listen(struct port *port);

/* Before something is sent: who has left is known by then. */
static inline void ofi_slot_listen(struct ofi_slot *slot)
{
    if (atomic_load_explicit(&slot->news, memory_order_relaxed) != 0)
        ofi_news(slot);
}

/* port.c */
int ofi_port_open(struct device *device, const struct port_params *params, struct port **port);
void ofi_port_close(struct port *port);
int ofi_path_open(struct port *port, uint32_t endpoint, unsigned how, struct path **path);
int ofi_revive(struct port *port, uint32_t endpoint);
int ofi_advance(struct port *port);
void ofi_interrupt(struct port *port);
bool ofi_put_back(struct port *port);
void ofi_flush(struct port *port);
bool ofi_pending(struct port *port);
bool ofi_stalled(struct port *port);
void ofi_arm(struct port *port, bool light);
void ofi_disarm(struct port *port);
void ofi_tend(struct port *port, void (*gone)(void *context, uint32_t endpoint));
bool ofi_settled(struct port *port);
bool ofi_slot_has_arrivals(struct ofi_slot *slot); /* a look into the queue */

/* Ends its port's rest: there is something that advances have to bring on. */
static inline void ofi_slot_rouse(struct ofi_slot *slot)
{
    slot->idle = 0;
    if (slot->port != NULL)
        slot->port->port.rest = 0;
}

/* pulse.c */
void ofi_pulse_tend(struct ofi_slot *slot);
void ofi_pulse_take(struct ofi_slot *slot, const struct ofi_notice *notice);

/* sever.c: ends its connections, so that nothing of theirs touches memory here any more. False: not
 * all; call again, with true, as others are being asked where they live. */
bool ofi_sever(struct ofi_link *link, bool again);
void ofi_ports_find(struct ofi_link *link, struct ofi_ports *ports); /* of ours to there */

/* expose.c */
int ofi_region_register(struct ofi_slot *slot, void *memory, size_t bytes, uint64_t access,
                        uint64_t key, struct ofi_region *region);
int ofi_region_expose(struct ofi_slot *slot, void *memory, size_t bytes, uint64_t access,
                      struct ofi_region *region, uint64_t *key); /* the key is random */
void ofi_region_release(struct ofi_region *region);
int ofi_expose(struct port *port, void *address, size_t bytes, bool written,
               struct exposure *exposure);
void ofi_conceal(struct port *port, const struct exposure *exposure);
void ofi_conceal_own(struct ofi_slot *slot, uint32_t id);
void *ofi_exposure_descriptor(const struct ofi_slot *slot, const struct exposure *exposure);
void ofi_exposures_free(struct ofi_slot *slot);

/* remote.c */
int ofi_get(struct path *path, void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer);
int ofi_remote(struct path *path, const struct remote_access *access, struct transfer *transfer);
int ofi_remotes_progress(struct ofi_slot *slot);
void ofi_remotes_give_up(struct ofi_slot *slot, struct ofi_link *link, int error);
bool ofi_remotes_under_way(const struct ofi_link *link);
void ofi_remotes_finish(struct ofi_slot *slot); /* the endpoint is closed: free what is left */
void ofi_remotes_expect(struct ofi_slot *slot); /* for pulse.c */

#endif
