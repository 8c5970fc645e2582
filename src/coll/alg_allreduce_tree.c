/*
 * Allreduce as a k-nomial reduce to rank 0 and a broadcast from there, for any operator: fewest
 * messages of all, 2 (n - 1).
 *
 * Temporary memory: as the reduce.
 */
#include "coll/algorithm.h"
#include "coll/build.h"

enum {
    STATE_KIND,
    STATE_REDUCE_PHASES
};

static struct shape reduce_shape(const struct shape *shape)
{
    struct shape part = *shape;

    part.root = 0;
    part.receives = shape->rank == 0;
    part.in_place = shape->in_place && part.receives;
    return part;
}

static uint32_t tree_prepare(struct shape *shape)
{
    struct shape part = reduce_shape(shape);
    uint32_t phases = reduce_knomial.prepare(&part);

    shape->temp_bytes = part.temp_bytes;
    shape->state[STATE_KIND] = part.state[STATE_KIND]; /* of both parts */
    shape->state[STATE_REDUCE_PHASES] = phases;
    return phases + broadcast_knomial.prepare(&part);
}

static void tree_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct shape part = reduce_shape(shape);
    uint32_t base = (uint32_t)shape->state[STATE_REDUCE_PHASES];

    if (index < base) {
        phase_part(&reduce_knomial, &part, 0, index, phase);
        return;
    }
    phase_part(&broadcast_knomial, &part, base, index, phase);
    /* The reduce does not touch a destination off its root. */
    if (!shape->in_place)
        phase->recv_needs = 0;
}

const struct schedule_ops allreduce_reduce_broadcast = {tree_prepare, tree_phase};
