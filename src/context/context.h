/*
 * Context: one unit of progress. It owns a port on each device, the work queue, the dispatch table,
 * the queue of completions and the list of things to try again; whoever advances it owns all of
 * that, and nothing here is shared with another context. Only the work queue and the lock may be
 * touched by a thread that does not own the context.
 *
 * Protocols sit one floor higher (src/p2p): they register a handler per packet protocol, and put
 * what must be tried again on the retry list.
 */
#ifndef LIBPAMI_CONTEXT_CONTEXT_H
#define LIBPAMI_CONTEXT_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "context/completion.h"
#include "context/counters.h"
#include "context/dispatch.h"
#include "context/lock.h"
#include "context/misuse.h"
#include "context/share.h"
#include "context/trace.h"
#include "device/device.h"
#include "util/cpu.h"
#include "util/list.h"
#include "util/stash.h"
#include "workqueue/workqueue.h"

struct context;
struct geometry_client;
struct geometry_context;
struct coll;
struct mover;
struct p2p;
struct plain;
struct trace;
struct region_table;
struct am;
struct shared;
struct arena_rest;

/* When an advance that finds nothing gives the processor up. */
enum yield_policy {
    YIELD_SELDOM, /* a core for everybody: after a long spin */
    YIELD_SOON,   /* tasks outnumber cores: after a few passes */
    YIELD_NEVER,
};

#define DEVICES_MAX 4

/* What all contexts of one client share; part of the client, constant while contexts exist. */
struct client_core {
    struct bootstrap *bootstrap;
    uint32_t task, tasks;
    uint32_t servers; /* processes beside the tasks, which no program sees; see bootstrap.h */
    uint32_t contexts_max;
    struct device *devices[DEVICES_MAX]; /* cheapest first */
    size_t device_count;
    enum yield_policy yield;
    bool network;         /* what joins nodes is one, not the segment of a host */
    bool simulated;       /* time is not the system's */
    uint64_t tend_ticks;  /* clock_ticks between two looks at who has died */
    uint32_t spin_passes; /* idle passes before a yield, by the policy */
    /* Move the thread of the context to the processor whose turn it is. NULL: tasks have a
     * processor each, or too many share one. */
    void (*spread)(const struct client_core *core, uint32_t offset);
    size_t send_immediate_max;
    size_t recv_immediate_max;
    uint64_t key[2];                            /* of the job and the client, equal on all tasks */
    _Atomic(struct region_table *) regions;     /* src/p2p/memregion.c; NULL until needed */
    uint32_t generations[ENDPOINT_OFFSETS_MAX]; /* of handles, by context: see p2p_detach */
    uint32_t server_generations[ENDPOINT_OFFSETS_MAX]; /* the same of those to server processes */
    _Atomic(struct mover *) mover;                     /* p2p/mover.h; NULL: none */
    atomic_uint mover_uses;                            /* contexts that are just calling it */
    struct geometry_client *geometry;                  /* of floor geometry */
    struct choice_list *choices; /* of floor coll: the job's table of algorithms, see tuned.h */
    _Atomic(struct arena_rest *) arena_rests; /* of src/coll/shared: blocks left by contexts */
    struct client *client;                    /* the whole, of floor client */
};

/* The device whose shared heap the tasks of this node use, NULL: none has one. */
static inline struct device *core_heap_device(const struct client_core *core)
{
    for (size_t i = 0; i < core->device_count; i++)
        if (core->devices[i]->ops->heap_alloc != NULL)
            return core->devices[i];
    return NULL;
}

enum packet_protocol {
    PROTOCOL_IMMEDIATE, /* a whole message in one packet, delivered from where it lies */
    PROTOCOL_MESSAGE,   /* the first packet of any other message */
    PROTOCOL_STREAM,    /* more of a message's header and data, in order */
    PROTOCOL_CLEAR,     /* the receiver asks for the data of a message */
    PROTOCOL_DATA,      /* data that was asked for */
    PROTOCOL_ACK,       /* the receiver is done with a message */
    PROTOCOL_RESET,     /* the sender gave up what it had begun to send before */
    PROTOCOL_PUT,       /* bytes for the receiver's memory */
    PROTOCOL_GET,       /* bytes of the receiver's memory are wanted */
    PROTOCOL_REPLY,     /* bytes that a GET asked for */
    PROTOCOL_ASK,       /* may memory of the receiver be touched? */
    PROTOCOL_FENCE,     /* answer when all messages before this one are finished */
    PROTOCOL_RMW,       /* an atomic operation to be executed */
    PROTOCOL_RMW_REPLY, /* what the word was before */
    PROTOCOL_COUNT
};

