/*
 * What machines of every kind share: their numbers, making them from rows, sub-groups.
 */
#include "coll/machine.h"

#include <errno.h>
#include <stdlib.h>

#include "coll/aggregate/aggregate.h"
#include "coll/algorithm.h"
#include "coll/am.h"
#include "coll/ask.h"
#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/engine.h"
#include "coll/flow.h"
#include "coll/gone.h"
#include "coll/levels.h"
#include "coll/shared/arena.h"
#include "coll/ticket.h"
#include "util/log.h"
#include "util/option.h"

/* ---- numbers ---- */

bool group_block_begin(struct group *group)
{
    struct group *top = group->state->top;
    struct coll_state *state = top->state;

    if (state->in_block)
        return false;
    state->in_block = true;
    state->block = top->sequence;
    for (uint32_t i = 1; i < GROUP_CHANNELS; i++)
        if (state->subs[i] != NULL && state->subs[i]->sequence < top->sequence)
            state->subs[i]->sequence = top->sequence;
    return true;
}

void group_block_end(struct group *group)
{
    struct group *top = group->state->top;

    top->state->in_block = false;
    if (top->sequence == top->state->block)
        top->sequence++;
    top->sequence = (top->sequence + GROUP_BLOCK - 1) / GROUP_BLOCK * GROUP_BLOCK;
}

void group_block_cancel(struct group *group, uint64_t first)
{
    group->state->top->state->in_block = false;
    group->state->top->sequence = first;
}

void machine_reserve_at(struct machine *machine, uint64_t number)
{
    struct group *group = machine->group;
    uint64_t next = group->sequence;

    group->state->in_block = true;
    group->state->block = group->sequence = number;
    machine->ops->reserve(machine, 1);
    group->state->in_block = false;
    group->sequence = next;
}

HOT void machine_reserve(struct machine *machine, uint32_t runs)
{
    struct group *group = machine->group;

    machine->step = group->channel != 0 || group->state->in_block ? 1 : GROUP_BLOCK;
    machine->sequence = group->sequence;
    machine->numbers = runs;
    group->sequence += (uint64_t)runs * machine->step;
    if (runs != 0 && list_empty(&machine->reserved))
        list_push_back(&machine->group->state->reserved, &machine->reserved);
}

HOT uint32_t machine_number(struct machine *machine)
{
    struct group *group = machine->group;
    uint64_t number = machine->sequence;

    if (likely(machine->numbers == 0)) {
        number = group->sequence;
        group->sequence += GROUP_BLOCK;
        return (uint32_t)number;
    }
    if (--machine->numbers == 0)
        list_remove(&machine->reserved);
    machine->sequence += machine->step;
    return (uint32_t)number;
}

void machine_release_numbers(struct machine *machine)
{
    machine->numbers = 0;
    list_remove(&machine->reserved);
}

/* ---- making ---- */

int machine_make(struct group *group, const struct algorithm *row, struct collective *collective,
                 struct machine **machine)
{
    if (row->make != NULL)
        return row->make(group, row, collective, machine);
    return engine_make(group, row, collective, machine);
}

/* ---- sub-groups ---- */

struct group_sub {
    struct group group;
    struct topology topology;
};

static int list_members(const struct group *parent, const uint32_t *ranks, uint32_t count,
                        struct topology *topology)
{
    uint32_t *endpoints = calloc(count, sizeof(*endpoints));
    int error = endpoints != NULL ? 0 : -ENOMEM;

    for (uint32_t i = 0; i < count && error == 0; i++) {
        error = ranks[i] < parent->size ? 0 : -EINVAL;
        if (error == 0)
            endpoints[i] = topology_endpoint(parent->topology, ranks[i]);
    }
    if (error == 0)
        error = topology_init_list(topology, endpoints, count);
    free(endpoints);
    return error == -EEXIST ? -EINVAL : error;
}

static void sub_free(struct group_sub *sub)
{
    if (sub->group.state != NULL)
        levels_free(sub->group.state->levels);
    topology_finish(&sub->topology);
    free(sub->group.state);
    free(sub);
}

void group_drop_sub(struct group *group)
{
    if (group == NULL)
        return;
    group->state->top->state->subs[group->channel] = NULL;
    sub_free(container_of(group, struct group_sub, group));
}

