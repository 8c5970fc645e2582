/*
 * Running collectives in arenas: ticks, waiting, the end; see shared.h.
 *
 * The machines of an arena run one after the other. A machine that cannot go on leaves, and is
 * looked at again in the next pass: each look costs one line that its writer has not changed.
 */
#include <stdlib.h>
#include <string.h>

#include "coll/shared/shared.h"
#include "util/tsan.h"

/* Combining by everybody is faster than by parts up to here: bytes that each member reads.
 * Two tasks, 4 KiB: 1.15 and 2.2 us; 64 KiB: 8.7 and 8.3. */
#define COMBINE_ALL_BYTES 16384u

/* What members must agree on: not what they cannot know, nor what may differ. */
static uint64_t check_of(const struct shared_call *call, uint32_t size)
{
    uint64_t digest = call->bytes * 4 ^ call->agreed;

    digest = (digest * SHARED_KINDS + call->kind) * UINT64_C(0x100000001b3) + call->root;
    for (uint32_t i = 0; call->block_bytes != NULL && i < size; i++)
        digest = (digest ^ digest >> 29) * UINT64_C(0x100000001b3) + call->block_bytes[i];
    digest = (digest ^ digest >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return digest >> 32 & ARENA_CHECK_MASK;
}

/* When the arena is ready: before that its buffers are not known. */
static void set_segments(struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    const struct arena *arena = machine->arena;
    bool blocks = shared_sends_blocks(call->kind);

    machine->part = 0;
    machine->segment = call->bytes;
    machine->segments = 1;
    machine->slice = machine->tick;
    machine->is_inline = (blocks ? call->bytes * arena->size : call->bytes) <= ARENA_INLINE;
    if (likely(machine->is_inline))
        machine->part = blocks ? call->bytes : 0;
    else
        shared_cut(machine);
}

static void take_tick(struct shared_machine *machine, uint64_t tick)
{
    struct arena *arena = machine->arena;

    machine->tick = tick;
    machine->posted = machine->taken = machine->staged = 0;
    for (int i = 0; i < LINE_KINDS; i++)
        machine->waiting[i] = 0;
    machine->counted = machine->started = false;
    machine->abandoned = false;
    machine->failure = PAMI_SUCCESS;
    machine->follows_gap = tick - arena->reserved >= GROUP_BLOCK + 1;
    arena->reserved = tick + 1;
    machine->stamp = (tick + 1) << ARENA_CHECK_BITS | machine->check;
    list_push_back(&arena->machines, &machine->link);
}

void shared_reset(struct shared_machine *machine, struct arena *arena,
                  const struct shared_call *call, uint64_t tick,
                  void (*done)(struct shared_machine *machine, pami_result_t result))
{
    machine->arena = arena;
    if (call != &machine->call)
        machine->call = *call;
    machine->done = done;
    machine->split = call->kind == SHARED_ALLREDUCE && call->bytes > ARENA_INLINE &&
                     call->bytes * (arena->size - 1) > COMBINE_ALL_BYTES;
    machine->row = machine->split ? &shared_row_split : &shared_rows[call->kind];
    machine->check = check_of(&machine->call, arena->size);
    machine->segments = 0;
    take_tick(machine, tick);
    if (likely(arena->state == ARENA_READY))
        set_segments(machine);
}

bool shared_again(struct shared_machine *machine, uint64_t tick)
{
    if (!machine->is_inline || machine->segments == 0)
        return false;
    take_tick(machine, tick);
    return true;
}

/* ---- ticks ---- */

/* The own slot of the next segment, and the own lines with the first one. */
static bool may_write(const struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    uint64_t index = machine->posted;
    struct arena_position lines = {arena->line_used[arena_place(arena, machine->tick)], 0};

    if (index == 0 && !arena_all_done(arena, lines))
        return false;
    return machine->is_inline ||
           arena_all_done(arena, arena->used[arena_place(arena, machine->slice + index)]);
}

/* So many segments are there now. */
static void publish(struct shared_machine *machine, enum arena_kind kind, uint64_t segments)
{
    struct arena *arena = machine->arena;
    struct arena_line *line = arena_line(arena, kind, machine->tick, arena->rank);

    if (segments == 1) {
        arena->line_used[arena_place(arena, machine->tick)] = machine->tick + 1;
        if (machine->segments != 1)
            atomic_store_explicit(&line->segments, 1, memory_order_relaxed);
        atomic_store_explicit(&line->count, machine->stamp, memory_order_release); /* A1 */
    } else {
        atomic_store_explicit(&line->segments, segments, memory_order_release); /* A1 */
    }
}

/* So many segments are done with; after the last one, or an error, the tick is. */
static void publish_done(const struct shared_machine *machine, uint64_t segments)
{
    struct arena_line *line = arena_done(machine->arena, machine->arena->rank);

    if (segments < machine->segments) {
        if (segments == 1)
            atomic_store_explicit(&line->count, machine->tick, memory_order_release);
        atomic_store_explicit(&line->segments, segments, memory_order_release); /* A3 */
        return;
    }
    if (machine->segments != 1)
        atomic_store_explicit(&line->segments, 0, memory_order_relaxed);
    atomic_store_explicit(&line->count, machine->tick + 1, memory_order_release); /* A3 */
    arena_prepare(machine->arena, machine->tick + GROUP_BLOCK + 1);
}

/* The stamp of the machine's tick is of another collective: this one fails. */
__attribute__((noinline)) static void disagree(struct shared_machine *machine, uint64_t stamp)
{
    uint64_t check = stamp & (ARENA_CHECK_MASK | ARENA_DISAGREE);

    if (machine->failure == PAMI_SUCCESS)
        machine->failure = check == ARENA_FAILED_ELSEWHERE ? PAMI_ERROR : PAMI_INVAL;
}

/* Is this the stamp of the machine's tick? */
static inline bool has_come(struct shared_machine *machine, uint64_t stamp)
{
    if (likely(stamp == machine->stamp))
        return true;
    /* Of a later tick: the member has left this one out. */
    if (unlikely(stamp >> ARENA_CHECK_BITS >= machine->stamp >> ARENA_CHECK_BITS))
        disagree(machine, stamp);
    return false;
}

static bool member_has_come(struct shared_machine *machine, enum arena_kind kind, uint64_t index,
                            uint32_t member)
{
    struct arena_line *line = arena_line(machine->arena, kind, machine->tick, member);

    return has_come(machine, atomic_load_explicit(&line->count, memory_order_acquire)) /* A2 */ &&
           (machine->segments == 1 ||
            atomic_load_explicit(&line->segments, memory_order_acquire) > index); /* A2 */
}

/* Has one of the members from..to-1 left without coming? */
static void look_for_lost(struct shared_machine *machine, enum arena_kind kind, uint64_t index,
                          uint32_t from, uint32_t to)
{
    struct arena *arena = machine->arena;

    for (uint32_t i = from; i < to && !arena->stranded; i++)
        arena->stranded = arena->left[i] && !member_has_come(machine, kind, index, i);
}

/* Have the members from..to-1 come to segment `index`? Remembers how far it has looked. */
static bool have_come(struct shared_machine *machine, enum arena_kind kind, uint64_t index,
                      uint32_t from, uint32_t to)
{
    const struct arena *arena = machine->arena;
    uint32_t *next = &machine->waiting[kind];

    if (*next < from)
        *next = from;
    for (; *next < to; ++*next) {
        if (*next == arena->rank || member_has_come(machine, kind, index, *next))
            continue;
        if (unlikely(arena->lost))
            look_for_lost(machine, kind, index, *next, to);
        return false;
    }
    *next = 0;
    return true;
}

static bool post_one(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    uint64_t index = machine->posted;

    if (index == machine->segments || index - machine->taken > arena->slice_mask)
        return false;
    if (machine->row->posts(machine)) {
        if (!may_write(machine))
            return false;
        machine->row->post(machine, index);
        if (!machine->is_inline)
            arena->used[arena_place(arena, machine->slice + index)] =
                (struct arena_position){machine->tick, index + 1};
        publish(machine, LINE_POST, index + 1);
    }
    machine->posted++;
    return true;
}

static bool take_one(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    uint32_t from, to;

    if (machine->taken == machine->posted)
        return false;
    machine->row->wants(machine, &from, &to);
    if (from != to && !have_come(machine, LINE_POST, machine->taken, from, to))
        return false;
    if (to - from + (arena->rank < from || arena->rank >= to) == arena->size &&
        arena->known_done.tick < machine->tick)
        arena->known_done = (struct arena_position){machine->tick, 0};
    machine->row->take(machine, machine->taken);
    machine->taken++;
    if (machine->split)
        publish(machine, LINE_STAGE, machine->taken);
    return true;
}

static bool stage_one(struct shared_machine *machine)
{
    if (machine->staged == machine->taken)
        return false;
    if (machine->split) {
        if (!have_come(machine, LINE_STAGE, machine->staged, 0, machine->arena->size))
            return false;
        shared_take_stage(machine, machine->staged);
    }
    machine->staged++;
    publish_done(machine, machine->staged);
    return true;
}

/* ---- crowded arenas ---- */

/* Do all slots hold operands of this collective? */
static bool all_agree(const struct shared_machine *machine)
{
    const struct arena *arena = machine->arena;

    if (machine->call.kind == SHARED_BARRIER)
        return true;
    for (uint32_t i = 0; i < arena->size; i++)
        if (atomic_load_explicit(&arena_line(arena, LINE_POST, machine->tick, i)->count,
                                 memory_order_relaxed) != machine->stamp)
            return false;
    return true;
}

static uint64_t stamp_of_failure(const struct shared_machine *machine)
{
    uint64_t tick = machine->stamp & ~(ARENA_CHECK_MASK | ARENA_DISAGREE);

    return tick | (machine->failure == PAMI_ERROR ? ARENA_FAILED_ELSEWHERE : ARENA_DISAGREE);
}

/* Arrivals are counted below the tick: what is left of one in which not all came does not count. */
static bool is_last(struct arena_slice *slice, uint64_t tick, uint32_t size)
{
    const uint64_t none = (tick + 1) << ARENA_CHECK_BITS;
    uint64_t count, seen;

    cpu_prefetch_write(&slice->arrived);
    seen = atomic_load_explicit(&slice->arrived.count, memory_order_relaxed);
    do {
        count = (seen < none ? none : seen) + 1;
        if (unlikely((count ^ none) >> ARENA_CHECK_BITS != 0)) /* of a later one */
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&slice->arrived.count, &seen, count,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return count == none + size;
}

/* The last one combines for all, or tells all that they disagree. */
static void arrive(struct shared_machine *machine, uint64_t tick)
{
    struct arena_slice *slice = arena_slice(machine->arena, tick);
    uint64_t stamp = machine->stamp;

    TSAN_RELEASE(slice); /* the last one may be another process */
    if (!is_last(slice, tick, machine->arena->size))
        return;
    if (machine->failure != PAMI_SUCCESS || !all_agree(machine))
        stamp = stamp_of_failure(machine);
    else
        shared_combine_all(machine, (char *)slice->release.data);
    atomic_store_explicit(&slice->release.count, stamp, memory_order_release);
}

/* All but the last to arrive have to wait for one line only, and give their processor up: so each
 * collective needs one turn of each member, as a central counter does. */
static bool run_counted(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    struct arena_slice *slice = arena_slice(arena, machine->tick);

    if (machine->posted == 0) {
        if (!may_write(machine))
            return false;
        machine->row->post(machine, 0);
        arena->line_used[arena_place(arena, machine->tick)] = machine->tick + 1;
        if (machine->call.kind != SHARED_BARRIER)
            publish(machine, LINE_POST, 1);
        machine->posted = 1;
        shared_sit_down(machine);
        arrive(machine, machine->tick);
    }
    if (!has_come(machine, atomic_load_explicit(&slice->release.count, memory_order_acquire))) {
        arena->stranded = arena->lost; /* who left after the release had seen it */
        arena->shared->context->patient = shared_keeps_processor(machine);
        return machine->failure != PAMI_SUCCESS;
    }
    TSAN_ACQUIRE(slice);
    if (arena->known_done.tick < machine->tick)
        arena->known_done = (struct arena_position){machine->tick, 0};
    shared_take_result(machine, (const char *)slice->release.data);
    publish_done(machine, 1);
    return true;
}

/* ---- running ---- */

static bool is_counted(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;

    return machine->arena->crowded && machine->arena->size > 2 && call->bytes <= ARENA_INLINE &&
           (call->kind == SHARED_BARRIER || call->kind == SHARED_ALLREDUCE);
}

/* The end of a machine that disagrees with others: those may count its arrival. */
static void leave(struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    bool arrived = machine->counted && machine->posted != 0;

    if (!arrived && machine->arena->crowded && machine->arena->size > 2 &&
        (call->kind == SHARED_BARRIER || call->kind == SHARED_ALLREDUCE))
        arrive(machine, machine->tick);
    publish_done(machine, machine->segments);
}

/*
 * Ticks up to this one are over, whether this member took part or not: whoever waits for it in one
 * sees the stamp of a later one. A slice is written when all are done with what this member had
 * there; it may be written again at once. False: not all are.
 */
static bool run_skip(struct shared_machine *skip)
{
    struct arena *arena = skip->arena;

    arena_say_done_before(arena, skip->tick + 1);
    for (; skip->posted <= arena->slice_mask; skip->posted++) {
        const struct arena_position lines = {arena->line_used[skip->posted], 0};

        if (lines.tick > skip->tick) /* a later collective was faster */
            continue;
        if (!arena_all_done(arena, lines))
            return false;
        atomic_store_explicit(&arena_line(arena, LINE_POST, skip->posted, arena->rank)->count,
                              stamp_of_failure(skip), memory_order_release);
    }
    if (skip->failure == PAMI_ERROR) /* a later stamp would say that they disagree */
        arena->line_used[arena_place(arena, skip->tick)] = skip->tick + 1;
    if (skip->counted)
        arrive(skip, skip->tick - GROUP_BLOCK); /* of the collective itself */
    return true;
}

/* Whoever waits for this member sees the stamp, whatever was there before. False: not yet. */
static bool abandon(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    const struct arena_position lines = {arena->line_used[arena_place(arena, machine->tick)], 0};

    if (machine->row == NULL)
        return run_skip(machine);
    /* What it has posted itself may be overwritten; that of a tick before must have been read. */
    if (lines.tick != machine->tick + 1 && !arena_all_done(arena, lines))
        return false;
    machine->stamp = stamp_of_failure(machine);
    arena->line_used[arena_place(arena, machine->tick)] = machine->tick + 1;
    atomic_store_explicit(&arena_line(arena, LINE_POST, machine->tick, arena->rank)->count,
                          machine->stamp, memory_order_release);
    leave(machine);
    return true;
}

/* As far as it goes. True: complete. */
static bool run(struct shared_machine *machine)
{
    bool moved = true;

    if (unlikely(machine->abandoned))
        return abandon(machine);
    if (machine->counted && !run_counted(machine))
        return false;
    while (moved && !machine->counted && machine->staged != machine->segments) {
        moved = post_one(machine);
        moved = take_one(machine) || moved;
        moved = stage_one(machine) || moved;
    }
    if (unlikely(machine->failure != PAMI_SUCCESS)) {
        leave(machine);
        return true;
    }
    return machine->counted || machine->staged == machine->segments;
}

/* Some member has said so, or this one knows by itself. */
static bool is_broken(const struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    uint64_t said = atomic_load_explicit(&arena_head(arena)->count, memory_order_acquire);

    if (unlikely(said != 0) && (arena->broken == 0 || arena->broken > said))
        arena->broken = said;
    return unlikely(arena->broken != 0) && machine->tick + 1 >= arena->broken;
}

/* It waits, maybe for those who wait for ticks that this member, which disagreed, never had. */
static void say_where(const struct shared_machine *machine)
{
    if (machine->arena->channel != 0 || machine->follows_gap)
        arena_say_done_before(machine->arena, machine->tick);
}

/* The first machine of the arena, and those behind it as long as they complete. */
static int run_arena(struct arena *arena)
{
    int events = 0;

    while (!list_empty(&arena->machines) && arena->state != ARENA_OPENING) {
        struct shared_machine *machine =
            list_entry(arena->machines.next, struct shared_machine, link);
        pami_result_t result = PAMI_SUCCESS;

        if (!machine->started)
            break;
        if (machine->row != NULL)
            machine->counted = is_counted(machine);
        if (unlikely(machine->segments == 0) && arena->state == ARENA_READY)
            set_segments(machine);
        if (arena->state == ARENA_READY && is_broken(machine))
            result = PAMI_ERROR;
        else if (arena->state != ARENA_READY)
            result = PAMI_EAGAIN;
        else if (run(machine))
            result = machine->failure;
        else if (!arena->stranded) {
            say_where(machine);
            break;
        } else {
            arena_break(arena, machine->tick);
            result = PAMI_ERROR;
        }
        list_remove(&machine->link);
        events++;
        machine->done(machine, result);
    }
    return events;
}

static bool has_work(struct arena *arena)
{
    const struct shared_machine *first;

    if (arena->closing && arena->state == ARENA_OPENING)
        shared_drop(arena);
    if (list_empty(&arena->machines))
        return false;
    first = list_entry(arena->machines.next, struct shared_machine, link);
    /* What only says that ticks are over waits for the arena without a look at it. */
    return first->started && (first->row != NULL || arena->state != ARENA_OPENING);
}

/* Arenas are taken off the list here only. */
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
        if (arena->closing && arena_may_go(arena)) /* else arena_reap will */
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

    return arena->state == ARENA_READY && machine->segments != 0 && !arena->shared->running &&
           arena->machines.next == &machine->link && may_write(machine);
}

void shared_start(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;

    machine->started = true;
    if (arena->machines.next != &machine->link)
        return;
    if (arena->shared->running || context_hands_over(arena->shared->context, machine->call.bytes)) {
        shared_poll_later(arena);
        return;
    }
    arena->shared->running = true;
    run_arena(arena); /* the machine may be gone afterwards */
    arena->shared->running = false;
    if (!list_empty(&arena->machines))
        shared_poll_later(arena);
}

void shared_drop(struct arena *arena)
{
    struct list *item;

    while ((item = list_pop_front(&arena->machines)) != NULL) {
        struct shared_machine *machine = list_entry(item, struct shared_machine, link);

        list_init(item);
        if (machine->row == NULL)
            free(machine);
    }
}

void shared_give_up(struct shared_machine *machine)
{
    list_remove(&machine->link);
    arena_break(machine->arena, machine->tick);
}

static uint64_t mark_all(const struct retry *retry)
{
    const struct shared *shared = container_of(retry, struct shared, retry);
    struct list *item;
    uint64_t mark = 0;

    list_for_each (item, &shared->active) {
        const struct arena *arena = list_entry(item, struct arena, active);

        if (!list_empty(&arena->machines))
            mark += shared_mark(list_entry(arena->machines.next, struct shared_machine, link));
    }
    return mark;
}

void shared_machines_init(struct shared *shared)
{
    list_init(&shared->active);
    list_init(&shared->retry.link);
    shared->retry.run = run_all;
    shared->retry.mark = mark_all;
}
