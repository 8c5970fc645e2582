/*
 * Starting the collectives of coll_oracle.h as careless programs do.
 */
#ifndef LIBPAMI_API_COLL_RUN_H
#define LIBPAMI_API_COLL_RUN_H

#include "coll.h"
#include "coll_oracle.h"

/*
 * Start it, with `fallback` when the algorithm does not admit these arguments. What the program may
 * overwrite then, is overwritten.
 */
static inline void op_start(struct op *o, pami_context_t context, pami_algorithm_t algorithm,
                            pami_endpoint_t root, pami_metadata_function check,
                            pami_algorithm_t fallback)
{
    size_t bytes = o->send.words * sizeof(uint32_t);
    pami_xfer_t xfer = coll_xfer(algorithm, &o->told);

    op_arguments(o, root, &xfer.cmd);
    if (check != NULL && check(&xfer).bitmask != 0) {
        if (!op_is_vector(o))
            FAIL("%s of type %d does not admit arguments that suit it", o->name, (int)o->type);
        xfer.algorithm = fallback;
    }
    coll_start(context, &xfer);
    if (o->way == OP_TWO_BUFFERS && !op_scatters(o) && !op_is_alltoall(o) &&
        o->kind != PAMI_XFER_REDUCE_SCATTER && bytes <= OP_EARLY_BYTES &&
        op_below(&o->own, 2) == 0) {
        memset(o->send.memory, 0x11, bytes);
        free(o->send.memory);
        o->send.memory = NULL;
    }
}

#endif
