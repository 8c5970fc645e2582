/*
 * The life of a run: machines made from schedules. Stepping through phases is in step.c, where data
 * lies in stage.c. See engine.h.
 *
 * A run fails as a whole. It then tells the members that still wait for it, which fail as well: so
 * everybody who needs a member that has died learns of it, also over others that need it too, and
 * who does not need it completes. Messages for a run that has ended are dropped.
 */
#include "coll/engine.h"

#include <errno.h>
#include <stdlib.h>

#include "coll/aside.h"
#include "coll/flow.h"
#include "coll/gone.h"
#include "util/error.h"
#include "util/option.h"

static struct instance *instance_of(struct machine *machine)
{
    return container_of(machine, struct instance, machine);
}

/* ---- arguments to shapes ---- */

static uint64_t whole_elements(uint64_t bytes, uint32_t element)
{
    uint64_t rest = bytes % element;

    if (bytes < element)
        return element;
    return bytes - rest;
}

/* Halves are of each message, which a schedule knows. */
static uint64_t segment_of(const struct algorithm *row, const struct collective *collective)
{
    uint64_t bytes = row->segment;

    if (bytes == SEGMENT_WHOLE || bytes == SEGMENT_DYNAMIC)
        return bytes;
    if (bytes == SEGMENT_STATIC)
        bytes = option_bytes(OPT_COLL_SEGMENT);
    return whole_elements(bytes, collective->element);
}

/* Whether blocks follow one another: equal ones with sizes may not fill their places. */
static bool is_dense(const struct area_map *map, const uint64_t *sizes)
{
    return map->blocks < BLOCKS_LISTED && (map->blocks != BLOCKS_EQUAL || sizes == NULL);
}

static void shape_fill(struct shape *shape, const struct algorithm *row, const struct group *group,
                       const struct collective *collective)
{
    *shape = (struct shape){
        .rank = group->rank,
        .size = group->size,
        .root = collective->root,
        .bytes = collective->bytes,
        .send_bytes = collective->send_bytes,
        .recv_bytes = collective->recv_bytes,
        .own_bytes = collective->own_bytes,
        .dense = is_dense(&collective->send, collective->send_bytes) &&
                 is_dense(&collective->recv, collective->recv_bytes),
        .commutative = collective->commutative,
        .exclusive = collective->exclusive,
        .in_place = collective->in_place,
        .receives = collective->receives,
        .element = collective->element,
        .radix = row->radix,
        .segment = segment_of(row, collective),
        .window = row->window,
    };
}

/* What all members must agree on, as far as all of them know it. */
static uint32_t check_of(const struct algorithm *row, const struct collective *collective)
{
    uint64_t digest = (uint64_t)(row - algorithm_table) + 1;

    digest = digest * UINT64_C(0x100000001b3) ^ collective->bytes;
    digest = digest * UINT64_C(0x100000001b3) ^ collective->root;
    digest = digest * UINT64_C(0x100000001b3) ^ collective->agreed;
    digest *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(digest >> 32) & FLIGHT_CHECK_MASK;
}

/* ---- reset ---- */

/* All but the scratch, which the next run may want. */
static void drop_slots(struct instance *instance)
{
    if (instance->slots != instance->first_slots)
        free(instance->slots);
    instance->slots = instance->first_slots;
    free(instance->text);
    instance->text = NULL;
}

static void drop_memory(struct instance *instance)
{
    drop_slots(instance);
    stage_drop(instance);
}

static int make_slots(struct instance *instance)
{
    uint32_t window = instance->shape.window != 0 ? instance->shape.window : ENGINE_WINDOW;
    uint32_t slots = ENGINE_WINDOW;

    if (window > instance->phases)
        window = instance->phases;
    while (slots < window)
        slots *= 2;
    instance->mask = slots - 1;
    if (slots > ENGINE_WINDOW) {
        instance->slots = malloc(slots * sizeof(struct slot));
        if (instance->slots == NULL) {
            instance->slots = instance->first_slots;
            return -ENOMEM;
        }
    }
    return 0;
}

static int reset(struct machine *machine, struct collective *given)
{
    struct instance *instance = instance_of(machine);
    int error;

    if (instance->running || instance->pending != 0) {
        collective_release(given);
        return -EBUSY;
    }
    collective_release(&instance->collective);
    drop_slots(instance);
    instance->collective = *given;
    shape_fill(&instance->shape, instance->algorithm, machine->group, &instance->collective);
    instance->shape.mark = &instance->mark;
    instance->check = check_of(instance->algorithm, &instance->collective);
    instance->phases = instance->algorithm->schedule->prepare(&instance->shape);
    error = make_slots(instance);
    if (error == 0)
        error = stage_prepare(instance);
    return error;
}

static const struct machine_ops engine_ops;

int engine_make(struct group *group, const struct algorithm *row, struct collective *collective,
                struct machine **machine)
{
    struct coll *coll = group->context->coll;
    struct instance *instance = pool_get(&coll->instances);
    int error;

