/*
 * Message rate of two threads per process, each with a communicator of its own, against one thread;
 * MPI_THREAD_MULTIPLE throughout. Compare multi_context.
 *
 *     mpirun -n 1 mpi_threads      each thread sends to itself (context_self)
 *     mpirun -n 2 mpi_threads      thread t of process 0 sends to thread t of process 1
 *
 * Windows of WINDOW messages and an acknowledgement each, two windows ahead, as in mpi_rate.
 */
#include "mpi_job.h"

#include <pthread.h>

#define THREADS 2
#define WINDOW 256
#define BATCHES 3

enum {
    DATA = 1,
    ACK = 2
};

struct lane {
    BENCH_ALIGNED pthread_t thread;
    int index;
    MPI_Comm comm;
    uint64_t windows, sum;
    MPI_Request requests[2][WINDOW];
    uint64_t numbers[2][WINDOW];
};

static struct mpi_job job;
static struct lane lanes[THREADS];
static _Atomic int start_line;
static int active;

static void post_window(struct lane *l, int from, uint64_t w)
{
    for (int i = 0; i < WINDOW; i++) {
        MPI_OK(MPI_Irecv(&l->numbers[w % 2][i], sizeof(uint64_t), MPI_BYTE, from, DATA, l->comm,
                         &l->requests[w % 2][i]));
    }
}

static void send_window(struct lane *l, int to, uint64_t w)
{
    for (uint64_t i = 0, number = w * WINDOW; i < WINDOW; i++, number++) {
        MPI_OK(MPI_Send(&number, sizeof(number), MPI_BYTE, to, DATA, l->comm));
    }
}

static void finish_window(struct lane *l, uint64_t w)
{
    MPI_OK(MPI_Waitall(WINDOW, l->requests[w % 2], mpi_job_no_statuses()));
    for (int i = 0; i < WINDOW; i++) {
        l->sum += l->numbers[w % 2][i];
    }
}

static void drive(struct lane *l)
{
    for (uint64_t w = 0; w < l->windows + 2; w++) {
        bool inside = w < l->windows;
        if (job.size == 1) {
            if (inside) {
                post_window(l, 0, w);
                send_window(l, 0, w);
                finish_window(l, w);
            }
        } else if (job.rank == 0) {
            if (w >= 2) {
                MPI_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, ACK, l->comm, MPI_STATUS_IGNORE));
            }
            if (inside) {
                send_window(l, 1, w);
            }
        } else {
            if (inside) {
                post_window(l, 0, w);
            }
            if (w >= 1 && w <= l->windows) {
                finish_window(l, w - 1);
                MPI_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, ACK, l->comm));
            }
        }
    }
}

static void *lane_main(void *argument)
{
    struct lane *l = argument;

    bench_pin(job.size == 1 ? l->index : job.rank);
    atomic_fetch_add(&start_line, 1);
    while (atomic_load(&start_line) <= active) {
        sched_yield();
    }
    drive(l);
    return NULL;
}

static double run(int threads, uint64_t windows)
{
    uint64_t start, messages = windows * WINDOW;
    double elapsed;

    active = threads;
    atomic_store(&start_line, 0);
    for (int t = 0; t < threads; t++) {
        lanes[t].sum = 0;
        lanes[t].windows = windows;
        if (pthread_create(&lanes[t].thread, NULL, lane_main, &lanes[t]) != 0) {
            bench_die("cannot start a thread");
        }
    }
    while (atomic_load(&start_line) < threads) {
        sched_yield();
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    start = bench_now();
    atomic_fetch_add(&start_line, 1);
    for (int t = 0; t < threads; t++) {
        pthread_join(lanes[t].thread, NULL);
    }
    elapsed = (double)(bench_now() - start);
    for (int t = 0; t < threads; t++) {
        if (job.rank == job.size - 1 && lanes[t].sum != messages * (messages - 1) / 2) {
            bench_die("mpi_threads: thread %d: a wrong sum", t);
        }
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    return (double)threads * (double)messages * 1e3 / elapsed;
}

int main(int argc, char **argv)
{
    /* Few: some MPIs collapse when spinning threads outnumber the cores. */
    uint64_t windows = bench_option(argc, argv, "--messages", 32 * 1024) / WINDOW;

    mpi_job_open(&job, &argc, &argv, MPI_THREAD_MULTIPLE);
    if (job.size > 2) {
        bench_die("1 or 2 processes, please");
    }
    for (int t = 0; t < THREADS; t++) {
        lanes[t].index = t;
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &lanes[t].comm));
    }
    for (int threads = 1; threads <= THREADS; threads++) {
        double rate[BATCHES];
        for (int b = 0; b < BATCHES; b++) {
            rate[b] = run(threads, windows);
        }
        if (job.rank == 0) {
            bench_emit(job.size == 1 ? "context_self" : "context_pair", (size_t)threads, "M/s",
                       bench_median(rate, BATCHES));
        }
    }
    MPI_Finalize();
    return 0;
}
