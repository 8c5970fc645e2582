/*
 * Who shares a processor with whom, in a crowded arena.
 *
 * Who waits for a member on its own processor must give that up, or the member does not run. Who
 * waits for members on others only had better keep it: given up, it goes to a member that waits as
 * well, and the one that runs next begins with a switch. So each member that arrives at a tick says
 * so on a line of its processor, beside the number of members that were seen there last. Several
 * processors may have one line: they count as one then.
 *
 * All this is a hint, for where few share a processor (client_core.spread). Members move between
 * processors, and end, without a word; nobody keeps its processor for longer than PATIENCE looks.
 */
#include <sched.h>

#include "coll/shared/shared.h"

/* Looks at a release that may find nothing while nobody else here is missing; about 3 us. */
#define PATIENCE 32u

__attribute__((noinline)) static void move(struct arena *arena, struct arena_processor *to)
{
    if (arena->seat != NULL)
        atomic_fetch_sub_explicit(&arena->seat->members, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&to->members, 1, memory_order_relaxed);
    arena->seat = to;
}

/* Counted as in the slice: arrivals below the tick. */
HOT void shared_sit_down(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    const uint64_t none = (machine->tick + 1) << ARENA_CHECK_BITS;
    struct arena_processor *here;
    uint64_t seen;

    machine->patience = 0;
    if (!arena->shared->spreads)
        return;
    here = arena_processors(arena) + (unsigned)sched_getcpu() % ARENA_PROCESSORS;
    if (unlikely(here != arena->seat))
        move(arena, here);
    seen = atomic_load_explicit(&here->arrived, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&here->arrived, &seen,
                                                  (seen < none ? none : seen) + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
    machine->patience = PATIENCE;
}

HOT bool shared_keeps_processor(struct shared_machine *machine)
{
    const struct arena_processor *here = machine->arena->seat;
    const uint64_t none = (machine->tick + 1) << ARENA_CHECK_BITS;

    if (machine->patience == 0)
        return false;
    machine->patience--;
    return atomic_load_explicit(&here->arrived, memory_order_relaxed) >=
           none + atomic_load_explicit(&here->members, memory_order_relaxed);
}