    if (instance == NULL) {
        collective_release(collective);
        return -ENOMEM;
    }
    machine_init(&instance->machine, &engine_ops, group);
    instance->coll = coll;
    instance->algorithm = row;
    instance->running = false;
    instance->stepping = false;
    instance->released = instance->ending = false;
    instance->pending = instance->held = 0;
    instance->slots = instance->first_slots;
    instance->scratch = NULL;
    instance->scratch_bytes = 0;
    instance->text = NULL;
    instance->collective.lists = NULL;
    instance->collective.send.type = NULL;
    instance->collective.recv.type = NULL;
    list_init(&instance->link);
    list_init(&instance->handed);
    list_init(&instance->copying);
    instance->aside = NULL;
    error = reset(&instance->machine, collective);
    if (error != 0) {
        instance->machine.ops->release(&instance->machine);
        return error;
    }
    *machine = &instance->machine;
    return 0;
}

static void instance_free(struct instance *instance)
{
    struct coll *coll = instance->coll;

    list_remove(&instance->link);
    list_remove(&instance->handed);
    machine_release_numbers(&instance->machine);
    collective_release(&instance->collective);
    drop_memory(instance);
    pool_put(&coll->instances, instance);
    if (unlikely(coll->kept != NULL) && list_empty(&coll->lingering)) {
        flow_memory_free(&coll->context->stash, coll->kept);
        coll->kept = NULL;
    }
}

static void release(struct machine *machine)
{
    struct instance *instance = instance_of(machine);

    if (unlikely(instance->running)) {
        list_remove(&instance->handed);
        aside_drop(instance);
        flight_drop(&instance->coll->flights, &instance->flight);
        instance->running = false;
    }
    list_remove(&instance->link);
    instance->released = true;
    if (instance->pending == 0)
        instance_free(instance);
    else
        list_push_back(&instance->coll->lingering, &instance->link);
}

static void over(struct instance *instance)
{
    coll_ends(instance->machine.group);
    instance->machine.done(&instance->machine, instance->result);
}

void engine_settle(struct instance *instance)
{
    if (instance->released) {
        if (instance->pending == 0)
            instance_free(instance);
    } else if (instance->ending && instance->held == 0) {
        instance->ending = false;
        list_remove(&instance->link);
        error_recall(instance->text);
        instance->text = NULL;
        over(instance);
    }
}

/* ---- running ---- */

static void name_flight(struct instance *instance)
{
    struct machine *machine = &instance->machine;

    instance->flight.identity = machine->group->identity;
    instance->flight.channel = machine->group->channel;
    instance->flight.sequence = machine_number(machine);
    instance->flight.instance = instance;
    instance->mark = (struct shape_mark){0};
    instance->complete = 0;
    instance->filled = 0;
    instance->send_next = 0;
    instance->recv_next = 0;
    instance->failed = instance->disagrees = false;
    instance->doubt = (struct doubt){0, 0};
    instance->over = 0;
    instance->result = PAMI_SUCCESS;
}

/* What came early is of the same collective? */
static bool early_agree(const struct instance *instance)
{
    struct list *item;

    list_for_each (item, &instance->flight.early) {
        const struct early *early = list_entry(item, struct early, link);

        if (((early->word ^ instance->check) & FLIGHT_CHECK_MASK) != 0)
            return false;
    }
    return true;
}

/* All that have been handed over, among them what ends while others begin. */
static int begin_handed(struct retry *retry, struct context *context)
{
    struct coll *coll = container_of(retry, struct coll, begin);
    struct list *item;
    int events = 0;

    (void)context;
    for (; (item = list_pop_front(&coll->handed)) != NULL; events++)
        step(list_entry(item, struct instance, handed));
    list_remove(&retry->link);
    return events;
}

/* The first step of a large one may copy much: messages that have come before it. */
static bool hand_over(struct instance *instance)
{
    const struct collective *collective = &instance->collective;
    struct coll *coll = instance->coll;
    uint64_t bytes = collective->bytes + collective->own_bytes;

    if (likely(!context_shared(coll->context)))
        return false;
    for (uint32_t i = 0; collective->recv_bytes != NULL && i < instance->shape.size; i++)
        bytes += collective->recv_bytes[i];
    if (!context_hands_over(coll->context, bytes))
        return false;
    list_push_back(&coll->handed, &instance->handed);
    coll->begin.run = begin_handed;
    if (list_empty(&coll->begin.link))
        list_push_back(&coll->context->retries, &coll->begin.link);
    return true;
}

static void start(struct machine *machine)
{
    struct instance *instance = instance_of(machine);

    name_flight(instance);
    if (unlikely(instance->coll->context->trace != NULL))
        trace_add(instance->coll->context, TRACE_BEGIN, instance->algorithm->name, 0,
                  (uintptr_t)instance, 0, instance->collective.bytes);
    instance->running = true;
    instance->coll->rows->ran[instance->algorithm - algorithm_table]++;
    coll_runs(machine->group);
    flight_begin(&instance->coll->flights, &instance->flight);
    list_push_back(&instance->coll->running, &instance->link);
    stage_begin(instance);
    if (unlikely(instance->flight.aborted))
        engine_fail(instance, engine_aborted(machine->group, instance->flight.disagrees));
    else if (unlikely(!list_empty(&instance->flight.early)) && !early_agree(instance))
        engine_disagree(instance, error_set(PAMI_INVAL,
                                            "%s: members called it with different arguments "
                                            "or algorithms",
                                            instance->algorithm->name));
    else if (!hand_over(instance))
        step(instance);
}

