/*
 * How much of a large message is hidden behind computation that never calls the library, with a
 * thread of asynchronous progress and without.
 *
 *     pamirun -n 2 overlap [--bytes N] [--rounds N]
 *
 * Task 0 asks for a message of N bytes (default 1 MiB), computes for about four times as long as
 * the message takes, and then advances until the message is there. Task 1 answers and sleeps
 * meanwhile, so its core is free for task 0's thread. Medians over the rounds of
 *
 *   message       asking for it and advancing until it is there, in us
 *   compute       the computation alone
 *   both          the two together
 *
 * overlap,1         (message + compute - both) / message in percent, with the thread
 * overlap,0         the same without
 * overlap_cost,1    what the computation takes longer while the thread is there and asleep, percent
 */
#include "job.h"

#include <pami/pamix.h>

#define WARM_UP 20

enum {
    ASK = JOB_USER,
    DATA,
    OVER
};

static struct {
    struct job job;
    pami_endpoint_t peer;
    char *buffer;
    size_t bytes;
    uint64_t asked; /* task 1: requests that have come */
    bool over, sending;
    uint64_t arrived; /* task 0; set by whoever advances */
} overlap;

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    job_ok(result, "receive");
    __atomic_fetch_add(&overlap.arrived, 1, __ATOMIC_RELEASE);
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    if (recv == NULL) {
        bench_die("%zu bytes came at once", bytes);
    }
    recv->addr = overlap.buffer;
    recv->local_fn = on_received;
}

static void on_ask(pami_context_t context, void *cookie, const void *header, size_t header_size,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    overlap.asked++;
}

static void on_over(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    overlap.over = true;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    job_ok(result, "send");
    overlap.sending = false;
}

/* Task 1: answers until it is over, asleep in between. */
static void answer(void)
{
    pami_context_t context = overlap.job.contexts[0];
    uint64_t sent = 0;

    while (!overlap.over || overlap.sending) {
        if (sent < overlap.asked && !overlap.sending) {
            pami_send_t message = {.send = {.dispatch = DATA, .dest = overlap.peer}};

            sent++;
            bench_fill(overlap.buffer, overlap.bytes, sent);
            message.send.data.iov_base = overlap.buffer;
            message.send.data.iov_len = overlap.bytes;
            message.events.local_fn = on_sent;
            overlap.sending = true;
            PAMI_OK(PAMI_Send(context, &message));
        }
        PAMIX_Context_wait(context, 100000);
        job_poll_one(context);
    }
}

static volatile double sink;

static void compute(uint64_t steps)
{
    double x = sink;

    for (uint64_t i = 0; i < steps; i++) {
        x = x * 0.999 + 1.0;
    }
    sink = x;
}

/* Ask, compute, collect: ns. */
static double round_trip(bool ask, uint64_t steps)
{
    pami_context_t context = overlap.job.contexts[0];
    uint64_t target = overlap.arrived + ask;
    uint64_t begin = bench_now();
    double ns;

    if (ask) {
        PAMI_OK(PAMI_Context_lock(context));
        job_send(&overlap.job, 0, ASK, overlap.peer, NULL, 0);
        PAMI_OK(PAMI_Context_unlock(context));
    }
    compute(steps);
    while (__atomic_load_n(&overlap.arrived, __ATOMIC_ACQUIRE) < target) {
        PAMI_OK(PAMI_Context_lock(context));
        job_poll_one(context);
        PAMI_OK(PAMI_Context_unlock(context));
    }
    ns = (double)(bench_now() - begin);
    if (ask) {
        bench_check(overlap.buffer, overlap.bytes, target, "overlap");
    }
    return ns;
}

static double median_of(bool ask, uint64_t steps, size_t rounds)
{
    double *times = bench_alloc(rounds * sizeof(*times));
    double median;

    for (size_t i = 0; i < WARM_UP; i++) {
        round_trip(ask, steps);
    }
    for (size_t i = 0; i < rounds; i++) {
        times[i] = round_trip(ask, steps);
    }
    median = bench_median(times, rounds);
    free(times);
    return median;
}

/* The second of the processors that the tasks are pinned to, where task 1 sleeps. */
static void enable(void)
{
    const char *pin = getenv("BENCH_PIN");
    const char *second = pin != NULL ? strchr(pin, ',') : NULL;
    pamix_context_async_t how = {.threads = 1, .cpus = second != NULL ? second + 1 : "any"};

    PAMI_OK(PAMIX_Context_async_enable(overlap.job.contexts, 1, &how));
}

static void measure(size_t rounds)
{
    double message = median_of(true, 0, rounds);
    uint64_t steps = (uint64_t)(4 * message * 1e6 / median_of(false, 1000000, 20));
    double alone = median_of(false, steps, rounds);
    double both = median_of(true, steps, rounds);

    bench_emit("overlap_message", overlap.bytes, "us", message / 1e3);
    bench_emit("overlap_compute", overlap.bytes, "us", alone / 1e3);
    bench_emit("overlap", 0, "%", 100 * (message + alone - both) / message);
    enable();
    both = median_of(true, steps, rounds);
    bench_emit("overlap", 1, "%", 100 * (message + alone - both) / message);
    both = median_of(false, steps, rounds);
    alone = median_of(false, steps, rounds);
    PAMI_OK(PAMIX_Context_async_disable(overlap.job.contexts, 1));
    bench_emit("overlap_cost", 1, "%", 100 * (both / median_of(false, steps, rounds) - 1));
    job_send(&overlap.job, 0, OVER, overlap.peer, NULL, 0);
}

int main(int argc, char **argv)
{
    overlap.bytes = bench_option(argc, argv, "--bytes", 1 << 20);
    job_open(&overlap.job, 1);
    job_need_tasks(&overlap.job, 2);
    overlap.buffer = bench_alloc(overlap.bytes);
    overlap.peer = job_endpoint(&overlap.job, 1 - overlap.job.task, 0);
    job_dispatch(&overlap.job, ASK, on_ask, NULL);
    job_dispatch(&overlap.job, DATA, on_data, NULL);
    job_dispatch(&overlap.job, OVER, on_over, NULL);
    job_meet(&overlap.job);
    if (overlap.job.task == 0) {
        measure(bench_option(argc, argv, "--rounds", 200));
    } else {
        answer();
    }
    job_close(&overlap.job);
    return 0;
}
