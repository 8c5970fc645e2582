/*
 * Gather of equal blocks up a k-nomial tree, whole or in segments (parcel.h).
 *
 * A member receives its children's messages in ascending order, which fills its subtree's blocks
 * from the front; each of its own parcels goes up as soon as it is filled. The root receives where
 * blocks belong, leaves send from the source.
 *
 * Temporary memory: the blocks of the subtree; root and leaves none.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/parcel.h"

enum {
    STATE_RECEIVES
};

/* The number of receives that fill the subtree's blocks up to `end`. */
static uint32_t receives_until(const struct shape *shape, const struct subtree *subtree,
                               uint64_t end)
{
    uint32_t receives = 0;

    for (uint32_t i = 0; i < subtree->children; i++) {
        struct parcels parcels =
            parcels_of(shape, &subtree->tree, tree_child(&subtree->tree, subtree->node, i));
        uint64_t start = (parcels.node - subtree->node) * shape->bytes;

        if (end <= start)
            break;
        if (end - start <= parcel_start(&parcels, parcels.count))
            return receives + parcel_at(&parcels, end - start - 1) + 1;
        receives += parcels.count;
    }
    return receives;
}

static uint32_t tree_prepare(struct shape *shape)
{
    struct subtree subtree;

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    subtree = subtree_of(shape);
    shape->state[STATE_RECEIVES] = receives_until(shape, &subtree, UINT64_MAX);
    if (subtree.node == 0)
        return (uint32_t)larger(shape->state[STATE_RECEIVES], !shape->in_place);
    if (subtree.children)
        shape->temp_bytes = subtree.own.span * shape->bytes;
    return (uint32_t)shape->state[STATE_RECEIVES] + subtree.own.count;
}

static void receive_phase(const struct shape *shape, const struct subtree *subtree,
                          uint32_t receive, struct phase *phase)
{
    struct parcels parcels;
    uint32_t child = 0, node;

    for (;; child++) {
        node = tree_child(&subtree->tree, subtree->node, child);
        parcels = parcels_of(shape, &subtree->tree, node);
        if (receive < parcels.count)
            break;
        receive -= parcels.count;
    }
    phase->send_needs = phase->recv_needs = 0;
    phase_receive(phase, rank_after(node, shape->root, shape->size),
                  subtree->node == 0 ? parcel_at_root(shape, &parcels, receive, AREA_RECV)
                                     : parcel_in_temp(shape, &parcels, receive, subtree->node));
}

/* The position of a parcel that goes up: right behind what fills it. */
static uint32_t send_position(const struct shape *shape, const struct subtree *subtree,
                              uint32_t index)
{
    return receives_until(shape, subtree, parcel_start(&subtree->own, index + 1)) + index;
}

/* The number of parcels that go up at positions up to `index`. */
static uint32_t sends_until(const struct shape *shape, const struct subtree *subtree,
                            uint32_t index)
{
    uint32_t low = 0, high = subtree->own.count;

    if (subtree->children == 0)
        return index + 1;
    if (high == 1)
        return index == shape->state[STATE_RECEIVES];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (send_position(shape, subtree, middle) <= index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether the last parcel of those up to `index` stands there; without children or cuts it does. */
static bool is_send(const struct shape *shape, const struct subtree *subtree, uint32_t send,
                    uint32_t index)
{
    return subtree->children == 0 || subtree->own.count == 1 ||
           send_position(shape, subtree, send) == index;
}

/* Phases until a parcel is filled: those up to the last receive that fills it, the first anyway. */
static uint32_t needs(const struct shape *shape, const struct subtree *subtree, uint32_t send,
                      uint32_t index)
{
    uint32_t receives;

    if (subtree->children == 0 || subtree->own.count == 1)
        return subtree->children ? index : 0;
    receives = send_position(shape, subtree, send) - send;
    if (receives == 0)
        return index > 0;
    while (send > 0 && send_position(shape, subtree, send - 1) - (send - 1) == receives)
        send--;
    return receives + send;
}

static void tree_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct subtree subtree = subtree_of(shape);
    struct span own = span_at(AREA_SEND, 0, shape->bytes), parcel;
    uint32_t sends;

    if (subtree.node == 0) {
        if (subtree.children)
            receive_phase(shape, &subtree, index, phase);
        if (index == 0 && !shape->in_place)
            phase->before[0] = local_copy(own, span_of(AREA_RECV, shape->rank, 0, shape->bytes));
        phase->send_needs = 0;
        return;
    }
    if (index == 0 && subtree.children)
        phase->before[0] = local_copy(own, span_at(AREA_TEMP, 0, shape->bytes));
    sends = sends_until(shape, &subtree, index);
    if (sends == 0 || !is_send(shape, &subtree, sends - 1, index)) {
        receive_phase(shape, &subtree, index - sends, phase);
        return;
    }
    parcel = parcel_in_temp(shape, &subtree.own, sends - 1, subtree.node);
    if (subtree.children == 0)
        parcel.area = AREA_SEND;
    phase_send(phase,
               rank_after(tree_parent(&subtree.tree, subtree.node), shape->root, shape->size),
               parcel);
    phase->send_needs = needs(shape, &subtree, sends - 1, index);
}

const struct schedule_ops gather_knomial = {tree_prepare, tree_phase};
