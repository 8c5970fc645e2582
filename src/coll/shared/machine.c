/*
 * Running collectives in arenas: ticks, waiting, the end; see shared.h.
 *
 * The machines of an arena run one after the other. A machine that cannot go on leaves, and is
 * looked at again in the next pass: each look costs one line that its writer has not changed.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/shared/shared.h"

/* Combining by everybody is faster than by parts up to here: bytes of the whole message. */
#define COMBINE_ALL_BYTES 2048u

static uint64_t round_down(uint64_t bytes, uint32_t unit)
{
    return unit > 1 ? bytes - bytes % unit : bytes;
}

static void set_segments(struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    const struct arena *arena = machine->arena;
    uint64_t part;

    machine->part = 0;
    machine->segment = call->bytes;
    machine->ticks = 1;
    if (likely(call->bytes <= ARENA_INLINE && !shared_sends_blocks(call->kind)))
        return;
    part = round_down(arena->room, call->unit);
    if (shared_sends_blocks(call->kind)) {
        machine->part = machine->segment = part;
    } else if (machine->split) {
        machine->part = part;
        machine->segment = part * arena->size;
    } else {
        machine->segment = round_down(arena->shared->buffer_bytes, call->unit);
    }
    if (call->bytes < machine->segment && !machine->split)
        machine->segment = call->bytes;
    else if (call->bytes != 0)
        machine->ticks = (call->bytes + machine->segment - 1) / machine->segment;
}

void shared_reset(struct shared_machine *machine, struct arena *arena,
                  const struct shared_call *call,
                  void (*done)(struct shared_machine *machine, pami_result_t result))
{
    machine->arena = arena;
    if (call != &machine->call)
        machine->call = *call;
    machine->done = done;
    machine->split = call->kind == SHARED_ALLREDUCE && call->bytes > COMBINE_ALL_BYTES;
    machine->row = machine->split ? &shared_row_split : &shared_rows[call->kind];
    set_segments(machine);
    machine->posted = machine->taken = machine->staged = 0;
    for (int i = 0; i < LINE_KINDS; i++)
        machine->waiting[i] = 0;
    machine->counted = machine->started = false;
    machine->first = arena->reserved;
    arena->reserved += machine->ticks;
    list_push_back(&arena->machines, &machine->link);
}

/* ---- ticks ---- */

static bool may_write(const struct shared_machine *machine, uint64_t tick)
{
    return tick < ARENA_SLICES || arena_all_done(machine->arena, tick + 1 - ARENA_SLICES);
}

static void publish(const struct arena *arena, enum arena_kind kind, uint64_t tick)
{
    atomic_store_explicit(&arena_line(arena, kind, tick, arena->rank)->count, tick + 1,
                          memory_order_release); /* A1 */
}

static void publish_done(const struct arena *arena, uint64_t tick)
{
    atomic_store_explicit(&arena_done(arena, arena->rank)->count, tick + 1,
                          memory_order_release); /* A3 */
}

/* Have the members from..to-1 come to `kind` of this tick? Remembers how far it has looked. */
static bool have_come(struct shared_machine *machine, enum arena_kind kind, uint64_t tick,
                      uint32_t from, uint32_t to)
{
    const struct arena *arena = machine->arena;
    uint32_t *next = &machine->waiting[kind];

    if (*next < from)
        *next = from;
    for (; *next < to; ++*next) {
        const struct arena_line *line = arena_line(arena, kind, tick, *next);

        if (*next != arena->rank &&
            atomic_load_explicit(&line->count, memory_order_acquire) <= tick) /* A2 */
            return false;
    }
    *next = 0;
    return true;
}

