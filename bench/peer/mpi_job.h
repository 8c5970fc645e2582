/*
 * What the MPI programs share: starting up pinned like everybody else, failing loudly, and a thread
 * for progress.
 */
#ifndef LIBPAMI_BENCH_PEER_MPI_JOB_H
#define LIBPAMI_BENCH_PEER_MPI_JOB_H

#include "bench.h"

#include <mpi.h>
#include <pthread.h>
#include <sched.h>

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

/*
 * MPI_Finalize of MPICH closes each connection over UCX, which takes the other end's progress, and
 * whoever has closed all of its own waits for the launcher without making any. So that nothing is
 * left to do there, all pairs have met before and everybody has had time to look.
 */
static inline void mpi_job_close(const struct mpi_job *j)
{
    uint64_t until = bench_now() + 300000000;
    char out = 0, in;
    int flag;

    for (int step = 1; step < j->size; step++) {
        int to = (j->rank + step) % j->size, from = (j->rank + j->size - step) % j->size;
        MPI_OK(MPI_Sendrecv(&out, 1, MPI_BYTE, to, 0, &in, 1, MPI_BYTE, from, 0, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE));
    }
    while (bench_now() < until) {
        MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Finalize();
}

/* ---- a thread for progress ---- */

/*
 * MPICH has one of its own (MPIR_CVAR_ASYNC_PROGRESS=1). For an MPI that has none the program does
 * what MPI programs do: a thread asks for a message that never comes, under MPI_THREAD_MULTIPLE,
 * and gives its processor up in between.
 */
static struct {
    pthread_t thread;
    int stop, there;
    MPI_Comm of_its_own;
} mpi_job_helper;

static inline void *mpi_job_help(void *unused)
{
    int flag;

    (void)unused;
    while (!__atomic_load_n(&mpi_job_helper.stop, __ATOMIC_ACQUIRE)) {
        MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, 0, mpi_job_helper.of_its_own, &flag, MPI_STATUS_IGNORE));
        sched_yield();
    }
    return NULL;
}

static inline void mpi_job_thread_start(void)
{
    const char *own = getenv("MPIR_CVAR_ASYNC_PROGRESS");

    if (own != NULL && strcmp(own, "1") == 0) {
        return;
    }
    mpi_job_helper.stop = 0;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &mpi_job_helper.of_its_own));
    if (pthread_create(&mpi_job_helper.thread, NULL, mpi_job_help, NULL) != 0) {
        bench_die("no thread");
    }
    mpi_job_helper.there = 1;
}

static inline void mpi_job_thread_stop(void)
{
    if (!mpi_job_helper.there) {
        return;
    }
    __atomic_store_n(&mpi_job_helper.stop, 1, __ATOMIC_RELEASE);
    pthread_join(mpi_job_helper.thread, NULL);
    mpi_job_helper.there = 0;
    MPI_OK(MPI_Comm_free(&mpi_job_helper.of_its_own));
}

#endif
