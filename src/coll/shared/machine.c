/*
 * Running collectives in areas: ticks, waiting, the end; see shared.h.
 *
 * The machines of an area run one after the other. A machine that cannot go on leaves, and is
 * looked at again in the next pass: each look costs one line that its writer has not changed.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/shared/shared.h"

/* Combining by everybody is faster than by parts up to here: bytes of the whole message. */
#define COMBINE_ALL_BYTES 2048u

static bool has_parts(enum shared_kind kind)
{
    return kind == SHARED_SCATTER || kind == SHARED_ALLTOALL || kind == SHARED_REDUCE_SCATTER;
}

static uint64_t round_down(uint64_t bytes, uint32_t unit)
{
    return unit > 1 ? bytes - bytes % unit : bytes;
}

bool shared_can(const struct shared *shared, uint32_t size, const struct shared_call *call)
{
    uint64_t room = shared->buffer_bytes / size;

    return area_bytes(shared, size) <= shared->area_bytes && round_down(room, call->unit) > 0;
}

static void set_segments(struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    const struct area *area = machine->area;
    uint64_t buffer = round_down(area->shared->buffer_bytes, call->unit);
    uint64_t part = round_down(area->shared->buffer_bytes / area->size, call->unit);

    machine->part = 0;
    machine->segment = call->bytes < buffer ? call->bytes : buffer;
    if (has_parts(call->kind)) {
        machine->part = part;
        machine->segment = call->bytes < part ? call->bytes : part;
    } else if (machine->split) {
        machine->part = part;
        machine->segment = part * area->size;
    }
    machine->ticks = 1;
    if (machine->segment != 0)
        machine->ticks = (call->bytes + machine->segment - 1) / machine->segment;
    if (machine->ticks == 0)
        machine->ticks = 1;
}

void shared_reset(struct shared_machine *machine, struct area *area, const struct shared_call *call,
                  void (*done)(struct shared_machine *machine, pami_result_t result))
{
    memset(machine, 0, sizeof(*machine));
    list_init(&machine->link);
    machine->area = area;
    machine->call = *call;
    machine->done = done;
    machine->row = &shared_rows[call->kind];
    machine->split = call->kind == SHARED_ALLREDUCE && call->bytes > COMBINE_ALL_BYTES;
    if (machine->split)
        machine->row = &shared_row_split;
    set_segments(machine);
    machine->first = area->reserved;
    area->reserved += machine->ticks;
    list_push_back(&area->machines, &machine->link);
}

/* ---- ticks ---- */

static bool may_write(struct shared_machine *machine, uint64_t tick)
{
    return tick < AREA_SLICES || area_all_done(machine->area, tick + 1 - AREA_SLICES);
}

static void publish(const struct area *area, enum area_kind kind, uint64_t tick)
{
    atomic_store_explicit(&area_line(area, kind, tick, area->rank)->count, tick + 1,
                          memory_order_release); /* A1 */
}

static void publish_done(const struct area *area, uint64_t tick)
{
    atomic_store_explicit(&area_done(area, area->rank)->count, tick + 1,
                          memory_order_release); /* A3 */
}

/* Have the members from..to-1 come to `kind` of this tick? Remembers how far it has looked. */
static bool have_come(struct shared_machine *machine, enum area_kind kind, uint64_t tick,
                      uint32_t from, uint32_t to)
{
    const struct area *area = machine->area;
    uint32_t *next = &machine->waiting[kind];

    if (*next < from)
        *next = from;
    for (; *next < to; ++*next) {
        const struct area_line *line = area_line(area, kind, tick, *next);

        if (*next != area->rank &&
            atomic_load_explicit(&line->count, memory_order_acquire) <= tick) /* A2 */
            return false;
    }
    *next = 0;
    return true;
}

static bool post_one(struct shared_machine *machine)
{
    uint64_t tick = machine->first + machine->posted;

    if (machine->posted == machine->ticks || machine->posted - machine->taken >= AREA_SLICES)
        return false;
    if (machine->row->posts(machine)) {
        if (!may_write(machine, tick))
            return false;
        machine->row->post(machine, machine->posted);
        publish(machine->area, LINE_POST, tick);
    }
    machine->posted++;
    return true;
}

static bool take_one(struct shared_machine *machine)
{
    uint64_t tick = machine->first + machine->taken;
    uint32_t from, to;

    if (machine->taken == machine->posted)
        return false;
    machine->row->wants(machine, &from, &to);
    if (from != to && !have_come(machine, LINE_POST, tick, from, to))
        return false;
    machine->row->take(machine, machine->taken);
    if (machine->split)
        publish(machine->area, LINE_STAGE, tick);
    machine->taken++;
    return true;
}

