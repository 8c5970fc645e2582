/*
 * Allgathers that exchange runs of neighbouring blocks, right in the destination, without temporary
 * memory; blocks may differ but follow one another.
 *
 * Recursive doubling, for powers of two: in step k members whose ranks differ in bit k exchange all
 * they have. Neighbour exchange, for even numbers: pairs of blocks move both ways along the ring,
 * n / 2 steps to two neighbours only (Chen et al.).
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

static struct span run_of(const struct shape *shape, uint32_t first, uint32_t count)
{
    return span_of(AREA_RECV, first, 0,
                   blocks_bytes(shape->recv_bytes, shape->bytes, first, count));
}

/* The first exchange is of own blocks, and puts the own one into place. */
static void own_phase(const struct shape *shape, uint32_t peer, struct phase *phase)
{
    struct span own = run_of(shape, shape->rank, 1), source = span_at(AREA_SEND, 0, own.bytes);

    if (peer != shape->rank) {
        phase_send(phase, peer, source);
        phase_receive(phase, peer, run_of(shape, peer, 1));
    }
    if (!shape->in_place)
        phase->after[0] = local_copy(source, own);
}

static uint32_t doubling_prepare(struct shape *shape)
{
    shape->temp_bytes = 0;
    return shape->size == 1 ? 1 : exponent_of(shape->size);
}

static void doubling_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t distance = UINT32_C(1) << index, peer = shape->rank ^ distance;

    if (index == 0) {
        own_phase(shape, shape->size == 1 ? 0 : peer, phase);
        return;
    }
    phase_send(phase, peer, run_of(shape, shape->rank & ~(distance - 1), distance));
    phase_receive(phase, peer, run_of(shape, peer & ~(distance - 1), distance));
    phase->recv_needs = 0;
}

const struct schedule_ops allgather_doubling = {doubling_prepare, doubling_phase};

static uint32_t neighbor_prepare(struct shape *shape)
{
    shape->temp_bytes = 0;
    return shape->size / 2;
}

/* The first block of the pair that comes in a step; before the first one: of the own pair. */
static uint32_t pair_after(const struct shape *shape, uint32_t step)
{
    uint32_t moves = step / 2 + step % 2, base = shape->rank & ~1u;
    bool up = (shape->rank % 2 == 0) != (step % 2 == 1);

    if (step == 0)
        return base;
    return up ? rank_after(base, 2 * moves % shape->size, shape->size)
              : rank_before(base, 2 * moves % shape->size, shape->size);
}

static void neighbor_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    bool above = (shape->rank + index) % 2 == 0;
    uint32_t peer =
        above ? rank_after(shape->rank, 1, shape->size) : rank_before(shape->rank, 1, shape->size);

    if (index == 0) {
        own_phase(shape, peer, phase);
        return;
    }
    phase_send(phase, peer, run_of(shape, pair_after(shape, index - 1), 2));
    phase_receive(phase, peer, run_of(shape, pair_after(shape, index), 2));
    phase->recv_needs = 0;
}

const struct schedule_ops allgather_neighbor = {neighbor_prepare, neighbor_phase};
