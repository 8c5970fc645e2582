/*
 * Long collectives between the members' own memory, by the kernel's single copy, where there is a
 * processor for each member.
 *
 * With its POST stamp a member says where its buffers are. When all have, each writes its blocks
 * into the others' memory; in an all-reduce each combines an equal part of all operands, which it
 * reads, and writes the result to the others. Of a broadcast, gather or scatter of two members both
 * copy what goes from one to the other, piece by piece, whoever comes to the next one first. Its
 * STAGE stamp says that it has, and how it went; with those of all the collective is complete.
 *
 * Where a member cannot do that (types with gaps; no single copy, unless the buffers of all are in
 * their shared heaps), or a copy fails, all of them go through the slots instead, in the same tick:
 * contributions are as they were. Those to an all-reduce in place are not; if its memory, or the
 * process, is such that it may fail, slots are used at once.
 *
 * One member, the first or who gets the data, may as well say that it cannot because slots have
 * turned out faster, as where system calls are slow (an AMD EPYC, 1 MiB, us, always direct and now:
 * all-reduce 121 and 97, allgather 124 and 100, alltoall 126 and 107).
 *
 * A member that ends with an error before the others must not be written to any more. It shuts its
 * memory for the tick, then waits until nobody is in the middle of a copy; a writer says that it
 * is, then looks whether the memory is shut (all sequentially consistent). So one of the two sees
 * the other.
 *
 * Two tasks, an Intel Xeon, us, through slots, by messages, and direct, where contributions are
 * rewritten before and results read after each run (bench/coll, medians of three): 256 KiB,
 * all-reduce 28.5, 27.6, 22.9; allgather 30.9, 33.1, 22.7; alltoall 31.4, 26.3, 23.0. 1 MiB, 135,
 * 115, 89; 172, 163, 110; 206, 160, 156. 4 MiB, 639, 566, 433; 780, 697, 678; 876, 696, 686. Below
 * 128 KiB slots are as fast. Results that are read by those who want them, instead of written, took
 * 25 % longer.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "coll/gone.h"
#include "coll/shared/tick.h"
#include "p2p/message.h"
#include "util/clock.h"
#include "util/probe.h"
#include "util/race.h"
#include "util/yield.h"

/* Classes of sizes that race. */
#define RACE_SIZES 4u

/* Whoever copies for longer is dead, and its copy is over. */
#define REVOKE_US 1000000u

/* In `state` of struct arena_direct, at POST: a sum of these, or 0 where it can do nothing. */
enum {
    COPIES = 1,    /* it reaches all others, wherever their buffers are */
    CASTS = 2,     /* all reach its buffers without the kernel, and it theirs, if they say so */
    OVERWRITES = 4 /* contributions will be overwritten */
};

/* ... at STAGE. */
enum {
    DONE,
    FAILED
};

/* ---- whether, and where ---- */

bool shared_is_direct(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    const struct arena *arena = machine->arena;

    if (arena->direct_bytes == 0 || call->bytes < arena->direct_bytes || arena->crowded ||
        arena->size == 1 || machine->segments == 1 || call->block_bytes != NULL)
        return false;
    if (shared_is_one_way(call->kind))
        return arena->size == 2;
    return call->kind == SHARED_ALLGATHER || call->kind == SHARED_ALLTOALL ||
           (call->kind == SHARED_ALLREDUCE && !operator_is_user(call->op) &&
            !operator_is_copy(call->op));
}

/* Others know where block b lies. */
static bool is_row(const struct area_map *map, uint64_t bytes)
{
    return shared_is_plain(map) && map->blocks == BLOCKS_EQUAL && map->distance == bytes;
}

static bool reaches_all(const struct arena *arena)
{
    for (uint32_t i = 0; i < arena->size; i++)
        if (i != arena->rank && arena->copy(arena, i, true, NULL, 0, 0) != 0)
            return false;
    return true;
}

