/*
 * A mover fetches large data in a context's place: communication servers, several floors above,
 * hang themselves in here while they run. One for each client, the first that comes.
 *
 * Any thread may install or remove one while contexts look: who uses it is counted, and it may be
 * freed when it has been removed and nobody does.
 */
#ifndef LIBPAMI_P2P_MOVER_H
#define LIBPAMI_P2P_MOVER_H

#include <errno.h>

#include "context/context.h"

/* Less is not worth asking. */
#define MOVER_BYTES ((size_t)64 << 10)

struct mover_fetch {
    struct context *context;
    uint32_t endpoint; /* whose memory `remote` is */
    void *local;
    uint64_t remote;
    size_t bytes;
    pami_event_function
        done; /* from an advance or posted work of `context`, never inside `fetch` */
    void *cookie;
};

struct mover {
    /* The context's owner calls. 0: `done` will be called, with an error when nobody knows how much
     * of it has come; negative: the context has to fetch it by itself. */
    int (*fetch)(struct mover *mover, const struct mover_fetch *fetch);
};

static inline void mover_install(struct client_core *core, struct mover *mover)
{
    struct mover *none = NULL;

    atomic_compare_exchange_strong(&core->mover, &none, mover);
}

static inline void mover_remove(struct client_core *core, struct mover *mover)
{
    atomic_compare_exchange_strong(&core->mover, &mover, NULL);
}

/* After mover_remove: is a context inside? Any, so it may be another mover's. */
static inline bool mover_in_use(struct client_core *core)
{
    return atomic_load(&core->mover_uses) != 0;
}

/* As mover->fetch. Memory order: the count goes up before the pointer is read, and mover_in_use
 * looks at it after the pointer has gone; all of these are sequentially consistent. */
static inline int mover_fetch(const struct mover_fetch *fetch)
{
    struct client_core *core = fetch->context->core;
    struct mover *mover;
    int error = -ENOTSUP;

    if (likely(atomic_load_explicit(&core->mover, memory_order_relaxed) == NULL))
        return -ENOTSUP;
    atomic_fetch_add(&core->mover_uses, 1);
    mover = atomic_load(&core->mover);
    if (mover != NULL)
        error = mover->fetch(mover, fetch);
    atomic_fetch_sub(&core->mover_uses, 1);
    return error;
}

#endif
