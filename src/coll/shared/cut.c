/*
 * How a message is cut into segments, and those into parts, that go through the slots of an arena;
 * see shared.h. The same on all members: it depends on the call and on the arena only.
 */
#include "coll/shared/shared.h"

/* Slices in turn let collectives overlap; from here on the memory had better stay in the cache,
 * where an arena is wide. 8 tasks on 2 processors, alltoall of 64 KiB: 169 and 202 us. */
#define REUSE_BYTES 16384u

/* From here on fewer segments gain more than beginning sooner. Two tasks, 32 and 64 KiB,
 * us: broadcast of 64 KiB 6.1 and 7.5, of 1 MiB 80 and 66. */
#define LONG_BYTES 262144u

static uint64_t round_down(uint64_t bytes, uint32_t unit)
{
    return unit > 1 ? bytes - bytes % unit : bytes;
}

/* Only one member writes, or only one reads: the others had better begin soon. */
static bool is_one_way(enum shared_kind kind)
{
    return kind == SHARED_BROADCAST || kind == SHARED_REDUCE || kind == SHARED_GATHER ||
           kind == SHARED_SCATTER;
}

/* Of a message, or of a part. Broadcasts have one writer, ahead of its readers by whole slices. */
static uint64_t segment_most(const struct shared_machine *machine)
{
    const struct arena *arena = machine->arena;
    const struct shared *shared = arena->shared;
    const struct shared_call *call = &machine->call;
    bool narrow = arena->crowded ? call->kind == SHARED_BROADCAST
                                 : is_one_way(call->kind) && call->bytes < LONG_BYTES;

    return narrow || arena->buffer_bytes < shared->wide_most ? shared->buffer_bytes
                                                             : shared->wide_most;
}

/* All parts of all segments about equal, none larger than `most`. */
static uint64_t equal_part(const struct shared_machine *machine, uint64_t parts, uint64_t most)
{
    const struct shared_call *call = &machine->call;
    uint64_t segments = (call->bytes - 1) / (most * parts) + 1;
    uint64_t part = (call->bytes - 1) / (segments * parts) + CACHE_LINE;

    part &= ~(uint64_t)(CACHE_LINE - 1);
    part = (part + call->unit - 1) / call->unit * call->unit;
    return part < most ? part : most;
}

void shared_cut(struct shared_machine *machine)
{
    const struct shared_call *call = &machine->call;
    const struct arena *arena = machine->arena;
    uint64_t parts = machine->relayed ? arena->relays : arena->size;
    uint64_t part = round_down(arena->buffer_bytes / parts, call->unit);
    uint64_t most = round_down(segment_most(machine), call->unit);

    if (arena->crowded && call->bytes >= REUSE_BYTES &&
        arena->buffer_bytes > arena->shared->buffer_bytes && call->kind != SHARED_BROADCAST)
        machine->slice = 0;
    if (shared_sends_blocks(call->kind)) {
        machine->part = machine->segment = part < most ? part : most;
    } else if (machine->split) {
        machine->part = equal_part(machine, parts, part);
        machine->segment = machine->part * parts;
    } else {
        machine->segment = most;
    }
    if (call->bytes < machine->segment && !machine->split)
        machine->segment = call->bytes;
    else if (call->bytes != 0)
        machine->segments = (call->bytes + machine->segment - 1) / machine->segment;
}
