/*
 * Arithmetic that algorithms share: trees of nodes 0 .. size - 1 with root 0, messages cut into
 * segments, messages cut into nearly equal pieces.
 *
 * Algorithms map ranks to nodes. Pure functions; time is at most logarithmic.
 */
#ifndef LIBPAMI_COLL_TREE_H
#define LIBPAMI_COLL_TREE_H

#include <stdint.h>

#include "coll/schedule.h"

enum tree_kind {
    TREE_FLAT,    /* node 0 is everybody's parent */
    TREE_CHAIN,   /* node v's child is v + 1 */
    TREE_KNOMIAL, /* radix k: children differ from their parent in one more digit of base k */
    TREE_KARY,    /* radix k: node v's children are kv + 1 .. kv + k */
};

struct tree {
    enum tree_kind kind;
    uint32_t radix; /* at least 2; for flat and chain of no meaning */
    uint32_t size;
};

struct tree tree_of(enum tree_kind kind, const struct shape *shape);

/* NOBODY for node 0 */
uint32_t tree_parent(const struct tree *tree, uint32_t node);

uint32_t tree_children(const struct tree *tree, uint32_t node);

/* Child `index` < tree_children, in ascending order: k-nomial subtrees grow with the index. */
uint32_t tree_child(const struct tree *tree, uint32_t node, uint32_t index);

/* Nodes of the subtree: they are node .. node + span - 1. Not for k-ary trees. */
uint32_t tree_span(const struct tree *tree, uint32_t node);

/*
 * Twins: two binary trees over the same `size` nodes, of kind TREE_KARY and radix 2. The first has
 * the nodes as they are, the second one counted from the end; so who has children in one of them
 * has none in the other. Somebody outside sends to node 0 of both.
 *
 * Over each edge something goes in every second step, the odd or the even ones. Edges to siblings
 * take turns, and so do the two edges to a node: nobody gets or sends two messages in a step.
 *
 * What comes in a step goes on TWINS_LAG steps later, or one more, so that a send need not wait for
 * the end of those before it. With 1, 2, 3, 4 and 5 steps, 4 MiB in segments of 16 KiB took 64
 * members 718, 500, 380, 380 and 380 us, 500 members 890, 574, 438, 400 and 400 us (simulated).
 */
#define TWINS_LAG 4u

/* The number in one twin, 0 or 1, of node `node` of twin 0; and the other way round. */
uint32_t twins_node(const struct tree *tree, uint32_t twin, uint32_t node);

/* The first step of the edge to node `node` of that twin; the first of all is 0. */
uint32_t twins_step(const struct tree *tree, uint32_t twin, uint32_t node);

/* Not before the first step of any edge. */
uint32_t twins_latest(const struct tree *tree);

/* The fragments of a message: `count` >= 1 of `bytes` each, the last one of what is left. */
struct segments {
    uint64_t total, bytes;
    uint32_t count;
};

#define SEGMENTS_MAX 65536u /* larger messages have larger fragments */

/* Cuts at multiples of shape->element, as shape->segment says. */
struct segments segments_of(const struct shape *shape, uint64_t total);

uint64_t segment_bytes(const struct segments *segments, uint32_t index);

static inline uint64_t segment_start(const struct segments *segments, uint32_t index)
{
    return segments->bytes * index;
}

/* Where piece `index` of `count` starts; piece `count` starts at the end. Cut at elements. */
uint64_t piece_start(uint64_t total, uint32_t element, uint32_t count, uint32_t index);

/* The largest power of two <= value; value > 0 */
uint32_t power_of_two(uint32_t value);

/* The exponent of a power of two */
uint32_t exponent_of(uint32_t power);

#endif