static bool post_one(struct shared_machine *machine)
{
    uint64_t tick = machine->first + machine->posted;

    if (machine->posted == machine->ticks || machine->posted - machine->taken >= ARENA_SLICES)
        return false;
    if (machine->row->posts(machine)) {
        if (!may_write(machine, tick))
            return false;
        machine->row->post(machine, machine->posted);
        publish(machine->arena, LINE_POST, tick);
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
    /* Whoever has posted for this machine is done with those before it. */
    if (to - from == machine->arena->size && machine->arena->known_done < machine->first)
        machine->arena->known_done = machine->first;
    machine->row->take(machine, machine->taken);
    if (machine->split)
        publish(machine->arena, LINE_STAGE, tick);
    machine->taken++;
    return true;
}

static bool stage_one(struct shared_machine *machine)
{
    uint64_t tick = machine->first + machine->staged;

    if (machine->staged == machine->taken)
        return false;
    if (machine->split) {
        if (!have_come(machine, LINE_STAGE, tick, 0, machine->arena->size))
            return false;
        shared_take_stage(machine, machine->staged);
    }
    publish_done(machine->arena, tick);
    machine->staged++;
    return true;
}

/* ---- crowded arenas ---- */

/* All but the last to arrive have to wait for one line only, and give their processor up: so each
 * collective needs one turn of each member, as a central counter does. */
static bool run_counted(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    struct arena_slice *slice = arena_slice(arena, machine->first);
    uint64_t tick = machine->first;

    if (machine->posted == 0) {
        if (!may_write(machine, tick))
            return false;
        machine->row->post(machine, 0);
        machine->posted = 1;
        if (atomic_fetch_add_explicit(&slice->arrived.count, 1, memory_order_acq_rel) ==
            arena->size - 1) {
            atomic_store_explicit(&slice->arrived.count, 0, memory_order_relaxed);
            shared_combine_all(machine, (char *)slice->release.data);
            atomic_store_explicit(&slice->release.count, tick + 1, memory_order_release);
        }
    }
    if (atomic_load_explicit(&slice->release.count, memory_order_acquire) <= tick)
        return false;
    if (arena->known_done < tick)
        arena->known_done = tick;
    shared_take_result(machine, (const char *)slice->release.data);
    publish_done(arena, tick);
    machine->staged = 1;
    return true;
}

/* ---- running ---- */

static bool is_counted(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;

    return machine->arena->crowded && machine->arena->size > 2 && call->bytes <= ARENA_INLINE &&
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

/* Some member has said so, or this one knows by itself. */
static bool is_broken(struct arena *arena)
{
    if (!arena->broken && arena->state == ARENA_READY)
        arena->broken = atomic_load_explicit(&arena_head(arena)->count, memory_order_acquire) != 0;
    return arena->broken;
}

/* The first machine of the arena, and those behind it as long as they complete. */
static int run_arena(struct arena *arena)
{
    int events = 0;

    while (!list_empty(&arena->machines) && (arena->state != ARENA_OPENING || arena->broken)) {
        struct shared_machine *machine =
            list_entry(arena->machines.next, struct shared_machine, link);
        pami_result_t result = PAMI_SUCCESS;

        if (!machine->started)
            break;
        machine->counted = is_counted(machine);
        if (is_broken(arena))
            result = PAMI_ERROR;
        else if (arena->state == ARENA_FAILED)
            result = PAMI_EAGAIN;
        else if (!run(machine))
            break;
        list_remove(&machine->link);
        events++;
        machine->done(machine, result);
    }
    return events;
}

static bool has_work(struct arena *arena)
{
    if (arena->closing && list_empty(&arena->machines))
        return !arena_may_go(arena);
    return !list_empty(&arena->machines) &&
           list_entry(arena->machines.next, struct shared_machine, link)->started;
}

/* Arenas are taken off the list, and freed, here only. */
static int run_all(struct retry *retry, struct context *context)
{
    struct shared *shared = container_of(retry, struct shared, retry);
    struct list *item, *following;
    int events = 0;

    (void)context;
    shared->running = true;
    list_for_each_safe (item, following, &shared->active) {
        struct arena *arena = list_entry(item, struct arena, active);

        events += run_arena(arena);
        if (has_work(arena))
            continue;
        list_remove(&arena->active);
        if (arena->closing)
            arena_drop(arena);
    }
    shared->running = false;
    if (list_empty(&shared->active))
        list_remove(&shared->retry.link);
    return events;
}

void shared_poll_later(struct arena *arena)
{
    struct shared *shared = arena->shared;

    if (list_empty(&arena->active))
        list_push_back(&shared->active, &arena->active);
    if (list_empty(&shared->retry.link))
        list_push_back(&shared->context->retries, &shared->retry.link);
}

bool shared_is_next(const struct shared_machine *machine)
{
    struct arena *arena = machine->arena;

    return arena->state == ARENA_READY && !arena->shared->running &&
           arena->machines.next == &machine->link && may_write(machine, machine->first);
}

void shared_start(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;

    machine->started = true;
    if (arena->machines.next != &machine->link)
        return;
    shared_poll_later(arena);
    if (arena->shared->running)
        return;
    arena->shared->running = true;
    run_arena(arena); /* the machine may be gone afterwards */
    arena->shared->running = false;
}

void shared_give_up(struct shared_machine *machine)
{
    list_remove(&machine->link);
    arena_break(machine->arena);
}

void shared_machines_init(struct shared *shared)
{
    list_init(&shared->active);
    list_init(&shared->retry.link);
    shared->retry.run = run_all;
}
