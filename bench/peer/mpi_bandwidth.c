/*
 * The window of stream.h over MPI_Isend and MPI_Irecv. Arguments as am_bandwidth.
 */
#include "mpi_job.h"
#include "stream.h"

static struct mpi_job job;
static MPI_Request sends[STREAM_WINDOW], receives[STREAM_WINDOW];

void *transport_alloc(size_t bytes)
{
    return bench_alloc(bytes);
}

void transport_post_receive(size_t slot, void *buffer, size_t bytes)
{
    MPI_OK(MPI_Irecv(buffer, (int)bytes, MPI_BYTE, 1 - job.rank, (int)slot, MPI_COMM_WORLD,
                     &receives[slot]));
}

void transport_wait_receive(size_t slot)
{
    MPI_OK(MPI_Wait(&receives[slot], MPI_STATUS_IGNORE));
}

void transport_start_send(size_t slot, const void *buffer, size_t bytes)
{
    MPI_OK(MPI_Isend(buffer, (int)bytes, MPI_BYTE, 1 - job.rank, (int)slot, MPI_COMM_WORLD,
                     &sends[slot]));
}

void transport_wait_send(size_t slot)
{
    MPI_OK(MPI_Wait(&sends[slot], MPI_STATUS_IGNORE));
}

void transport_meet(void)
{
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    bool both = bench_flag(argc, argv, "--both");

    mpi_job_open(&job, &argc, &argv, MPI_THREAD_SINGLE);
    if (job.size != 2) {
        bench_die("2 processes, please");
    }
    stream_run(both ? "am_bidirectional" : "am_bandwidth", both, job.rank, argc, argv);
    MPI_Finalize();
    return 0;
}