static bool stage_one(struct shared_machine *machine)
{
    uint64_t tick = machine->first + machine->staged;

    if (machine->staged == machine->taken)
        return false;
    if (machine->split) {
        if (!have_come(machine, LINE_STAGE, tick, 0, machine->area->size))
            return false;
        shared_take_stage(machine, machine->staged);
    }
    publish_done(machine->area, tick);
    machine->staged++;
    return true;
}

/* ---- crowded areas ---- */

/* All but the last to arrive have to wait for one line only, and give their processor up: so each
 * collective needs one turn of each member, as a central counter does. */
static bool run_counted(struct shared_machine *machine)
{
    struct area *area = machine->area;
    struct area_slice *slice = area_slice(area, machine->first);
    uint64_t tick = machine->first;

    if (machine->posted == 0) {
        if (!may_write(machine, tick))
            return false;
        machine->row->post(machine, 0);
        machine->posted = 1;
        if (atomic_fetch_add_explicit(&slice->arrived.count, 1, memory_order_acq_rel) ==
            area->size - 1) {
            atomic_store_explicit(&slice->arrived.count, 0, memory_order_relaxed);
            shared_combine_all(machine, (char *)slice->release.data);
            atomic_store_explicit(&slice->release.count, tick + 1, memory_order_release);
        }
    }
    if (atomic_load_explicit(&slice->release.count, memory_order_acquire) <= tick)
        return false;
    shared_take_result(machine, (const char *)slice->release.data);
    publish_done(area, tick);
    machine->staged = 1;
    return true;
}

/* ---- running ---- */

static bool is_counted(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;

    return machine->area->crowded && machine->area->size > 2 && call->bytes <= AREA_INLINE &&
           (call->kind == SHARED_BARRIER || call->kind == SHARED_ALLREDUCE);
}

/* As far as it goes. True: complete. */
static bool run(struct shared_machine *machine)
{
    bool moved = true;

    if (machine->counted)
        return run_counted(machine);
    while (moved) {
        moved = post_one(machine);
        moved = take_one(machine) || moved;
        moved = stage_one(machine) || moved;
    }
    return machine->staged == machine->ticks;
}

/* The first machine of the area, and those behind it as long as they complete. */
static int run_area(struct area *area)
{
    int events = 0;

    while (!list_empty(&area->machines) && area->state != AREA_OPENING) {
        struct shared_machine *machine =
            list_entry(area->machines.next, struct shared_machine, link);
        bool failed = area->state == AREA_FAILED;

        if (!machine->started)
            break;
        machine->counted = is_counted(machine);
        if (!failed && !run(machine))
            break;
        list_remove(&machine->link);
        events++;
        machine->done(machine, failed ? PAMI_EAGAIN : PAMI_SUCCESS);
    }
    return events;
}

static bool has_work(struct area *area)
{
    if (area->closing && list_empty(&area->machines))
        return !area_may_go(area);
    return !list_empty(&area->machines) &&
           list_entry(area->machines.next, struct shared_machine, link)->started;
}

/* Areas are taken off the list, and freed, here only. */
static int run_all(struct retry *retry, struct context *context)
{
    struct shared *shared = container_of(retry, struct shared, retry);
    struct list *item, *following;
    int events = 0;

    (void)context;
    shared->running = true;
    list_for_each_safe (item, following, &shared->active) {
        struct area *area = list_entry(item, struct area, active);

        events += run_area(area);
        if (has_work(area))
            continue;
        list_remove(&area->active);
        if (area->closing)
            area_drop(area);
    }
    shared->running = false;
    if (list_empty(&shared->active))
        list_remove(&shared->retry.link);
    return events;
}

void shared_poll_later(struct area *area)
{
    struct shared *shared = area->shared;

    if (list_empty(&area->active))
        list_push_back(&shared->active, &area->active);
    if (list_empty(&shared->retry.link))
        list_push_back(&shared->context->retries, &shared->retry.link);
}

void shared_start(struct shared_machine *machine)
{
    struct area *area = machine->area;

    machine->started = true;
    if (area->machines.next != &machine->link)
        return;
    shared_poll_later(area);
    if (area->shared->running)
        return;
    area->shared->running = true;
    run_area(area); /* the machine may be gone afterwards */
    area->shared->running = false;
}

void shared_give_up(struct shared_machine *machine)
{
    list_remove(&machine->link);
}

void shared_machines_init(struct shared *shared)
{
    list_init(&shared->active);
    list_init(&shared->retry.link);
    shared->retry.run = run_all;
}
