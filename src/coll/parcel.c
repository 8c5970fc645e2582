/*
 * Parcels (parcel.h).
 */
#include "coll/parcel.h"

#include "coll/build.h"

struct parcels parcels_of(const struct shape *shape, const struct tree *tree, uint32_t node)
{
    struct parcels parcels = {.node = node, .span = tree_span(tree, node)};
    uint64_t total = parcels.span * shape->bytes;
    uint32_t first = rank_after(node, shape->root, shape->size);

    parcels.cut = total;
    if (tree_parent(tree, node) == 0)
        parcels.cut = smaller(total, (shape->size - first) * shape->bytes);
    parcels.head = segments_of(shape, parcels.cut);
    parcels.tail = segments_of(shape, total - parcels.cut);
    parcels.count = parcels.head.count + (parcels.cut < total ? parcels.tail.count : 0);
    return parcels;
}

struct subtree subtree_of(const struct shape *shape)
{
    struct subtree subtree = {.tree = tree_of(TREE_KNOMIAL, shape)};

    subtree.node = rank_before(shape->rank, shape->root, shape->size);
    subtree.children = tree_children(&subtree.tree, subtree.node);
    if (subtree.node != 0)
        subtree.own = parcels_of(shape, &subtree.tree, subtree.node);
    return subtree;
}

uint64_t parcel_start(const struct parcels *parcels, uint32_t index)
{
    if (index < parcels->head.count)
        return segment_start(&parcels->head, index);
    return parcels->cut +
           smaller(segment_start(&parcels->tail, index - parcels->head.count), parcels->tail.total);
}

uint32_t parcel_at(const struct parcels *parcels, uint64_t offset)
{
    if (offset < parcels->cut)
        return parcels->head.count == 1 ? 0 : (uint32_t)(offset / parcels->head.bytes);
    if (parcels->tail.count == 1)
        return parcels->head.count;
    return parcels->head.count + (uint32_t)((offset - parcels->cut) / parcels->tail.bytes);
}

static uint64_t parcel_bytes(const struct parcels *parcels, uint32_t index)
{
    return parcel_start(parcels, index + 1) - parcel_start(parcels, index);
}

struct span parcel_at_root(const struct shape *shape, const struct parcels *parcels, uint32_t index,
                           enum area area)
{
    uint64_t start = parcel_start(parcels, index);
    uint32_t first = rank_after(parcels->node, shape->root, shape->size);

    if (start >= parcels->cut)
        return span_of(area, 0, start - parcels->cut, parcel_bytes(parcels, index));
    return span_of(area, first, start, parcel_bytes(parcels, index));
}

struct span parcel_in_temp(const struct shape *shape, const struct parcels *parcels, uint32_t index,
                           uint32_t base)
{
    return span_at(AREA_TEMP, (parcels->node - base) * shape->bytes + parcel_start(parcels, index),
                   parcel_bytes(parcels, index));
}
