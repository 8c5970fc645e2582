/*
 * Ticks that a member will not run, or not to their end: machines that say so in its lines when
 * their turn comes; see shared.h.
 *
 * A line says so when all members are done with what was there before. A member that has stopped
 * after an error never is. So nothing waits for this: collectives that come later go on. In
 * `posted` are the slices where it has been said, a bit each.
 */
#include <stdlib.h>

#include "coll/shared/tick.h"

/* The arena has one to spare: without it and without memory, all that comes would have to fail. */
static struct shared_machine *skip_new(struct arena *arena)
{
    struct shared_machine *skip = calloc(1, sizeof(*skip));

    if (skip == NULL) {
        skip = arena->spare;
        arena->spare = NULL;
    }
    if (skip != NULL)
        *skip = (struct shared_machine){.arena = arena};
    return skip;
}

void shared_skip_free(struct shared_machine *skip)
{
    struct arena *arena = skip->arena;

    if (arena->spare == NULL)
        arena->spare = skip;
    else
        free(skip);
}

/* What only says that ticks are over has no row. */
static void skip_done(struct shared_machine *skip, pami_result_t result)
{
    (void)result;
    shared_skip_free(skip);
}

/* One that says the same of ticks before, right in front of there; or a new one. */
static struct shared_machine *skip_at(struct arena *arena, struct list *place, pami_result_t why)
{
    struct shared_machine *skip = list_entry(place, struct shared_machine, link);

    if (place != &arena->machines && skip->row == NULL && skip->failure == why && !skip->counted)
        return skip;
    skip = skip_new(arena);
    if (skip == NULL)
        return NULL;
    skip->done = skip_done;
    skip->segments = 1;
    skip->started = skip->abandoned = true;
    skip->failure = why;
    list_push_front(place, &skip->link);
    return skip;
}

/* All ticks before that of the stamp, the last one because of `why`. */
static void skip_before(struct arena *arena, uint64_t stamp, pami_result_t why, bool counts)
{
    struct list *place = arena->machines.prev;
    uint64_t tick = stamp >> ARENA_CHECK_BITS;
    struct shared_machine *skip;

    while (place != &arena->machines &&
           list_entry(place, struct shared_machine, link)->tick >= tick)
        place = place->prev;
    skip = skip_at(arena, place, why);
    if (skip == NULL) {
        arena_break(arena, tick - 1);
        return;
    }
    skip->tick = tick - 1;
    skip->stamp = stamp;
    skip->posted = 0;
    skip->counted = counts;
    arena->reserved = arena->reserved < tick ? tick : arena->reserved;
    shared_poll_later(arena);
}

/* ---- running ---- */

void shared_keep_slice(struct arena *arena, uint32_t place, uint64_t tick)
{
    arena->line_used[place] = tick + 1;
    arena->line_readers[place].tick = 0;
    arena->line_owed[place].tick = 0;
}

/* All members must be done with that. What waits to be said is as good as another error. */
static struct arena_position before_failure(const struct shared_machine *machine, uint32_t place)
{
    const struct arena_owed *owed = &machine->arena->line_owed[place];
    uint64_t used = machine->arena->line_used[place];

    return (struct arena_position){
        .tick = owed->tick == used && shared_has_error(machine) ? owed->before : used};
}

bool shared_may_fail(const struct shared_machine *machine, uint32_t place)
{
    return arena_all_done(machine->arena, before_failure(machine, place));
}

/* Later. What comes until then keeps to it as if it had been said. */
static void owe(const struct shared_machine *skip, uint32_t place)
{
    struct arena *arena = skip->arena;
    uint64_t before = before_failure(skip, place).tick;

    shared_keep_slice(arena, place, skip->tick);
    arena->line_owed[place] = (struct arena_owed){skip->tick + 1, before};
}

static void say(const struct shared_machine *skip, uint32_t place)
{
    struct arena *arena = skip->arena;

    if (shared_has_error(skip)) {
        arena_say_gone(arena);
        shared_keep_slice(arena, place, skip->tick);
    }
    for (int kind = 0; kind < LINE_KINDS; kind++)
        atomic_store_explicit(&arena_line(arena, (enum arena_kind)kind, place, arena->rank)->count,
                              shared_failure_stamp(skip), memory_order_release);
}

/* A later collective was faster, or says the same. */
static bool is_late(const struct shared_machine *skip, uint32_t place)
{
    uint64_t used = skip->arena->line_used[place];

    return used > skip->tick + 1 ||
           (used == skip->tick + 1 && skip->arena->line_owed[place].tick != used);
}

/*
 * Ticks up to this one are over, whether this member took part or not: whoever waits for it in one
 * sees the stamp of a later one. A slice may be written again at once, unless there was an error:
 * then all must be done with these ticks before.
 */
bool shared_run_skip(struct shared_machine *skip)
{
    struct arena *arena = skip->arena;
    bool all = true, looked = false;

    shared_say_error(skip);
    arena_say_done_before(arena, skip->tick + 1);
    if (skip->counted)
        shared_arrive(skip, skip->tick - GROUP_BLOCK); /* of the collective itself */
    skip->counted = false;
    for (uint32_t place = 0; place <= arena->slice_mask; place++) {
        uint64_t bit = UINT64_C(1) << place;
        struct arena_position before = before_failure(skip, place);
        bool done = !arena_is_behind(arena->known_done, before);

        if (skip->posted & bit || is_late(skip, place))
            continue;
        if (!done && !looked) { /* once in a pass */
            done = arena_look_done(arena, before);
            looked = true;
        }
        all = all && done;
        skip->posted |= done ? bit : 0;
        if (done)
            say(skip, place);
        else if (shared_has_error(skip))
            owe(skip, place);
    }
    return all;
}

/* ---- beginning ---- */

void shared_skip(struct shared *shared, uint64_t identity, uint64_t next, pami_result_t why,
                 bool counts)
{
    uint64_t stamp = arena_tick(next) << ARENA_CHECK_BITS;
    struct list *item;

    list_for_each (item, &shared->arenas) {
        struct arena *arena = list_entry(item, struct arena, link);

        if (arena->identity != identity || arena->closing)
            continue;
        if (arena->channel != 0)
            skip_before(arena, stamp, why, false);
        else if (counts && arena->crowded && arena->size > 2 && arena->state == ARENA_READY)
            skip_before(arena, stamp, PAMI_INVAL, true);
    }
}

void shared_skip_runs(struct shared *shared, uint64_t identity, uint64_t next, pami_result_t why)
{
    struct arena *arena = arena_find(shared, identity, 0);

    if (arena != NULL)
        skip_before(arena, arena_tick(next) << ARENA_CHECK_BITS, why, false);
}

void shared_skip_missed(struct arena *arena, uint64_t next)
{
    skip_before(arena, arena_tick(next) << ARENA_CHECK_BITS, PAMI_ERROR, false);
}

void shared_skip_failed(const struct shared_machine *machine)
{
    bool error = machine->failure != PAMI_INVAL;

    skip_before(machine->arena, machine->stamp - (error ? 0 : machine->check), machine->failure,
                false);
}

void shared_abandon(struct shared_machine *machine, pami_result_t result)
{
    struct arena *arena = machine->arena;

    machine->failure = result;
    machine->abandoned = machine->started = true;
    if (arena->state == ARENA_OPENING) {
        /* Others may not want it at all, or the leader may have destroyed the geometry since it
         * failed there: it may never be opened. */
        list_remove(&machine->link);
        shared_skip_failed(machine);
        machine->done(machine, PAMI_EAGAIN);
    } else if (arena->machines.next == &machine->link) {
        shared_poll_later(arena);
    }
}
