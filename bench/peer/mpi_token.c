/*
 * A token passed round all processes: microseconds per hop; compare token.
 *
 *     mpirun -n N mpi_token [--rounds N]
 */
#include "mpi_job.h"

#define BATCHES 5

static struct mpi_job job;

static uint64_t await_token(void)
{
    uint64_t value;
    int previous = (job.rank + job.size - 1) % job.size;

    MPI_OK(
        MPI_Recv(&value, sizeof(value), MPI_BYTE, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return value;
}

static double batch(uint64_t first, size_t rounds)
{
    uint64_t size = (uint64_t)job.size, turn = first * size + (uint64_t)job.rank;
    uint64_t start = bench_now();

    for (uint64_t r = first; r < first + rounds; r++, turn += size) {
        if (turn > 0) {
            uint64_t value = await_token();
            if (value != turn - 1) {
                bench_die("token %llu instead of %llu", (unsigned long long)value,
                          (unsigned long long)turn - 1);
            }
        }
        MPI_OK(
            MPI_Send(&turn, sizeof(turn), MPI_BYTE, (job.rank + 1) % job.size, 0, MPI_COMM_WORLD));
    }
    return (double)(bench_now() - start) / (double)(rounds * size) / 1000;
}

int main(int argc, char **argv)
{
    size_t rounds = bench_option(argc, argv, "--rounds", 200);
    double hop[BATCHES];

    mpi_job_open(&job, &argc, &argv, MPI_THREAD_SINGLE);
    if (job.size < 2) {
        bench_die("2 processes at least, please");
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (size_t b = 0; b < BATCHES; b++) {
        hop[b] = batch(b * rounds, rounds);
    }
    if (job.rank == 0) {
        (void)await_token();
        bench_emit("token", (size_t)job.size, "us", bench_median(hop, BATCHES));
    }
    MPI_Finalize();
    return 0;
}
