/*
 * Barriers. Their messages carry nothing; that they arrive is all.
 *
 * Dissemination of radix k: in round t a member tells the k - 1 members at distances j k^t after
 * it, and waits for those before it; after round t it knows of the k^(t+1) - 1 before it.
 * Tree of radix k: up when all children have come, down when the parent has.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

static uint32_t radix_of(const struct shape *shape)
{
    return shape->radix < 2 ? 2 : shape->radix;
}

static uint32_t dissemination_prepare(struct shape *shape)
{
    uint32_t radix = radix_of(shape), phases = 0;

    for (uint64_t place = 1; place < shape->size; place *= radix)
        phases += (uint32_t)smaller(radix - 1, (shape->size - 1) / place);
    shape->temp_bytes = 0;
    return phases;
}

static void dissemination_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    uint32_t radix = radix_of(shape), peer = index % (radix - 1);
    uint64_t distance = 1;

    for (uint32_t round = index / (radix - 1); round > 0; round--)
        distance *= radix;
    distance *= peer + 1;
    phase->to = rank_after(shape->rank, (uint32_t)distance, shape->size);
    phase->from = rank_before(shape->rank, (uint32_t)distance, shape->size);
    phase->send_needs = index - peer;
    phase->recv_needs = 0;
}

const struct schedule_ops barrier_dissemination = {dissemination_prepare, dissemination_phase};

static uint32_t tree_prepare(struct shape *shape)
{
    struct tree tree = tree_of(TREE_KARY, shape);

    shape->temp_bytes = 0;
    shape->state[0] = tree_children(&tree, shape->rank);
    return 2 * (uint32_t)shape->state[0] + (shape->rank != 0);
}

/* Children come, one exchange with the parent, children go. */
static void tree_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct tree tree = tree_of(TREE_KARY, shape);
    uint32_t children = (uint32_t)shape->state[0], inner = shape->rank != 0;

    phase->recv_needs = 0;
    if (index < children) {
        phase->from = tree_child(&tree, shape->rank, index);
    } else if (index < children + inner) {
        phase->to = phase->from = tree_parent(&tree, shape->rank);
    } else {
        phase->to = tree_child(&tree, shape->rank, index - children - inner);
        phase->send_needs = children + inner;
    }
}

const struct schedule_ops barrier_tree = {tree_prepare, tree_phase};
