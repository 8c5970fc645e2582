/*
 * The table of algorithms (algorithm.h). Within a type in the order in which users see them, the
 * one without needs that is good for most sizes first.
 */
#include "coll/algorithm.h"

/* Most rows have no `make`. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const struct algorithm algorithm_table[] = {
    {PAMI_XFER_BARRIER, "Dissemination", "", &barrier_dissemination, 0, 2, 0, 0, 0},
    {PAMI_XFER_BARRIER, "Dissemination4", "", &barrier_dissemination, 0, 4, 0, 0, 0},
    {PAMI_XFER_BARRIER, "Tree2", "", &barrier_tree, 0, 2, 0, 0, 0},
    {PAMI_XFER_BARRIER, "Tree8", "", &barrier_tree, 0, 8, 0, 0, 0},
    {PAMI_XFER_BROADCAST, "Binomial", "", &broadcast_knomial, 0, 2, 0, 0, 0},
    {PAMI_XFER_BROADCAST, "Knomial4", "", &broadcast_knomial, 0, 4, 0, 0, 0},
    {PAMI_XFER_BROADCAST, "Flat", "", &broadcast_flat, 0, 0, 0, 0, 0},
    {PAMI_XFER_BROADCAST, "Chain", "", &broadcast_chain, 0, 0, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_BROADCAST, "PBinomial", "", &broadcast_knomial, 0, 2, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_BROADCAST, "PKnomial4", "", &broadcast_knomial, 0, 4, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_BROADCAST, "SR", "", &broadcast_scatter_ring, 0, 0, 0, 0, 0},
    {PAMI_XFER_BROADCAST, "SD", "", &broadcast_scatter_doubling, 0, 0, 0, 0, 0},
    {PAMI_XFER_REDUCE, "Rab", "", &reduce_rabenseifner, 0, 0, 0, 0, 0},
    {PAMI_XFER_ALLREDUCE, "Rab", "", &allreduce_rabenseifner, 0, 0, 0, 0, 0},
    {PAMI_XFER_REDUCE, "Binomial", "", &reduce_knomial, 0, 2, 0, 0, 0},
    {PAMI_XFER_REDUCE, "Knomial4", "", &reduce_knomial, 0, 4, 0, 0, 0},
    {PAMI_XFER_REDUCE, "Flat", "", &reduce_flat, 0, 0, 0, 0, 0},
    {PAMI_XFER_REDUCE, "Chain", "", &reduce_chain, 0, 0, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_REDUCE, "PBinomial", "", &reduce_knomial, 0, 2, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_REDUCE, "PKnomial4", "", &reduce_knomial, 0, 4, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_ALLREDUCE, "Doubling", "", &allreduce_doubling, 0, 0, 0, 0, 0},
    {PAMI_XFER_ALLREDUCE, "King3", "", &allreduce_king, 0, 3, 0, 0, 0},
    {PAMI_XFER_ALLREDUCE, "King4", "", &allreduce_king, 0, 4, 0, 0, 0},
    {PAMI_XFER_ALLREDUCE, "King8", "", &allreduce_king, 0, 8, 0, 0, 0},
    {PAMI_XFER_ALLREDUCE, "Ring", "", &allreduce_ring, NEEDS_COMMUTATIVE, 0, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_ALLREDUCE, "RB", "", &allreduce_reduce_broadcast, 0, 2, 0, 0, 0},
    {PAMI_XFER_ALLREDUCE, "PRB", "", &allreduce_reduce_broadcast, 0, 2, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_SCAN, "Doubling", "", &scan_doubling, 0, 0, 0, 0, 0},
    {PAMI_XFER_SCAN, "Linear", "", &scan_linear, 0, 0, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_ALLGATHER, "Bruck", "", &allgather_bruck, NEEDS_EQUAL, 0, 0, 0, 0},
    {PAMI_XFER_ALLGATHER, "Doubling", "", &allgather_doubling, NEEDS_POWER_OF_TWO, 0, 0, 0, 0},
    {PAMI_XFER_ALLGATHER, "Neighbor", "", &allgather_neighbor, NEEDS_EVEN, 0, 0, 0, 0},
    {PAMI_XFER_ALLGATHER, "Ring", "", &allgather_ring, 0, 0, 0, 0, 0},
    {PAMI_XFER_ALLGATHER, "Linear", "", &allgather_linear, 0, 0, 0, 32, 0},
    {PAMI_XFER_ALLGATHERV, "Doubling", "", &allgather_doubling, NEEDS_DENSE | NEEDS_POWER_OF_TWO, 0,
     0, 0, 0},
    {PAMI_XFER_ALLGATHERV, "Neighbor", "", &allgather_neighbor, NEEDS_DENSE | NEEDS_EVEN, 0, 0, 0,
     0},
    {PAMI_XFER_ALLGATHERV, "Ring", "", &allgather_ring, 0, 0, 0, 0, 0},
    {PAMI_XFER_ALLGATHERV, "Linear", "", &allgather_linear, 0, 0, 0, 32, 0},
    {PAMI_XFER_GATHER, "Flat", "", &gather_flat, 0, 0, 0, 32, 0},
    {PAMI_XFER_GATHERV, "Flat", "", &gather_flat, 0, 0, 0, 32, 0},
    {PAMI_XFER_SCATTER, "Flat", "", &scatter_flat, 0, 0, 0, 32, 0},
    {PAMI_XFER_SCATTERV, "Flat", "", &scatter_flat, 0, 0, 0, 32, 0},
    {PAMI_XFER_ALLTOALL, "Pairwise", "", &alltoall_pairwise, 0, 0, 0, 0, 0},
    {PAMI_XFER_ALLTOALL, "Spread", "", &alltoall_spread, 0, 0, 0, 128, 0},
    {PAMI_XFER_ALLTOALLV, "Pairwise", "", &alltoall_pairwise, 0, 0, 0, 0, 0},
    {PAMI_XFER_ALLTOALLV, "Spread", "", &alltoall_spread, 0, 0, 0, 128, 0},
    {PAMI_XFER_GATHER, "Binomial", "", &gather_knomial, 0, 2, 0, 0, 0},
    {PAMI_XFER_GATHER, "Knomial4", "", &gather_knomial, 0, 4, 0, 0, 0},
    {PAMI_XFER_GATHER, "PBinomial", "", &gather_knomial, 0, 2, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_SCATTER, "Binomial", "", &scatter_knomial, 0, 2, 0, 0, 0},
    {PAMI_XFER_SCATTER, "Knomial4", "", &scatter_knomial, 0, 4, 0, 0, 0},
    {PAMI_XFER_SCATTER, "PBinomial", "", &scatter_knomial, 0, 2, SEGMENT_STATIC, 0, 0},
    {PAMI_XFER_ALLTOALL, "Bruck", "", &alltoall_bruck, NEEDS_EQUAL, 0, 0, 0, 0},
    {PAMI_XFER_REDUCE_SCATTER, "Pairwise", "", &reduce_scatter_pairwise, 0, 0, 0, 0, 0},
    {PAMI_XFER_REDUCE_SCATTER, "Ring", "", &reduce_scatter_ring, NEEDS_COMMUTATIVE, 0, 0, 0, 0},
    {PAMI_XFER_REDUCE_SCATTER, "Halving", "", &reduce_scatter_halving, NEEDS_COMMUTATIVE, 0, 0, 0,
     0},
    {PAMI_XFER_REDUCE_SCATTER, "RS", "", &reduce_scatter_reduce_scatter, 0, 2, 0, 0, 0},
};

const size_t algorithm_count = COUNT(algorithm_table);
