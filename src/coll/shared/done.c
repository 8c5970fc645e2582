/*
 * How far members have come in an arena: what each says in its line of what is done. Whoever wants
 * to use a slice, or a buffer, again waits for all of them.
 */
#include "coll/shared/arena.h"
#include "util/cpu.h"

struct arena_position arena_done_of(struct arena *arena, uint32_t member,
                                    struct arena_position position)
{
    struct arena_line *line = arena_done(arena, member);
    struct arena_position done;

    /* In this order: a member stores them the other way round when it ends a tick. */
    done.tick = atomic_load_explicit(&line->count, memory_order_acquire);        /* A4 */
    done.segments = atomic_load_explicit(&line->segments, memory_order_acquire); /* A4 */
    if (unlikely(arena->lost) && arena->left[member] && arena_is_behind(done, position))
        arena->stranded = true;
    return done;
}

bool arena_look_done(struct arena *arena, struct arena_position position)
{
    struct arena_position least = {UINT64_MAX, 0};

    for (uint32_t i = 0; i < arena->size; i++) {
        struct arena_position done = arena_done_of(arena, i, position);

        if (arena_is_behind(done, least))
            least = done;
    }
    arena->known_done = least;
    return !arena_is_behind(least, position);
}
