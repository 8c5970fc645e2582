/*
 * Reduce-scatter as a k-nomial reduce to rank 0 and a flat scatter from there, for small messages,
 * any operator and blocks that differ: fewest messages of all.
 *
 * Temporary memory: as the reduce, and the message at rank 0.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

enum {
    STATE_KIND,
    STATE_REDUCE_PHASES,
    STATE_RESULT
};

/* Rank 0 gets the message into temporary memory, behind what the reduce uses there. */
static struct shape reduce_shape(const struct shape *shape)
{
    struct shape part = *shape;

    part.root = 0;
    part.receives = shape->rank == 0;
    part.in_place = false;
    return part;
}

static uint64_t bytes_of(const struct shape *shape, uint32_t block)
{
    return block_bytes(shape->send_bytes, shape->bytes / shape->size, block);
}

static uint32_t tree_prepare(struct shape *shape)
{
    struct shape part = reduce_shape(shape);
    uint32_t phases = reduce_knomial.prepare(&part);

    shape->state[STATE_KIND] = part.state[STATE_KIND];
    shape->state[STATE_REDUCE_PHASES] = phases;
    shape->state[STATE_RESULT] = part.temp_bytes;
    shape->temp_bytes = part.temp_bytes + (shape->rank == 0 ? shape->bytes : 0);
    if (shape->bytes == 0)
        return 0;
    return phases + (shape->rank == 0 ? shape->size : 1);
}

static void to_result(const struct shape *shape, struct span *span)
{
    if (span->area == AREA_RECV) {
        span->area = AREA_TEMP;
        span->offset += shape->state[STATE_RESULT];
    }
}

static void tree_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct shape part = reduce_shape(shape);
    uint32_t base = (uint32_t)shape->state[STATE_REDUCE_PHASES], to;
    struct span block;

    if (index < base) {
        phase_part(&reduce_knomial, &part, 0, index, phase);
        if (phase->from != NOBODY)
            to_result(shape, &phase->recv);
        for (int i = 0; i < PHASE_LOCALS; i++) {
            struct local *local = &phase->after[i];

            if (local->kind == LOCAL_NONE)
                continue;
            to_result(shape, &local->source);
            to_result(shape, &local->target);
        }
        return;
    }
    block = span_at(AREA_RECV, 0, bytes_of(shape, shape->rank));
    if (shape->rank != 0) {
        phase_receive(phase, 0, block);
        return;
    }
    to = (index - base + 1) % shape->size;
    block = span_at(AREA_TEMP,
                    shape->state[STATE_RESULT] +
                        blocks_bytes(shape->send_bytes, shape->bytes / shape->size, 0, to),
                    bytes_of(shape, to));
    if (to == 0)
        phase->after[0] = local_copy(block, span_at(AREA_RECV, 0, block.bytes));
    else
        phase_send(phase, to, block);
    phase->send_needs = base;
}

const struct schedule_ops reduce_scatter_reduce_scatter = {tree_prepare, tree_phase};
