/*
 * Messages without data that found no memory, to be sent in a later pass: what tells others that a
 * run is over, or asks whether it is. They are as good later, and in any order.
 *
 * There is room for a few in each context. What finds none is lost, and is asked for: who waits for
 * a member asks it again and again (ask.h).
 */
#ifndef LIBPAMI_COLL_DEBT_H
#define LIBPAMI_COLL_DEBT_H

#include <stdint.h>

#include "coll/flight.h"
#include "context/context.h"

#define DEBTS 64u

struct debts {
    struct retry retry; /* on the context's list while there are some */
    uint32_t count;
    struct debt {
        struct flight_head head;
        uint32_t endpoint;
    } kept[DEBTS];
};

void debts_init(struct debts *debts);

/* Forgets them. */
void debts_finish(struct debts *debts);

void debts_add(struct debts *debts, struct context *context, const struct flight_head *head,
               uint32_t endpoint);

#endif
