/*
 * What the MPI programs share: starting up pinned like everybody else, and failing loudly.
 */
#ifndef LIBPAMI_BENCH_PEER_MPI_JOB_H
#define LIBPAMI_BENCH_PEER_MPI_JOB_H

#include "bench.h"

#include <mpi.h>

#define MPI_OK(call) mpi_job_ok((call), #call)

static inline void mpi_job_ok(int result, const char *what)
{
    if (result != MPI_SUCCESS) {
        bench_die("%.60s: error %d", what, result);
    }
}

/* MPI_STATUSES_IGNORE; compilers take MPICH's for an array of nothing and warn. */
static inline MPI_Status *mpi_job_no_statuses(void)
{
    MPI_Status *none = MPI_STATUSES_IGNORE;

    __asm__("" : "+r"(none));
    return none;
}

struct mpi_job {
    int rank, size;
};

/* Errors end the job by MPI's default handler already; MPI_OK is for what it leaves. */
static inline void mpi_job_open(struct mpi_job *j, int *argc, char ***argv, int threads)
{
    int provided;

    bench_pin(bench_launcher_rank());
    MPI_OK(MPI_Init_thread(argc, argv, threads, &provided));
    if (provided < threads) {
        bench_skip("this MPI does not support the thread level");
    }
    MPI_OK(MPI_Comm_rank(MPI_COMM_WORLD, &j->rank));
    MPI_OK(MPI_Comm_size(MPI_COMM_WORLD, &j->size));
}

#endif
