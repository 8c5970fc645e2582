/*
 * Machines as users see them: PAMIX_Machine_*, PAMIX_Chain_*, PAMIX_Pipeline_*.
 *
 * A handle is a struct user. A simple one is a machine itself that passes everything on to the
 * machine of the row, which its first reset makes and later ones reuse: so it can be a link before
 * it has arguments. The others hold a chain or a pipeline of the machines of other handles.
 */
#include <errno.h>
#include <stdlib.h>

#include <pami/pamix.h>

#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/compose.h"
#include "coll/handle.h"
#include "coll/machine.h"
#include "coll/select.h"
#include "util/error.h"

#define USER_MAGIC UINT64_C(0x70616d69786d6163)

struct user {
    uint64_t magic;
    struct machine simple; /* of a simple one */
    struct machine *inner; /* what runs: the row's machine, a chain, a pipeline; NULL: no reset */
    struct context *context;
    struct group *group;
    pami_algorithm_t algorithm; /* of a simple one, else 0 */
    const struct algorithm *row;
    bool owned;   /* part of a composition */
    bool running; /* started by itself */
    pami_event_function fn;
    void *cookie;
    /* of pipelines */
    pamix_segment_function segment;
    void *segment_cookie;
    size_t count;
    struct user *parts[];
};

static struct user *user_from_handle(const char *function, pamix_machine_t handle)
{
    struct user *user = handle;

    if (user != NULL && user->magic == USER_MAGIC)
        return user;
    error_set(PAMI_INVAL, "%s: machine: %s", function, user == NULL ? "NULL" : "not a machine");
    return NULL;
}

/* ---- simple machines ---- */

static struct user *user_of(struct machine *simple)
{
    return container_of(simple, struct user, simple);
}

static void inner_done(struct machine *inner, pami_result_t result)
{
    struct user *user = inner->cookie;

    user->simple.done(&user->simple, result);
}

static void simple_reserve(struct machine *machine, uint32_t runs)
{
    struct user *user = user_of(machine);

    if (user->inner != NULL)
        user->inner->ops->reserve(user->inner, runs);
}

static void simple_start(struct machine *machine)
{
    struct user *user = user_of(machine);

    if (user->inner == NULL) {
        machine->done(machine, error_set(PAMI_INVAL, "PAMIX_Machine_start: machine: a link or "
                                                     "stage has no arguments"));
        return;
    }
    user->inner->ops->start(user->inner);
}

static void simple_give_up(struct machine *machine, pami_result_t result)
{
    struct user *user = user_of(machine);

    if (user->inner != NULL)
        user->inner->ops->give_up(user->inner, result);
}

static void simple_release(struct machine *machine)
{
    struct user *user = user_of(machine);

    if (user->inner != NULL)
        user->inner->ops->release(user->inner);
    user->magic = 0;
    free(user);
}

static const struct machine_ops simple_ops = {
    .name = "user",
    .reserve = simple_reserve,
    .start = simple_start,
    .release = simple_release,
    .give_up = simple_give_up,
};

static struct user *user_new(struct context *context, size_t parts)
{
    struct user *user = calloc(1, sizeof(*user) + parts * sizeof(user->parts[0]));

    if (user == NULL)
        return NULL;
    user->magic = USER_MAGIC;
    user->context = context;
    user->count = parts;
    return user;
}

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
    user = user_new(context, 0);
    if (user == NULL)
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    machine_init(&user->simple, &simple_ops, group);
    user->group = group;
    user->algorithm = algorithm;
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
        row = select_row_of_messages(&user->context->coll->rows->select, user->group, collective);
    if (row == NULL)
        return error_set(PAMI_ERROR, "PAMIX_Machine_reset: no algorithm is built in");
    /* Machines of a composition may start in another order on another member. */
    if (row->needs & (NEEDS_ONE_NODE | NEEDS_LEVELS | NEEDS_ORDER))
        return error_set(PAMI_INVAL,
                         "PAMIX_Machine_reset: machine: %s takes its runs in order, "
                         "which compositions do not",
                         row->name);
    if (algorithm_unmet(row, collective, user->group) != 0)
        return error_set(PAMI_INVAL, "PAMIX_Machine_reset: cmd: %s does not work for these",
                         row->name);
    user->row = row;
    return PAMI_SUCCESS;
}

