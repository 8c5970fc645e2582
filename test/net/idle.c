/*
 * A thread of asynchronous progress has little to do while nothing comes, whatever its provider can
 * tell. Where that has nothing to wait for its queue by, the thread looks every half a millisecond;
 * shortly, also on a processor of its own, where one that has been rung looks for longer. What
 * comes is served before and afterwards. Prints what idling takes.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include "api/async.h"

#include <sched.h>

enum {
    SERVED = 1,
    CONTEXTS,
    ID = 1,
    MESSAGES = 100,
    WINDOWS = 12
};

#define LIMIT 0.17 /* of a processor; 0.09 over sockets, and 0.3 where it looks for longer */

static struct job job;
static size_t received;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    __atomic_fetch_add(&received, 1, __ATOMIC_RELEASE);
}

/* A thread that is told where to run has that processor for itself, as far as the library knows. */
static void enable(void)
{
    char cpus[16];
    pamix_context_async_t how = {.cpus = cpus};

    snprintf(cpus, sizeof cpus, "%d", sched_getcpu());
    CHECK_OK(PAMIX_Context_async_enable(&job.context[SERVED], 1, &how));
}

static void serve(void)
{
    pami_endpoint_t other = job_endpoint(&job, 1 - job.task, SERVED);

    received = 0;
    job_barrier(&job);
    for (size_t i = 0; i < MESSAGES; i++)
        test_send_immediate(job.context[0], other, ID, NULL, 0, NULL, 0);
    WAIT(&job, load(&received) == MESSAGES);
    job_barrier(&job);
}

static double processor_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Processor time of the process while main sleeps, as a part of the time: the least of windows in
 * which the host of a virtual machine has taken none. */
static double idle_part(void)
{
    double least = 1;

    for (int i = 0; i < WINDOWS; i++) {
        double used = processor_time(), begin = test_now(), part;

        test_sleep(0.1);
        part = (processor_time() - used) / (test_now() - begin);
        least = part < least ? part : least;
    }
    return least;
}

int main(void)
{
    double part;

    job_start(&job, "idle", CONTEXTS);
    job.driven = 1;
    for (size_t i = 0; i < CONTEXTS; i++)
        test_dispatch(job.context[i], ID, on_message, NULL, test_ordered());
    job_barrier(&job);
    enable();
    serve();
    part = idle_part();
    job_barrier(&job);
    printf("nothing to do: %.1f %% of a processor\n", 100 * part);
    if (part > LIMIT * test_factor())
        FAIL("nothing to do: %.1f %% of a processor", 100 * part);
    serve();
    job_finish(&job);
    return 0;
}
