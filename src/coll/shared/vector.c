/*
 * Gather, scatter and alltoall of blocks of any sizes, in one segment.
 *
 * Only the two members of a block know how large it is, and from that and the arena both know which
 * way it goes: beside the writer's counter, in the writer's buffer, or, what is too large for that,
 * by a message under the same number when the tick is over (row.c).
 *
 * A mark in front of each block is made of its size and the tick, so a reader that believes in
 * another size notices.
 */
#include <string.h>

#include "coll/shared/shared.h"
#include "util/minmax.h"

/*
 * Blocks up to here go through buffers; of alltoall, where both ways are busy, larger ones. So and
 * by messages, us, 2 tasks, and 4 on 2 processors: gather 8 KiB 2.0 and 2.3, 6.3 and 6.2, 16 KiB
 * 3.8 and 3.4, 9.7 and 8.2; alltoall 8 KiB 2.1 and 2.3, 7.8 and 12.0, 32 KiB 4.6 and 6.8, 25 and
 * 32.
 */
#define VECTOR_MOST 8192u
#define EXCHANGE_MOST 32768u

#define MARK_BYTES 4u         /* beside a counter, and ... */
#define HEAD_BYTES CACHE_LINE /* ... in a buffer, where what is behind it had better be aligned */

/* Blocks in a member's slot. */
static uint32_t parts_of(const struct shared_machine *machine)
{
    return machine->call.kind == SHARED_GATHERV ? 1 : machine->arena->size;
}

/* Bytes for each block with its mark, beside a counter. */
static uint32_t inline_room(const struct shared_machine *machine)
{
    return ARENA_INLINE / parts_of(machine) & ~(MARK_BYTES - 1);
}

/* The same in a buffer. */
static size_t buffer_room(const struct shared_machine *machine)
{
    size_t room = machine->arena->buffer_bytes / parts_of(machine) & ~((size_t)CACHE_LINE - 1);
    size_t most = machine->call.kind == SHARED_ALLTOALLV ? EXCHANGE_MOST : VECTOR_MOST;

    return smaller(room, most + HEAD_BYTES);
}

static bool fits_inline(const struct shared_machine *machine, uint64_t bytes)
{
    return bytes + MARK_BYTES <= inline_room(machine);
}

bool shared_takes_block(const struct shared_machine *machine, uint64_t bytes)
{
    return fits_inline(machine, bytes) || bytes + HEAD_BYTES <= buffer_room(machine);
}

/* There is a mark, and what belongs to it: for nothing only where that costs no further line. */
static bool is_marked(const struct shared_machine *machine, uint64_t bytes)
{
    return bytes != 0 ? shared_takes_block(machine, bytes) : fits_inline(machine, 0);
}

/* The block that this member sends to `to`, and the one that it has from `from`. */
static uint64_t sent_bytes(const struct shared_call *call, uint32_t to)
{
    return call->kind == SHARED_GATHERV ? call->own_bytes : call->sent_bytes[to];
}

static uint64_t received_bytes(const struct shared_call *call, uint32_t from)
{
    return call->kind == SHARED_SCATTERV ? call->own_bytes : call->received_bytes[from];
}

static uint32_t mark_of(const struct shared_machine *machine, uint64_t bytes)
{
    return (uint32_t)((bytes + 1) * UINT32_C(0x9e3779b1) + machine->tick);
}

/* Where a block of so many bytes from `from` to `to` lies, behind its mark. */
static char *block_at(const struct shared_machine *machine, uint32_t from, uint32_t to,
                      uint64_t bytes, char **mark)
{
    const struct arena *arena = machine->arena;
    size_t part = machine->call.kind == SHARED_GATHERV ? 0 : to;

    if (fits_inline(machine, bytes)) {
        *mark = (char *)arena_line(arena, LINE_POST, machine->tick, from)->data +
                part * inline_room(machine);
        return *mark + MARK_BYTES;
    }
    *mark = arena_buffer(arena, machine->slice, from) + part * buffer_room(machine);
    return *mark + HEAD_BYTES;
}

/* To whom this member sends: from .. to - 1, but not itself. */
static void targets(const struct shared_machine *machine, uint32_t *from, uint32_t *to)
{
    const struct shared_call *call = &machine->call;
    bool one = call->kind == SHARED_GATHERV;

    *from = one ? call->root : 0;
    *to = one ? call->root + 1 : machine->arena->size;
    if (call->kind == SHARED_SCATTERV && call->root != machine->arena->rank)
        *to = 0;
}

bool shared_vector_is_inline(const struct shared_machine *machine)
{
    uint32_t from, to;

    for (targets(machine, &from, &to); from < to; from++) {
        uint64_t bytes = sent_bytes(&machine->call, from);

        if (from != machine->arena->rank && !fits_inline(machine, bytes) &&
            shared_takes_block(machine, bytes))
            return false;
    }
    return true;
}

void shared_post_vector(struct shared_machine *machine, uint64_t index)
{
    uint32_t rank = machine->arena->rank, from, to;

    (void)index;
    for (targets(machine, &from, &to); from < to; from++) {
        uint64_t bytes = sent_bytes(&machine->call, from);
        uint32_t value = mark_of(machine, bytes);
        char *mark, *block;

        if (from == rank || !is_marked(machine, bytes))
            continue;
        block = block_at(machine, rank, from, bytes, &mark);
        memcpy(mark, &value, sizeof(value));
        shared_fill_slot(machine, machine->call.kind == SHARED_GATHERV ? 0 : from, 0, bytes, block);
    }
}

/* The block of `from` into the destination's block `to`. */
static void take_block(struct shared_machine *machine, uint32_t from, uint32_t to)
{
    uint64_t bytes = received_bytes(&machine->call, from);
    char *mark, *block;
    uint32_t value;

    if (!is_marked(machine, bytes))
        return;
    block = block_at(machine, from, machine->arena->rank, bytes, &mark);
    memcpy(&value, mark, sizeof(value));
    if (likely(value == mark_of(machine, bytes)))
        shared_write_map(&machine->call.recv, to, 0, bytes, block);
    else if (machine->failure == PAMI_SUCCESS)
        machine->failure = PAMI_INVAL;
}

void shared_take_vector(struct shared_machine *machine, uint64_t index)
{
    const struct shared_call *call = &machine->call;
    uint32_t rank = machine->arena->rank;
    bool root = call->root == rank;

    (void)index;
    if (call->kind == SHARED_SCATTERV && !root) {
        take_block(machine, call->root, 0);
        return;
    }
    if (call->kind == SHARED_ALLTOALLV || (call->kind == SHARED_GATHERV && root))
        for (uint32_t i = 0; i < machine->arena->size; i++)
            if (i != rank)
                take_block(machine, i, i);
    if (call->kind == SHARED_ALLTOALLV || root)
        shared_copy_own(machine, call->kind == SHARED_GATHERV ? 0 : rank,
                        call->kind == SHARED_SCATTERV ? 0 : rank, 0,
                        call->kind == SHARED_SCATTERV ? call->sent_bytes[rank]
                                                      : call->received_bytes[rank]);
}