/* `topology` is taken over, also on error. */
static int make_sub(struct group *parent, uint32_t channel, struct topology *topology,
                    struct group **group)
{
    struct coll_state *top = parent->state->top->state;
    uint32_t own = topology_rank(topology, parent->context->endpoint);
    struct group_sub *sub = calloc(1, sizeof(*sub));
    struct coll_state *state = calloc(1, sizeof(*state));

    if (sub == NULL || state == NULL || own == TOPOLOGY_NO_RANK) {
        int error = own == TOPOLOGY_NO_RANK ? -EINVAL : -ENOMEM;

        topology_finish(topology);
        free(sub);
        free(state);
        return error;
    }
    list_init(&state->reserved);
    list_init(&state->tickets);
    state->parent = parent->state;
    state->top = parent->state->top;
    sub->topology = *topology;
    sub->group.state = state;
    sub->group.geometry = parent->geometry;
    sub->group.context = parent->context;
    sub->group.topology = &sub->topology;
    sub->group.rank = own;
    sub->group.size = topology->size;
    sub->group.identity = parent->identity;
    sub->group.channel = channel;
    top->subs[channel] = &sub->group;
    *group = &sub->group;
    return 0;
}

static int check_sub(const struct group *parent, uint32_t channel, uint32_t count)
{
    if (channel == 0 || channel >= GROUP_CHANNELS || count == 0)
        return -EINVAL;
    return parent->state->top->state->subs[channel] != NULL ? -EEXIST : 0;
}

int group_make_sub(struct group *parent, uint32_t channel, const uint32_t *ranks, uint32_t count,
                   struct group **group)
{
    struct topology topology;
    int error = check_sub(parent, channel, count);

    if (error == 0)
        error = list_members(parent, ranks, count, &topology);
    return error != 0 ? error : make_sub(parent, channel, &topology, group);
}

int group_make_sub_evenly(struct group *parent, uint32_t channel, uint32_t first, uint32_t step,
                          uint32_t count, struct group **group)
{
    struct topology topology;
    uint32_t *ranks;
    int error = check_sub(parent, channel, count);

    if (error != 0)
        return error;
    if (topology_init_part(&topology, parent->topology, first, step, count))
        return make_sub(parent, channel, &topology, group);
    ranks = calloc(count, sizeof(*ranks));
    for (uint32_t i = 0; ranks != NULL && i < count; i++)
        ranks[i] = first + i * step;
    error = ranks != NULL ? group_make_sub(parent, channel, ranks, count, group) : -ENOMEM;
    free(ranks);
    return error;
}

/* ---- groups come and go ---- */

static int group_opened(struct group *group)
{
    struct coll *coll = group->context->coll;
    const struct client_core *core = group->context->core;
    bool warn = core->task == 0 && group->context->offset == 0; /* others would only repeat it */
    struct locality locality;

    if (coll->rows == NULL) {
        coll->rows = calloc(1, sizeof(*coll->rows));
        if (coll->rows == NULL)
            return -ENOMEM;
        debts_init(&coll->rows->debts);
        if (select_table_init(&coll->rows->select, core->choices, warn) != 0) {
            free(coll->rows);
            coll->rows = NULL;
            return -ENOMEM;
        }
        if (locality_read(&locality, core) != 0 && warn)
            log_warn("%s: '%s' is no list of levels, each inside the one before, of node, package, "
                     "numa, cache, core, with counts for all if node has one; taking node",
                     option_info(OPT_COLL_LEVELS)->name, option_string(OPT_COLL_LEVELS));
    }
    group->state = calloc(1, sizeof(*group->state));
    if (group->state == NULL)
        return -ENOMEM;
    list_init(&group->state->reserved);
    list_init(&group->state->tickets);
    list_init(&group->state->terms);
    group->state->top = group;
    am_group_opened(group);
    if (geometry_attribute(group->geometry, GEOMETRY_OPTIMIZE) != 0)
        aggregate_group_optimise(group, true);
    return 0;
}

