/*
 * Reduce-scatter by pairwise exchange, for any number of members, blocks that differ and any
 * operator: in step k a member sends the k-th next one its block and receives operands for its own
 * block from the k-th before it. Each sends the message once.
 *
 * They come from rank - 1 down to 0, which goes into the sum of the lower ranks, then from n - 1
 * down to rank + 1, which goes into the sum of the higher ones; the two are combined in the end:
 * rank order, without needing it on the way.
 *
 * Temporary memory: up to SLOTS + 2 blocks. The destination is written in the end when in place.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

#define SLOTS 4u

static uint64_t bytes_of(const struct shape *shape, uint32_t block)
{
    return block_bytes(shape->send_bytes, shape->bytes / shape->size, block);
}

static struct span source_of(const struct shape *shape, uint32_t block)
{
    return span_of(AREA_SEND, block, 0, bytes_of(shape, block));
}

/* Slots, then the two sums; in place neither of them is the destination, else the last one is. */
static struct span slot_of(const struct shape *shape, uint32_t slot)
{
    uint64_t bytes = bytes_of(shape, shape->rank);

    return span_at(AREA_TEMP, slot * bytes, bytes);
}

static struct span lower_sum(const struct shape *shape)
{
    if (!shape->in_place && shape->rank == shape->size - 1)
        return span_at(AREA_RECV, 0, bytes_of(shape, shape->rank));
    return slot_of(shape, SLOTS);
}

static struct span higher_sum(const struct shape *shape)
{
    if (!shape->in_place)
        return span_at(AREA_RECV, 0, bytes_of(shape, shape->rank));
    return slot_of(shape, SLOTS + 1);
}

/* The own operand is copied where it is accumulated into; rank 0 combines it in the end. */
static uint32_t pairwise_prepare(struct shape *shape)
{
    shape->temp_bytes = 0;
    if (shape->size > 1)
        shape->temp_bytes = (SLOTS + 2) * bytes_of(shape, shape->rank);
    if (shape->bytes == 0)
        return 0;
    return shape->size == 1 ? !shape->in_place : shape->size + 1;
}

/* The sums come together, and the result goes into place. */
static void end_phase(const struct shape *shape, struct phase *phase)
{
    struct span lower = shape->rank == 0 ? source_of(shape, 0) : lower_sum(shape);
    struct span sum = higher_sum(shape);

    if (shape->rank == shape->size - 1)
        sum = lower;
    else
        phase->after[0] = local_combine(lower, sum);
    if (shape->in_place)
        phase->after[1] = local_copy(sum, span_at(AREA_RECV, 0, sum.bytes));
}

static void pairwise_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t size = shape->size, rank = shape->rank, step = index, to, from;
    struct span received = slot_of(shape, step % SLOTS), sum;

    if (size == 1) {
        phase->after[0] =
            local_copy(source_of(shape, 0), span_at(AREA_RECV, 0, bytes_of(shape, 0)));
        return;
    }
    if (index == 0) {
        if (rank != 0)
            phase->after[0] = local_copy(source_of(shape, rank), lower_sum(shape));
        return;
    }
    if (index == size) {
        end_phase(shape, phase);
        return;
    }
    to = rank_after(rank, step, size);
    from = rank_before(rank, step, size);
    phase_send(phase, to, source_of(shape, to));
    sum = from < rank ? lower_sum(shape) : higher_sum(shape);
    phase->recv_needs = step <= SLOTS ? 0 : index - SLOTS + 1;
    if (from == size - 1)
        received = sum; /* the first of the higher ranks */
    else
        phase->after[0] = local_combine(received, sum);
    phase_receive(phase, from, received);
}

const struct schedule_ops reduce_scatter_pairwise = {pairwise_prepare, pairwise_phase};
