/*
 * How much of a message, an all-reduce or an all-to-all of an MPI is hidden behind computation; the
 * loop is in overlaploop.h, compare overlap.
 *
 *     mpirun -n 2 mpi_overlap [message] [allreduce] [alltoall] [--min N] [--max N] [--rounds N]
 *                             [--thread]
 *
 * --thread: the MPI has been told to make progress by a thread (MPICH: MPIR_CVAR_ASYNC_PROGRESS=1).
 * The process is pinned after its start then, so that the thread may run wherever there is room.
 */
#include "overlaploop.h"

#include "mpi_job.h"

enum {
    ASK = 1,
    DATA,
    READY
};

static struct {
    struct mpi_job job;
    MPI_Request request;
} port;

static void port_begin(enum overlap_kind kind, size_t bytes)
{
    if (kind == OVERLAP_ALLREDUCE) {
        MPI_OK(MPI_Iallreduce(overlap_port.send, overlap_port.recv, (int)(bytes / 8),
                              MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD, &port.request));
        return;
    }
    if (kind == OVERLAP_ALLTOALL) {
        int words = (int)(bytes / 16);

        MPI_OK(MPI_Ialltoall(overlap_port.send, words, MPI_UNSIGNED_LONG_LONG, overlap_port.recv,
                             words, MPI_UNSIGNED_LONG_LONG, MPI_COMM_WORLD, &port.request));
        return;
    }
    MPI_OK(
        MPI_Irecv(overlap_port.recv, (int)bytes, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &port.request));
    MPI_OK(MPI_Send(NULL, 0, MPI_BYTE, 1, ASK, MPI_COMM_WORLD));
}

static void port_poll(void)
{
    int done;

    MPI_OK(MPI_Test(&port.request, &done, MPI_STATUS_IGNORE));
}

static void port_finish(void)
{
    MPI_OK(MPI_Wait(&port.request, MPI_STATUS_IGNORE));
}

static void port_ready(void)
{
    if (overlap_port.rank == 1) {
        MPI_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, READY, MPI_COMM_WORLD));
    } else {
        MPI_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

static void port_serve(size_t bytes, uint64_t seed)
{
    MPI_OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, ASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    bench_fill(overlap_port.send, bytes, seed);
    MPI_OK(MPI_Send(overlap_port.send, (int)bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD));
}

static uint64_t port_tell(uint64_t value)
{
    MPI_OK(MPI_Bcast(&value, sizeof(value), MPI_BYTE, 0, MPI_COMM_WORLD));
    return value;
}

int main(int argc, char **argv)
{
    bool threaded = bench_flag(argc, argv, "--thread");
    const char *pin = getenv("BENCH_PIN");
    char kept[64] = "";

    if (threaded && pin != NULL) {
        snprintf(kept, sizeof(kept), "%s", pin);
        unsetenv("BENCH_PIN");
    }
    mpi_job_open(&port.job, &argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    if (kept[0] != '\0') {
        setenv("BENCH_PIN", kept, 1);
        bench_pin(port.job.rank);
    }
    if (port.job.size != 2) {
        bench_die("2 processes, please");
    }
    overlap_port.rank = port.job.rank;
    overlap_port.always = threaded;
    overlap_port.begin = port_begin;
    overlap_port.poll = port_poll;
    overlap_port.finish = port_finish;
    overlap_port.ready = port_ready;
    overlap_port.serve = port_serve;
    overlap_port.tell = port_tell;
    overlap_main(argc, argv);
    MPI_Finalize();
    return 0;
}
