/*
 * The shortest MPI program, for the time that starting a job takes; compare startup.
 */
#include "mpi_job.h"

int main(int argc, char **argv)
{
    struct mpi_job job;

    mpi_job_open(&job, &argc, &argv, MPI_THREAD_SINGLE);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Finalize();
    return 0;
}
