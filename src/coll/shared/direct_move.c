/*
 * The copies of collectives between the members' own memory, see direct.c.
 */
#include <errno.h>
#include <string.h>

#include "coll/shared/tick.h"
#include "util/minmax.h"

/* Copied in one look; of what both ends copy an eighth, within these. */
#define PIECE ((uint64_t)512 << 10)
#define PIECE_LEAST ((uint64_t)32 << 10)
#define PIECE_MOST ((uint64_t)128 << 10)

static bool is_root(const struct shared_machine *machine)
{
    return machine->arena->rank == machine->call.root;
}

static int write_to(const struct shared_machine *machine, uint32_t member, char *from, uint64_t to,
                    uint64_t bytes)
{
    const struct arena *arena = machine->arena;
    struct arena_direct *own = shared_direct_line(machine, LINE_STAGE, arena->rank);
    struct arena_direct *other = shared_direct_line(machine, LINE_STAGE, member);
    int error = -EPIPE;

    atomic_store(&own->busy, 1);
    if (atomic_load(&other->shut) != machine->tick + 1)
        error = arena->copy(arena, member, true, from, to, bytes);
    atomic_store(&own->busy, 0);
    return error;
}

/* ---- allgather, alltoall: pieces of the own block to oneself, to the next member, ... ---- */

static uint64_t pieces_of(uint64_t bytes, uint64_t piece)
{
    return (bytes + piece - 1) / piece;
}

static int move_block(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    const struct arena *arena = machine->arena;
    uint64_t each = pieces_of(call->bytes, PIECE), at = machine->taken % each * PIECE;
    uint32_t member = (uint32_t)((arena->rank + machine->taken / each) % arena->size);
    uint64_t bytes = shared_piece(call->bytes, at, PIECE), target;
    char *from = shared_data_at(&call->send, call->kind == SHARED_ALLTOALL ? member : 0, at);

    if (member == arena->rank) {
        if (!call->in_place)
            memcpy(shared_data_at(&call->recv, member, at), from, bytes);
        return 0;
    }
    target = shared_direct_line(machine, LINE_POST, member)->recv + arena->rank * call->bytes + at;
    return write_to(machine, member, from, target, bytes);
}

/* ---- allreduce: pieces of the own part ---- */

static uint64_t part_of(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    uint64_t part = (call->bytes - 1) / machine->arena->size + CACHE_LINE;

    part &= ~(uint64_t)(CACHE_LINE - 1);
    return (part + call->unit - 1) / call->unit * call->unit;
}

static uint64_t whole_units(const struct shared_machine *machine, uint64_t bytes)
{
    return bytes - bytes % machine->call.unit;
}

/* The operand of a member, by way of memory that stays in the cache. */
static int combine_operand(const struct shared_machine *machine, uint32_t member, char *into,
                           uint64_t from, uint64_t bytes)
{
    const struct arena *arena = machine->arena;
    const struct shared_call *call = &machine->call;
    uint64_t room = whole_units(machine, arena->shared->wide_most);
    int error = 0;

    for (uint64_t at = 0; at < bytes && error == 0; at += room) {
        uint64_t some = shared_piece(bytes, at, room);

        error = arena->copy(arena, member, false, arena->shared->scratch[0], from + at, some);
        if (error == 0)
            operator_apply(call->op, call->element, into + at, arena->shared->scratch[0], some);
    }
    return error;
}

/* That of the next member is read to where the result has to be, unless the own one is there. */
static int combine_piece(const struct shared_machine *machine, char *into, uint64_t start,
                         uint64_t bytes)
{
    const struct arena *arena = machine->arena;
    const struct shared_call *call = &machine->call;
    uint32_t next = (arena->rank + 1) % arena->size;
    uint32_t done = call->in_place ? 1 : 2;
    int error = 0;

    if (!call->in_place) {
        error = arena->copy(arena, next, false, into,
                            shared_direct_line(machine, LINE_POST, next)->send + start, bytes);
        if (error == 0)
            operator_apply(call->op, call->element, into, shared_data_at(&call->send, 0, start),
                           bytes);
    }
    for (uint32_t i = done; i < arena->size && error == 0; i++) {
        uint32_t member = (arena->rank + i) % arena->size;

        error =
            combine_operand(machine, member, into,
                            shared_direct_line(machine, LINE_POST, member)->send + start, bytes);
    }
    return error;
}

