/*
 * Tasks destroy their contexts, which sleep in the care of threads of the library's, while others
 * do the same and tell them over the network; and create them again, many times. Whoever takes such
 * news does not wake a context that has gone.
 *
 * Run: tasks=2,4 nodes=2 env="PAMI_NETWORK=ofi PAMI_DRAIN_TIMEOUT=100ms" timeout=60
 */
#include "api/api_test.h"
#include "net.h"

#include <pamix.h>

enum {
    ID = 10,
    CONTEXTS = 8,
    ROUNDS = 40
};

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
}

/* Each context has to do with all contexts of all tasks; some of these are not there. */
static void meet(struct job *job, double seconds)
{
    double until = test_now() + seconds;

    for (size_t from = 0; from < CONTEXTS; from++)
        for (size_t task = 0; task < job->tasks; task++)
            for (size_t to = 0; to < CONTEXTS; to++) {
                pami_send_immediate_t message =
                    test_message(job_endpoint(job, task, to), ID, NULL, 0, NULL, 0);

                PAMI_Send_immediate(job->context[from], &message);
            }
    while (test_now() < until)
        job_advance(job);
}

int main(void)
{
    struct job job;
    uint64_t seed;

    job_create_client(&job, "closing");
    need_module();
    seed = job.task;
    for (int round = 0; round < ROUNDS; round++) {
        job_create_contexts(&job, CONTEXTS);
        for (size_t i = 0; i < CONTEXTS; i++)
            test_dispatch(job.context[i], ID, on_message, NULL, test_ordered());
        meet(&job, 0.005);
        CHECK_OK(PAMIX_Context_async_enable(job.context, CONTEXTS, NULL));
        test_sleep(1e-6 * (double)(test_random(&seed) % 3000));
        job_destroy_contexts(&job);
    }
    CHECK_OK(PAMI_Client_destroy(&job.client));
    return 0;
}
