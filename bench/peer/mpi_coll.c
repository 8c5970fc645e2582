/*
 * Collectives of an MPI: microseconds; the loops are in collloop.h, compare coll.
 *
 *     mpirun -n N mpi_coll [type ...] [--min N] [--max N] [--loop] [--rounds N] [--blocking]
 *
 * The non-blocking ones with their completion, which is what ours do, or the blocking ones, which
 * promise less and are often much faster.
 */
#include "collloop.h"

#include "mpi_job.h"

#ifdef MPICH
#include <dlfcn.h>

/*
 * MPICH polls UCX and never gives its processor up. BENCH_YIELD=1: it does after each look in vain.
 */
unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*look)(void *worker);
    static bool yields;
    unsigned events;

    if (look == NULL) {
        *(void **)&look = dlsym(RTLD_NEXT, "ucp_worker_progress");
        yields = getenv("BENCH_YIELD") != NULL;
    }
    events = look(worker);
    if (yields && events == 0) {
        sched_yield();
    }
    return events;
}
#endif

static struct {
    struct mpi_job job;
    MPI_Request request[COLL_SLOTS];
    bool blocking;
    int counts[COLL_RANKS_MAX];
} port;

#define WORD MPI_UNSIGNED_LONG_LONG
#define WORLD MPI_COMM_WORLD

static void start(const struct coll_call *c, MPI_Request *request)
{
    int words = (int)(c->bytes / 8);
    char *buffer = c->root == coll_port.rank ? c->send : c->recv;

    switch (c->kind) {
    case COLL_BARRIER:
        MPI_OK(MPI_Ibarrier(WORLD, request));
        break;
    case COLL_BROADCAST:
        MPI_OK(MPI_Ibcast(buffer, words, WORD, c->root, WORLD, request));
        break;
    case COLL_REDUCE:
        MPI_OK(MPI_Ireduce(c->send, c->recv, words, WORD, MPI_SUM, c->root, WORLD, request));
        break;
    case COLL_ALLREDUCE:
        MPI_OK(MPI_Iallreduce(c->send, c->recv, words, WORD, MPI_SUM, WORLD, request));
        break;
    case COLL_GATHER:
        MPI_OK(MPI_Igather(c->send, words, WORD, c->recv, words, WORD, c->root, WORLD, request));
        break;
    case COLL_SCATTER:
        MPI_OK(MPI_Iscatter(c->send, words, WORD, c->recv, words, WORD, c->root, WORLD, request));
        break;
    case COLL_ALLGATHER:
        MPI_OK(MPI_Iallgather(c->send, words, WORD, c->recv, words, WORD, WORLD, request));
        break;
    case COLL_ALLTOALL:
        MPI_OK(MPI_Ialltoall(c->send, words, WORD, c->recv, words, WORD, WORLD, request));
        break;
    case COLL_SCAN:
        MPI_OK(MPI_Iscan(c->send, c->recv, words, WORD, MPI_SUM, WORLD, request));
        break;
    default:
        MPI_OK(MPI_Ireduce_scatter(c->send, c->recv, port.counts, WORD, MPI_SUM, WORLD, request));
        break;
    }
}

static void run(const struct coll_call *c)
{
    int words = (int)(c->bytes / 8);
    char *buffer = c->root == coll_port.rank ? c->send : c->recv;

    switch (c->kind) {
    case COLL_BARRIER:
        MPI_OK(MPI_Barrier(WORLD));
        break;
    case COLL_BROADCAST:
        MPI_OK(MPI_Bcast(buffer, words, WORD, c->root, WORLD));
        break;
    case COLL_REDUCE:
        MPI_OK(MPI_Reduce(c->send, c->recv, words, WORD, MPI_SUM, c->root, WORLD));
        break;
    case COLL_ALLREDUCE:
        MPI_OK(MPI_Allreduce(c->send, c->recv, words, WORD, MPI_SUM, WORLD));
        break;
    case COLL_GATHER:
        MPI_OK(MPI_Gather(c->send, words, WORD, c->recv, words, WORD, c->root, WORLD));
        break;
    case COLL_SCATTER:
        MPI_OK(MPI_Scatter(c->send, words, WORD, c->recv, words, WORD, c->root, WORLD));
        break;
    case COLL_ALLGATHER:
        MPI_OK(MPI_Allgather(c->send, words, WORD, c->recv, words, WORD, WORLD));
        break;
    case COLL_ALLTOALL:
        MPI_OK(MPI_Alltoall(c->send, words, WORD, c->recv, words, WORD, WORLD));
        break;
    case COLL_SCAN:
        MPI_OK(MPI_Scan(c->send, c->recv, words, WORD, MPI_SUM, WORLD));
        break;
    default:
        MPI_OK(MPI_Reduce_scatter(c->send, c->recv, port.counts, WORD, MPI_SUM, WORLD));
        break;
    }
}

static void port_start(const struct coll_call *call)
{
    if (call->kind == COLL_REDUCE_SCATTER) {
        for (int rank = 0; rank < coll_port.size; rank++) {
            port.counts[rank] = (int)(call->bytes / 8);
        }
    }
    if (port.blocking) {
        run(call);
    } else {
        start(call, &port.request[call->slot]);
    }
}

static void port_wait(unsigned count)
{
    if (port.blocking) {
        return;
    }
    if (count == 1) {
        MPI_OK(MPI_Wait(&port.request[0], MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_Waitall((int)count, port.request, mpi_job_no_statuses()));
    }
}

static uint64_t port_tell(uint64_t value)
{
    MPI_OK(MPI_Bcast(&value, sizeof(value), MPI_BYTE, 0, WORLD));
    return value;
}

static void port_meet(void)
{
    MPI_OK(MPI_Barrier(WORLD));
}

int main(int argc, char **argv)
{
    mpi_job_open(&port.job, &argc, &argv, MPI_THREAD_SINGLE);
    coll_port.rank = port.job.rank;
    coll_port.size = port.job.size;
    coll_port.start = port_start;
    coll_port.wait = port_wait;
    coll_port.tell = port_tell;
    coll_port.meet = port_meet;
    port.blocking = bench_flag(argc, argv, "--blocking");
    coll_main(argc, argv);
    mpi_job_close(&port.job);
    return 0;
}
