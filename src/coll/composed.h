/*
 * Rows that are compositions of other rows (composed.c): their `make` functions.
 */
#ifndef LIBPAMI_COLL_COMPOSED_H
#define LIBPAMI_COLL_COMPOSED_H

#include "coll/algorithm.h"

/* allreduce: reduce to rank 0, then broadcast; in segments where the row says so. */
algorithm_make_function composed_reduce_broadcast;

/* broadcast: scatter pieces, then allgather. */
algorithm_make_function composed_scatter_allgather;

#endif
