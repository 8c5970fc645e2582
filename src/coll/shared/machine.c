/*
 * Running collectives in arenas: ticks, waiting, the end; see shared.h.
 *
 * The machines of an arena run one after the other. A machine that cannot go on leaves, and is
 * looked at again in the next pass: each look costs one line that its writer has not changed.
 */

#include "coll/shared/tick.h"

/* Combining by everybody is faster than by parts up to here: bytes that each member reads.
 * Two tasks, 4 KiB: 1.15 and 2.2 us; 64 KiB: 8.7 and 8.3. */
#define COMBINE_ALL_BYTES 16384u
/* In a crowded arena, where parts take another turn of each. On 2 processors, everybody and by
 * parts: 8 tasks, 4 and 8 KiB, 9.8 and 13.3, 11.9 and 14.4 us; 16 tasks, 4 KiB, 33 and 44. */
#define COMBINE_ALL_CROWDED 65536u

/* What members must agree on: not what they cannot know, nor what may differ. */
static uint64_t check_of(const struct shared_call *call, uint32_t size)
{
    uint64_t digest = (call->bytes * 4 ^ call->agreed) + ((uint64_t)call->tree << 62);

    digest = (digest * SHARED_KINDS + call->kind) * UINT64_C(0x100000001b3) + call->root;
    for (uint32_t i = 0; call->block_bytes != NULL && i < size; i++)
        digest = (digest ^ digest >> 29) * UINT64_C(0x100000001b3) + call->block_bytes[i];
    digest = (digest ^ digest >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return digest >> 32 & ARENA_CHECK_MASK;
}

static bool is_split(const struct shared_call *call, const struct arena *arena)
{
    return call->kind == SHARED_ALLREDUCE && call->bytes > ARENA_INLINE &&
           call->bytes * (arena->size - 1) >
               (arena->crowded ? COMBINE_ALL_CROWDED : COMBINE_ALL_BYTES);
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
    machine->way = shared_is_tree(machine) ? TREE : THROUGH_SLOTS;
    machine->relayed = machine->way != TREE && shared_is_relayed(machine);
    machine->split = machine->relayed || (machine->way != TREE && is_split(call, arena));
    machine->row = machine->relayed ? &shared_row_relayed
                   : machine->split ? &shared_row_split
                                    : &shared_rows[call->kind];
    if (shared_is_vector(call->kind)) {
        machine->is_inline = false; /* until it posts */
        return;
    }
    machine->is_inline = (blocks ? call->bytes * arena->size : call->bytes) <= ARENA_INLINE;
    if (likely(machine->is_inline)) {
        machine->part = blocks ? call->bytes : 0;
        return;
    }
    shared_cut(machine);
    if (machine->way != TREE && shared_is_direct(machine))
        machine->way = DIRECT;
}

static uint64_t stamp_of(const struct shared_machine *machine, uint64_t tick)
{
    return (tick + 1) << ARENA_CHECK_BITS | machine->check;
}

static void take_tick(struct shared_machine *machine, uint64_t tick)
{
    struct arena *arena = machine->arena;
    struct list *before = arena->machines.prev;

    machine->tick = tick;
    machine->posted = machine->ahead == tick + 1;
    machine->taken = machine->staged = machine->pieces = 0;
    for (int i = 0; i < LINE_KINDS; i++)
        machine->waiting[i] = 0;
    machine->counted = machine->started = false;
    machine->abandoned = false;
    machine->failure = PAMI_SUCCESS;
    machine->follows_gap = tick - arena->reserved >= GROUP_BLOCK + 1; /* or one was held before */
    if (likely(arena->reserved <= tick))
        arena->reserved = tick + 1;
    machine->stamp = stamp_of(machine, tick);
    while (before != &arena->machines &&
           unlikely(list_entry(before, struct shared_machine, link)->tick > tick))
        before = before->prev;
    list_push_front(before, &machine->link);
}

void shared_reset(struct shared_machine *machine, struct arena *arena,
                  const struct shared_call *call, uint64_t tick,
                  void (*done)(struct shared_machine *machine, pami_result_t result))
{
    machine->arena = arena;
    if (call != &machine->call)
        machine->call = *call;
    machine->done = done;
    machine->row = &shared_rows[call->kind];
    machine->split = machine->relayed = false;
    machine->check = check_of(&machine->call, arena->size);
    machine->segments = machine->ahead = 0;
    machine->way = THROUGH_SLOTS;
    take_tick(machine, tick);
    if (likely(arena->state == ARENA_READY))
        set_segments(machine);
}

static bool is_again(const struct shared_machine *machine)
{
    return machine->is_inline && machine->segments != 0 && !shared_is_vector(machine->call.kind);
}

HOT bool shared_again(struct shared_machine *machine, uint64_t tick)
{
    if (!is_again(machine))
        return false;
    take_tick(machine, tick);
    return true;
}

/* ---- ticks ---- */

/* So many segments are there now. */
void shared_publish(struct shared_machine *machine, enum arena_kind kind, uint64_t segments)
{
    struct arena *arena = machine->arena;
    struct arena_line *line = arena_line(arena, kind, machine->tick, arena->rank);

    if (segments == 1) {
        arena->line_used[arena_place(arena, machine->tick)] = machine->tick + 1;
        if (machine->segments != 1) /* who has seen the stamp before looks at these only */
            atomic_store_explicit(&line->segments, 1, memory_order_release);
        atomic_store_explicit(&line->count, machine->stamp, memory_order_release); /* A1 */
    } else {
        atomic_store_explicit(&line->segments, segments, memory_order_release); /* A1 */
    }
}

/* So many segments are done with; after the last one, or an error, the tick is. */
HOT void shared_publish_done(const struct shared_machine *machine, uint64_t segments)
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
__attribute__((noinline)) void shared_disagree(struct shared_machine *machine, uint64_t stamp)
{
    uint64_t check = stamp & (ARENA_CHECK_MASK | ARENA_DISAGREE);

    if (machine->failure == PAMI_SUCCESS)
        machine->failure = check == ARENA_FAILED_ELSEWHERE ? PAMI_ERROR : PAMI_INVAL;
}

bool shared_member_has_come(struct shared_machine *machine, enum arena_kind kind, uint64_t index,
                            uint32_t member)
{
    struct arena_line *line = arena_line(machine->arena, kind, machine->tick, member);

    return shared_has_come(machine,
                           atomic_load_explicit(&line->count, memory_order_acquire)) /* A2 */
           && (machine->segments == 1 ||
               atomic_load_explicit(&line->segments, memory_order_acquire) > index); /* A2 */
}

/* Has one of the members from..to-1 left without coming? */
static void look_for_lost(struct shared_machine *machine, enum arena_kind kind, uint64_t index,
                          uint32_t from, uint32_t to)
{
    struct arena *arena = machine->arena;

    for (uint32_t i = from; i < to && !arena->stranded; i++)
        arena->stranded = arena->left[i] && !shared_member_has_come(machine, kind, index, i);
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
        if (*next == arena->rank || shared_member_has_come(machine, kind, index, *next))
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

    if (index == machine->segments || index - machine->taken > arena->buffer_mask)
        return false;
    if (machine->row->posts(machine)) {
        if (shared_is_vector(machine->call.kind))
            machine->is_inline = shared_vector_is_inline(machine);
        if (!shared_may_write(machine) || (machine->relayed && !shared_relay_is_here(machine)))
            return false;
        machine->row->post(machine, index);
        if (!machine->is_inline)
            arena->used[arena_buffer_place(arena, machine->slice + index)] =
                (struct arena_position){machine->tick, index + 1};
        shared_publish(machine, LINE_POST, index + 1);
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
        shared_publish(machine, LINE_STAGE, machine->taken);
    return true;
}

/* The parts that others have combined. False: not all have. */
static bool take_parts(struct shared_machine *machine)
{
    const struct arena *arena = machine->arena;
    uint32_t from = machine->relayed ? arena->size - arena->relays : 0;

    if (machine->relayed && !shared_takes_relays(machine))
        return true;
    if (!have_come(machine, LINE_STAGE, machine->staged, from, arena->size))
        return false;
    if (machine->relayed)
        shared_take_relays(machine, machine->staged);
    else
        shared_take_stage(machine, machine->staged);
    return true;
}

static bool stage_one(struct shared_machine *machine)
{
    if (machine->staged == machine->taken || (machine->split && !take_parts(machine)))
        return false;
    machine->staged++;
    shared_publish_done(machine, machine->staged);
    return true;
}

/* ---- running ---- */

static bool is_of_all(const struct shared_call *call)
{
    return call->kind == SHARED_BARRIER || call->kind == SHARED_ALLREDUCE;
}

static void store_stamp(const struct shared_machine *machine, enum arena_kind kind, uint64_t stamp)
{
    const struct arena *arena = machine->arena;

    atomic_store_explicit(&arena_line(arena, kind, machine->tick, arena->rank)->count, stamp,
                          memory_order_release);
}

/* It may write its lines: it has, or could have, before it looked at those of others. */
void shared_fail_lines(const struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    uint32_t place = arena_place(arena, machine->tick);

    arena->line_used[place] = machine->tick + 1;
    arena->line_readers[place].tick = 0; /* others than neighbours may wait as well */
    for (int kind = 0; kind < LINE_KINDS; kind++)
        store_stamp(machine, (enum arena_kind)kind, shared_failure_stamp(machine));
}

/* Those that wait in a crowded arena are told by the last one to arrive. */
static void arrive_failed(struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    bool arrived = machine->counted && machine->posted != 0;

    if (!arrived && machine->arena->crowded && machine->arena->size > 2 && is_of_all(call))
        shared_arrive(machine, machine->tick);
}

/* The end of a machine that disagrees with others: those may count its arrival, or wait for what
 * comes down a tree from it. */
static void leave(struct shared_machine *machine)
{
    shared_revoke(machine);
    shared_say_error(machine);
    arrive_failed(machine);
    if (machine->way == TREE)
        shared_fail_tree(machine);
    else if (machine->relayed)
        shared_fail_lines(machine);
    else if (machine->posted != 0 && is_of_all(&machine->call))
        store_stamp(machine, LINE_STAGE, shared_failure_stamp(machine));
    shared_publish_done(machine, machine->segments);
}

/* Whoever waits for this member sees the stamp, whatever was there before: now, or later, as a
 * member that has stopped after an error may never have read that. */
static void abandon(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    uint32_t place = arena_place(arena, machine->tick);

    shared_revoke(machine);
    shared_say_error(machine);
    if (shared_has_error(machine))
        arena_say_gone(arena);
    /* What it has posted itself may be overwritten. */
    if (arena->line_used[place] != machine->tick + 1 && !shared_may_fail(machine, place)) {
        shared_skip_failed(machine);
        arrive_failed(machine);
        shared_publish_done(machine, machine->segments);
        return;
    }
    machine->stamp = shared_failure_stamp(machine);
    if (machine->way == DIRECT)
        store_stamp(machine, LINE_STAGE, machine->stamp);
    shared_keep_slice(arena, place, machine->tick);
    store_stamp(machine, LINE_POST, machine->stamp);
    leave(machine);
}

/* As far as it goes. True: complete. */
static bool run(struct shared_machine *machine)
{
    bool moved = true;

    if (unlikely(machine->row == NULL))
        return shared_run_skip(machine);
    if (unlikely(machine->abandoned)) {
        abandon(machine);
        return true;
    }
    if (machine->counted && !shared_run_counted(machine))
        return false;
    if (unlikely(machine->way != THROUGH_SLOTS)) {
        if (!(machine->way == TREE ? shared_run_tree(machine) : shared_run_direct(machine)))
            return false;
        moved = machine->failure == PAMI_SUCCESS; /* direct: there may be more to do, in slots */
    }
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

/* The first machine of the arena, and those behind it as long as they complete, or only say that
 * ticks are over. */
HOT static int run_arena(struct arena *arena)
{
    struct list *item = arena->machines.next;
    int events = 0;

    while (item != &arena->machines && arena->state != ARENA_OPENING) {
        struct shared_machine *machine = list_entry(item, struct shared_machine, link);
        pami_result_t result = PAMI_SUCCESS;

        if (!machine->started || arena_is_held(arena, machine->tick))
            break;
        if (machine->row != NULL)
            machine->counted = shared_is_counted(machine);
        if (unlikely(machine->segments == 0) && arena->state == ARENA_READY)
            set_segments(machine);
        if (arena->state == ARENA_READY && is_broken(machine))
            result = PAMI_ERROR;
        else if (arena->state != ARENA_READY)
            result = PAMI_EAGAIN;
        else if (run(machine))
            result = machine->failure;
        else if (machine->row == NULL && !arena->stranded) {
            item = item->next;
            continue;
        } else if (!arena->stranded) {
            say_where(machine);
            break;
        } else {
            arena_break(arena, machine->tick);
            result = PAMI_ERROR;
        }
        if (unlikely(result != PAMI_SUCCESS))
            shared_revoke(machine);
        if (unlikely(arena->race != NULL))
            shared_race_ends(arena, machine->call.bytes);
        list_remove(&machine->link);
        events++;
        machine->done(machine, result);
        item = arena->machines.next;
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
HOT static int run_all(struct retry *retry, struct context *context)
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
           arena->machines.next == &machine->link && !arena_is_held(arena, machine->tick) &&
           shared_may_write(machine);
}

HOT void shared_post_ahead(struct shared_machine *machine, uint64_t tick)
{
    struct arena *arena = machine->arena;

    if (arena->crowded || !is_again(machine) || machine->way != THROUGH_SLOTS ||
        arena->state != ARENA_READY || arena->shared->running || !list_empty(&arena->machines) ||
        arena_is_held(arena, tick) || !machine->row->posts(machine))
        return;
    machine->tick = tick;
    machine->stamp = stamp_of(machine, tick);
    machine->posted = 0;
    if (is_broken(machine) || !shared_may_write(machine))
        return;
    machine->row->post(machine, 0);
    shared_publish(machine, LINE_POST, 1);
    machine->ahead = tick + 1;
}

HOT void shared_start(struct shared_machine *machine)
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
        shared_revoke(machine);
        if (machine->row == NULL)
            shared_skip_free(machine);
    }
}

void shared_give_up(struct shared_machine *machine)
{
    list_remove(&machine->link);
    arena_break(machine->arena, machine->tick);
    shared_revoke(machine);
}

static uint64_t mark_all(const struct retry *retry)
{
    const struct shared *shared = container_of(retry, struct shared, retry);
    struct list *item;
    uint64_t mark = 0;

    list_for_each (item, &shared->active) {
        const struct arena *arena = list_entry(item, struct arena, active);
        const struct shared_machine *machine = NULL;
        struct list *next;

        list_for_each (next, &arena->machines) {
            machine = list_entry(next, struct shared_machine, link);
            mark += shared_mark(machine);
            if (machine->row != NULL)
                break;
        }
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
