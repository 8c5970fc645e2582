/*
 * Steps of a machine in its tick, for the files that run machines: machine.c (through slots),
 * counted.c (crowded arenas), tree.c (trees), direct.c and direct_move.c (between the members' own
 * memory).
 */
#ifndef LIBPAMI_COLL_SHARED_TICK_H
#define LIBPAMI_COLL_SHARED_TICK_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/shared/shared.h"

/* So many segments are there now: A1. */
void shared_publish(struct shared_machine *machine, enum arena_kind kind, uint64_t segments);

/* So many segments are done with; after the last one, or an error, the tick is: A3. */
void shared_publish_done(const struct shared_machine *machine, uint64_t segments);

/* The stamp of the machine's tick is of another collective: this one fails. */
void shared_disagree(struct shared_machine *machine, uint64_t stamp);

/* Whoever waits for this member in the tick sees that it has failed. */
void shared_fail_lines(const struct shared_machine *machine);

/* Has this member come to segment `index`? */
bool shared_member_has_come(struct shared_machine *machine, enum arena_kind kind, uint64_t index,
                            uint32_t member);

/* It has failed, but not because members disagree: for want of memory, or as somebody has gone. */
static inline bool shared_has_error(const struct shared_machine *machine)
{
    return machine->failure != PAMI_SUCCESS && machine->failure != PAMI_INVAL;
}

/* Before the tick is done with: who waits for this member in vain sees that it had an error. */
static inline void shared_say_error(const struct shared_machine *machine)
{
    struct arena_line *done = arena_done(machine->arena, machine->arena->rank);

    if (shared_has_error(machine) &&
        atomic_load_explicit(&done->failed, memory_order_relaxed) <= machine->tick)
        atomic_store_explicit(&done->failed, machine->tick + 1, memory_order_release);
}

/* What others read instead of this stamp when the collective has failed. */
static inline uint64_t shared_failed(uint64_t stamp, bool error)
{
    uint64_t tick = stamp & ~(ARENA_CHECK_MASK | ARENA_DISAGREE);

    return tick | (error ? ARENA_FAILED_ELSEWHERE : ARENA_DISAGREE);
}

/* The same of a machine that has failed. */
static inline uint64_t shared_failure_stamp(const struct shared_machine *machine)
{
    return shared_failed(machine->stamp, shared_has_error(machine));
}

/* The own slot of the next segment may be written, and with the first one the own lines. */
static inline bool shared_may_write(const struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    uint64_t index = machine->posted;
    uint32_t place = arena_place(arena, machine->tick);
    struct arena_position lines = {arena->line_used[place], 0};

    if (index == 0 && lines.tick != machine->tick + 1 &&
        !arena_was_read(arena, lines, &arena->line_readers[place]))
        return false;
    if (machine->is_inline)
        return true;
    place = arena_buffer_place(arena, machine->slice + index);
    return arena_was_read(arena, arena->used[place], &arena->readers[place]);
}

/* Is this the stamp of the machine's tick? */
static inline bool shared_has_come(struct shared_machine *machine, uint64_t stamp)
{
    if (likely(stamp == machine->stamp))
        return true;
    /* Of a later tick: the member has left this one out. */
    if (unlikely(stamp >> ARENA_CHECK_BITS >= machine->stamp >> ARENA_CHECK_BITS))
        shared_disagree(machine, stamp);
    return false;
}

/* ---- skip.c ---- */

/* Nobody reads as another stamp what the own lines of a slice say of this tick and those before: a
 * later one would say that members disagree. */
void shared_keep_slice(struct arena *arena, uint32_t place, uint64_t tick);

/* The failure of this machine may be said in the own lines of a slice. */
bool shared_may_fail(const struct shared_machine *machine, uint32_t place);

/* True: it has said everywhere that ticks are over. */
bool shared_run_skip(struct shared_machine *skip);

/* ---- counted.c ---- */

bool shared_is_counted(const struct shared_machine *machine);

/* True: complete. */
bool shared_run_counted(struct shared_machine *machine);

/* The last one of a tick combines for all, or tells all that one of them has failed. */
void shared_arrive(struct shared_machine *machine, uint64_t tick);

/* ---- tree.c ---- */

/* If there are so many members, or the call is for one. */
bool shared_takes_tree(const struct shared_machine *machine);

static inline bool shared_is_tree(const struct shared_machine *machine)
{
    const struct arena *arena = machine->arena;

    /* Without an arena for trees: 0. */
    return unlikely(machine->call.tree || arena->size - 1 >= arena->tree.members - 1u) &&
           shared_takes_tree(machine);
}

/* True: complete, or failed. */
bool shared_run_tree(struct shared_machine *machine);

/* Neighbours that wait for it see that it has failed. */
void shared_fail_tree(struct shared_machine *machine);

/* ---- relay.c ---- */

/* Has the member before this one in its relay posted what this one adds to? */
bool shared_relay_is_here(struct shared_machine *machine);

/* ---- direct.c ---- */

bool shared_is_direct(const struct shared_machine *machine);

/* True: complete, failed, or to go through slots. */
bool shared_run_direct(struct shared_machine *machine);

/* The first machine, which takes part in arena->race, is complete. */
void shared_race_ends(struct arena *arena, size_t bytes);

/* Before a machine ends without the others: from here on none of them writes to its buffers. */
void shared_revoke(const struct shared_machine *machine);

static inline struct arena_direct *shared_direct_line(const struct shared_machine *machine,
                                                      enum arena_kind kind, uint32_t member)
{
    return &arena_line(machine->arena, kind, machine->tick, member)->direct;
}

/* From one of two members to the other. */
static inline bool shared_is_one_way(enum shared_kind kind)
{
    return kind == SHARED_BROADCAST || kind == SHARED_GATHER || kind == SHARED_SCATTER;
}

/* Who gets data that goes one way. */
static inline uint32_t shared_taker(const struct shared_call *call)
{
    return call->kind == SHARED_GATHER ? call->root : 1 - call->root;
}

/* ---- direct_move.c ---- */

/* How many copies a member makes. */
uint64_t shared_direct_pieces(const struct shared_machine *machine);

/* The next one: 0 or a negative errno. */
int shared_direct_move(struct shared_machine *machine);

#endif
