/*
 * Machines as users see them: PAMIX_Machine_*, PAMIX_Chain_*, PAMIX_Pipeline_*.
 *
 * A handle is a struct user (user.h). A simple one is a machine itself that passes everything on to
 * the machine of the row: so it can be a link before it has arguments. The others hold a chain or a
 * pipeline of the machines of other handles. How they start and end is in compose_start.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/algorithm.h"
#include "coll/compose.h"
#include "coll/flow.h"
#include "coll/handle.h"
#include "coll/select.h"
#include "coll/user.h"
#include "util/error.h"

#define USER_MAGIC UINT64_C(0x70616d69786d6163)

/* Numbers of a run of a composition inside: two parts for each segment. */
#define WIDTH_WHOLE 2u
#define WIDTH_SEGMENTS (2u * FLOW_SEGMENTS_MAX)

struct user *user_from_handle(const char *function, pamix_machine_t handle)
{
    struct user *user = handle;

    if (user != NULL && user->magic == USER_MAGIC)
        return user;
    error_set(PAMI_INVAL, "%s: machine: %s", function, user == NULL ? "NULL" : "not a machine");
    return NULL;
}

static struct user *user_new(struct context *context, size_t parts, size_t blocks)
{
    struct user *user = calloc(1, sizeof(*user) + parts * sizeof(user->parts[0]));

    if (user == NULL)
        return NULL;
    user->blocks = calloc(blocks + 1, sizeof(user->blocks[0]));
    if (user->blocks == NULL) {
        free(user);
        return NULL;
    }
    user->magic = USER_MAGIC;
    user->context = context;
    user->count = parts;
    return user;
}

static void user_free(struct user *user)
{
    if (user != NULL)
        free(user->blocks);
    free(user);
}

/* It has runs in this geometry. */
static void add_group(struct user *user, struct group *group)
{
    for (size_t i = 0; i < user->block_count; i++)
        if (user->blocks[i].group == group)
            return;
    list_init(&user->blocks[user->block_count].link);
    user->blocks[user->block_count++].group = group;
}

/* ---- simple machines ---- */

pami_result_t PAMIX_Machine_create(pami_context_t handle, pami_algorithm_t algorithm,
                                   pamix_machine_t *machine)
{
    static const char function[] = "PAMIX_Machine_create";
    struct context *context = context_from_handle(handle);
    struct group *group;
    struct user *user;
    pami_result_t result;

    if (context == NULL)
        return error_set(PAMI_INVAL, "%s: context: %s", function, context_fault(handle));
    if (machine == NULL)
        return error_set(PAMI_INVAL, "%s: machine: NULL", function);
    group = coll_group_of(function, context, algorithm, &result);
    if (group == NULL)
        return result;
    if (algorithm_handle_type(algorithm) >= PAMI_XFER_AMBROADCAST)
        return error_set(PAMI_INVAL, "%s: algorithm: active-message collectives are no machines",
                         function);
    user = user_new(context, 0, 1);
    if (user == NULL)
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    user_make_simple(user, group, algorithm);
    add_group(user, group);
    *machine = user;
    return PAMI_SUCCESS;
}

static pami_result_t from_errno(int error)
{
    if (error == -EBUSY)
        return error_set(PAMI_EAGAIN, "PAMIX_Machine_reset: machine: it runs");
    return error_set(error_from_errno(error), "PAMIX_Machine_reset: out of memory");
}

/* The row for these arguments; once there is a machine it keeps its row. */
static pami_result_t choose_row(struct user *user, const struct collective *collective)
{
    const struct algorithm *row = algorithm_handle_row(user->algorithm);

    if (user->inner != NULL)
        row = user->row;
    else if (row == NULL)
        row = select_row_of_one_run(&user->context->coll->rows->select, user->group, collective);
    /* Their runs have parts in arenas of several levels, or take credits in the order of calls. */
    if (row->needs & (NEEDS_LEVELS | NEEDS_ORDER))
        return error_set(PAMI_INVAL,
                         "PAMIX_Machine_reset: machine: %s is for PAMI_Collective only: its runs "
                         "begin in the order of the calls, on all levels, which those of "
                         "compositions do not",
                         row->name);
    if (algorithm_unmet(row, collective, user->group) != 0)
        return error_set(PAMI_INVAL, "PAMIX_Machine_reset: cmd: %s does not work for these",
                         row->name);
    user->row = row;
    user->tickets.holds = row->make == shared_make;
    if (row->make != NULL && row->make != shared_make)
        user->tickets.width = row->segment == SEGMENT_WHOLE ? WIDTH_WHOLE : WIDTH_SEGMENTS;
    return PAMI_SUCCESS;
}

