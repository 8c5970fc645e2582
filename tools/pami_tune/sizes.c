/*
 * Types and sizes; see sizes.h.
 */
#include "sizes.h"

#define WORD 8u
#define BUFFER_BYTES_MAX ((uint64_t)4 << 20) /* of one task, but for one block */

const pami_xfer_type_t tuned_types[] = {
    PAMI_XFER_BARRIER, PAMI_XFER_BROADCAST,      PAMI_XFER_REDUCE,     PAMI_XFER_ALLREDUCE,
    PAMI_XFER_SCAN,    PAMI_XFER_REDUCE_SCATTER, PAMI_XFER_ALLGATHER,  PAMI_XFER_GATHER,
    PAMI_XFER_SCATTER, PAMI_XFER_ALLTOALL,       PAMI_XFER_ALLGATHERV,
};

const size_t tuned_type_count = sizeof(tuned_types) / sizeof(tuned_types[0]);

bool type_has_root(pami_xfer_type_t type)
{
    return type == PAMI_XFER_BROADCAST || type == PAMI_XFER_REDUCE || type == PAMI_XFER_GATHER ||
           type == PAMI_XFER_SCATTER;
}

bool type_is_loose(pami_xfer_type_t type)
{
    return type_has_root(type) || type == PAMI_XFER_SCAN;
}

size_t type_send_blocks(pami_xfer_type_t type, uint32_t tasks)
{
    return type == PAMI_XFER_SCATTER || type == PAMI_XFER_ALLTOALL ? tasks : 1;
}

size_t type_recv_blocks(pami_xfer_type_t type, uint32_t tasks)
{
    return type == PAMI_XFER_GATHER || type == PAMI_XFER_ALLTOALL || type == PAMI_XFER_ALLGATHER ||
                   type == PAMI_XFER_ALLGATHERV
               ? tasks
               : 1;
}

size_t type_sizes(pami_xfer_type_t type, uint32_t tasks, bool quick, uint64_t sizes[SIZES_MAX])
{
    static const uint64_t all[] = {8, 512, 4096, 16384, 65536, 262144, 1048576};
    static const uint64_t few[] = {8, 16384};
    const uint64_t *from = quick ? few : all;
    size_t most = quick ? sizeof(few) / sizeof(few[0]) : sizeof(all) / sizeof(all[0]);
    size_t blocks = type_send_blocks(type, tasks), count = 0;

    if (type == PAMI_XFER_BARRIER) {
        sizes[0] = 0;
        return 1;
    }
    if (blocks < type_recv_blocks(type, tasks))
        blocks = type_recv_blocks(type, tasks);
    for (size_t i = 0; i < most; i++) {
        uint64_t bytes = from[i];

        /* All blocks count there, each of at least a word. */
        if (type == PAMI_XFER_REDUCE_SCATTER)
            bytes = (bytes + WORD * tasks - 1) / (WORD * tasks) * (WORD * tasks);
        if (i > 0 && bytes * blocks > BUFFER_BYTES_MAX)
            break;
        if (count == 0 || bytes != sizes[count - 1])
            sizes[count++] = bytes;
    }
    return count;
}
