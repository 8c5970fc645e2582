/*
 * Ticks that are reserved but not handed out: a composition takes the numbers of all its runs when
 * it starts, and with them their ticks, while a machine has one run at a time. What comes after
 * such a tick waits in its arena until the run has been handed out, or will not be; see arena.h.
 */
#include "coll/coll.h"
#include "coll/shared/shared.h"

uint64_t arena_look_held(const struct arena *arena)
{
    uint64_t first = UINT64_MAX;

    for (const struct arena_hold *hold = arena->holds; hold != NULL; hold = hold->next)
        if (hold->tick < first)
            first = hold->tick;
    return first;
}

void shared_hold(struct group *group, struct arena_hold *hold, uint64_t number)
{
    struct arena *arena = hold->arena != NULL ? hold->arena : shared_arena(group, number);

    if (arena == NULL) /* out of memory: so its runs will find out */
        return;
    hold->tick = arena_tick(number);
    if (hold->arena == NULL) {
        hold->arena = arena;
        hold->next = arena->holds;
        arena->holds = hold;
    } else if (!list_empty(&arena->machines)) {
        shared_poll_later(arena);
    }
}

void shared_let_go(struct arena_hold *hold)
{
    struct arena *arena = hold->arena;
    struct arena_hold **link;

    if (arena == NULL)
        return;
    for (link = &arena->holds; *link != hold;)
        link = &(*link)->next;
    *link = hold->next;
    hold->arena = NULL;
    if (!list_empty(&arena->machines))
        shared_poll_later(arena);
}
