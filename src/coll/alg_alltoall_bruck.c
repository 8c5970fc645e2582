/*
 * Alltoall after Bruck, for small equal blocks and any number of members: log(n) messages of half
 * the blocks instead of n - 1 of one.
 *
 * Temporary memory holds the blocks in the order of their distance to go. In step k all blocks with
 * bit k set in their distance, runs of 2^k of them, travel 2^k ranks on: they are packed behind one
 * another, exchanged, and unpacked. In the end place d has the block from d ranks before.
 *
 * Temporary memory: twice the blocks.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

#define STEPS (2 * PHASE_LOCALS) /* copies in one phase */

/* The number of runs that travel in a step. */
static uint32_t runs_of(const struct shape *shape, uint32_t distance)
{
    uint64_t period = 2 * (uint64_t)distance;

    return (uint32_t)((shape->size - distance + period - 1) / period);
}

static uint32_t copy_phases(uint32_t copies)
{
    return (copies + STEPS - 1) / STEPS;
}

/* Phases: 1 turns the source, then steps: pack, exchange, unpack; then all blocks go into place. */
static uint32_t bruck_prepare(struct shape *shape)
{
    uint32_t phases = 1 + copy_phases(shape->size);

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    shape->temp_bytes = (2 * (uint64_t)shape->size + 1) * shape->bytes;
    for (uint64_t distance = 1; distance < shape->size; distance *= 2)
        phases += 2 * copy_phases(runs_of(shape, (uint32_t)distance)) + 1;
    return phases;
}

static struct span place(const struct shape *shape, uint32_t first, uint32_t count)
{
    return span_at(AREA_TEMP, first * shape->bytes, count * shape->bytes);
}

static struct local *local_at(struct phase *phase, uint32_t index)
{
    return index < PHASE_LOCALS ? &phase->before[index] : &phase->after[index - PHASE_LOCALS];
}

/* Blocks that travel in a step, and where they are packed: outgoing, then incoming. */
static uint32_t travellers(const struct shape *shape, uint32_t distance)
{
    uint32_t rest = shape->size % (2 * distance);

    return shape->size / (2 * distance) * distance + (rest > distance ? rest - distance : 0);
}

static void pack_phase(const struct shape *shape, uint32_t distance, uint32_t index, bool unpack,
                       struct phase *phase)
{
    uint32_t packed = shape->size + (unpack ? travellers(shape, distance) : 0);
    uint32_t runs = runs_of(shape, distance), run = index * STEPS;

    for (uint32_t i = 0; i < STEPS && run < runs; i++, run++) {
        uint32_t first = distance + run * 2 * distance;
        uint32_t count = (uint32_t)smaller(distance, shape->size - first);
        struct span there = place(shape, packed + run * distance, count);
        struct span here = place(shape, first, count);

        *local_at(phase, i) = unpack ? local_copy(there, here) : local_copy(here, there);
    }
}

static void place_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t distance = index * STEPS;

    for (uint32_t i = 0; i < STEPS && distance < shape->size; i++, distance++)
        *local_at(phase, i) = local_copy(
            place(shape, distance, 1),
            span_of(AREA_RECV, rank_before(shape->rank, distance, shape->size), 0, shape->bytes));
}

static void step_phase(const struct shape *shape, uint32_t distance, uint32_t index,
                       struct phase *phase)
{
    uint32_t packs = copy_phases(runs_of(shape, distance)), count = travellers(shape, distance);

    if (index < packs) {
        pack_phase(shape, distance, index, false, phase);
    } else if (index > packs) {
        pack_phase(shape, distance, index - packs - 1, true, phase);
    } else {
        phase_send(phase, rank_after(shape->rank, distance, shape->size),
                   place(shape, shape->size, count));
        phase_receive(phase, rank_before(shape->rank, distance, shape->size),
                      place(shape, shape->size + count, count));
    }
}

static void bruck_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t rank = shape->rank, size = shape->size, phases;

    if (index == 0) {
        phase->after[0] = local_copy(span_of(AREA_SEND, rank, 0, (size - rank) * shape->bytes),
                                     place(shape, 0, size - rank));
        phase->after[1] = local_copy(span_of(AREA_SEND, 0, 0, rank * shape->bytes),
                                     place(shape, size - rank, rank));
        return;
    }
    index--;
    for (uint64_t distance = 1; distance < size; distance *= 2) {
        phases = 2 * copy_phases(runs_of(shape, (uint32_t)distance)) + 1;
        if (index < phases) {
            step_phase(shape, (uint32_t)distance, index, phase);
            return;
        }
        index -= phases;
    }
    place_phase(shape, index, phase);
}

const struct schedule_ops alltoall_bruck = {bruck_prepare, bruck_phase};
