/*
 * Scatter of equal blocks down a k-nomial tree, whole or in segments (parcel.h).
 *
 * Messages travel from their end to their start, so that the largest subtree's blocks, which are
 * the last ones, arrive first and are passed on while the others come. The root sends from where
 * blocks lie, leaves receive into the destination.
 *
 * Temporary memory: the blocks of the subtree; root and leaves none.
 */
#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/parcel.h"

enum {
    STATE_SENDS
};

/* Sends go to the last child first, its last parcel first: which one is number `send`. */
static struct parcels send_parcel(const struct shape *shape, const struct subtree *subtree,
                                  uint32_t send, uint32_t *index)
{
    struct parcels parcels = {0};

    for (uint32_t child = subtree->children; child-- > 0;) {
        parcels =
            parcels_of(shape, &subtree->tree, tree_child(&subtree->tree, subtree->node, child));
        if (send < parcels.count)
            break;
        send -= parcels.count;
    }
    *index = parcels.count - 1 - send;
    return parcels;
}

static uint32_t tree_prepare(struct shape *shape)
{
    struct subtree subtree;
    uint32_t sends = 0;

    shape->temp_bytes = 0;
    if (shape->bytes == 0)
        return 0;
    subtree = subtree_of(shape);
    for (uint32_t child = 0; child < subtree.children; child++)
        sends +=
            parcels_of(shape, &subtree.tree, tree_child(&subtree.tree, subtree.node, child)).count;
    shape->state[STATE_SENDS] = sends;
    if (subtree.node == 0)
        return (uint32_t)larger(sends, !shape->in_place);
    if (subtree.children)
        shape->temp_bytes = subtree.own.span * shape->bytes;
    return sends + subtree.own.count + (subtree.children > 0);
}

/* The number of receives that bring what a send passes on. */
static uint32_t receives_until(const struct shape *shape, const struct subtree *subtree,
                               uint32_t send)
{
    uint32_t index;
    struct parcels parcels = send_parcel(shape, subtree, send, &index);
    uint64_t start = (parcels.node - subtree->node) * shape->bytes + parcel_start(&parcels, index);

    return subtree->own.count - parcel_at(&subtree->own, start);
}

/* Sends stand right behind the receives that they need: the number of those up to `index`. */
static uint32_t sends_until(const struct shape *shape, const struct subtree *subtree,
                            uint32_t index)
{
    uint32_t low = 0, high = (uint32_t)shape->state[STATE_SENDS];

    if (subtree->children == 0 || subtree->own.count == 1)
        return subtree->children ? index : 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (receives_until(shape, subtree, middle) + middle <= index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void send_phase(const struct shape *shape, const struct subtree *subtree, uint32_t send,
                       struct phase *phase)
{
    uint32_t index;
    struct parcels parcels = send_parcel(shape, subtree, send, &index);

    phase_send(phase, rank_after(parcels.node, shape->root, shape->size),
               subtree->node == 0 ? parcel_at_root(shape, &parcels, index, AREA_SEND)
                                  : parcel_in_temp(shape, &parcels, index, subtree->node));
}

/* Whether the last of the sends up to `index` stands there. */
static bool is_send(const struct shape *shape, const struct subtree *subtree, uint32_t send,
                    uint32_t index)
{
    return subtree->own.count == 1 || receives_until(shape, subtree, send) + send == index;
}

/* Phases up to the receive that brings what a send passes on. */
static uint32_t needs(const struct shape *shape, const struct subtree *subtree, uint32_t send)
{
    uint32_t receives;

    if (subtree->own.count == 1)
        return 1;
    receives = receives_until(shape, subtree, send);
    while (send > 0 && receives_until(shape, subtree, send - 1) == receives)
        send--;
    return receives + send;
}

static void tree_phase(const struct shape *shape, uint32_t index, struct phase *phase)
{
    struct subtree subtree = subtree_of(shape);
    struct span own = span_at(AREA_RECV, 0, shape->bytes), parcel;
    uint32_t all = subtree.own.count + (uint32_t)shape->state[STATE_SENDS], sends, parent;

    if (subtree.node == 0) {
        if (subtree.children)
            send_phase(shape, &subtree, index, phase);
        if (index + 1 >= all && !shape->in_place)
            phase->after[0] = local_copy(span_of(AREA_SEND, shape->rank, 0, shape->bytes), own);
        phase->send_needs = 0;
        return;
    }
    if (index == all) {
        phase->before[0] = local_copy(span_at(AREA_TEMP, 0, shape->bytes), own);
        return;
    }
    sends = sends_until(shape, &subtree, index);
    if (sends > 0 && is_send(shape, &subtree, sends - 1, index)) {
        send_phase(shape, &subtree, sends - 1, phase);
        phase->send_needs = needs(shape, &subtree, sends - 1);
        return;
    }
    parcel =
        parcel_in_temp(shape, &subtree.own, subtree.own.count - 1 - (index - sends), subtree.node);
    if (subtree.children == 0)
        parcel.area = AREA_RECV;
    parent = tree_parent(&subtree.tree, subtree.node);
    phase_receive(phase, rank_after(parent, shape->root, shape->size), parcel);
    phase->send_needs = phase->recv_needs = 0;
}

const struct schedule_ops scatter_knomial = {tree_prepare, tree_phase};
