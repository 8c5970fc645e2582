/*
 * Collectives over the world geometry by the first algorithm of each type's list (Auto);
 * microseconds. The loops are in collloop.h; compare mpi_coll.
 *
 *     pamirun -n N coll [type ...] [--min N] [--max N] [--loop [--free]] [--fixed] [--rounds N]
 *                       [--heap]
 *
 * --heap: buffers are in the shared heap.
 */
#include "collloop.h"

#include "job.h"

enum {
    TELL = JOB_USER
};

static struct {
    struct job job;
    pami_algorithm_t algorithm[COLL_KINDS];
    pami_endpoint_t *endpoints;
    unsigned running;
    uint64_t told;
    bool heard;
} port;

static const pami_xfer_type_t types[COLL_KINDS] = {
    PAMI_XFER_BARRIER, PAMI_XFER_BROADCAST,      PAMI_XFER_REDUCE,    PAMI_XFER_ALLREDUCE,
    PAMI_XFER_GATHER,  PAMI_XFER_SCATTER,        PAMI_XFER_ALLGATHER, PAMI_XFER_ALLTOALL,
    PAMI_XFER_SCAN,    PAMI_XFER_REDUCE_SCATTER,
};

static void on_tell(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&port.told, data, sizeof(port.told));
    port.heard = true;
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    job_ok(result, cookie);
    port.running--;
}

static void fill(pami_collective_t *cmd, const struct coll_call *call, size_t words)
{
    const pami_type_t type = PAMI_TYPE_UNSIGNED_LONG_LONG;
    pami_endpoint_t root = port.endpoints[call->root];
    char *from = call->send, *into = call->recv;

    switch (call->kind) {
    case COLL_BROADCAST:
        cmd->xfer_broadcast =
            (pami_broadcast_t){root, call->root == coll_port.rank ? from : into, type, words};
        break;
    case COLL_REDUCE:
        cmd->xfer_reduce =
            (pami_reduce_t){root, from, type, words, into, type, words, PAMI_DATA_SUM, NULL, 1};
        break;
    case COLL_ALLREDUCE:
        cmd->xfer_allreduce =
            (pami_allreduce_t){from, type, words, into, type, words, PAMI_DATA_SUM, NULL, 1};
        break;
    case COLL_GATHER:
        cmd->xfer_gather = (pami_gather_t){root, from, type, words, into, type, words};
        break;
    case COLL_SCATTER:
        cmd->xfer_scatter = (pami_scatter_t){root, from, type, words, into, type, words};
        break;
    case COLL_ALLGATHER:
        cmd->xfer_allgather = (pami_allgather_t){from, type, words, into, type, words};
        break;
    case COLL_ALLTOALL:
        cmd->xfer_alltoall = (pami_alltoall_t){from, type, words, into, type, words};
        break;
    case COLL_SCAN:
        cmd->xfer_scan =
            (pami_scan_t){from, type, words, into, type, words, PAMI_DATA_SUM, NULL, 0};
        break;
    default:
        break;
    }
}

static void fill_reduce_scatter(pami_collective_t *cmd, const struct coll_call *call, size_t words)
{
    static size_t counts[COLL_RANKS_MAX];

    for (int rank = 0; rank < coll_port.size; rank++) {
        counts[rank] = words;
    }
    cmd->xfer_reduce_scatter = (pami_reduce_scatter_t){.sndbuf = call->send,
                                                       .stype = PAMI_TYPE_UNSIGNED_LONG_LONG,
                                                       .stypecount = words * (size_t)coll_port.size,
                                                       .rcvbuf = call->recv,
                                                       .rtype = PAMI_TYPE_UNSIGNED_LONG_LONG,
                                                       .rcounts = counts,
                                                       .op = PAMI_DATA_SUM,
                                                       .commutative = 1};
}

static void port_start(const struct coll_call *call)
{
    pami_xfer_t xfer;

    xfer.cb_done = on_done;
    xfer.cookie = (void *)(uintptr_t)coll_names[call->kind];
    xfer.algorithm = port.algorithm[call->kind];
    memset(&xfer.options, 0, sizeof(xfer.options));
    if (call->kind == COLL_REDUCE_SCATTER) {
        fill_reduce_scatter(&xfer.cmd, call, call->bytes / 8);
    } else {
        fill(&xfer.cmd, call, call->bytes / 8);
    }
    port.running++;
    PAMI_OK(PAMI_Collective(port.job.contexts[0], &xfer));
}

static void port_wait(unsigned count)
{
    (void)count;
    while (port.running > 0) {
        job_poll_one(port.job.contexts[0]);
    }
}

static uint64_t port_tell(uint64_t value)
{
    if (coll_port.rank != 0) {
        while (!port.heard) {
            job_poll(&port.job);
        }
        return port.told;
    }
    for (int rank = 1; rank < coll_port.size; rank++) {
        job_send(&port.job, 0, TELL, port.endpoints[rank], &value, sizeof(value));
    }
    return value;
}

static void port_meet(void)
{
    job_meet(&port.job);
}

static void *port_alloc(size_t bytes)
{
    return job_alloc(&port.job, bytes);
}

int main(int argc, char **argv)
{
    struct job *j = &port.job;
    pami_geometry_t world;

    job_open(j, 1);
    job_dispatch(j, TELL, on_tell, NULL);
    coll_port.rank = j->task;
    coll_port.size = j->tasks;
    coll_port.start = port_start;
    coll_port.wait = port_wait;
    coll_port.tell = port_tell;
    coll_port.meet = port_meet;
    coll_port.alloc = port_alloc;
    j->heap = bench_flag(argc, argv, "--heap");
    port.endpoints = bench_alloc((size_t)j->tasks * sizeof(*port.endpoints));
    for (int rank = 0; rank < j->tasks; rank++) {
        port.endpoints[rank] = job_endpoint(j, rank, 0);
    }
    PAMI_OK(PAMI_Geometry_world(j->client, &world));
    for (int kind = 0; kind < COLL_KINDS; kind++) {
        PAMI_OK(PAMI_Geometry_algorithms_query(world, types[kind], &port.algorithm[kind], NULL, 1,
                                               NULL, NULL, 0));
    }
    job_meet(j);
    coll_main(argc, argv);
    job_close(j);
    return 0;
}
