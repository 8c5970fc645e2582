/*
 * PAMI_Collective: from the user's call to a machine that runs.
 */
#include "coll/collective.h"

#include "coll/algorithm.h"
#include "coll/am.h"
#include "coll/coll.h"
#include "coll/handle.h"
#include "coll/machine.h"
#include "coll/report.h"
#include "coll/select.h"
#include "coll/shared/shared.h"
#include "util/error.h"

/* Members may have disagreed about how many parts it has: those of others are over here. */
static void clean_up(const struct coll_operation *operation, const struct machine *machine,
                     pami_result_t why)
{
    const struct group *group = machine->group;
    pami_xfer_type_t type = operation->row->type;
    bool counts =
        (type == PAMI_XFER_ALLREDUCE || type == PAMI_XFER_BARRIER) && !shared_run_is(machine);

    shared_skip(operation->context->shared, group->identity, operation->number + GROUP_BLOCK,
                why == PAMI_INVAL ? PAMI_INVAL : PAMI_ERROR, counts);
    flight_sweep(&operation->context->coll->flights, group->identity);
}

/* Something waits that came for a flight which has not begun here. */
static void look_at_flight(struct group *group, uint64_t number)
{
    struct flight_table *flights = &group->context->coll->flights;

    if (unlikely(flights->waiting != 0))
        flight_look(flights, group, (uint32_t)number);
}

HOT static void operation_done(struct machine *machine, pami_result_t result)
{
    struct coll_operation *operation = machine->cookie;
    struct context *context = operation->context;

    if (unlikely(context->trace != NULL))
        trace_add(context, TRACE_END, collective_name(operation->row->type), 0,
                  (uintptr_t)operation, 0, 0);
    context_keep(context, operation->cb_done, operation->cookie, result);
    list_remove(&operation->link);
    if (unlikely(result != PAMI_SUCCESS))
        clean_up(operation, machine, result);
    else
        look_at_flight(machine->group, operation->number);
    if (likely(result == PAMI_SUCCESS) && repeat_keep(context->coll, operation))
        return;
    pool_put(&context->coll->operations, operation);
    machine->ops->release(machine);
}

/* The context has no group of the geometry. */
static pami_result_t no_group(const char *function, struct geometry *geometry,
                              struct context *context)
{
    int state = atomic_load_explicit(&geometry->state, memory_order_acquire); /* G1 */

    if (state == GEOMETRY_FORMING)
        return error_set(PAMI_INVAL, "%s: algorithm: the creation of its geometry is not complete",
                         function);
    if (state == GEOMETRY_FAILED)
        return error_set(PAMI_INVAL, "%s: algorithm: the creation of its geometry has failed",
                         function);
    if (geometry_has_member(geometry, context))
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    return error_set(PAMI_INVAL,
                     "%s: context: endpoint %u is not a member of the algorithm's geometry",
                     function, context->endpoint);
}

struct group *coll_group_of(const char *function, struct context *context, pami_algorithm_t handle,
                            pami_result_t *result)
{
    struct coll *coll = context->coll;
    struct geometry *geometry;
    struct group *group;

    if (likely(handle == coll->last_handle && handle != PAMI_ALGORITHM_NULL))
        return coll->last_group;
    geometry = algorithm_handle_geometry(handle);
    if (geometry == NULL) {
        *result = error_set(PAMI_INVAL, "%s: algorithm: %#zx is not an algorithm of a geometry",
                            function, handle);
        return NULL;
    }
    group = geometry_group(geometry, context);
    if (group == NULL) {
        *result = no_group(function, geometry, context);
        return NULL;
    }
    coll->last_handle = handle;
    coll->last_group = group;
    return group;
}

static pami_result_t needs_more(const struct algorithm *row, unsigned unmet)
{
    char needs[REPORT_NEEDS_MAX];

    report_needs(unmet, needs, sizeof(needs));
    return error_set(PAMI_INVAL, "PAMI_Collective: algorithm: %s %s", row->name, needs);
}

/* The row to run: the one that was asked for, or the best one. */
static pami_result_t row_of(const struct group *group, pami_algorithm_t handle,
                            const struct collective *collective, const struct algorithm **row)
{
    unsigned unmet;

    *row = algorithm_handle_row(handle);
    if (*row == NULL) {
        *row = select_row(&group->context->coll->rows->select, group, collective);
        return PAMI_SUCCESS;
    }
    unmet = (*row)->needs != 0 ? algorithm_unmet(*row, collective, group) : 0;
    return unmet == 0 ? PAMI_SUCCESS : needs_more(*row, unmet);
}

