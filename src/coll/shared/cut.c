/*
 * How a message is cut into segments, and those into parts, that go through the slots of an arena;
 * see shared.h. The same on all members: it depends on the call and on the arena only.
 */
#include "coll/shared/shared.h"

/* Slices in turn let collectives overlap; from here on the memory had better stay in the cache,
 * where an arena is wide. 8 tasks on 2 processors, alltoall of 64 KiB: 169 and 202 us. */
#define REUSE_BYTES 16384u

static uint64_t round_down(uint64_t bytes, uint32_t unit)
{
    return unit > 1 ? bytes - bytes % unit : bytes;
}

/* Of a message without parts. Broadcasts have one writer, ahead of its readers by whole slices. */
static uint64_t segment_most(const struct shared_machine *machine)
{
    const struct arena *arena = machine->arena;
    const struct shared *shared = arena->shared;

    if (machine->call.kind == SHARED_BROADCAST || arena->buffer_bytes < shared->wide_most)
        return shared->buffer_bytes;
    return shared->wide_most;
}

/* All parts of all segments about equal, none larger than `most`. */
static uint64_t equal_part(const struct shared_machine *machine, uint64_t most)
{
    const struct shared_call *call = &machine->call;
    uint64_t size = machine->arena->size, segments = (call->bytes - 1) / (most * size) + 1;
    uint64_t part = (call->bytes - 1) / (segments * size) + CACHE_LINE;

    part &= ~(uint64_t)(CACHE_LINE - 1);
    part = (part + call->unit - 1) / call->unit * call->unit;
    return part < most ? part : most;
}

void shared_cut(struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    const struct arena *arena = machine->arena;
    uint64_t part = round_down(arena->buffer_bytes / arena->size, call->unit);

    if (call->bytes >= REUSE_BYTES && arena->buffer_bytes > arena->shared->buffer_bytes &&
        call->kind != SHARED_BROADCAST)
        machine->slice = 0;
    if (shared_sends_blocks(call->kind)) {
        machine->part = machine->segment = part;
    } else if (machine->split) {
        machine->part = equal_part(machine, part);
        machine->segment = machine->part * arena->size;
    } else {
        machine->segment = round_down(segment_most(machine), call->unit);
    }
    if (call->bytes < machine->segment && !machine->split)
        machine->segment = call->bytes;
    else if (call->bytes != 0)
        machine->segments = (call->bytes + machine->segment - 1) / machine->segment;
}
