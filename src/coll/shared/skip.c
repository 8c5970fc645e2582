/*
 * Ticks that a member will not run, or not to their end: machines that say so in its lines when
 * their turn comes; see shared.h. What they do then is in machine.c.
 */
#include <stdlib.h>

#include "coll/shared/shared.h"

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

/* All ticks before that of the stamp, the last one because of `why`. */
static void skip_before(struct arena *arena, uint64_t stamp, pami_result_t why, bool counts)
{
    struct shared_machine *skip = skip_new(arena);
    struct list *place = arena->machines.prev;
    uint64_t tick = stamp >> ARENA_CHECK_BITS;

    if (skip == NULL) {
        arena_break(arena, tick - 1);
        return;
    }
    skip->done = skip_done;
    skip->tick = tick - 1;
    skip->stamp = stamp;
    skip->segments = 1;
    skip->started = skip->abandoned = true;
    skip->failure = why;
    skip->counted = counts;
    while (place != &arena->machines &&
           list_entry(place, struct shared_machine, link)->tick >= tick)
        place = place->prev;
    list_push_front(place, &skip->link);
    arena->reserved = arena->reserved < tick ? tick : arena->reserved;
    shared_poll_later(arena);
}

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

void shared_abandon(struct shared_machine *machine, pami_result_t result)
{
    struct arena *arena = machine->arena;

    machine->failure = result;
    machine->abandoned = machine->started = true;
    if (arena->state == ARENA_OPENING) {
        /* Others may not want it at all, or the leader may have destroyed the geometry since it
         * failed there: it may never be opened. */
        list_remove(&machine->link);
        skip_before(arena, machine->stamp - (result == PAMI_INVAL ? machine->check : 0), result,
                    false);
        machine->done(machine, PAMI_EAGAIN);
    } else if (arena->machines.next == &machine->link) {
        shared_poll_later(arena);
    }
}