/* The context ends while collectives run. */
static void drop_operations(struct coll *coll, const struct group *group)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &coll->started) {
        struct coll_operation *operation = list_entry(item, struct coll_operation, link);

        if (operation->machine->group != group)
            continue;
        list_remove(item);
        operation->machine->ops->release(operation->machine);
        pool_put(&coll->operations, operation);
    }
}

static void group_closed(struct group *group)
{
    struct coll *coll = group->context->coll;
    struct coll_state *state = group->state;

    if (state == NULL)
        return;
    if (coll != NULL) {
        coll->last_handle = PAMI_ALGORITHM_NULL;
        drop_operations(coll, group);
        aggregate_group_closed(group);
        repeat_forget(coll, group);
        flow_forget(coll, group->identity, false);
        am_group_closed(group);
        arena_group_closed(group->context->shared, group->identity);
        flight_forget(&coll->flights, group->identity);
    }
    for (uint32_t i = 1; i < GROUP_CHANNELS; i++)
        if (state->subs[i] != NULL)
            sub_free(container_of(state->subs[i], struct group_sub, group));
    levels_free(state->levels);
    free(state);
    group->state = NULL;
}

static bool group_busy(const struct group *group)
{
    return group->state != NULL && group->state->runs != 0;
}

const struct geometry_hooks coll_geometry_hooks = {
    .group_opened = group_opened,
    .group_closed = group_closed,
    .group_busy = group_busy,
    .group_optimise = aggregate_group_optimise,
};

HOT void coll_runs(struct group *group)
{
    for (struct coll_state *state = group->state; state != NULL; state = state->parent)
        state->runs++;
}

HOT void coll_ends(struct group *group)
{
    for (struct coll_state *state = group->state; state != NULL; state = state->parent)
        state->runs--;
}

void coll_tells(struct group *group, uint32_t sequence)
{
    group->state->top->state->told = sequence;
    group->state->top->state->has_told = true;
}

static uint64_t next_number(const struct group *group)
{
    const struct group *top = group->state->top;

    return top->sequence > group->sequence ? top->sequence : group->sequence;
}

/* Of a run here, as messages have it. What has failed is remembered for more than 2^32 numbers. */
static uint64_t whole_number(const struct group *group, uint32_t sequence)
{
    uint64_t next = next_number(group);

    return next + (uint64_t)(int64_t)(int32_t)(sequence - (uint32_t)next);
}

void coll_failed(struct group *group, uint32_t sequence, pami_result_t why)
{
    struct coll_state *state = group->state;
    uint64_t number = whole_number(group, sequence);

    group->context->coll->news++;
    if (state->has_failed && number < state->failed)
        return;
    state->failed = number;
    state->failure = why == PAMI_INVAL ? PAMI_INVAL : PAMI_ERROR;
    state->has_failed = true;
}

pami_result_t coll_why_over(const struct group *group, uint32_t sequence)
{
    const struct coll_state *state = group->state;
    uint64_t last = state->failed | (GROUP_BLOCK - 1); /* of the same collective */

    return state->has_failed && last >= whole_number(group, sequence) ? state->failure
                                                                      : PAMI_SUCCESS;
}

struct group *coll_group_at(struct context *context, uint64_t identity, uint32_t channel,
                            uint32_t sequence)
{
    struct group *top = geometry_find(context, identity);
    struct group *group = top;

    if (top == NULL || channel >= GROUP_CHANNELS)
        return NULL;
    if (channel != 0 && top->state->subs[channel] != NULL)
        group = top->state->subs[channel];
    if ((int32_t)(sequence - (uint32_t)next_number(group)) >= 0)
        return NULL;
    return group;
}

struct machine *coll_reserved(const struct group *group, uint32_t channel, uint32_t sequence)
{
    struct list *item;

    if (group->channel != channel)
        return NULL;
    list_for_each (item, &group->state->reserved) {
        struct machine *machine = list_entry(item, struct machine, reserved);
        uint32_t ahead = sequence - (uint32_t)machine->sequence;

        if (ahead % machine->step == 0 && ahead / machine->step < machine->numbers)
            return machine;
    }
    return tickets_find(&group->state->tickets, sequence);
}

static struct coll_operation *operation_of(const struct group *top, uint32_t sequence)
{
    struct list *item;