pami_result_t engine_aborted(const struct group *group, bool disagrees)
{
    if (disagrees)
        return error_set(PAMI_INVAL, "members called the collective with different arguments or "
                                     "algorithms");
    return gone_error(group, "a member has given it up");
}

/* Who waits for whom is not known: all are told. */
static void abort_all(const struct instance *instance)
{
    coll_tells(instance->machine.group, instance->flight.sequence);
    flight_abort_all(instance->machine.group, instance->flight.sequence, PAMI_INVAL);
}

void engine_end(struct instance *instance)
{
    size_t unwanted;

    instance->running = false;
    list_remove(&instance->link);
    list_remove(&instance->handed);
    aside_drop(instance);
    if (unlikely(instance->coll->context->trace != NULL))
        trace_add(instance->coll->context, TRACE_END, instance->algorithm->name, 0,
                  (uintptr_t)instance, 0, 0);
    if (unlikely(instance->failed)) {
        coll_failed(instance->machine.group, instance->flight.sequence, instance->result);
        if (instance->disagrees)
            abort_all(instance);
        else
            step_abort(instance);
        step_let_go(instance);
    } else {
        stage_end(instance);
    }
    unwanted = flight_end(&instance->coll->flights, &instance->flight);
    if (unlikely(unwanted != 0 && instance->result == PAMI_SUCCESS)) {
        instance->result = error_set(PAMI_INVAL, "%s: members sent more than was expected",
                                     instance->algorithm->name);
        abort_all(instance);
    }
    /* The user may free the buffers when it knows of the error. */
    if (unlikely(instance->held != 0)) {
        instance->ending = true;
        instance->text = error_copy();
        list_push_back(&instance->coll->lingering, &instance->link);
        return;
    }
    over(instance);
}

void engine_fail(struct instance *instance, pami_result_t result)
{
    if (instance->failed)
        return;
    instance->failed = true;
    instance->result = result;
    if (result == PAMI_ERROR)
        gone_look(instance->machine.group);
    if (!instance->stepping)
        engine_end(instance);
}

void engine_disagree(struct instance *instance, pami_result_t result)
{
    instance->disagrees = instance->disagrees || !instance->failed;
    engine_fail(instance, result);
}

/* Who has found out that members disagree tells all of them about each part, and who has it from
 * others only those that wait for it. */
static bool tells_all(const struct machine *machine, uint32_t sequence, pami_result_t result)
{
    const struct coll_state *state = machine->group->state->top->state;

    return result == PAMI_INVAL && (machine->step == GROUP_BLOCK ||
                                    (state->has_told && (sequence ^ state->told) < GROUP_BLOCK));
}

static void give_up(struct machine *machine, pami_result_t result)
{
    struct instance *instance = instance_of(machine);

    if (instance->ending)
        return;
    if (instance->running) {
        if (tells_all(machine, instance->flight.sequence, result))
            engine_disagree(instance, result);
        else
            engine_fail(instance, result);
        return;
    }
    name_flight(instance);
    instance->result = result;
    coll_failed(machine->group, instance->flight.sequence, result);
    if (tells_all(machine, instance->flight.sequence, result))
        abort_all(instance);
    else
        step_abort(instance);
    /* What has come for it already is not wanted. */
    flight_begin(&instance->coll->flights, &instance->flight);
    flight_end(&instance->coll->flights, &instance->flight);
}

void engine_gone(struct coll *coll, uint32_t endpoint)
{
    struct list *item;
    bool found;

    /* A failing run may start others and end others: look again from the start. */
    do {
        found = false;
        list_for_each (item, &coll->running) {
            struct instance *instance = list_entry(item, struct instance, link);

            if (!instance->failed && step_misses(instance, endpoint)) {
                engine_fail(instance, gone_found(coll->context, endpoint));
                found = true;
                break;
            }
        }
    } while (found);
}

void engine_drop_all(struct coll *coll)
{
    struct list *item;

    list_splice_back(&coll->running, &coll->lingering);
    while ((item = list_pop_front(&coll->running)) != NULL) {
        struct instance *instance = list_entry(item, struct instance, link);

        collective_release(&instance->collective);
        drop_memory(instance);
    }
}

static bool repeats(const struct machine *machine)
{
    const struct instance *instance =
        (const struct instance *)((const char *)machine - offsetof(struct instance, machine));
    uint64_t bytes = instance->scratch_bytes;

    if (instance->slots != instance->first_slots)
        bytes += (instance->mask + 1) * sizeof(struct slot);
    return instance->pending == 0 && bytes <= REPEAT_BYTES;
}

static const struct machine_ops engine_ops = {
    .reset = reset,
    .reserve = machine_reserve,
    .start = start,
    .release = release,
    .give_up = give_up,
    .repeats = repeats,
};
