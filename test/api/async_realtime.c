/*
 * Asynchronous progress of a real-time program that shares its only processor with the library's
 * thread: what comes while it computes is served, and the program still gets to run while more and
 * more comes.
 *
 * Run: tasks=1
 */
#include "async.h"

#include <sched.h>

enum {
    ID = 1,
    MESSAGES = 200
};

static size_t received;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    __atomic_fetch_add(&received, 1, __ATOMIC_RELEASE);
}

/* One processor, and nobody of the same priority gets it. */
static bool become_realtime(int cpu)
{
    const struct sched_param param = {.sched_priority = 1};
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one) == 0 &&
           sched_setscheduler(0, SCHED_FIFO, &param) == 0;
}

int main(void)
{
    struct job job;
    char cpus[20];
    const pamix_context_async_t how = {.threads = 1, .cpus = cpus};
    int cpu = sched_getcpu();

    snprintf(cpus, sizeof(cpus), "%d", cpu);
    if (cpu < 0 || !become_realtime(cpu)) {
        printf("SKIP: may not become a real-time program\n");
        return 77;
    }
    job_start(&job, "async_realtime", 2);
    job.driven = 1;
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[1], ID, on_message, NULL, test_ordered());
    CHECK_OK(PAMIX_Context_async_enable(&job.context[1], 1, &how));
    for (size_t i = 1; i <= MESSAGES; i++) {
        double until = test_now() + 3;

        test_send_immediate(job.context[0], job_endpoint(&job, 0, 1), ID, NULL, 0, NULL, 0);
        while (load(&received) < i)
            if (test_now() > until)
                FAIL("asynchronous progress has not delivered message %zu", i);
    }
    CHECK_OK(PAMIX_Context_async_disable(&job.context[1], 1));
    job_finish(&job);
    return 0;
}
