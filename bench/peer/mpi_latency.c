/*
 * The ping-pong of pingpong.h over MPI_Send and MPI_Recv. Arguments as am_latency.
 */
#include "mpi_job.h"
#include "pingpong.h"

enum {
    DATA = 1,
    NOTE = 2
};

static struct mpi_job job;

void *transport_alloc(size_t bytes)
{
    return bench_alloc(bytes);
}

void transport_expect(void *buffer)
{
    (void)buffer;
}

void transport_send(const void *buffer, size_t bytes)
{
    MPI_OK(MPI_Send(buffer, (int)bytes, MPI_BYTE, 1 - job.rank, DATA, MPI_COMM_WORLD));
}

void transport_receive(void *buffer, size_t bytes)
{
    MPI_OK(MPI_Recv(buffer, (int)bytes, MPI_BYTE, 1 - job.rank, DATA, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
}

void transport_tell(double value)
{
    MPI_OK(MPI_Send(&value, 1, MPI_DOUBLE, 1 - job.rank, NOTE, MPI_COMM_WORLD));
}

double transport_hear(void)
{
    double value;

    MPI_OK(MPI_Recv(&value, 1, MPI_DOUBLE, 1 - job.rank, NOTE, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return value;
}

int main(int argc, char **argv)
{
    mpi_job_open(&job, &argc, &argv, MPI_THREAD_SINGLE);
    if (job.size != 2) {
        bench_die("2 processes, please");
    }
    pingpong_run("am_latency", job.rank, argc, argv);
    MPI_Finalize();
    return 0;
}
