/*
 * Acts: a link of a composition that only does something here. See compose.h.
 */
#include <stdlib.h>

#include "coll/compose.h"

struct act {
    struct machine machine;
    void (*run)(void *cookie);
    void *cookie;
};

static void reserve(struct machine *machine, uint32_t runs)
{
    (void)machine, (void)runs;
}

static void start(struct machine *machine)
{
    struct act *act = container_of(machine, struct act, machine);

    act->run(act->cookie);
    machine->done(machine, PAMI_SUCCESS);
}

static void release(struct machine *machine)
{
    free(container_of(machine, struct act, machine));
}

/* It never waits, so that it never runs when it is given up. */
static void give_up(struct machine *machine, pami_result_t result)
{
    (void)machine, (void)result;
}

static const struct machine_ops act_ops = {
    .reserve = reserve,
    .start = start,
    .release = release,
    .give_up = give_up,
};

struct machine *act_make(struct group *group, void (*run)(void *cookie), void *cookie)
{
    struct act *act = malloc(sizeof(*act));

    if (act == NULL)
        return NULL;
    machine_init(&act->machine, &act_ops, group);
    act->run = run;
    act->cookie = cookie;
    return &act->machine;
}
