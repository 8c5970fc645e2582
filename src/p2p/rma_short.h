/*
 * The short cut of one-sided transfers: a few bytes of a shared heap, which are moved inside the
 * call. Here for whoever makes such calls in the user's name and has nothing to spare.
 */
#ifndef LIBPAMI_P2P_RMA_SHORT_H
#define LIBPAMI_P2P_RMA_SHORT_H

#include "p2p/p2p.h"
#include "util/order.h"

/* The short cut takes no more than this: it must not be in the way of the others' short code. */
#define RMA_SHORT_BYTES ((size_t)4 << 10)

static inline bool rma_is_short(size_t bytes)
{
    return bytes - 1 < RMA_SHORT_BYTES;
}

/* The mapped memory of a short transfer that nothing is in the way of; NULL: the general way. */
static inline char *rma_short_at(struct context *context, const pami_rma_t *rma,
                                 const pami_rma_addr_t *addr)
{
    struct peer *peer = context->p2p->last;

    if (unlikely(peer == NULL || peer->endpoint != rma->dest || peer->gone || peer->puts != 0 ||
                 rma->hints.use_shmem == PAMI_HINT_DISABLE || addr->local == NULL ||
                 completion_reserve(&context->completions, 2) != 0))
        return NULL;
    return path_address(peer->path, (uint64_t)(uintptr_t)addr->remote, rma->bytes);
}

static inline void rma_short_move(char *to, const char *from, size_t bytes)
{
    uint64_t word;

    if (likely(bytes == sizeof(word))) {
        memcpy(&word, from, sizeof(word));
        memcpy(to, &word, sizeof(word));
    } else {
        memmove(to, from, bytes);
    }
}

/* As PAMI_Put; false: nothing was done. `function` has checked context, parameters and size. */
static inline bool rma_short_put(const char *function, struct context *context,
                                 const pami_rma_t *rma, const pami_rma_addr_t *addr,
                                 pami_event_function rdone_fn)
{
    char *to = rma_short_at(context, rma, addr);

    if (unlikely(to == NULL))
        return false;
    misuse_check(context, function);
    order_before_put();
    rma_short_move(to, addr->local, rma->bytes);
    if (rdone_fn != NULL)
        context->unseen = true;
    context->counters[COUNTER_PUT_HEAP]++;
    context->counters[COUNTER_PUT_HEAP_BYTES] += rma->bytes;
    context_complete(context, rma->done_fn, rma->cookie, PAMI_SUCCESS);
    context_complete(context, rdone_fn, rma->cookie, PAMI_SUCCESS);
    return true;
}

/* As PAMI_Get. */
static inline bool rma_short_get(const char *function, struct context *context,
                                 const pami_rma_t *rma, const pami_rma_addr_t *addr)
{
    char *from = rma_short_at(context, rma, addr);

    if (unlikely(from == NULL))
        return false;
    misuse_check(context, function);
    rma_short_move(addr->local, from, rma->bytes);
    order_after_get();
    context->counters[COUNTER_GET_HEAP]++;
    context->counters[COUNTER_GET_HEAP_BYTES] += rma->bytes;
    context_complete(context, rma->done_fn, rma->cookie, PAMI_SUCCESS);
    return true;
}

#endif