/* Its buffers are where the others can find the blocks. */
static bool has_places(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    bool root = machine->arena->rank == call->root;
    bool sends = call->kind != SHARED_SCATTER || root;
    bool receives = call->kind != SHARED_GATHER || root;

    if ((sends && !shared_is_plain(&call->send)) || (receives && !shared_is_plain(&call->recv)))
        return false;
    switch (call->kind) {
    case SHARED_ALLGATHER:
        return is_row(&call->recv, call->bytes);
    case SHARED_ALLTOALL:
        return is_row(&call->recv, call->bytes) && !call->in_place;
    case SHARED_GATHER:
        return !receives || is_row(&call->recv, call->bytes);
    case SHARED_SCATTER:
        return !sends || is_row(&call->send, call->bytes);
    default:
        return true;
    }
}

/* What others read and write of this member is in its shared heap. */
static bool casts(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    const struct arena *arena = machine->arena;
    bool one_way = shared_is_one_way(call->kind);
    bool taker = one_way && arena->rank == shared_taker(call);
    bool reduces = call->kind == SHARED_ALLREDUCE;
    bool from_row = call->kind == SHARED_SCATTER;
    bool into_row = !reduces && !from_row && call->kind != SHARED_BROADCAST;
    uint64_t row = arena->size * call->bytes;

    if ((reduces || (one_way && !taker)) &&
        !arena->casts(arena, shared_data_at(&call->send, 0, 0), from_row ? row : call->bytes))
        return false;
    return (one_way && !taker) ||
           arena->casts(arena, shared_data_at(&call->recv, 0, 0), into_row ? row : call->bytes);
}

/* Nothing keeps copies from working, until they have. A process that has given up privileges, or
 * hides its memory, is not dumpable any more. */
static bool is_steady(const struct shared_call *call)
{
    return probe_writable((void *)((uintptr_t)shared_data_at(&call->recv, 0, 0) & ~(uintptr_t)3)) &&
           prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
}

static uint64_t what_it_can(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    bool overwrites = call->kind == SHARED_ALLREDUCE && call->in_place;
    uint64_t state = 0;

    if (!has_places(machine))
        return 0;
    if (reaches_all(machine->arena) && (!overwrites || is_steady(call)))
        state |= COPIES;
    if (casts(machine))
        state |= CASTS;
    return state != 0 && overwrites ? state | OVERWRITES : state;
}

/* Whether slots are faster is found out for each of these kinds of collectives, of memory in the
 * heap and elsewhere, and for sizes within a factor of four. */
static struct race *race_of(struct arena *arena, const struct shared_call *call, bool heap)
{
    size_t size = race_size(call->bytes, 4 * arena->direct_bytes, RACE_SIZES);
    struct race *race;

    if (arena->races == NULL)
        arena->races = calloc((size_t)2 * SHARED_KINDS * RACE_SIZES, sizeof(*arena->races));
    if (arena->races == NULL)
        return NULL;
    race = &arena->races[(2 * call->kind + heap) * RACE_SIZES + size];
    if (race_is_known(race))
        return race;
    race_init(race, NULL);
    if (heap)
        race_warms_up(race);
    return race;
}

/* One member decides that slots are to be used, though all could reach each other: who gets the
 * data, as the other one may be done with its slots long before. */
static bool prefers_slots(struct shared_machine *machine, bool heap)
{
    struct arena *arena = machine->arena;
    uint32_t decides = shared_is_one_way(machine->call.kind) ? shared_taker(&machine->call) : 0;

    if (arena->rank != decides || !arena->shared->races)
        return false;
    arena->race = race_of(arena, &machine->call, heap);
    if (arena->race == NULL)
        return false;
    arena->race_ticket = race_begin(arena->race, clock_ticks());
    return race_way(arena->race_ticket) == RACE_OTHER;
}

void shared_race_ends(struct arena *arena, size_t bytes)
{
    race_end(arena->race, arena->race_ticket, clock_ticks(), bytes);
    arena->race = NULL;
}

static void stamp(const struct shared_machine *machine, enum arena_kind kind, uint64_t state)
{
    struct arena *arena = machine->arena;
    struct arena_line *line = arena_line(arena, kind, machine->tick, arena->rank);

    /* Nothing has come through the slots. */
    atomic_store_explicit(&line->segments, 0, memory_order_relaxed);
    line->direct.stamp = machine->stamp;
    line->direct.state = state;
    atomic_store_explicit(&line->count, machine->stamp, memory_order_release); /* A1 */
}

