/*
 * Reduce-scatter around a ring, for large messages and operators that commute; blocks may differ.
 * Block c starts at member c + 1 and collects operands until it is at member c.
 *
 * What is received is combined with the source where it is, and sent on from there. Temporary
 * memory: two blocks of the largest size; the last one is received into the destination, unless in
 * place.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

enum {
    STATE_LARGEST
};

static uint64_t bytes_of(const struct shape *shape, uint32_t block)
{
    return block_bytes(shape->send_bytes, shape->bytes / shape->size, block);
}

static uint32_t ring_prepare(struct shape *shape)
{
    uint64_t largest = 0;

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    if (shape->size == 1)
        return !shape->in_place;
    for (uint32_t i = 0; i < shape->size; i++)
        largest = larger(largest, bytes_of(shape, i));
    shape->state[STATE_LARGEST] = largest;
    shape->temp_bytes = 2 * largest;
    return shape->size - 1;
}

static void ring_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t size = shape->size, rank = shape->rank, block;
    uint64_t largest = shape->state[STATE_LARGEST];
    struct span received, own;

    if (size == 1) {
        phase->after[0] =
            local_copy(span_of(AREA_SEND, 0, 0, shape->bytes), span_at(AREA_RECV, 0, shape->bytes));
        return;
    }
    block = rank_before(rank, index + 1, size);
    own = span_of(AREA_SEND, block, 0, bytes_of(shape, block));
    phase_send(phase, rank_after(rank, 1, size),
               index == 0 ? own : span_at(AREA_TEMP, (index - 1) % 2 * largest, own.bytes));
    block = rank_before(block, 1, size);
    own = span_of(AREA_SEND, block, 0, bytes_of(shape, block));
    received = span_at(AREA_TEMP, index % 2 * largest, own.bytes);
    if (index == size - 2 && !shape->in_place)
        received = span_at(AREA_RECV, 0, own.bytes);
    phase_receive(phase, rank_before(rank, 1, size), received);
    phase->after[0] = local_combine(own, received);
    if (index == size - 2 && shape->in_place)
        phase->after[1] = local_copy(received, span_at(AREA_RECV, 0, own.bytes));
}

const struct schedule_ops reduce_scatter_ring = {ring_prepare, ring_phase};
