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
 * idle_thread processor time that the library's thread of asynchronous progress uses, in percent
 *             of the time passed, while its program 0: computes, 1: advances the context without
 *             its lock, 2: advances it with its lock, 3: holds the lock all the time
 * idle_help   as idle_wake, but answered by the sleeping thread of a program that only waits: its
 *             dispatch function echoes; median, polled for by task 0
 */
#include "job.h"

#include <pami/pamix.h>
#include <sys/resource.h>

#define SILENCE_NS 60000
#define ROUNDS 200
#define NAP_US 50000

enum {
    DATA = JOB_USER,
    ECHO
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

/* Processor time of RUSAGE_SELF or RUSAGE_THREAD. */
static double used_ms(int who)
{
    struct rusage u;

    getrusage(who, &u);
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
    double before = used_ms(RUSAGE_SELF), wall;
    uint64_t start = bench_now();

    do {
        wait_once(NAP_US);
        wall = (double)(bench_now() - start) / 1e6;
    } while (wall < (double)ms);
    return (used_ms(RUSAGE_SELF) - before) * 100 / wall;
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

/* ---- beside a thread of the library ---- */

static void on_echo(pami_context_t context, void *cookie, const void *header, size_t header_size,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    pami_send_immediate_t answer = {.dispatch = DATA, .dest = origin};

    JOB_UNUSED_DISPATCH_ARGUMENTS;
    answer.data.iov_base = (void *)(uintptr_t)data;
    answer.data.iov_len = bytes;
    PAMI_OK(PAMI_Send_immediate(context, &answer));
}

static void keep_busy(int how)
{
    pami_context_t context = idle.job.contexts[0];

    for (int i = 0; i < 100; i++) {
        if (how == 0 || how == 3) {
            bench_relax();
        } else if (how == 1) {
            job_poll_one(context);
        } else {
            PAMI_OK(PAMI_Context_lock(context));
            job_poll_one(context);
            PAMI_OK(PAMI_Context_unlock(context));
        }
    }
}

/* What the thread uses: all but the program's own. */
static double helper_percent(int how, size_t ms)
{
    pami_context_t context = idle.job.contexts[0];
    double before = used_ms(RUSAGE_SELF) - used_ms(RUSAGE_THREAD), wall;
    uint64_t start = bench_now();

    if (how == 3) {
        PAMI_OK(PAMI_Context_lock(context));
    }
    do {
        keep_busy(how);
        wall = (double)(bench_now() - start) / 1e6;
    } while (wall < (double)ms);
    if (how == 3) {
        PAMI_OK(PAMI_Context_unlock(context));
    }
    return (used_ms(RUSAGE_SELF) - used_ms(RUSAGE_THREAD) - before) * 100 / wall;
}

/* Task 1 has a thread that answers; task 0 is silent before each message, and polls. */
static double help(void)
{
    struct job *j = &idle.job;
    pami_endpoint_t peer = job_endpoint(j, 1, 0);
    uint64_t expected = idle.received;
    double us[ROUNDS];

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        uint64_t start;

        for (start = bench_now(); bench_now() - start < 4 * SILENCE_NS;) {
            bench_relax();
        }
        start = bench_now();
        job_send(j, 0, ECHO, peer, &i, sizeof(i));
        while (idle.received < expected + i) {
            job_poll(j);
        }
        us[i - 1] = (double)(bench_now() - start) / 1000;
    }
    return bench_median(us, ROUNDS);
}

static void with_thread(size_t ms)
{
    struct job *j = &idle.job;

    job_dispatch(j, ECHO, on_echo, NULL);
    job_meet(j);
    if (j->task == 1) {
        PAMI_OK(PAMIX_Context_async_enable(j->contexts, 1, NULL));
        for (int how = 0; how < 4; how++) {
            double percent = helper_percent(how, ms);

            PAMI_OK(PAMI_Context_lock(j->contexts[0]));
            job_send(j, 0, DATA, job_endpoint(j, 0, 0), &percent, sizeof(percent));
            PAMI_OK(PAMI_Context_unlock(j->contexts[0]));
        }
        usleep((useconds_t)(2 * ROUNDS * 5 * SILENCE_NS / 1000));
        PAMI_OK(PAMIX_Context_async_disable(j->contexts, 1));
    } else if (j->task == 0) {
        for (size_t how = 0; how < 4; how++) {
            uint64_t before = idle.received;
            double percent;

            while (idle.received == before) {
                wait_once(NAP_US);
            }
            memcpy(&percent, &idle.last, sizeof(percent));
            bench_emit("idle_thread", how, "%", percent);
        }
        bench_emit("idle_help", 2, "us", help());
    }
}

int main(int argc, char **argv)
{
    struct job *j = &idle.job;
    size_t ms = bench_option(argc, argv, "--ms", 1000);
    double percent, us;

    job_open(j, 1);
    job_need_tasks(j, 2);
    job_dispatch(j, DATA, on_data, NULL);
    job_meet(j);
    percent = job_sum(j, idle_percent(ms));
    if (j->task == 0) {
        bench_emit("idle_cpu", (size_t)j->tasks, "percent", percent / j->tasks);
    }
    us = j->task < 2 ? wake() : 0;
    if (j->task == 0) {
        bench_emit("idle_wake", 2, "us", us);
    }
    with_thread(ms);
    job_close(j);
    return 0;
}
