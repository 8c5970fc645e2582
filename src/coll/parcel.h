/*
 * What gathers and scatters move up and down a tree: the equal blocks of a node's subtree, which
 * follow one another in the order of nodes, as one message in parcels.
 *
 * Nodes are ranks counted from the root, so at the root a subtree may lie at both ends of the area:
 * a message of one of its children is cut there. What is left of it is cut into segments.
 */
#ifndef LIBPAMI_COLL_PARCEL_H
#define LIBPAMI_COLL_PARCEL_H

#include "coll/schedule.h"
#include "coll/tree.h"

struct parcels {
    uint32_t node, span; /* the subtree */
    uint64_t cut;        /* bytes before the cut: all of them where there is none */
    struct segments head, tail;
    uint32_t count;
};

/* The message between a node and its parent. */
struct parcels parcels_of(const struct shape *shape, const struct tree *tree, uint32_t node);

/* Offset in the message; the next one's is where it ends, that of `count` the message's length. */
uint64_t parcel_start(const struct parcels *parcels, uint32_t index);

/* The parcel that holds a byte. */
uint32_t parcel_at(const struct parcels *parcels, uint64_t offset);

/* What a member of a k-nomial tree has to do with: its node, the message to or from its parent. */
struct subtree {
    struct tree tree;
    uint32_t node, children;
    struct parcels own; /* the root: none */
};

struct subtree subtree_of(const struct shape *shape);

/* Where a parcel lies at the root, in the area of all blocks. */
struct span parcel_at_root(const struct shape *shape, const struct parcels *parcels, uint32_t index,
                           enum area area);

/* Where a parcel lies in temporary memory that starts with the block of node `base`. */
struct span parcel_in_temp(const struct shape *shape, const struct parcels *parcels, uint32_t index,
                           uint32_t base);

#endif
