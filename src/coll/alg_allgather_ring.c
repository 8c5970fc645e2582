/*
 * Allgathers block by block, right in the destination, for all shapes and without temporary memory.
 *
 * Ring: each member sends on to the next what it has received last. Linear: each sends its own
 * block to all others, those after it first, as many at once as the window allows.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

static struct span block_span(const struct shape *shape, uint32_t block)
{
    return span_of(AREA_RECV, block, 0, block_bytes(shape->recv_bytes, shape->bytes, block));
}

static struct span own_span(const struct shape *shape)
{
    return span_at(AREA_SEND, 0, block_bytes(shape->recv_bytes, shape->bytes, shape->rank));
}

static uint32_t prepare(struct shape *shape)
{
    shape->temp_bytes = 0;
    return shape->size == 1 ? 1 : shape->size - 1;
}

static void copy_own(const struct shape *shape, struct phase *phase)
{
    if (!shape->in_place)
        phase->after[0] = local_copy(own_span(shape), block_span(shape, shape->rank));
}

static void ring_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t size = shape->size, block = rank_before(shape->rank, index % size, size);

    if (index == 0)
        copy_own(shape, phase);
    if (size == 1)
        return;
    phase_send(phase, rank_after(shape->rank, 1, size),
               index == 0 ? own_span(shape) : block_span(shape, block));
    phase_receive(phase, rank_before(shape->rank, 1, size),
                  block_span(shape, rank_before(block, 1, size)));
    phase->recv_needs = 0;
}

const struct schedule_ops allgather_ring = {prepare, ring_phase};

static void linear_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t size = shape->size, distance = index + 1;

    if (index == 0)
        copy_own(shape, phase);
    if (size == 1)
        return;
    phase_send(phase, rank_after(shape->rank, distance, size), own_span(shape));
    phase_receive(phase, rank_before(shape->rank, distance, size),
                  block_span(shape, rank_before(shape->rank, distance, size)));
    phase->send_needs = phase->recv_needs = 0;
}

const struct schedule_ops allgather_linear = {prepare, linear_phase};