/* It is running, or part of what is: numbers of all its runs are reserved, and its geometries stay
 * until it is complete, also those that have been destroyed. */
static bool whole_runs(const struct user *user)
{
    while (user->owner != NULL)
        user = user->owner;
    return user->running;
}

pami_result_t PAMIX_Machine_reset(pamix_machine_t handle, const pami_collective_t *cmd)
{
    struct user *user = user_from_handle("PAMIX_Machine_reset", handle);
    struct collective collective;
    pami_result_t result;
    int error;

    if (user == NULL)
        return PAMI_INVAL;
    if (!user_is_simple(user))
        return error_set(PAMI_INVAL, "PAMIX_Machine_reset: machine: a composition has no arguments "
                                     "of its own; reset what it is made of");
    if (cmd == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Machine_reset: cmd: NULL");
    if (user->running || user->in_run)
        return from_errno(-EBUSY);
    if (!whole_runs(user) && !user_has_group(user))
        return error_set(PAMI_INVAL, "PAMIX_Machine_reset: machine: its geometry has been "
                                     "destroyed");
    result = collective_read(&collective, algorithm_handle_type(user->algorithm), user->group, cmd);
    if (result != PAMI_SUCCESS)
        return result;
    result = choose_row(user, &collective);
    if (result == PAMI_SUCCESS) {
        error = user_bind(user, &collective);
        result = error == 0 ? PAMI_SUCCESS : from_errno(error);
    }
    if (result != PAMI_SUCCESS)
        collective_release(&collective);
    return result;
}

/* ---- compositions ---- */

static pami_result_t check_part(const char *function, const char *argument, size_t index,
                                const struct context *context, const struct user *part)
{
    if (part == NULL)
        return PAMI_INVAL;
    if (part->context != context)
        return error_set(PAMI_INVAL, "%s: %s[%zu]: of another context", function, argument, index);
    if (part->owner == part)
        return error_set(PAMI_INVAL, "%s: %s[%zu]: is there twice", function, argument, index);
    if (part->owner != NULL || part->running)
        return error_set(PAMI_INVAL, "%s: %s[%zu]: runs, or is part of a composition already",
                         function, argument, index);
    return PAMI_SUCCESS;
}

/* Meanwhile those that have been seen own themselves. */
static pami_result_t read_parts(const char *function, const char *argument, struct context *context,
                                pamix_machine_t parts[], size_t count, size_t *blocks)
{
    pami_result_t result = PAMI_SUCCESS;
    size_t seen = 0;

    *blocks = 0;
    if (parts == NULL && count != 0)
        return error_set(PAMI_INVAL, "%s: %s: NULL", function, argument);
    while (seen < count) {
        struct user *part = user_from_handle(function, parts[seen]);

        result = check_part(function, argument, seen, context, part);
        if (result != PAMI_SUCCESS)
            break;
        *blocks += part->block_count;
        part->owner = part;
        seen++;
    }
    while (seen-- > 0)
        ((struct user *)parts[seen])->owner = NULL;
    return result;
}

static void add_parts(struct user *user, pamix_machine_t parts[], struct machine **machines)
{
    for (size_t i = 0; i < user->count; i++) {
        user->parts[i] = parts[i];
        machines[i] = user_machine(user->parts[i]);
        for (size_t k = 0; k < user->parts[i]->block_count; k++)
            add_group(user, user->parts[i]->blocks[k].group);
    }
}

static void own_parts(struct user *user)
{
    for (size_t i = 0; i < user->count; i++)
        user->parts[i]->owner = user;
}

/* Makes the handle of a composition; `make` makes what it holds. */
static pami_result_t compose(const char *function, const char *argument, pami_context_t handle,
                             pamix_machine_t parts[], size_t count, struct user **made,
                             struct machine ***machines)
{
    struct context *context = context_from_handle(handle);
    struct user *user;
    pami_result_t result;
    size_t blocks;

    if (context == NULL)
        return error_set(PAMI_INVAL, "%s: context: %s", function, context_fault(handle));
    if (count > UINT32_MAX / 2)
        return error_set(PAMI_INVAL, "%s: count: %zu are more than %u", function, count,
                         UINT32_MAX / 2);
    result = read_parts(function, argument, context, parts, count, &blocks);
    if (result != PAMI_SUCCESS)
        return result;
    user = user_new(context, count, blocks);
    *machines = calloc(count + 1, sizeof(struct machine *));
    if (user != NULL)
        user->group = geometry_group(geometry_world(context->core), context);
    if (user == NULL || *machines == NULL || user->group == NULL) {
        user_free(user);
        free(*machines);
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    }
    add_parts(user, parts, *machines);
    *made = user;
    return PAMI_SUCCESS;
}

static pami_result_t finish_composition(const char *function, struct user *user,
                                        struct machine **machines, struct machine *inner,
                                        pamix_machine_t *handle)
{
    free(machines);
    if (inner == NULL) {
        user_free(user);
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    }
    own_parts(user);
    user->inner = inner;
    *handle = user;
    return PAMI_SUCCESS;
}

pami_result_t PAMIX_Chain_create(pami_context_t context, pamix_machine_t links[], size_t count,
                                 pamix_machine_t *chain)
{
    static const char function[] = "PAMIX_Chain_create";
    struct machine **machines;
    struct user *user;
    pami_result_t result;

    if (chain == NULL)
        return error_set(PAMI_INVAL, "%s: chain: NULL", function);
    result = compose(function, "links", context, links, count, &user, &machines);
    if (result != PAMI_SUCCESS)
        return result;
    return finish_composition(function, user, machines,
                              chain_make(user->group, machines, (uint32_t)count), chain);
}

static pami_result_t bind_segment(void *cookie, struct machine *stage, uint32_t index)
{
    struct user *user = cookie;

    (void)stage;
    return user->segment(user->parts[index % user->count], index, user->segment_cookie);
}

pami_result_t PAMIX_Pipeline_create(pami_context_t context, pamix_machine_t stages[], size_t count,
                                    pamix_segment_function segment, void *cookie,
                                    pamix_machine_t *pipeline)
{
    static const char function[] = "PAMIX_Pipeline_create";
    struct machine **machines;
    struct user *user;
    pami_result_t result;

    if (pipeline == NULL)
        return error_set(PAMI_INVAL, "%s: pipeline: NULL", function);
    if (segment == NULL || count == 0)
        return error_set(PAMI_INVAL, "%s: %s", function, count == 0 ? "count: 0" : "segment: NULL");
    result = compose(function, "stages", context, stages, count, &user, &machines);
    if (result != PAMI_SUCCESS)
        return result;
    user->segment = segment;
    user->segment_cookie = cookie;
    return finish_composition(
        function, user, machines,
        pipeline_make(user->group, machines, (uint32_t)count, 0, bind_segment, user), pipeline);
}

pami_result_t PAMIX_Pipeline_reset(pamix_machine_t handle, size_t segments)
{
    struct user *user = user_from_handle("PAMIX_Pipeline_reset", handle);

    if (user == NULL)
        return PAMI_INVAL;
    if (user->segment == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Pipeline_reset: pipeline: not a pipeline");
    if (segments > INT32_MAX)
        return error_set(PAMI_INVAL, "PAMIX_Pipeline_reset: segments: %zu are more than %d",
                         segments, INT32_MAX);
    if (compose_is_running(user->inner))
        return error_set(PAMI_EAGAIN, "PAMIX_Pipeline_reset: pipeline: it runs");
    if (segments != user->segments && whole_runs(user))
        return error_set(PAMI_INVAL,
                         "PAMIX_Pipeline_reset: segments: the composition around "
                         "has been started with %u",
                         user->segments);
    user->segments = (uint32_t)segments;
    pipeline_set_segments(user->inner, user->segments);
    /* Every stage has a machine before numbers are reserved. */
    for (size_t i = 0; i < user->count && i < segments; i++) {
        pami_result_t result = user->segment(user->parts[i], i, user->segment_cookie);

        if (result != PAMI_SUCCESS)
            return result;
    }
    return PAMI_SUCCESS;
}
