/*
 * Threads with a context each: do they get in each other's way?
 *
 *     multi_context [--messages N]                    one task: T threads, T cores
 *     pamirun -n 2 multi_context [--messages N]       two tasks of T threads each
 *
 * context_self, T = 1, 2, 4: each thread sends 8-byte messages through its own context to that same
 * context; with T cores the rate should be T times that of one thread. Threads are pinned.
 * context_gain, T = 2, 4: so many times the rate of one thread; limit_gain: the same of threads
 * that have nothing in common at all, and write, read and add atomically in memory of their own. On
 * a machine that shares its cores with others that is less than T as well. All of them take turns.
 * context_pair, T = 1, 2: thread t of task 0 sends to context t of task 1, whose thread t receives.
 * On two cores T = 2 is oversubscribed, so the two threads share their process's core, and the
 * question is whether the rate survives. The tasks are pinned apart, threads together.
 *
 * The rate is that of all threads together. Counts and sums of all messages are checked.
 */
#include "job.h"

#include <pthread.h>

#define THREADS 4
#define BURST 64
#define ACK 1024
#define CREDIT 8192
#define BATCHES 9
#define LIMIT_SLOTS 64
#define LIMIT_ROUNDS 16 /* turns of the limit's loop for a message: about as long */

enum {
    DATA = JOB_USER,
    CREDITS
};

struct lane {
    BENCH_ALIGNED pthread_t thread;
    int index;
    uint64_t messages;
    pami_context_t context;
    pami_endpoint_t peer;
    bool sends, receives;
    uint64_t count, sum, acknowledged;
    uint64_t *slots; /* of the limit's loop; a line each */
};

static struct job job;
static struct lane lanes[THREADS];
static _Atomic int start_line;
static int active;
static bool limit; /* the loop that has nothing to do with the library */

static void send_small(struct lane *l, size_t dispatch, const void *data, size_t bytes)
{
    pami_send_immediate_t message = {.dispatch = dispatch, .dest = l->peer};

    message.data.iov_base = (void *)(uintptr_t)data;
    message.data.iov_len = bytes;
    PAMI_OK(PAMI_Send_immediate(l->context, &message));
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct lane *l = cookie; /* no other thread writes to its lines */
    uint64_t number;

    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&number, data, sizeof(number));
    l->sum += number;
    l->count++;
    if (l->sends) {
        l->acknowledged++;
    } else if (l->count % ACK == 0) {
        send_small(l, CREDITS, NULL, 0);
    }
}

static void on_credits(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    ((struct lane *)cookie)->acknowledged += ACK;
}

static void drive(struct lane *l)
{
    uint64_t number = 0;

    while (l->sends && number < l->messages) {
        for (int b = 0; b < BURST && number < l->messages; b++, number++) {
            send_small(l, DATA, &number, sizeof(number));
        }
        do {
            job_poll_one(l->context);
        } while (number - l->acknowledged > CREDIT);
    }
    while (l->sends ? l->acknowledged < l->messages : l->count < l->messages) {
        job_poll_one(l->context);
    }
}

static void drive_limit(struct lane *l)
{
    volatile uint64_t *slot = l->slots;
    uint64_t total = l->messages * LIMIT_ROUNDS, sum = 0;

    for (uint64_t n = 0; n < total; n += LIMIT_SLOTS) {
        for (uint64_t i = 0; i < LIMIT_SLOTS; i++)
            slot[i * 8] = n + i;
        for (uint64_t i = 0; i < LIMIT_SLOTS; i++)
            sum += slot[i * 8];
        __atomic_fetch_add(&l->slots[1], sum, __ATOMIC_SEQ_CST);
    }
}

static void *lane_main(void *argument)
{
    struct lane *l = argument;

    /* Alone in the job: one core for each thread. Else all on the task's core. */
    bench_pin(job.tasks == 1 ? l->index : job.task);
    atomic_fetch_add(&start_line, 1);
    while (atomic_load(&start_line) <= active) {
        sched_yield();
    }
    if (limit) {
        drive_limit(l);
    } else {
        drive(l);
    }
    return NULL;
}

