/*
 * What waiting costs when nothing comes, and what being woken costs.
 *
 *     pamirun -n 2 idle_cpu [--ms N]
 *
 * idle_cpu    processor time used, in percent of the time passed, by a task that waits in
 *             PAMIX_Context_wait for N ms (default 1000) while no message comes
 * idle_wake   round trip of an 8-byte message between two tasks that both sleep in
 *             PAMIX_Context_wait, to be compared with a futex wake round trip; each side is silent
 *             for SILENCE_NS before it answers, so that the other one really sleeps, and the
 *             silences are subtracted
 */
#include "job.h"

#include <pami/pamix.h>
#include <sys/resource.h>

#define SILENCE_NS 60000
#define ROUNDS 200
#define NAP_US 50000

enum {
    DATA = JOB_USER
};

static struct {
    struct job job;
    uint64_t received, last;
} idle;

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&idle.last, data, sizeof(idle.last));
    idle.received++;
}

static double processor_ms(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static void wait_once(size_t maximum_us)
{
    pami_context_t context = idle.job.contexts[0];
    pami_result_t result = PAMIX_Context_wait(context, maximum_us);

    if (result != PAMI_SUCCESS && result != PAMI_EAGAIN) {
        job_ok(result, "PAMIX_Context_wait");
    }
    job_poll_one(context);
}

static double idle_percent(size_t ms)
{
    double before = processor_ms(), wall;
    uint64_t start = bench_now();

    do {
        wait_once(NAP_US);
        wall = (double)(bench_now() - start) / 1e6;
    } while (wall < (double)ms);
    return (processor_ms() - before) * 100 / wall;
}

/* Us per round trip, silences taken off. */
static double wake(void)
{
    struct job *j = &idle.job;
    pami_endpoint_t peer = job_endpoint(j, 1 - j->task, 0);
    uint64_t start = bench_now(), silent = 0;

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        uint64_t from, now;
        while (j->task == 1 && idle.received < i) {
            wait_once(NAP_US);
        }
        for (from = now = bench_now(); now - from < SILENCE_NS; now = bench_now()) {
            bench_relax();
        }
        silent += 2 * (now - from);
        job_send(j, 0, DATA, peer, &i, sizeof(i));
        while (j->task == 0 && idle.received < i) {
            wait_once(NAP_US);
        }
        if (idle.last != i) {
            bench_die("idle_cpu: message %llu instead of %llu", (unsigned long long)idle.last,
                      (unsigned long long)i);
        }
    }
    return (double)(bench_now() - start - silent) / ROUNDS / 1000;
}

int main(int argc, char **argv)
{
    struct job *j = &idle.job;
    double percent, us;

    job_open(j, 1);
    job_need_tasks(j, 2);
    job_dispatch(j, DATA, on_data, NULL);
    job_meet(j);
    percent = job_sum(j, idle_percent(bench_option(argc, argv, "--ms", 1000)));
    if (j->task == 0) {
        bench_emit("idle_cpu", (size_t)j->tasks, "percent", percent / j->tasks);
    }
    us = j->task < 2 ? wake() : 0;
    if (j->task == 0) {
        bench_emit("idle_wake", 2, "us", us);
    }
    job_close(j);
    return 0;
}
