/*
 * Message rate: 8-byte messages from every other process to process 0; compare am_rate.
 *
 *     mpirun -n K+1 mpi_rate [--messages N]
 *
 * The receiver keeps two windows of receives posted per sender, and after each full window sends an
 * empty acknowledgement, so that a sender is at most two windows ahead and no message is
 * unexpected. MPI_Send is used, not MPI_Isend: it is the faster one for small messages. Numbers are
 * added up and checked as in am_rate.
 */
#include "mpi_job.h"

#define WINDOW 256
#define BATCHES 5
#define SENDERS 64

enum {
    DATA = 1,
    ACK = 2
};

struct lane {
    MPI_Request requests[2][WINDOW];
    uint64_t numbers[2][WINDOW];
    uint64_t sum;
};

static struct mpi_job job;
static struct lane lanes[SENDERS + 1];

static void send_all(uint64_t windows)
{
    uint64_t number = 0;

    for (uint64_t w = 0; w < windows + 2; w++) {
        if (w >= 2) {
            MPI_OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        for (int i = 0; w < windows && i < WINDOW; i++, number++) {
            MPI_OK(MPI_Send(&number, sizeof(number), MPI_BYTE, 0, DATA, MPI_COMM_WORLD));
        }
    }
}

static void post_window(struct lane *l, int from, uint64_t w)
{
    for (int i = 0; i < WINDOW; i++) {
        MPI_OK(MPI_Irecv(&l->numbers[w % 2][i], sizeof(uint64_t), MPI_BYTE, from, DATA,
                         MPI_COMM_WORLD, &l->requests[w % 2][i]));
    }
}

static double receive_all(uint64_t windows)
{
    uint64_t start = bench_now(), messages = windows * WINDOW;
    double rate;

    for (uint64_t w = 0; w < windows; w++) {
        for (int from = 1; from < job.size; from++) {
            struct lane *l = &lanes[from];
            MPI_OK(MPI_Waitall(WINDOW, l->requests[w % 2], mpi_job_no_statuses()));
            for (int i = 0; i < WINDOW; i++) {
                l->sum += l->numbers[w % 2][i];
            }
            if (w + 2 < windows) {
                post_window(l, from, w + 2);
            }
            MPI_OK(MPI_Send(NULL, 0, MPI_BYTE, from, ACK, MPI_COMM_WORLD));
        }
    }
    rate = (double)(messages * (uint64_t)(job.size - 1)) * 1e3 / (double)(bench_now() - start);
    for (int from = 1; from < job.size; from++) {
        if (lanes[from].sum != messages * (messages - 1) / 2) {
            bench_die("mpi_rate: a wrong sum from process %d", from);
        }
        lanes[from].sum = 0;
    }
    return rate;
}

int main(int argc, char **argv)
{
    uint64_t messages, windows;
    double rate[BATCHES];

    mpi_job_open(&job, &argc, &argv, MPI_THREAD_SINGLE);
    if (job.size < 2 || job.size > SENDERS + 1) {
        bench_die("2 to %d processes, please", SENDERS + 1);
    }
    messages = bench_option(argc, argv, "--messages", 256 * 1024 / (size_t)(job.size - 1));
    windows = messages / WINDOW > 2 ? messages / WINDOW : 2;
    for (int b = 0; b < BATCHES; b++) {
        for (int from = 1; job.rank == 0 && from < job.size; from++) {
            post_window(&lanes[from], from, 0);
            post_window(&lanes[from], from, 1);
        }
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (job.rank == 0) {
            rate[b] = receive_all(windows);
        } else {
            send_all(windows);
        }
    }
    if (job.rank == 0) {
        bench_emit("am_rate", (size_t)(job.size - 1), "M/s", bench_median(rate, BATCHES));
    }
    MPI_Finalize();
    return 0;
}
