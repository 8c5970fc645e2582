/*
 * Machines: one collective on one member, as a state machine.
 *
 * reset binds a machine to arguments and puts it into its start state; it communicates nothing.
 * start returns in bounded time whatever other members do. When the member's part is complete, the
 * machine calls its continuation, once, which may start other machines or this one again: so a
 * chain of machines keeps this contract and is a machine itself.
 *
 * A machine belongs to whoever owns its context.
 */
#ifndef LIBPAMI_COLL_MACHINE_H
#define LIBPAMI_COLL_MACHINE_H

#include <pami/pami.h>

#include "context/context.h"
#include "geometry/geometry.h"

struct machine;

struct machine_ops {
    const char *name;
    /* Never blocks; may complete, and so call `done`, before it returns. */
    void (*start)(struct machine *machine);
    /* Free everything; not while it runs. */
    void (*release)(struct machine *machine);
    /* A member has died: end with an error, unless it is complete. NULL: nothing to give up. */
    void (*give_up)(struct machine *machine, pami_result_t result);
};

struct machine {
    const struct machine_ops *ops;
    void (*done)(struct machine *machine, pami_result_t result); /* the continuation */
    void *cookie;                                                /* of whoever set `done` */
    struct group *group;
};

#endif
