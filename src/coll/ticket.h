/*
 * Tickets: the numbers that a program's composition reserves at its start for all runs of one of
 * its machines (pamix.h), which takes one when a run begins. So all members give the runs the same
 * numbers, in whatever order they begin. The machine itself never has more than one run's.
 *
 * Runs in shared memory also reserve their ticks that way: the group's arena is held for the next
 * ticket.
 *
 * Tickets of pipelines are far apart, but regularly so: what is kept is stretches.
 */
#ifndef LIBPAMI_COLL_TICKET_H
#define LIBPAMI_COLL_TICKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/machine.h"
#include "coll/shared/arena.h"
#include "util/list.h"

struct tickets_stretch {
    uint64_t first, step, count;
};

struct tickets {
    struct list link;        /* in coll_state.tickets while there are any */
    struct machine *machine; /* whose they are, for coll_reserved */
    struct group *group;     /* a geometry's own */
    uint32_t width;          /* numbers of a run */
    bool holds;              /* runs have ticks in the group's arena */
    struct arena_hold hold;
    struct tickets_stretch *stretches; /* owned; from `next` on they have tickets */
    size_t next, count, room;
};

void tickets_init(struct tickets *tickets, struct machine *machine, struct group *group);

/* Inside a block of the group: the next run's numbers. 0 or -ENOMEM. */
int tickets_add(struct tickets *tickets);

/* After the last one: others may look for them, and the arena is held. */
void tickets_publish(struct tickets *tickets);

/* The first one is taken, for a run of the machine `runs`; NULL: that will not be. False: there is
 * none. */
bool tickets_use(struct tickets *tickets, struct machine *runs, uint64_t *number);

/* Those that are left will not be used. */
void tickets_drop(struct tickets *tickets);

/* And no others: their geometry may have gone. */
void tickets_free(struct tickets *tickets);

/* Whose ticket has this number, as messages have it? NULL: nobody's. */
struct machine *tickets_find(const struct list *all, uint32_t sequence);

#endif
