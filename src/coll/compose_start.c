/*
 * The start and the end of machines of programs: PAMIX_Machine_start, PAMIX_Machine_destroy.
 *
 * A whole composition counts as one collective in each of its geometries: it opens a block of
 * numbers there and takes tickets (ticket.h) for all runs of its machines, links in their order and
 * segment after segment, which is the order in which they run. So nothing in shared memory waits
 * for something behind it, and members that disagree about how many runs there are agree again
 * about the next block.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/shared/shared.h"
#include "coll/user.h"
#include "util/error.h"

/* Parts that run: a pipeline may have fewer segments than stages. */
static size_t parts_of(const struct user *user)
{
    return user->segment != NULL && user->segments < user->count ? user->segments : user->count;
}

static pami_result_t check_simple(struct user *user)
{
    static const char function[] = "PAMIX_Machine_start";
    int error;

    if (user->inner == NULL)
        return error_set(PAMI_INVAL, "%s: machine: %s no arguments", function,
                         user->owner == NULL ? "has" : "a link or stage has");
    error = user_bind_again(user);
    if (error == -EBUSY)
        return error_set(PAMI_EAGAIN,
                         "%s: machine: it has failed and still has something under "
                         "way",
                         function);
    return error == 0 ? PAMI_SUCCESS : error_set(PAMI_ENOMEM, "%s: out of memory", function);
}

static pami_result_t check(struct user *user)
{
    pami_result_t result = PAMI_SUCCESS;

    if (user_is_simple(user))
        return check_simple(user);
    for (size_t i = 0; i < parts_of(user) && result == PAMI_SUCCESS; i++)
        result = check(user->parts[i]);
    return result;
}

static bool has_groups(const struct user *user)
{
    if (user_is_simple(user))
        return user_has_group(user);
    for (size_t i = 0; i < user->count; i++)
        if (!has_groups(user->parts[i]))
            return false;
    return true;
}

/* ---- numbers ---- */

static int take_tickets(struct user *user)
{
    size_t runs = user->segment != NULL ? user->segments : user->count;
    int error = 0;

    if (user_is_simple(user))
        return tickets_add(&user->tickets);
    for (size_t i = 0; i < runs && error == 0; i++)
        error = take_tickets(user->parts[i % user->count]);
    return error;
}

static void each_tickets(struct user *user, void (*act)(struct tickets *tickets))
{
    if (user_is_simple(user))
        act(&user->tickets);
    for (size_t i = 0; i < user->count; i++)
        each_tickets(user->parts[i], act);
}

/* 0 or -ENOMEM, and nothing has been taken. */
static int reserve(struct user *user)
{
    int error;

    for (size_t i = 0; i < user->block_count; i++) {
        group_block_begin(user->blocks[i].group);
        user->blocks[i].first = user->blocks[i].group->sequence;
    }
    error = take_tickets(user);
    for (size_t i = 0; i < user->block_count; i++) {
        struct coll_block *block = &user->blocks[i];

        if (error != 0)
            group_block_cancel(block->group, block->first);
        else
            group_block_end(block->group);
        block->end = block->group->sequence;
    }
    each_tickets(user, error != 0 ? tickets_drop : tickets_publish);
    return error;
}

/* ---- the beginning and the end ---- */

static void begin(struct user *user, struct machine *machine)
{
    for (size_t i = 0; i < user->block_count; i++) {
        struct coll_block *block = &user->blocks[i];

        block->machine = machine;
        block->gave_up = false;
        list_push_back(&user->context->coll->blocks, &block->link);
        coll_runs(block->group);
    }
}

/* Others may have runs that were not begun here, or that this member does not know of. */
static void clean_up(struct user *user, const struct coll_block *block, pami_result_t result)
{
    uint64_t identity = block->group->identity;

    shared_skip_runs(user->context->shared, identity, block->end,
                     result == PAMI_INVAL ? PAMI_INVAL : PAMI_ERROR);
    flight_sweep(&user->context->coll->flights, identity);
}

static void started_done(struct machine *machine, pami_result_t result)
{
    struct user *user = machine->cookie;

    user->running = false;
    each_tickets(user, tickets_drop);
    for (size_t i = 0; i < user->block_count; i++) {
        list_remove(&user->blocks[i].link);
        if (result != PAMI_SUCCESS)
            clean_up(user, &user->blocks[i], result);
        coll_ends(user->blocks[i].group);
    }
    context_keep(user->context, user->fn, user->cookie, result);
}

pami_result_t PAMIX_Machine_start(pamix_machine_t handle, pami_event_function fn, void *cookie)
{
    static const char function[] = "PAMIX_Machine_start";
    struct user *user = user_from_handle(function, handle);
    struct machine *machine;
    pami_result_t result;

    if (user == NULL)
        return PAMI_INVAL;
    if (user->owner != NULL)
        return error_set(PAMI_INVAL, "%s: machine: is part of a composition", function);
    if (user->running)
        return error_set(PAMI_EAGAIN, "%s: machine: it runs", function);
    if (!has_groups(user))
        return error_set(PAMI_INVAL, "%s: machine: a geometry of it has been destroyed", function);
    result = check(user);
    if (result != PAMI_SUCCESS)
        return result;
    if (completion_reserve(&user->context->completions, 1) != 0 || reserve(user) != 0)
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    context_promise(user->context, fn, NULL); /* room was reserved */
    machine = user_machine(user);
    machine->done = started_done;
    machine->cookie = user;
    user->running = true;
    user->fn = fn;
    user->cookie = cookie;
    begin(user, machine);
    machine->ops->start(machine);
    return PAMI_SUCCESS;
}

/* Handles of compositions inside this one; simple ones go with their machines. */
static void free_parts(struct user *user)
{
    for (size_t i = 0; i < user->count; i++) {
        struct user *part = user->parts[i];

        if (user_is_simple(part))
            continue;
        free_parts(part);
        part->magic = 0;
        free(part->blocks);
        free(part);
    }
}

pami_result_t PAMIX_Machine_destroy(pamix_machine_t *handle)
{
    struct user *user = user_from_handle("PAMIX_Machine_destroy", handle != NULL ? *handle : NULL);

    if (user == NULL)
        return PAMI_INVAL;
    if (user->owner != NULL)
        return error_set(PAMI_INVAL, "PAMIX_Machine_destroy: machine: is part of a composition");
    if (user->running)
        return error_set(PAMI_EAGAIN, "PAMIX_Machine_destroy: machine: it runs");
    *handle = NULL;
    if (user_is_simple(user)) {
        user_release_simple(user);
        return PAMI_SUCCESS;
    }
    free_parts(user);
    user->inner->ops->release(user->inner);
    user->magic = 0;
    free(user->blocks);
    free(user);
    return PAMI_SUCCESS;
}