    list_for_each (item, &top->context->coll->started) {
        struct coll_operation *operation = list_entry(item, struct coll_operation, link);

        if (operation->machine->group == top &&
            ((uint32_t)operation->number ^ sequence) < GROUP_BLOCK)
            return operation;
    }
    return NULL;
}

static struct coll_block *block_of(const struct group *top, uint32_t sequence)
{
    struct list *item;

    list_for_each (item, &top->context->coll->blocks) {
        struct coll_block *block = list_entry(item, struct coll_block, link);

        if (block->group == top &&
            sequence - (uint32_t)block->first < (uint32_t)(block->end - block->first))
            return block;
    }
    return NULL;
}

static void give_up(struct group *group, struct machine *machine, uint32_t sequence,
                    uint64_t number, bool *gave_up, pami_result_t why)
{
    struct group *top = group->state->top;

    if (*gave_up)
        return;
    if (why == PAMI_INVAL) {
        *gave_up = true;
        coll_tells(top, sequence);
        flight_abort_all(top, (uint32_t)number, why);
    }
    machine->ops->give_up(machine, engine_aborted(group, why == PAMI_INVAL));
}

bool coll_give_up(struct group *group, uint32_t sequence, pami_result_t why)
{
    struct group *top = group->state->top;
    struct coll_operation *operation = operation_of(top, sequence);
    struct coll_block *block;

    if (operation != NULL) {
        give_up(group, operation->machine, sequence, operation->number, &operation->gave_up, why);
        return true;
    }
    block = block_of(top, sequence);
    if (block == NULL)
        return false;
    give_up(group, block->machine, sequence, block->first, &block->gave_up, why);
    return true;
}

/* ---- per context ---- */

static void gone(struct message_watch *watch, struct context *context, uint32_t endpoint)
{
    struct coll *coll = container_of(watch, struct coll, watch);

    gone_note(context, endpoint_task(endpoint) + 1);
    coll->news++;
    engine_gone(coll, endpoint);
    aggregate_gone(coll->aggregate, endpoint);
    shared_gone(context->shared, endpoint);
}

int coll_attach(struct context *context)
{
    struct coll *coll = calloc(1, sizeof(*coll));

    if (coll == NULL)
        return -ENOMEM;
    coll->context = context;
    coll->ask_ns = (uint64_t)(option_seconds(OPT_COLL_ASK) * 1e9);
    list_init(&coll->started);
    list_init(&coll->blocks);
    list_init(&coll->flows);
    list_init(&coll->running);
    list_init(&coll->handed);
    list_init(&coll->begin.link);
    list_init(&coll->aside);
    list_init(&coll->copy.link);
    list_init(&coll->lingering);
    if (flight_table_init(&coll->flights, context) != 0 ||
        (coll->aggregate = aggregate_attach(context)) == NULL || am_attach(context) != 0 ||
        shared_attach(context) != 0) {
        aggregate_detach(coll->aggregate);
        am_detach(context);
        flight_table_finish(&coll->flights);
        free(coll);
        return -ENOMEM;
    }
    pool_init(&coll->instances, sizeof(struct instance), CACHE_LINE);
    pool_init(&coll->operations, sizeof(struct coll_operation), 0);
    coll->watch.gone = gone;
    message_watch(context, &coll->watch);
    message_register(context, MESSAGE_COLLECTIVE, flight_arrive, &coll->flights);
    context->coll = coll;
    context->tended = ask_tended;
    return 0;
}

void coll_detach(struct context *context)
{
    struct coll *coll = context->coll;

    if (coll == NULL)
        return;
    context->tended = NULL;
    flow_forget(coll, 0, true);
    shared_detach(context);
    am_detach(context);
    aggregate_detach(coll->aggregate);
    list_remove(&coll->begin.link);
    list_remove(&coll->copy.link);
    list_remove(&coll->watch.link);
    engine_drop_all(coll);
    flow_memory_free(&context->stash, coll->kept);
    flight_table_finish(&coll->flights);
    pool_finish(&coll->instances);
    pool_finish(&coll->operations);
    if (coll->rows != NULL) {
        debts_finish(&coll->rows->debts);
        select_table_finish(&coll->rows->select);
    }
    free(coll->rows);
    free(coll);
    context->coll = NULL;
}
