/*
 * Machines that wait in an arena for a member that may not be there: questions, and what follows
 * from the answers; see ask.h.
 */
#include "coll/flight.h"
#include "coll/shared/shared.h"

/* ---- questions ---- */

/* The machine that others, or this member, may wait for. */
static struct shared_machine *first_of(const struct arena *arena)
{
    struct list *item;

    list_for_each (item, &arena->machines) {
        struct shared_machine *machine = list_entry(item, struct shared_machine, link);

        if (machine->row != NULL)
            return machine;
    }
    return NULL;
}

static size_t ask_members(struct arena *arena, const struct shared_machine *machine)
{
    /* No run has the last tick of a block: what says that it is over is about the one before. */
    uint64_t tick = machine->tick - (machine->tick % (GROUP_BLOCK + 1) == GROUP_BLOCK);
    const struct flight_head head = {
        .identity = arena->identity,
        .sequence = (uint32_t)arena_number(tick),
        .word = arena->channel | (uint32_t)(machine->stamp & ARENA_CHECK_MASK)
                                     << SHARED_CHECK_SHIFT,
    };

    for (uint32_t i = 0; i < arena->size; i++)
        if (i != arena->rank)
            flight_tell(arena->shared->context, &head, arena->endpoints[i],
                        FLIGHT_ASK | FLIGHT_OVER);
    return arena->size - 1;
}

/* Or what says that ticks are over, and must wait until the others are done with them. What is held
 * waits for this member itself. */
static const struct shared_machine *next_of(const struct arena *arena)
{
    const struct shared_machine *machine = first_of(arena);

    if (machine == NULL || !machine->started) {
        if (list_empty(&arena->machines) || arena->state != ARENA_READY)
            return NULL;
        machine = list_entry(arena->machines.next, struct shared_machine, link);
    }
    return arena_is_held(arena, machine->tick) ? NULL : machine;
}

static bool wants_to_ask(struct arena *arena, const struct shared_machine *machine, bool now)
{
    return machine != NULL && machine->started &&
           doubt_grows(&arena->doubt, shared_mark(machine) + 1, now);
}

size_t shared_ask(struct shared *shared, bool now)
{
    struct list *item;
    size_t asked = 0, about = 0;

    arena_reap(shared);
    arena_reap_offers(shared);
    list_for_each (item, &shared->arenas) {
        struct arena *arena = list_entry(item, struct arena, link);
        const struct shared_machine *machine = next_of(arena);

        if (!wants_to_ask(arena, machine, now))
            continue;
        asked += ask_members(arena, machine);
        if (++about == ASK_MOST && !now)
            break;
    }
    return asked;
}

/* ---- the member asked ---- */

void shared_asked(struct shared *shared, const struct flight_head *head, uint64_t over)
{
    struct arena *arena = arena_find(shared, head->identity, head->word & FLIGHT_CHANNEL_MASK);
    const struct shared_machine *machine = arena != NULL ? first_of(arena) : NULL;
    uint64_t tick, held;

    if (arena == NULL || arena->state != ARENA_READY)
        return;
    /* It may never have had a tick that the other one waits for it to be done with. */
    tick = machine != NULL ? machine->tick : arena_tick(over);
    held = arena_first_held(arena);
    arena_say_done_before(arena, held < tick ? held : tick);
}

/* ---- the answer ---- */

bool shared_has_not_come(const struct shared_machine *machine, enum arena_kind kind, uint64_t index,
                         uint32_t member)
{
    struct arena_line *line = arena_line(machine->arena, kind, machine->tick, member);

    return atomic_load_explicit(&line->count, memory_order_acquire) != machine->stamp ||
           (machine->segments != 1 &&
            atomic_load_explicit(&line->segments, memory_order_acquire) <= index);
}

bool shared_misses(const struct shared_machine *machine, uint32_t endpoint)
{
    const struct arena *arena = machine->arena;
    uint32_t member = 0, from, to;

    while (member < arena->size && arena->endpoints[member] != endpoint)
        member++;
    if (member == arena->size || !machine->started || machine->abandoned)
        return false;
    /* Whether there is an arena its leader says, before its answer, but maybe after that of others
     * who know already. None has the run behind it before the leader has said so. */
    if (arena->state != ARENA_READY)
        return arena->state == ARENA_OPENING && (member == 0 || arena->rank == 0);
    /* All that it has posted was there before its answer. */
    if (atomic_load_explicit(&arena_done(arena, member)->count, memory_order_acquire) <=
        machine->tick)
        return true;
    if (machine->way == DIRECT)
        return shared_direct_misses(machine, member);
    if (machine->way == TREE)
        return shared_tree_misses(machine, member);
    if (machine->counted)
        return machine->posted != 0 &&
               atomic_load_explicit(&arena_slice(arena, machine->tick)->release.count,
                                    memory_order_acquire) != machine->stamp;
    if (machine->relayed && shared_relay_misses(machine, member))
        return true;
    if (machine->split && machine->staged < machine->taken &&
        shared_has_not_come(machine, LINE_STAGE, machine->staged, member))
        return true;
    machine->row->wants(machine, &from, &to);
    return machine->taken < machine->posted && member >= from && member < to &&
           shared_has_not_come(machine, LINE_POST, machine->taken, member);
}
