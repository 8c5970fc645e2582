/*
 * Ticks that are reserved but not handed out: a composition takes the numbers of all its runs when
 * it starts, and with them their ticks, while a machine has one run at a time. What comes after
 * such a tick waits in its arena until the run has been handed out, or will not be; see arena.h.
 */
#include "coll/shared/shared.h"

/* Behind those before it: holds begin, and go on, behind most others. */
static void put_in(struct arena *arena, struct arena_hold *hold)
{
    struct list *place = arena->holds.prev;

    while (place != &arena->holds && list_entry(place, struct arena_hold, link)->tick > hold->tick)
        place = place->prev;
    list_insert_after(place, &hold->link);
}

void shared_hold(struct group *group, struct arena_hold *hold, uint64_t number)
{
    struct arena *arena = hold->arena != NULL ? hold->arena : shared_arena(group, number);

    if (arena == NULL) /* out of memory: so its runs will find out */
        return;
    hold->tick = arena_tick(number);
    if (hold->arena != NULL) {
        list_remove(&hold->link);
        if (!list_empty(&arena->machines))
            shared_poll_later(arena);
    }
    hold->arena = arena;
    put_in(arena, hold);
}

void shared_let_go(struct arena_hold *hold)
{
    struct arena *arena = hold->arena;

    if (arena == NULL)
        return;
    list_remove(&hold->link);
    hold->arena = NULL;
    if (!list_empty(&arena->machines))
        shared_poll_later(arena);
}
