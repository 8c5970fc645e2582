/*
 * Allgather after Bruck, for small blocks, which may differ, and any number of members: in step k a
 * member sends all it has, up to 2^k blocks, to the one 2^k before it. Blocks are gathered in the
 * order of ranks from the own one on, and turned into place at the end.
 *
 * Temporary memory: all blocks; rank 0, whose order is right at once, works in the destination when
 * blocks follow one another there.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

enum {
    STATE_STEPS
};

#define STEPS (2 * PHASE_LOCALS) /* copies in one phase */

static bool in_destination(const struct shape *shape)
{
    return shape->rank == 0 && shape->dense;
}

static uint64_t bytes_of(const struct shape *shape, uint32_t first, uint32_t count)
{
    uint32_t end = (uint32_t)smaller(count, shape->size - first);

    return blocks_bytes(shape->recv_bytes, shape->bytes, first, end) +
           blocks_bytes(shape->recv_bytes, shape->bytes, 0, count - end);
}

/* `count` of the gathered blocks from the one of `first` ranks on. */
static struct span gathered(const struct shape *shape, uint32_t first, uint32_t count)
{
    uint32_t rank = rank_after(shape->rank, first % shape->size, shape->size);
    uint64_t offset = bytes_of(shape, shape->rank, first), bytes = bytes_of(shape, rank, count);

    return span_at(in_destination(shape) ? AREA_RECV : AREA_TEMP, offset, bytes);
}

static struct span blocks_span(const struct shape *shape, uint32_t block, uint32_t count)
{
    return span_of(AREA_RECV, block, 0, bytes_of(shape, block, count));
}

static uint32_t bruck_prepare(struct shape *shape)
{
    uint32_t steps = 0, turns = 0;

    while (steps < 32 && (UINT64_C(1) << steps) < shape->size)
        steps++;
    if (!in_destination(shape) || steps == 0)
        turns = shape->dense ? 1 : (shape->size + STEPS - 1) / STEPS;
    shape->temp_bytes = in_destination(shape) ? 0 : bytes_of(shape, 0, shape->size);
    shape->state[STATE_STEPS] = steps;
    return steps + turns;
}

/* One of the gathered blocks; they are asked for in their order. */
static struct span gathered_block(const struct shape *shape, uint32_t index, uint32_t block)
{
    return span_at(AREA_TEMP, blocks_walk(shape, shape->recv_bytes, shape->rank, index),
                   block_bytes(shape->recv_bytes, shape->bytes, block));
}

/* After the last step. Two spans where blocks follow one another, else block by block. */
static void turn_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t rank = shape->rank, size = shape->size, first = index * STEPS;

    if (shape->dense) {
        phase->after[0] =
            local_copy(gathered(shape, 0, size - rank), blocks_span(shape, rank, size - rank));
        phase->after[1] =
            local_copy(gathered(shape, size - rank, rank), blocks_span(shape, 0, rank));
        return;
    }
    for (uint32_t i = 0; i < STEPS && first < size; i++, first++) {
        struct local *local =
            i < PHASE_LOCALS ? &phase->before[i] : &phase->after[i - PHASE_LOCALS];
        uint32_t block = rank_after(rank, first, size);

        *local = local_copy(gathered_block(shape, first, block), blocks_span(shape, block, 1));
    }
}

static void bruck_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct span own = span_at(AREA_SEND, 0, bytes_of(shape, shape->rank, 1));
    uint32_t size = shape->size, rank = shape->rank, steps = (uint32_t)shape->state[STATE_STEPS];
    uint32_t count, distance;

    if (size == 1) {
        if (!shape->in_place)
            phase->after[0] = local_copy(own, blocks_span(shape, 0, 1));
    } else if (index < steps) {
        distance = UINT32_C(1) << index;
        count = (uint32_t)smaller(distance, size - distance);
        phase_send(phase, rank_before(rank, distance, size),
                   index == 0 ? own : gathered(shape, 0, count));
        phase_receive(phase, rank_after(rank, distance, size), gathered(shape, distance, count));
        phase->recv_needs = 0;
        if (index == 0 && !(in_destination(shape) && shape->in_place))
            phase->before[0] = local_copy(own, gathered(shape, 0, 1));
    } else {
        turn_phase(shape, index - steps, phase);
    }
}

const struct schedule_ops allgather_bruck = {bruck_prepare, bruck_phase};
