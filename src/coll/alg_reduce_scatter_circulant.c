/*
 * Reduce-scatter over a circulant graph, for operators that commute and any number of members;
 * blocks may differ. No member sends more than the message, in log(n) steps rounded up.
 *
 * Temporary memory: the message, where sums arise, and what circulant.h takes.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/circulant.h"

static uint64_t block_start(const struct shape *shape, uint32_t block)
{
    return blocks_bytes(shape->send_bytes, shape->bytes / shape->size, 0, block);
}

static struct circulant circulant_of(const struct shape *shape)
{
    return (struct circulant){
        .shape = shape,
        .start = block_start,
        .sum = AREA_TEMP,
        .temp = shape->bytes,
        .steps = circulant_steps(shape->size),
    };
}

static uint32_t circulant_prepare(struct shape *shape)
{
    struct circulant circulant = circulant_of(shape);

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    if (shape->size == 1)
        return !shape->in_place;
    shape->temp_bytes = shape->bytes + circulant_temp_bytes(&circulant);
    return 2 * circulant.steps + 1;
}

static void reduce_scatter_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct circulant circulant = circulant_of(shape);
    struct span own =
        circulant_part(&circulant, shape->rank, 1, 0, shape->size == 1 ? AREA_SEND : AREA_TEMP);

    if (index < 2 * circulant.steps)
        circulant_phase(&circulant, index, phase);
    else
        phase->after[0] = local_copy(own, span_at(AREA_RECV, 0, own.bytes));
}

const struct schedule_ops reduce_scatter_circulant = {circulant_prepare, reduce_scatter_phase};
