/*
 * Allgather after Bruck, for small equal blocks and any number of members: in step k a member sends
 * all it has, up to 2^k blocks, to the one 2^k before it. Blocks are gathered in the order of ranks
 * from the own one on, and turned into place at the end.
 *
 * Temporary memory: all blocks; rank 0, whose order is right at once, works in the destination.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

static uint32_t bruck_prepare(struct shape *shape)
{
    uint32_t steps = 0;

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    if (shape->size == 1)
        return !shape->in_place;
    if (shape->rank != 0)
        shape->temp_bytes = shape->size * shape->bytes;
    while (steps < 32 && (UINT64_C(1) << steps) < shape->size)
        steps++;
    return steps + (shape->rank != 0);
}

/* `count` blocks of the gathered ones. */
static struct span gathered(const struct shape *shape, uint32_t first, uint32_t count)
{
    if (shape->rank == 0)
        return span_of(AREA_RECV, first, 0, count * shape->bytes);
    return span_at(AREA_TEMP, first * shape->bytes, count * shape->bytes);
}

static void bruck_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct span own = span_at(AREA_SEND, 0, shape->bytes);
    uint32_t size = shape->size, rank = shape->rank, count;
    uint64_t distance = UINT64_C(1) << index;

    if (size == 1) {
        phase->after[0] = local_copy(own, gathered(shape, 0, 1));
    } else if (distance < size) {
        count = (uint32_t)smaller(distance, size - distance);
        phase_send(phase, rank_before(rank, (uint32_t)distance, size),
                   index == 0 ? own : gathered(shape, 0, count));
        phase_receive(phase, rank_after(rank, (uint32_t)distance, size),
                      gathered(shape, (uint32_t)distance, count));
        phase->recv_needs = 0;
        if (index == 0 && !(rank == 0 && shape->in_place))
            phase->before[0] = local_copy(own, gathered(shape, 0, 1));
    } else {
        phase->after[0] = local_copy(gathered(shape, 0, size - rank),
                                     span_of(AREA_RECV, rank, 0, (size - rank) * shape->bytes));
        phase->after[1] = local_copy(gathered(shape, size - rank, rank),
                                     span_of(AREA_RECV, 0, 0, rank * shape->bytes));
    }
}

const struct schedule_ops allgather_bruck = {bruck_prepare, bruck_phase};