static void offer(struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    struct arena *arena = machine->arena;
    struct arena_direct *own = shared_direct_line(machine, LINE_POST, arena->rank);
    struct arena_direct *later = shared_direct_line(machine, LINE_STAGE, arena->rank);
    uint64_t state = what_it_can(machine);

    /* They hold what an earlier collective has left there, for who sees the stamp. */
    atomic_store_explicit(&later->busy, 0, memory_order_relaxed);
    atomic_store_explicit(&later->shut, 0, memory_order_relaxed);
    atomic_store_explicit(&later->next, 0, memory_order_relaxed);
    if (state != 0 && prefers_slots(machine, (state & CASTS) != 0))
        state = 0;
    own->bytes = call->bytes;
    own->send = own->recv = 0;
    if (state != 0) {
        own->send = (uintptr_t)shared_data_at(&call->send, 0, 0);
        own->recv = (uintptr_t)shared_data_at(&call->recv, 0, 0);
    }
    arena->line_used[arena_place(arena, machine->tick)] = machine->tick + 1;
    stamp(machine, LINE_POST, state);
    machine->posted = 1;
}

/* Who takes data may run something else, that needs no stamp of its own and has failed, or an error
 * keeps it from this. What stands for its stamp then; 0: nothing. */
static uint64_t failure_of(const struct shared_machine *machine, enum arena_kind kind,
                           uint32_t member)
{
    const struct arena_line *done = arena_done(machine->arena, member);

    if (kind != LINE_POST || !shared_is_one_way(machine->call.kind) ||
        atomic_load_explicit(&done->count, memory_order_acquire) <= machine->tick)
        return 0;
    return atomic_load_explicit(&done->failed, memory_order_acquire) > machine->tick
               ? ARENA_FAILED_ELSEWHERE
               : ARENA_DISAGREE;
}

/* The member has not stamped its line. */
static bool is_missing(struct shared_machine *machine, enum arena_kind kind, uint32_t member)
{
    struct arena_line *line = arena_line(machine->arena, kind, machine->tick, member);

    return !shared_has_come(machine, atomic_load_explicit(&line->count, memory_order_acquire));
}

static bool all_have(struct shared_machine *machine, enum arena_kind kind)
{
    struct arena *arena = machine->arena;
    bool missing = false;

    for (uint32_t i = 0; i < arena->size; i++) {
        uint64_t failure = failure_of(machine, kind, i); /* before its stamp is looked at */

        if (i == arena->rank || !is_missing(machine, kind, i))
            continue;
        missing = true;
        if (likely(!arena->lost)) {
            if (unlikely(failure != 0))
                shared_disagree(machine, failure);
            break;
        }
        arena->stranded = arena->stranded || arena->left[i];
    }
    return !missing && machine->failure == PAMI_SUCCESS;
}

bool shared_direct_misses(const struct shared_machine *machine, uint32_t member)
{
    enum arena_kind kind = machine->pieces == 0 ? LINE_POST : LINE_STAGE;
    const struct arena_line *line = arena_line(machine->arena, kind, machine->tick, member);

    return machine->posted != 0 && machine->taken == machine->pieces &&
           atomic_load_explicit(&line->count, memory_order_acquire) != machine->stamp;
}

/* ---- the end of those that fail ---- */

/* Who has not offered its memory writes to none: what is there is an earlier collective's. Nor does
 * who has gone, maybe in the middle of a copy. */
static bool is_busy(const struct shared_machine *machine, uint32_t member)
{
    const struct arena *arena = machine->arena;
    const struct arena_line *line = arena_line(arena, LINE_POST, machine->tick, member);

    if (unlikely(arena->lost) && arena->left[member])
        return false;
    return atomic_load(&shared_direct_line(machine, LINE_STAGE, member)->busy) != 0 &&
           atomic_load_explicit(&line->count, memory_order_acquire) == machine->stamp;
}

