/*
 * Algorithms are rows: what type of transfer, name, one sentence, what it requires, and its
 * arithmetic. Nothing in the library switches on an algorithm.
 *
 * Adding one: a file src/coll/alg_*.c with a struct schedule_ops (schedule.h), a row in
 * src/coll/table.c, a row in the tests. See doc/collectives.md.
 */
#ifndef LIBPAMI_COLL_ALGORITHM_H
#define LIBPAMI_COLL_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "coll/schedule.h"
#include "p2p/message.h"

/* What an algorithm needs to be right; without any of these it works for all arguments. */
#define NEEDS_COMMUTATIVE 1u  /* reductions: a commutative operator */
#define NEEDS_POWER_OF_TWO 2u /* members */
#define NEEDS_EVEN 4u         /* members */
#define NEEDS_ONE_NODE 8u     /* all members share a node's memory */
#define NEEDS_LEVELS 16u      /* several nodes, one of them with several members */
#define NEEDS_CONSECUTIVE 32u /* ranks of the members of each node */
#define NEEDS_PREDEFINED 64u  /* reductions: an operator that others can apply */
#define NEEDS_ORDER 128u      /* runs in the order of calls: not as a part of another one */

struct collective;
struct group;
struct machine;
struct algorithm;

/* Takes *collective over, also on error; 0 or -ENOMEM. */
typedef int algorithm_make_function(struct group *group, const struct algorithm *row,
                                    struct collective *collective, struct machine **machine);

struct algorithm {
    pami_xfer_type_t type;   /* never one of the *_INT types: those without serve them */
    const char *name;        /* as users write it: "Binomial", "RecursiveDoubling", "Ring" */
    const char *description; /* one sentence */
    const struct schedule_ops *schedule;
    unsigned needs;
    uint32_t radix;                /* 0: has none */
    uint64_t segment;              /* preset of shape.segment: SEGMENT_* or bytes */
    uint32_t window;               /* preset of shape.window */
    enum message_way way;          /* who moves the data of its messages */
    bool slices;                   /* hierarchies: several leaders of each domain work at once */
    bool direct;                   /* hierarchies: no leaders */
    bool voices;                   /* hierarchies: who comes last speaks for its domain */
    bool aggregated;               /* hierarchies: leaders by aggregation nodes */
    bool tree;                     /* shared memory: along a tree, whatever the number of members */
    algorithm_make_function *make; /* instead of a schedule: makes the machine (machine.h) */
};

/* The bits of row->needs that these arguments in a group do not meet. */
unsigned algorithm_unmet(const struct algorithm *row, const struct collective *collective,
                         const struct group *group);

/* A row of a type by its name (any case), NULL when there is none. */
const struct algorithm *algorithm_find(pami_xfer_type_t type, const char *name);

/* Fragmentation of pipelines. */
#define SEGMENT_WHOLE 0u
#define SEGMENT_STATIC UINT64_C(0x8000) /* PAMI_COLL_SEGMENT, default 32768 */
#define SEGMENT_DYNAMIC UINT64_MAX      /* halves of what is above 8192 */

extern const struct algorithm algorithm_table[];
extern const size_t algorithm_count;

/* shared/row.c */
algorithm_make_function shared_make;

/* hierarchy.c */
algorithm_make_function hierarchy_make;

/* aggregate/run.c */
algorithm_make_function aggregate_make;

/* alg_*.c */
extern const struct schedule_ops barrier_dissemination, barrier_tree;
extern const struct schedule_ops broadcast_flat, broadcast_knomial, broadcast_chain,
    broadcast_scatter_ring, broadcast_scatter_doubling, broadcast_two_trees;
extern const struct schedule_ops reduce_flat, reduce_knomial, reduce_chain, reduce_rabenseifner,
    reduce_two_trees;
extern const struct schedule_ops allreduce_doubling, allreduce_king, allreduce_rabenseifner,
    allreduce_ring, allreduce_circulant, allreduce_reduce_broadcast;
extern const struct schedule_ops scan_doubling, scan_linear;
extern const struct schedule_ops reduce_scatter_halving, reduce_scatter_pairwise,
    reduce_scatter_ring, reduce_scatter_circulant, reduce_scatter_reduce_scatter;
extern const struct schedule_ops allgather_bruck, allgather_doubling, allgather_ring,
    allgather_linear, allgather_neighbor;
extern const struct schedule_ops gather_flat, gather_knomial, scatter_flat, scatter_knomial;
extern const struct schedule_ops alltoall_bruck, alltoall_pairwise, alltoall_spread,
    alltoall_sparse;

#endif