typedef void protocol_handler(struct context *context, const struct packet_header *head,
                              void *body);

/* Something to try once in every pass. `run` returns how many events it made, and may take entries
 * off the list, its own or others, free them, and put them on again. */
struct retry {
    struct list link;
    int (*run)(struct retry *retry, struct context *context);
    /* Another number whenever it has come a step further, also without an event; or NULL. */
    uint64_t (*mark)(const struct retry *retry);
};

#define CONTEXT_MAGIC UINT64_C(0x70616d6963747874)

struct context {
    uint64_t magic;                 /* CONTEXT_MAGIC while alive; first, for context_from_handle */
    _Atomic(const void *) short_of; /* servers/plain.h: the servers whose short calls are plain, or
                                       itself; second, for plain_short */
    struct client_core *core;
    uint32_t endpoint;
    uint32_t offset;

    atomic_uintptr_t advancing; /* who is inside: a nested advance answers EAGAIN; context_enter */
    atomic_bool sleeps;         /* who would be inside sleeps meanwhile */
    atomic_uint guard;          /* enum context_guard: what keeps an advance out */
    uint64_t passes;            /* of all, for house-keeping */
    uint64_t sends;             /* short sends as of the last idle pass */
    uint64_t tend_at;           /* clock_ticks of the next house-keeping */
    uint64_t wait_began;        /* ns: the first wait since something was found */
    uint64_t wait_mark;         /* of all retries, and ... */
    uint32_t wait_passes;       /* ... idle passes, before the last wait */
    bool paused;                /* too much is held: the ports are not read until that changes */
    bool busy;                  /* a transfer goes on by itself: the next pass will do something */
    bool patient;               /* what is missing runs elsewhere: this pass keeps the processor */
    bool unseen;                /* a callback may tell of puts and the like that were stores */
    atomic_bool serves;         /* it does what others have asked for: a server's */

    struct port *ports[DEVICES_MAX]; /* NULL where the device has none */
    size_t port_count;
    struct completion_queue completions;
    struct list retries;
    struct trace *trace; /* NULL: off */
    struct coll *coll;
    struct p2p *p2p;
    _Atomic(const void *) plain_of; /* the servers that `plain` belongs to, or something else */
    struct plain *plain;            /* servers/plain.h */
    struct am *am;                  /* of src/coll */
    struct shared *shared;          /* of src/coll/shared */
    /* The lines up to here are those of most passes and collectives. */
    struct geometry_context *geometry;
    struct misuse misuse;
    protocol_handler *protocols[PROTOCOL_COUNT];
    struct dispatch_table dispatch;
    uint64_t counters[COUNTER_COUNT];
    struct stash stash;                      /* for what is large */
    void (*tended)(struct context *context); /* of floor coll: a part of house-keeping; or NULL */

    CACHE_ALIGNED struct context_lock lock;
    CACHE_ALIGNED struct context_share share;
    struct workqueue work;
};

/* NULL unless the handle is a live context's. Reads only the word that it points at: what is no
 * context may be aligned less. */
static inline struct context *context_from_handle(pami_context_t handle)
{
    const uint64_t *magic = (const uint64_t *)handle;

    return likely(magic != NULL && *magic == CONTEXT_MAGIC) ? (struct context *)handle : NULL;
}

/*
 * The owner's mark that it is inside: its context_lock_self. Only the end of the process, or of the
 * context, and the beginning of sharing look at it from elsewhere: they set `guard`, make every
 * thread pass a barrier, and wait for the mark to go (E1 pairs with the acquiring loads in
 * client/contexts.c and share.c); a plain store is all that an advance pays. Who waits is inside,
 * except while it sleeps, which `sleeps` tells. In a shared context the mark is only a hint: the
 * gate decides.
 */