pami_result_t PAMIX_Machine_reset(pamix_machine_t handle, const pami_collective_t *cmd)
{
    struct user *user = user_from_handle("PAMIX_Machine_reset", handle);
    struct collective collective;
    pami_result_t result;
    int error;

    if (user == NULL)
        return PAMI_INVAL;
    if (user->algorithm == PAMI_ALGORITHM_NULL)
        return error_set(PAMI_INVAL, "PAMIX_Machine_reset: machine: a composition has no arguments "
                                     "of its own; reset what it is made of");
    if (cmd == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Machine_reset: cmd: NULL");
    if (user->running)
        return from_errno(-EBUSY);
    result = collective_read(&collective, algorithm_handle_type(user->algorithm), user->group, cmd);
    if (result != PAMI_SUCCESS)
        return result;
    result = choose_row(user, &collective);
    if (result != PAMI_SUCCESS) {
        collective_release(&collective);
        return result;
    }
    if (user->inner != NULL) {
        error = user->inner->ops->reset(user->inner, &collective);
        return error == 0 ? PAMI_SUCCESS : from_errno(error);
    }
    error = machine_make(user->group, user->row, &collective, &user->inner);
    if (error != 0) {
        user->inner = NULL;
        return from_errno(error);
    }
    user->inner->done = inner_done;
    user->inner->cookie = user;
    return PAMI_SUCCESS;
}

/* ---- compositions ---- */

/* The machine that stands for a handle inside a composition. */
static struct machine *machine_of(struct user *user)
{
    return user->algorithm != PAMI_ALGORITHM_NULL ? &user->simple : user->inner;
}

static pami_result_t read_parts(const char *function, const char *argument, struct context *context,
                                pamix_machine_t parts[], size_t count, struct user *to,
                                struct machine **machines)
{
    if (parts == NULL && count != 0)
        return error_set(PAMI_INVAL, "%s: %s: NULL", function, argument);
    for (size_t i = 0; i < count; i++) {
        struct user *part = user_from_handle(function, parts[i]);

        if (part == NULL)
            return PAMI_INVAL;
        if (part->context != context)
            return error_set(PAMI_INVAL, "%s: %s[%zu]: of another context", function, argument, i);
        if (part->owned || part->running)
            return error_set(PAMI_INVAL, "%s: %s[%zu]: runs, or is part of a composition already",
                             function, argument, i);
        to->parts[i] = part;
        machines[i] = machine_of(part);
        for (size_t j = 0; j < i; j++)
            if (to->parts[j] == part)
                return error_set(PAMI_INVAL, "%s: %s[%zu]: is there twice", function, argument, i);
    }
    return PAMI_SUCCESS;
}

static void own_parts(struct user *user)
{
    for (size_t i = 0; i < user->count; i++)
        user->parts[i]->owned = true;
}

/* Makes the handle of a composition; `make` makes what it holds. */
static pami_result_t compose(const char *function, const char *argument, pami_context_t handle,
                             pamix_machine_t parts[], size_t count, struct user **made,
                             struct machine ***machines)
{
    struct context *context = context_from_handle(handle);
    struct user *user;
    pami_result_t result;

    if (context == NULL)
        return error_set(PAMI_INVAL, "%s: context: %s", function, context_fault(handle));
    if (count > UINT32_MAX / 2)
        return error_set(PAMI_INVAL, "%s: count: %zu are more than %u", function, count,
                         UINT32_MAX / 2);
    user = user_new(context, count);
    *machines = calloc(count + 1, sizeof(struct machine *));
    if (user == NULL || *machines == NULL) {
        result = error_set(PAMI_ENOMEM, "%s: out of memory", function);
    } else {
        user->group = geometry_group(geometry_world(context->core), context);
        result = read_parts(function, argument, context, parts, count, user, *machines);
    }
    if (result == PAMI_SUCCESS && user->group == NULL)
        result = error_set(PAMI_ENOMEM, "%s: out of memory", function);
    if (result != PAMI_SUCCESS) {
        free(user);
        free(*machines);
        return result;
    }
    *made = user;
    return PAMI_SUCCESS;
}

static pami_result_t finish_composition(const char *function, struct user *user,
                                        struct machine **machines, struct machine *inner,
                                        pamix_machine_t *handle)
{
    free(machines);
    if (inner == NULL) {
        free(user);
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

static int bind_segment(void *cookie, struct machine *stage, uint32_t index)
{
    struct user *user = cookie;

    (void)stage;
    return user->segment(user->parts[index % user->count], index, user->segment_cookie) ==
                   PAMI_SUCCESS
               ? 0
               : -EINVAL;
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
    pipeline_set_segments(user->inner, (uint32_t)segments);
    /* Every stage has a machine before numbers are reserved. */
    for (size_t i = 0; i < user->count && i < segments; i++) {
        pami_result_t result = user->segment(user->parts[i], i, user->segment_cookie);

        if (result != PAMI_SUCCESS)
            return result;
    }
    return PAMI_SUCCESS;
}

/* ---- all ---- */

static void started_done(struct machine *machine, pami_result_t result)
{
    struct user *user = machine->cookie;

    user->running = false;
    context_keep(user->context, user->fn, user->cookie, result);
}

pami_result_t PAMIX_Machine_start(pamix_machine_t handle, pami_event_function fn, void *cookie)
{
    struct user *user = user_from_handle("PAMIX_Machine_start", handle);
    struct machine *machine;

    if (user == NULL)
        return PAMI_INVAL;
    if (user->owned)
        return error_set(PAMI_INVAL, "PAMIX_Machine_start: machine: is part of a composition");
    if (user->running)
        return error_set(PAMI_EAGAIN, "PAMIX_Machine_start: machine: it runs");
    if (user->inner == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Machine_start: machine: has no arguments");
    if (context_promise(user->context, fn, NULL) != 0)
        return error_set(PAMI_ENOMEM, "PAMIX_Machine_start: out of memory");
    machine = machine_of(user);
    machine->done = started_done;
    machine->cookie = user;
    user->running = true;
    user->fn = fn;
    user->cookie = cookie;
    machine->ops->start(machine);
    return PAMI_SUCCESS;
}

/* Handles of compositions inside this one; simple ones go with their machines. */
static void free_parts(struct user *user)
{
    for (size_t i = 0; i < user->count; i++) {
        struct user *part = user->parts[i];

        if (part->algorithm != PAMI_ALGORITHM_NULL)
            continue;
        free_parts(part);
        part->magic = 0;
        free(part);
    }
}

pami_result_t PAMIX_Machine_destroy(pamix_machine_t *handle)
{
    struct user *user = user_from_handle("PAMIX_Machine_destroy", handle != NULL ? *handle : NULL);

    if (user == NULL)
        return PAMI_INVAL;
    if (user->owned)
        return error_set(PAMI_INVAL, "PAMIX_Machine_destroy: machine: is part of a composition");
    if (user->running)
        return error_set(PAMI_EAGAIN, "PAMIX_Machine_destroy: machine: it runs");
    *handle = NULL;
    if (user->algorithm != PAMI_ALGORITHM_NULL) {
        simple_release(&user->simple);
        return PAMI_SUCCESS;
    }
    free_parts(user);
    user->inner->ops->release(user->inner);
    user->magic = 0;
    free(user);
    return PAMI_SUCCESS;
}
