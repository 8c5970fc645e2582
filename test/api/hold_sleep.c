/*
 * A context that holds too many messages for an id that is not registered (PAMI_HOLD_BYTES) takes
 * no more in; meanwhile it sleeps, though there are more. Then all of them come.
 *
 * Run: tasks=2 env="PAMI_HOLD_BYTES=64K"
 * Run: tasks=2 env="PAMI_HOLD_BYTES=64K PAMI_NETWORK=ofi" nodes=2
 * Run: tasks=3 env="PAMI_HOLD_BYTES=64K"
 */
#include <pami/pamix.h>

#include "api_test.h"

enum {
    ID = 1,
    COUNT = 5000, /* many times what may be held */
    BYTES = 64,
    OWN = 0,
    HOLDING = 1, /* contexts */
    WAIT_US = 20000,
    WAITS = 20
};

static struct job job;
static size_t arrived;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)cookie, (void)header, (void)header_bytes, (void)recv, (void)origin;
    CHECK_CALLBACK();
    CHECK(context == job.context[HOLDING]);
    CHECK_SIZE(test_differs(data, bytes, 1, arrived), BYTES);
    arrived++;
}

/* Looks for something to do, until none of many looks in a row finds anything. */
static void settle(void)
{
    double quiet = test_now();

    while (test_now() - quiet < 0.1 * test_factor())
        if (PAMI_Context_advance(job.context[HOLDING], 1) == PAMI_SUCCESS)
            quiet = test_now();
}

static void receive(void)
{
    size_t slept = 0;

    settle();
    for (int i = 0; i < WAITS; i++) {
        slept += PAMIX_Context_wait(job.context[HOLDING], WAIT_US) == PAMI_EAGAIN;
        PAMI_Context_advance(job.context[HOLDING], 1);
    }
    CHECK(slept > WAITS / 2);
    test_dispatch(job.context[HOLDING], ID, on_message, NULL, test_ordered());
    WAIT(&job, arrived == COUNT);
}

int main(void)
{
    unsigned char *source = test_alloc(COUNT + BYTES);

    test_fill(source, COUNT + BYTES, 1, 0);
    job_start(&job, "hold_sleep", 2);
    test_dispatch(job.context[OWN], ID, on_message, NULL, test_ordered());
    job_barrier(&job);
    if (job.task == 0)
        for (size_t i = 0; i < COUNT; i++)
            test_send_immediate(job.context[OWN], job_endpoint(&job, 1, HOLDING), ID, NULL, 0,
                                source + i, BYTES);
    else if (job.task == 1)
        receive();
    job_finish(&job);
    free(source);
    return 0;
}
