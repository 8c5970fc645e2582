/*
 * The arguments of collectives that most tests want: blocks of one size, of one type, sums. Knows
 * only the library's header, so that programs of any kind can use it.
 */
#ifndef LIBPAMI_API_COLL_ARGUMENTS_H
#define LIBPAMI_API_COLL_ARGUMENTS_H

#include <pami.h>

enum {
    COLL_BLOCKS_MAX = 70
};

/* Lives as long as the call. The lists belong to coll_arguments. */
struct coll_blocks {
    void *from, *into; /* a broadcast has the latter only */
    pami_type_t type;
    pami_endpoint_t root;
    size_t members;
    size_t counts[COLL_BLOCKS_MAX], displs[COLL_BLOCKS_MAX];
    int narrow_counts[COLL_BLOCKS_MAX], narrow_displs[COLL_BLOCKS_MAX];
};

static inline pami_allreduce_t coll_sum(void *from, void *into, pami_type_t type, size_t n)
{
    return (pami_allreduce_t){from, type, n, into, type, n, PAMI_DATA_SUM, NULL, 1};
}

static inline void coll_fill_lists(struct coll_blocks *b, size_t n)
{
    for (size_t i = 0; i < b->members; i++) {
        b->counts[i] = n;
        b->displs[i] = i * n;
        b->narrow_counts[i] = (int)n;
        b->narrow_displs[i] = (int)(i * n);
    }
}

/* Those of the types that have lists of ints. */
static inline void coll_narrow_arguments(struct coll_blocks *b, pami_xfer_type_t type, int n,
                                         pami_collective_t *to)
{
    const pami_type_t t = b->type;
    char *s = b->from, *r = b->into;
    int *counts = b->narrow_counts, *displs = b->narrow_displs;

    if (type == PAMI_XFER_ALLGATHERV_INT)
        to->xfer_allgatherv_int = (pami_allgatherv_int_t){s, t, n, r, t, counts, displs};
    else if (type == PAMI_XFER_GATHERV_INT)
        to->xfer_gatherv_int = (pami_gatherv_int_t){b->root, s, t, n, r, t, counts, displs};
    else if (type == PAMI_XFER_SCATTERV_INT)
        to->xfer_scatterv_int = (pami_scatterv_int_t){b->root, s, t, counts, displs, r, t, n};
    else if (type == PAMI_XFER_ALLTOALLV_INT)
        to->xfer_alltoallv_int = (pami_alltoallv_int_t){s, t, counts, displs, r, t, counts, displs};
}

/* For blocks of `n` instances; a barrier has none. */
static inline void coll_arguments(struct coll_blocks *b, pami_xfer_type_t type, size_t n,
                                  pami_collective_t *to)
{
    const pami_type_t t = b->type;
    char *s = b->from, *r = b->into;

    coll_fill_lists(b, n);
    switch (type) {
    case PAMI_XFER_BROADCAST:
        to->xfer_broadcast = (pami_broadcast_t){b->root, r, t, n};
        break;
    case PAMI_XFER_ALLREDUCE:
        to->xfer_allreduce = coll_sum(s, r, t, n);
        break;
    case PAMI_XFER_SCAN:
        to->xfer_scan = (pami_scan_t){s, t, n, r, t, n, PAMI_DATA_SUM, NULL, 0};
        break;
    case PAMI_XFER_REDUCE:
        to->xfer_reduce = (pami_reduce_t){b->root, s, t, n, r, t, n, PAMI_DATA_SUM, NULL, 1};
        break;
    case PAMI_XFER_REDUCE_SCATTER:
        to->xfer_reduce_scatter =
            (pami_reduce_scatter_t){s, t, n * b->members, r, t, b->counts, PAMI_DATA_SUM, NULL, 1};
        break;
    case PAMI_XFER_ALLGATHER:
    case PAMI_XFER_ALLTOALL:
        to->xfer_allgather = (pami_allgather_t){s, t, n, r, t, n};
        break;
    case PAMI_XFER_GATHER:
    case PAMI_XFER_SCATTER:
        to->xfer_gather = (pami_gather_t){b->root, s, t, n, r, t, n};
        break;
    case PAMI_XFER_ALLGATHERV:
        to->xfer_allgatherv = (pami_allgatherv_t){s, t, n, r, t, b->counts, b->displs};
        break;
    case PAMI_XFER_GATHERV:
        to->xfer_gatherv = (pami_gatherv_t){b->root, s, t, n, r, t, b->counts, b->displs};
        break;
    case PAMI_XFER_SCATTERV:
        to->xfer_scatterv = (pami_scatterv_t){b->root, s, t, b->counts, b->displs, r, t, n};
        break;
    case PAMI_XFER_ALLTOALLV:
        to->xfer_alltoallv =
            (pami_alltoallv_t){s, t, b->counts, b->displs, r, t, b->counts, b->displs};
        break;
    default:
        coll_narrow_arguments(b, type, (int)n, to);
    }
}

#endif