static inline bool context_inside(const struct context *context)
{
    return atomic_load_explicit(&context->advancing, memory_order_relaxed) != 0;
}

static inline void context_enter(struct context *context)
{
    atomic_store_explicit(&context->advancing, context_lock_self(), memory_order_relaxed);
}

static inline void context_leave(struct context *context)
{
    atomic_store_explicit(&context->advancing, 0, memory_order_release); /* E1 */
}

/* Inside, and nobody may do anything for the context meanwhile, not even the thread that is.
 * Returns who was inside before, for context_unbar. */
static inline uintptr_t context_bar(struct context *context)
{
    uintptr_t before = atomic_load_explicit(&context->advancing, memory_order_relaxed);

    atomic_store_explicit(&context->advancing, 1, memory_order_relaxed);
    return before;
}

static inline void context_unbar(struct context *context, uintptr_t before)
{
    atomic_store_explicit(&context->advancing, before, memory_order_release); /* E1 */
}

/* The calling thread is in a callback of the context. */
static inline bool context_calls(const struct context *context)
{
    return atomic_load_explicit(&context->advancing, memory_order_relaxed) == context_lock_self();
}

/* Has it a helper (share.h)? */
static inline bool context_shared(const struct context *context)
{
    return (atomic_load_explicit(&context->guard, memory_order_relaxed) & GUARD_SHARED) != 0;
}

/*
 * What takes as long as copying so many bytes is better left to the helper: true outside of
 * advances, if there is one. Whoever then puts it on the context's retries need not ring: the
 * program does when it unlocks the context, or it advances the context by itself.
 */
#define CONTEXT_HAND_OVER_BYTES 32768u

static inline bool context_hands_over(const struct context *context, uint64_t bytes)
{
    return bytes >= CONTEXT_HAND_OVER_BYTES && unlikely(context_shared(context)) &&
           !share_owned(context);
}

/* lock.c: the program's trylock and unlock, which a helper hears of. */
bool context_try(struct context *context);
bool context_unlock(struct context *context);

/* Why context_from_handle said no, for error texts. */
static inline const char *context_fault(pami_context_t handle)
{
#ifdef PAMI_MISUSE_CHECKS
    const uint64_t *magic = (const uint64_t *)handle;

    if (magic != NULL && *magic == MISUSE_DESTROYED)
        return "was destroyed";
#endif
    return handle == NULL ? "NULL" : "not a context";
}

/* 0 or negative errno. p2p is not attached yet. */
int context_create(struct client_core *core, uint32_t offset, struct context **context);

/* Not all contexts of its task can be made: one that was never advanced goes. What others have sent
 * is for the next one, where the device can keep it. */
void context_unmake(struct context *context);

/* The owner, or nobody, is inside; drops what is still queued. */
void context_destroy(struct context *context);

/* Inside a protocol handler that has done nothing yet: the packet stays where it is and comes
 * again, for there is no memory for it now. */
void context_put_back(struct context *context);

/* One pass over everything; the number of events. */
int context_pass(struct context *context);

/*
 * Run a callback from advance, after everything that was queued before it. Never from inside the
 * caller. `function` NULL is fine. 0, or -ENOMEM, which cannot be where room was reserved.
 */
static inline int context_complete(struct context *context, pami_event_function function,
                                   void *cookie, pami_result_t result)
{
    if (function == NULL)
        return 0;
    return completion_push(&context->completions, function, cookie, result);
}

/* An operation starts that will end with these callbacks, each once: 0 or -ENOMEM. */
static inline int context_promise(struct context *context, pami_event_function first,
                                  pami_event_function second)
{
    return completion_promise(&context->completions,
                              (size_t)(first != NULL) + (size_t)(second != NULL));
}

/* As context_complete, for a callback that was promised. */
static inline void context_keep(struct context *context, pami_event_function function, void *cookie,
                                pami_result_t result)
{
    if (function != NULL)
        completion_keep(&context->completions, function, cookie, result);
}

/* Called when a destination has gone: p2p hangs itself in here. */
void p2p_endpoint_gone(struct context *context, uint32_t endpoint);

#endif
