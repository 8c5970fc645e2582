/*
 * Simple machines of programs: one passes everything on to the machine of its row, which its first
 * reset makes and later ones reuse. So it can be a link before it has arguments.
 *
 * Its runs have tickets (ticket.h), which the start of the whole has taken. The arguments are kept,
 * as a machine in shared memory gives them away when it falls back on messages.
 */
#include "coll/user.h"

#include <stdlib.h>

#include "coll/shared/shared.h"
#include "util/error.h"

static struct user *user_of(struct machine *simple)
{
    return container_of(simple, struct user, simple);
}

/* ---- arguments ---- */

/* The same, but for the lists, which stay where they are. */
static struct collective lend(const struct collective *given)
{
    struct collective lent = *given;

    lent.lists = NULL;
    lent.send = area_ref(&lent.send);
    lent.recv = area_ref(&lent.recv);
    return lent;
}

static void inner_done(struct machine *inner, pami_result_t result);

int user_bind(struct user *user, struct collective *given)
{
    struct collective lent = lend(given);
    int error;

    if (user->inner != NULL) {
        error = user->inner->ops->reset(user->inner, &lent);
    } else {
        error = machine_make(user->group, user->row, &lent, &user->inner);
        if (error != 0)
            user->inner = NULL;
    }
    if (error != 0) {
        user->stale = true; /* it may have been bound in part */
        return error;
    }
    user->inner->done = inner_done;
    user->inner->cookie = user;
    if (given != &user->given) {
        collective_release(&user->given);
        user->given = *given;
    }
    user->stale = false;
    return 0;
}

int user_bind_again(struct user *user)
{
    return user->stale ? user_bind(user, &user->given) : 0;
}

bool user_has_group(const struct user *user)
{
    pami_result_t result;
    struct group *group =
        coll_group_of("PAMIX_Machine_start", user->context, user->algorithm, &result);

    return group == user->group && group->identity == user->identity &&
           atomic_load_explicit(&group->geometry->state, memory_order_relaxed) != GEOMETRY_ENDED;
}

/* ---- running ---- */

/* Something waits that came for the flight of a run in shared memory. */
static void look_at_flight(struct user *user, uint64_t number)
{
    struct flight_table *flights = &user->context->coll->flights;

    if (unlikely(flights->waiting != 0))
        flight_look(flights, user->group, (uint32_t)number);
}

static void inner_done(struct machine *inner, pami_result_t result)
{
    struct user *user = inner->cookie;
    uint64_t number = user->number;

    user->in_run = false;
    user->stale = result != PAMI_SUCCESS || shared_run_fell_back(inner);
    user->simple.done(&user->simple, result);
    if (result == PAMI_SUCCESS)
        look_at_flight(user, number);
}

/* The start of the whole has done that. */
static void simple_reserve(struct machine *machine, uint32_t runs)
{
    (void)machine, (void)runs;
}

static void simple_start(struct machine *machine)
{
    struct user *user = user_of(machine);
    int error = user_bind_again(user);
    uint64_t number;

    if (!tickets_use(&user->tickets, error == 0 ? user->inner : NULL, &number)) {
        machine->done(machine, error_set(PAMI_INVAL, "PAMIX_Machine_start: machine: a stage runs "
                                                     "more often than was reserved"));
        return;
    }
    if (error != 0) {
        machine->done(machine, error_set(error_from_errno(error),
                                         "PAMIX_Machine_start: machine: a link or stage has failed "
                                         "and still has something under way"));
        return;
    }
    user->in_run = true;
    user->number = number;
    if (user->row->make != NULL)
        user->context->coll->rows->ran[user->row - algorithm_table]++;
    user->inner->ops->start(user->inner);
    look_at_flight(user, number);
}

/* A segment function ends its pipeline with any result: PAMI_INVAL is told to other members, who
 * have other arguments then; the rest is this member's own, and some mean something else below. */
static pami_result_t reason(pami_result_t result)
{
    return result == PAMI_INVAL || result == PAMI_ENOMEM ? result : PAMI_ERROR;
}

static void simple_give_up(struct machine *machine, pami_result_t why)
{
    struct user *user = user_of(machine);
    pami_result_t result = reason(why);
    uint64_t number;

    if (user->in_run) {
        user->inner->ops->give_up(user->inner, result);
        return;
    }
    /* What an earlier run has under way keeps it from saying so: the end of the whole does. */
    if (user_bind_again(user) != 0) {
        tickets_use(&user->tickets, NULL, &number);
    } else if (tickets_use(&user->tickets, user->inner, &number)) {
        user->stale = true;
        user->inner->ops->give_up(user->inner, result);
    }
}

static void simple_release(struct machine *machine)
{
    user_release_simple(user_of(machine));
}

static const struct machine_ops simple_ops = {
    .reserve = simple_reserve,
    .start = simple_start,
    .release = simple_release,
    .give_up = simple_give_up,
};

void user_make_simple(struct user *user, struct group *group, pami_algorithm_t algorithm)
{
    machine_init(&user->simple, &simple_ops, group);
    tickets_init(&user->tickets, &user->simple, group);
    user->group = group;
    user->identity = group->identity;
    user->algorithm = algorithm;
}

void user_release_simple(struct user *user)
{
    if (user->inner != NULL)
        user->inner->ops->release(user->inner);
    collective_release(&user->given);
    tickets_free(&user->tickets);
    free(user->blocks);
    user->magic = 0;
    free(user);
}
