/*
 * Trees, segments, pieces (tree.h).
 *
 * A node of a k-nomial tree is a number of base k. Its parent has the lowest digit that is not zero
 * cleared, so its children have one digit set below that one, and the subtree of a child whose set
 * digit is number p holds the k^p nodes from the child on (as far as there are so many).
 */
#include "coll/tree.h"

#include "coll/algorithm.h"
#include "util/minmax.h"

struct tree tree_of(enum tree_kind kind, const struct shape *shape)
{
    return (struct tree){kind, shape->radix < 2 ? 2 : shape->radix, shape->size};
}

/* Radices that are powers of two, the usual ones, do without divisions. */
static bool is_binary(const struct tree *tree)
{
    return (tree->radix & (tree->radix - 1)) == 0;
}

/* radix^p for the lowest digit p of the node that is not zero; for node 0 the first one >= size. */
static uint64_t lowest_place(const struct tree *tree, uint32_t node)
{
    uint64_t place = 1;
    uint32_t bits = exponent_of(tree->radix);

    if (node == 0) {
        while (place < tree->size)
            place *= tree->radix;
        return place;
    }
    if (is_binary(tree))
        return UINT64_C(1) << (tree->radix == 2 ? exponent_of(node)
                                                : exponent_of(node) / bits * bits);
    while (node / place % tree->radix == 0)
        place *= tree->radix;
    return place;
}

uint32_t tree_parent(const struct tree *tree, uint32_t node)
{
    uint64_t place;

    if (node == 0)
        return NOBODY;
    switch (tree->kind) {
    case TREE_FLAT:
        return 0;
    case TREE_CHAIN:
        return node - 1;
    case TREE_KARY:
        return (node - 1) / tree->radix;
    default:
        place = lowest_place(tree, node);
        if (is_binary(tree))
            return node & ~(uint32_t)((tree->radix - 1) * place);
        return (uint32_t)(node - node / place % tree->radix * place);
    }
}

uint32_t tree_children(const struct tree *tree, uint32_t node)
{
    uint64_t place, end, first;
    uint32_t count = 0;

    switch (tree->kind) {
    case TREE_FLAT:
        return node == 0 ? tree->size - 1 : 0;
    case TREE_CHAIN:
        return node + 1 < tree->size;
    case TREE_KARY:
        first = (uint64_t)node * tree->radix + 1;
        return first >= tree->size ? 0 : (uint32_t)smaller(tree->radix, tree->size - first);
    default:
        end = lowest_place(tree, node);
        for (place = 1; place < end && node + place < tree->size; place *= tree->radix)
            count += (tree->radix - 1) * place < tree->size - node
                         ? tree->radix - 1
                         : (uint32_t)((tree->size - 1 - node) / place);
        return count;
    }
}

uint32_t tree_child(const struct tree *tree, uint32_t node, uint32_t index)
{
    uint64_t place = 1;

    switch (tree->kind) {
    case TREE_FLAT:
    case TREE_CHAIN:
        return node + 1 + index;
    case TREE_KARY:
        return node * tree->radix + 1 + index;
    default:
        for (; index >= tree->radix - 1; index -= tree->radix - 1)
            place *= tree->radix;
        return (uint32_t)(node + (index + 1) * place);
    }
}

uint32_t tree_span(const struct tree *tree, uint32_t node)
{
    switch (tree->kind) {
    case TREE_FLAT:
        return node == 0 ? tree->size : 1;
    case TREE_KNOMIAL:
        return (uint32_t)smaller(lowest_place(tree, node), tree->size - node);
    default:
        return tree->size - node;
    }
}

uint32_t twins_node(const struct tree *tree, uint32_t twin, uint32_t node)
{
    return twin == 0 ? node : tree->size - 1 - node;
}

/*
 * Whether the steps of the edge to this node are the odd ones. Siblings in the first twin are nodes
 * 2j + 1 and 2j + 2 of it, in the second one too if the number of nodes is even, else 2j and
 * 2j + 1. So it is enough that odd and even nodes differ. Node 0 of the first twin and the last
 * one, node 0 of the second, must not be served in one step: if there is an even number of nodes,
 * node 0 is like an odd one, as it has no sibling in either twin then.
 */
static bool is_odd_edge(const struct tree *tree, uint32_t twin, uint32_t node)
{
    uint32_t number = twins_node(tree, twin, node);
    bool odd = number == 0 ? tree->size % 2 == 0 : number % 2 != 0;

    return twin == 0 ? odd : !odd;
}

uint32_t twins_step(const struct tree *tree, uint32_t twin, uint32_t node)
{
    uint64_t path = (uint64_t)node + 1; /* the bits below the first one: right or left */
    uint32_t step = is_odd_edge(tree, twin, 0);

    for (int bits = 62 - __builtin_clzll(path); bits >= 0; bits--) {
        step += TWINS_LAG;
        step += (step % 2 != 0) != is_odd_edge(tree, twin, (uint32_t)(path >> bits) - 1);
    }
    return step;
}

uint32_t twins_latest(const struct tree *tree)
{
    return 1 + (TWINS_LAG + 1) * (uint32_t)(63 - __builtin_clzll(tree->size));
}

struct segments segments_of(const struct shape *shape, uint64_t total)
{
    uint64_t element = larger(shape->element, 1), bytes = shape->segment;

    if (bytes == SEGMENT_DYNAMIC)
        bytes = total > 8192 ? total - total / 2 : 0;
    if (bytes == 0 || bytes >= total)
        return (struct segments){total, total, 1};
    bytes = larger(bytes, total / SEGMENTS_MAX + 1);
    if (bytes % element)
        bytes += element - bytes % element;
    return (struct segments){total, bytes, (uint32_t)((total - 1) / bytes + 1)};
}

uint64_t segment_bytes(const struct segments *segments, uint32_t index)
{
    return smaller(segments->bytes, segments->total - segment_start(segments, index));
}

uint64_t piece_start(uint64_t total, uint32_t element, uint32_t count, uint32_t index)
{
    uint64_t unit = larger(element, 1), units = total / unit;

    if (index == count)
        return total;
    return (units / count * index + smaller(index, units % count)) * unit;
}

uint32_t power_of_two(uint32_t value)
{
    return UINT32_C(1) << (31 - __builtin_clz(value));
}

uint32_t exponent_of(uint32_t power)
{
    return (uint32_t)__builtin_ctz(power);
}
