/*
 * Memory per process when idle and after every process has sent 8 bytes and 4 KiB to every other;
 * compare memory.
 */
#include "mpi_job.h"

#define BLOCK 4096

static struct mpi_job job;

static void report(const char *pss, const char *rss)
{
    double mine[2], sums[2];

    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    mine[0] = bench_memory_kib("Pss:");
    mine[1] = bench_memory_kib("Rss:");
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Reduce(mine, sums, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD));
    if (job.rank == 0) {
        bench_emit(pss, (size_t)job.size, "KiB", sums[0] / job.size);
        bench_emit(rss, (size_t)job.size, "KiB", sums[1] / job.size);
    }
}

int main(int argc, char **argv)
{
    char out[BLOCK], in[BLOCK];

    mpi_job_open(&job, &argc, &argv, MPI_THREAD_SINGLE);
    report("pss_idle", "rss_idle");
    bench_fill(out, sizeof(out), (uint64_t)job.rank);
    for (int i = 1; i < job.size; i++) {
        int to = (job.rank + i) % job.size, from = (job.rank + job.size - i) % job.size;
        for (int bytes = 8; bytes <= BLOCK; bytes *= BLOCK / 8) {
            MPI_OK(MPI_Sendrecv(out, bytes, MPI_BYTE, to, 0, in, bytes, MPI_BYTE, from, 0,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            bench_check(in, (size_t)bytes, (uint64_t)from, "mpi_memory");
        }
    }
    report("pss_all_to_all", "rss_all_to_all");
    MPI_Finalize();
    return 0;
}