HOT static void run(struct coll_operation *operation, const pami_xfer_t *cmd)
{
    struct machine *machine = operation->machine;
    struct group *group = machine->group;
    struct context *context = group->context;
    struct coll *coll = context->coll;
    uint64_t number = group->sequence;

    context_promise(context, cmd->cb_done, NULL); /* room was reserved */
    operation->cb_done = cmd->cb_done;
    operation->cookie = cmd->cookie;
    if (unlikely(context->trace != NULL))
        trace_add(context, TRACE_BEGIN, collective_name(operation->row->type), 0,
                  (uintptr_t)operation, 0, operation->bytes);
    operation->number = number;
    operation->gave_up = false;
    if (likely(operation->ran != NULL))
        ++*operation->ran;
    list_push_back(&coll->started, &operation->link);
    machine->ops->start(machine);
    look_at_flight(group, number);
}

static pami_result_t make(struct group *group, const struct algorithm *row,
                          struct collective *collective, const pami_xfer_t *cmd, uint32_t print)
{
    struct coll *coll = group->context->coll;
    struct coll_operation *operation = pool_get(&coll->operations);
    struct machine *machine;

    if (unlikely(operation == NULL)) {
        collective_release(collective);
        return error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory");
    }
    operation->bytes = collective->bytes;
    if (unlikely(machine_make(group, row, collective, &machine) != 0)) {
        pool_put(&coll->operations, operation);
        return error_set(PAMI_ENOMEM, "PAMI_Collective: %s: out of memory", row->name);
    }
    operation->machine = machine;
    operation->context = group->context;
    operation->row = row;
    operation->ran = row->make != NULL ? &coll->rows->ran[row - algorithm_table] : NULL;
    machine->done = operation_done;
    machine->cookie = operation;
    repeat_note(operation, cmd, collective, print);
    run(operation, cmd);
    return PAMI_SUCCESS;
}

/* One that is not the same as an earlier one. */
static pami_result_t run_new(struct context *context, const pami_xfer_t *cmd, uint32_t print)
{
    const struct algorithm *row;
    struct collective collective;
    struct group *group;
    pami_xfer_type_t type;
    pami_result_t result = PAMI_INVAL;

    group = coll_group_of("PAMI_Collective", context, cmd->algorithm, &result);
    if (unlikely(group == NULL))
        return result;
    type = algorithm_handle_type(cmd->algorithm);
    if (unlikely(type >= PAMI_XFER_AMBROADCAST))
        return am_collective(group, type, cmd);
    result = collective_read(&collective, type, group, &cmd->cmd);
    if (unlikely(result != PAMI_SUCCESS))
        return result;
    result = row_of(group, cmd->algorithm, &collective, &row);
    if (unlikely(result != PAMI_SUCCESS)) {
        collective_release(&collective);
        return result;
    }
    return make(group, row, &collective, cmd, print);
}

HOT pami_result_t PAMI_Collective(pami_context_t handle, pami_xfer_t *cmd)
{
    struct context *context = context_from_handle(handle);
    struct coll_operation *operation;
    uint32_t print;

    if (unlikely(context == NULL))
        return error_set(PAMI_INVAL, "PAMI_Collective: context: %s", context_fault(handle));
    misuse_check(context, "PAMI_Collective");
    if (unlikely(cmd == NULL))
        return error_set(PAMI_INVAL, "PAMI_Collective: cmd: NULL");
    if (unlikely(completion_reserve(&context->completions, 1) != 0))
        return error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory");
    operation = repeat_take(context->coll, cmd, &print);
    if (likely(operation != NULL)) {
        if (operation->machine->ops->hurry != NULL)
            operation->machine->ops->hurry(operation->machine);
        run(operation, cmd);
        return PAMI_SUCCESS;
    }
    return run_new(context, cmd, print);
}

pami_result_t PAMI_AMCollective_dispatch_set(pami_context_t handle, pami_algorithm_t algorithm,
                                             size_t dispatch, pami_dispatch_callback_function fn,
                                             void *cookie, pami_collective_hint_t options)
{
    static const char function[] = "PAMI_AMCollective_dispatch_set";
    struct context *context = context_from_handle(handle);
    struct group *group;
    pami_result_t result = PAMI_INVAL;

    (void)options; /* soft */
    if (context == NULL)
        return error_set(PAMI_INVAL, "%s: context: %s", function, context_fault(handle));
    misuse_check(context, function);
    group = coll_group_of(function, context, algorithm, &result);
    if (group == NULL)
        return result;
    if (algorithm_handle_type(algorithm) < PAMI_XFER_AMBROADCAST)
        return error_set(PAMI_INVAL, "%s: algorithm: not one of active-message collectives",
                         function);
    if (fn.ambroadcast == NULL)
        return error_set(PAMI_INVAL, "%s: fn: NULL", function);
    if (am_set(group, dispatch, fn, cookie) != 0)
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    return PAMI_SUCCESS;
}
