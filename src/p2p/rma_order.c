/*
 * Which puts to an endpoint wait for others under way: the rules of rma.h.
 *
 * The interface promises no order. Plain puts keep that of the calls all the same, and nothing is
 * written over what a later call has put there.
 */
#include "p2p/rma.h"

/* Of puts between regions so many move at a time: providers queue some hundred. One is not begun
 * beside more by packets, each of which has to be looked at. */
#define ABREAST_MOST 64u

/* Between regions that the device knows. Plain puts keep their order, also after a question. */
static bool goes_abreast(const struct rma *rma)
{
    return rma->native && !rma->asks;
}

/* Where the pieces of a typed one lie is not looked at. */
static bool touches(const struct rma *rma, const struct rma *other)
{
    if (rma->typed != NULL || other->typed != NULL)
        return true;
    return rma->remote < other->remote ? other->remote - rma->remote < rma->bytes
                                       : rma->remote - other->remote < other->bytes;
}

static bool touches_any(const struct rma *rma, const struct list *others)
{
    const struct list *item;

    list_for_each (item, others) {
        if (touches(rma, list_entry(item, struct rma, beside)))
            return true;
    }
    return false;
}

/* There are puts under way that this one must not overtake: plain ones keep their order, one
 * between regions must not touch what others do. */
bool rma_must_wait(const struct peer *peer, const struct rma *rma)
{
    bool plain_moves = peer->puts_moving != 0 && list_empty(&peer->puts_abreast);

    if (plain_moves)
        return true;
    if (rma->way == RMA_PACKETS)
        return touches_any(rma, &peer->puts_abreast);
    if (!goes_abreast(rma))
        return peer->puts_moving != 0 || peer->puts_packets != 0;
    return peer->puts_moving >= ABREAST_MOST || peer->puts_packets > ABREAST_MOST ||
           touches_any(rma, &peer->puts_abreast) || touches_any(rma, &peer->puts_sent);
}

/* Begun, and not by packets. */
void rma_put_moves(struct peer *peer, struct rma *rma)
{
    peer->puts_moving++;
    if (goes_abreast(rma))
        list_push_back(&peer->puts_abreast, &rma->beside);
}