void shared_revoke(const struct shared_machine *machine)
{
    const struct arena *arena = machine->arena;
    uint32_t tries = 0;
    uint64_t until;

    if (machine->way != DIRECT || machine->posted == 0 || arena->state != ARENA_READY)
        return;
    atomic_store(&shared_direct_line(machine, LINE_STAGE, arena->rank)->shut, machine->tick + 1);
    until = clock_ticks() + REVOKE_US * clock_ticks_per_us();
    for (uint32_t i = 0; i < arena->size; i++)
        while (is_busy(machine, i) && clock_ticks() < until)
            yield_again(tries++);
}

/* ---- running ---- */

static void through_slots(struct shared_machine *machine)
{
    machine->way = THROUGH_SLOTS;
    machine->posted = machine->taken = machine->pieces = 0;
}

/* All have posted. False: this is over, or goes through slots. */
static bool begin(struct shared_machine *machine)
{
    const struct arena *arena = machine->arena;
    uint64_t all = COPIES | CASTS;

    for (uint32_t i = 0; i < arena->size; i++) {
        const struct arena_direct *posted = shared_direct_line(machine, LINE_POST, i);

        if (posted->stamp != machine->stamp || posted->bytes != machine->call.bytes) {
            machine->failure = PAMI_INVAL;
            return false;
        }
        all &= posted->state;
    }
    if (arena->race != NULL)
        race_waited(arena->race, clock_ticks());
    if (all == 0) {
        through_slots(machine);
        return false;
    }
    machine->pieces = shared_direct_pieces(machine);
    return true;
}

static void move(struct shared_machine *machine)
{
    int error = shared_direct_move(machine);

    machine->taken = error == 0 ? machine->taken + 1 : machine->pieces;
    if (unlikely(error != 0))
        arena_say_gone(machine->arena);
    if (machine->taken == machine->pieces)
        stamp(machine, LINE_STAGE, error == 0 ? DONE : FAILED);
}

/* All have said how it went. */
static void end(struct shared_machine *machine)
{
    struct arena *arena = machine->arena;
    bool failed = false, overwritten = false;

    for (uint32_t i = 0; i < arena->size; i++) {
        failed = failed || shared_direct_line(machine, LINE_STAGE, i)->state != DONE;
        overwritten =
            overwritten || (shared_direct_line(machine, LINE_POST, i)->state & OVERWRITES) != 0;
    }
    if (failed && overwritten) {
        machine->failure = PAMI_ERROR;
    } else if (failed) {
        through_slots(machine);
    } else {
        if (arena->known_done.tick < machine->tick)
            arena->known_done = (struct arena_position){machine->tick, 0};
        machine->staged = machine->segments;
        shared_publish_done(machine, machine->segments);
    }
}

bool shared_run_direct(struct shared_machine *machine)
{
    if (machine->posted == 0) {
        if (!shared_may_write(machine))
            return false;
        offer(machine);
    }
    if (machine->pieces == 0) {
        if (!all_have(machine, LINE_POST))
            return machine->failure != PAMI_SUCCESS;
        if (!begin(machine))
            return true;
    }
    if (machine->taken < machine->pieces) {
        move(machine);
        if (machine->taken < machine->pieces)
            return false;
    }
    if (!all_have(machine, LINE_STAGE))
        return machine->failure != PAMI_SUCCESS;
    end(machine);
    return true;
}

/* ---- reaching others ---- */

int arena_reach(const struct arena *arena, uint32_t member, bool put, void *near, uint64_t far,
                size_t bytes)
{
    struct context *context = arena->shared->context;
    uint32_t endpoint = arena->endpoints[member];
    int error = message_copy(context, endpoint, put, near, far, bytes);

    if (unlikely(error == -EPIPE))
        gone_note(context, endpoint_task(endpoint) + 1);
    return error;
}

bool arena_casts(const struct arena *arena, const void *address, uint64_t bytes)
{
    struct context *context = arena->shared->context;

    if (!message_in_heap(context, address, bytes))
        return false;
    for (uint32_t i = 0; i < arena->size; i++)
        if (i != arena->rank && !message_maps_heap(context, arena->endpoints[i]))
            return false;
    return true;
}