/* Million messages per second, on task 0. */
static double run(int threads, uint64_t messages)
{
    uint64_t start, expected = messages * (messages - 1) / 2;
    double elapsed;

    active = threads;
    atomic_store(&start_line, 0);
    for (int t = 0; t < threads; t++) {
        struct lane *l = &lanes[t];
        l->count = l->sum = l->acknowledged = 0;
        l->messages = messages;
        if (pthread_create(&l->thread, NULL, lane_main, l) != 0) {
            bench_die("cannot start a thread");
        }
    }
    while (atomic_load(&start_line) < threads) {
        sched_yield();
    }
    job_meet(&job);
    start = bench_now();
    atomic_fetch_add(&start_line, 1);
    for (int t = 0; t < threads; t++) {
        pthread_join(lanes[t].thread, NULL);
    }
    elapsed = (double)(bench_now() - start);
    for (int t = 0; t < threads; t++) {
        if (!limit && lanes[t].receives &&
            (lanes[t].count != messages || lanes[t].sum != expected)) {
            bench_die("multi_context: thread %d got %llu of %llu messages", t,
                      (unsigned long long)lanes[t].count, (unsigned long long)messages);
        }
    }
    job_meet(&job);
    return (double)threads * (double)messages * 1e3 / elapsed;
}

/* How many times as much so many threads do as one, batch by batch. */
static void emit_gains(const char *name, size_t threads, const double *one, const double *many)
{
    double gain[BATCHES];

    for (int b = 0; b < BATCHES; b++) {
        gain[b] = many[b] / one[b];
    }
    bench_emit(name, threads, "times", bench_median(gain, BATCHES));
}

static void measure(uint64_t messages, int most)
{
    double rate[2][3][BATCHES]; /* of the loop or the library; of 1, 2, 4 threads */
    int loops = job.tasks == 1 ? 2 : 1;

    for (int b = 0; b < BATCHES; b++) {
        for (int i = 0; 1 << i <= most; i++) {
            for (int l = 0; l < loops; l++) {
                limit = l != 0;
                rate[l][i][b] = run(1 << i, messages);
            }
        }
    }
    for (int i = 0; job.task == 0 && 1 << i <= most; i++) {
        double sorted[BATCHES];

        memcpy(sorted, rate[0][i], sizeof(sorted));
        bench_emit(job.tasks == 1 ? "context_self" : "context_pair", (size_t)1 << i, "M/s",
                   bench_median(sorted, BATCHES));
        if (i > 0 && job.tasks == 1) {
            emit_gains("context_gain", (size_t)1 << i, rate[0][0], rate[0][i]);
            emit_gains("limit_gain", (size_t)1 << i, rate[1][0], rate[1][i]);
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t messages = bench_option(argc, argv, "--messages", 128 * 1024);
    int most;

    messages -= messages % ACK;
    job_open(&job, THREADS);
    most = job.tasks == 1 ? THREADS : 2;
    if (job.tasks > 2) {
        bench_die("1 or 2 tasks, please");
    }
    for (int t = 0; t < THREADS; t++) {
        lanes[t].index = t;
        lanes[t].slots = bench_alloc(LIMIT_SLOTS * BENCH_LINE);
        lanes[t].context = job.contexts[t];
        lanes[t].peer = job_endpoint(&job, job.tasks - 1 - job.task, (size_t)t);
        lanes[t].sends = job.task == 0;
        lanes[t].receives = job.task == job.tasks - 1;
        job_dispatch_one(job.contexts[t], DATA, on_data, &lanes[t]);
        job_dispatch_one(job.contexts[t], CREDITS, on_credits, &lanes[t]);
    }
    measure(messages, most);
    job_close(&job);
    return 0;
}
