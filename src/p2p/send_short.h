/*
 * The short cut of immediate messages: a few bytes, to the destination of the message before, with
 * nothing in the way. It checks what it must and hands the user's own vectors to the device; at the
 * least doubt, and when the device has no room or no such path, the general way decides. Where
 * others wait already it goes behind them (send_later.c). Here, as rma_short.h, for whoever sends
 * in the user's name and has nothing to spare.
 */
#ifndef LIBPAMI_P2P_SEND_SHORT_H
#define LIBPAMI_P2P_SEND_SHORT_H

#include "p2p/p2p.h"

/* Hints with which a message may not take the short cut. */
#define DISPATCH_NO_SHORT_CUT                                                                      \
    (DISPATCH_SHARED_ONLY | DISPATCH_PACKETS_ONLY | DISPATCH_SHORT_HEADER | DISPATCH_TRACED)

static inline bool send_has_null(const pami_send_immediate_t *send)
{
    return (send->header.iov_base == NULL && send->header.iov_len != 0) ||
           (send->data.iov_base == NULL && send->data.iov_len != 0);
}

/* Data up to this is copied at the call when nobody waits for local_fn: programs pass stack
 * memory. */
#define SEND_COPY_BYTES 512u

static inline bool send_is_copied(const pami_send_event_t *events, size_t bytes)
{
    return events->local_fn == NULL && bytes <= SEND_COPY_BYTES;
}

/* As PAMI_Send_immediate; false: nothing was done. `context` and `send` have been checked. */
static inline bool send_short(struct context *context, const pami_send_immediate_t *send)
{
    const struct dispatch *row = dispatch_registered(&context->dispatch, send->dispatch);
    struct peer *peer = context->p2p->last;
    struct packet_header head;

    misuse_check(context, "PAMI_Send_immediate");
    if (unlikely(row == NULL || (row->flags & DISPATCH_NO_SHORT_CUT) != 0 || peer == NULL ||
                 peer->endpoint != send->dest || peer->gone || peer->path->am_short == NULL ||
                 send_has_null(send)))
        return false;
    if (unlikely(!list_empty(&peer->queue)))
        return send_behind(context, peer, row, send);
    head = packet_header_short(PROTOCOL_IMMEDIATE, send->dispatch, send->header.iov_len,
                               send->data.iov_len, context->endpoint, 0);
    if (unlikely(peer->path->am_short(peer->path, head.words[0], head.words[1], &send->header,
                                      &send->data) != 0))
        return false;
    /* No store in the usual case. */
    if (unlikely(!peer->unfenced))
        peer->unfenced = true;
    context->counters[COUNTER_SEND_IMMEDIATE]++;
    return true;
}

#endif