static int move_part(const struct shared_machine *machine)
{
    const struct arena *arena = machine->arena;
    const struct shared_call *call = &machine->call;
    uint64_t part = part_of(machine), piece = whole_units(machine, PIECE);
    uint64_t at = machine->taken * piece, start = arena->rank * part + at;
    uint64_t bytes = shared_piece(shared_piece(call->bytes, arena->rank * part, part), at, piece);
    char *into;
    int error;

    if (bytes == 0)
        return 0;
    into = shared_data_at(&call->recv, 0, start);
    error = combine_piece(machine, into, start, bytes);
    for (uint32_t i = 1; i < arena->size && error == 0; i++) {
        uint32_t member = (arena->rank + i) % arena->size;

        error = write_to(machine, member, into,
                         shared_direct_line(machine, LINE_POST, member)->recv + start, bytes);
    }
    return error;
}

/* ---- broadcast, gather, scatter of two: pieces that either copies, the root's own block ---- */

static uint64_t piece_of_two(uint64_t bytes)
{
    uint64_t piece = bytes / 8 & ~(PIECE_LEAST - 1);

    return piece < PIECE_LEAST ? PIECE_LEAST : smaller(piece, PIECE_MOST);
}

/* The root's own block is copied by itself alone. */
static uint64_t own_pieces(const struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;

    if (!is_root(machine) || call->in_place || call->kind == SHARED_BROADCAST)
        return 0;
    return pieces_of(call->bytes, piece_of_two(call->bytes));
}

static void move_own(const struct shared_machine *machine, uint64_t at, uint64_t bytes)
{
    uint32_t rank = machine->arena->rank;

    if (machine->call.kind == SHARED_GATHER)
        shared_copy_own(machine, 0, rank, at, bytes);
    else
        shared_copy_own(machine, rank, 0, at, bytes);
}

/* From one member to the other. */
static int move_across(const struct shared_machine *machine, uint64_t at, uint64_t bytes)
{
    const struct shared_call *call = &machine->call;
    const struct arena *arena = machine->arena;
    uint32_t taker = shared_taker(call), giver = 1 - taker;
    uint64_t from = shared_direct_line(machine, LINE_POST, giver)->send + at;
    uint64_t to = shared_direct_line(machine, LINE_POST, taker)->recv + at;

    if (call->kind == SHARED_SCATTER)
        from += taker * call->bytes;
    if (call->kind == SHARED_GATHER)
        to += giver * call->bytes;
    /* One of them is an address of this process. */
    if (arena->rank == giver)
        return write_to(machine, taker, (char *)(uintptr_t)from, to, bytes);
    return arena->copy(arena, giver, false, (char *)(uintptr_t)to, from, bytes);
}

static int move_piece(struct shared_machine *machine)
{
    uint64_t bytes = machine->call.bytes, piece = piece_of_two(bytes), own = own_pieces(machine);
    uint64_t at = machine->taken * piece, next;

    if (machine->taken < own) {
        move_own(machine, at, shared_piece(bytes, at, piece));
        return 0;
    }
    next = atomic_fetch_add_explicit(&shared_direct_line(machine, LINE_STAGE, 0)->next, 1,
                                     memory_order_relaxed);
    at = next * piece;
    machine->taken = smaller(own + next, machine->pieces - 1);
    return at < bytes ? move_across(machine, at, shared_piece(bytes, at, piece)) : 0;
}

/* ---- all of them ---- */

uint64_t shared_direct_pieces(const struct shared_machine *machine)
{
    uint64_t bytes = machine->call.bytes;

    if (shared_is_one_way(machine->call.kind))
        return own_pieces(machine) + pieces_of(bytes, piece_of_two(bytes));
    if (machine->call.kind == SHARED_ALLREDUCE)
        return pieces_of(part_of(machine), whole_units(machine, PIECE));
    return machine->arena->size * pieces_of(bytes, PIECE);
}

int shared_direct_move(struct shared_machine *machine)
{
    if (shared_is_one_way(machine->call.kind))
        return move_piece(machine);
    return machine->call.kind == SHARED_ALLREDUCE ? move_part(machine) : move_block(machine);
}
