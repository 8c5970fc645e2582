/*
 * The part of the job's aggregation tree that a group has: pure arithmetic.
 *
 * The tree of the job has the tasks below their nodes, and above these `radix` nodes each, and so
 * on. A node with more members of the group than `radix` has vertices inside. Of all that remains
 * what the group needs: a vertex with one child only is left out, the child takes its place. So
 * every vertex has 2 to `radix` children, and it ends where all members are below.
 *
 * The host of a vertex, the member whose context acts for it, is the first one below it, so it is
 * the host of the first child too, if that is a vertex. All members compute the same tree.
 */
#ifndef LIBPAMI_COLL_AGGREGATE_TREE_H
#define LIBPAMI_COLL_AGGREGATE_TREE_H

#include <stdint.h>

#define AGGREGATE_NONE UINT32_MAX
#define AGGREGATE_RADIX_MAX 64u

/* Where something is in the tree: child `place` of vertex `parent`; NONE: the root. */
struct aggregate_place {
    uint32_t parent, place;
};

struct aggregate_vertex {
    struct aggregate_place at;
    uint32_t host;         /* rank */
    uint32_t first, count; /* in tree.children, in the order in which they are combined */
};

struct aggregate_tree {
    uint32_t members;
    uint32_t vertices; /* the last one is the root; 0: there is one member */
    struct aggregate_vertex *vertex;
    struct aggregate_place *leaf; /* of each rank */
    uint32_t *children;           /* a rank, or `members` + the number of a vertex */
};

/* `domain`: the node of each rank. 0 or -ENOMEM. */
int aggregate_tree_make(struct aggregate_tree *tree, const uint32_t *domain, uint32_t members,
                        uint32_t radix);
void aggregate_tree_free(struct aggregate_tree *tree);

#endif
