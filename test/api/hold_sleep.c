/*
 * A context that holds too many messages for an id that is not registered (PAMI_HOLD_BYTES) takes
 * no more in; meanwhile it sleeps, though there are more, and though a message of its own waits for
 * a connection. Then all of them come.
 *
 * Run: tasks=2 env="PAMI_HOLD_BYTES=64K"
 * Run: tasks=2 env="PAMI_HOLD_BYTES=64K PAMI_NETWORK=ofi" nodes=2
 * Run: tasks=3 env="PAMI_HOLD_BYTES=64K"
 * Run: tasks=3 env="PAMI_HOLD_BYTES=64K PAMI_NETWORK=ofi" nodes=3
 */
#include <pami/pamix.h>

#include "api_test.h"

enum {
    ID = 1,
    ID_OTHER,     /* from the context that holds, to one that it has not sent to before */
    COUNT = 5000, /* many times what may be held */
    BYTES = 64,
    OTHER_BYTES = 200,
    OWN = 0,
    HOLDING = 1, /* contexts */
    WAIT_US = 20000,
    WAITS = 20
};

static struct job job;
static size_t arrived, others;

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

static void on_other(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    others++;
}

static void send_other(void)
{
    static const char data[OTHER_BYTES];
    pami_endpoint_t last = job_endpoint(&job, job.tasks - 1, OWN);

    test_send(job.context[HOLDING], last, ID_OTHER, NULL, 0, data, OTHER_BYTES,
              (pami_send_event_t){0});
}

/* Looks for something to do, until none of many looks in a row finds anything. */
static void settle(void)
{
    double quiet = test_now();

    while (test_now() - quiet < 0.1 * test_factor())
        if (PAMI_Context_advance(job.context[HOLDING], 1) == PAMI_SUCCESS)
            quiet = test_now();
}

/* How many of some waits are sleeps. */
static size_t sleeps(void)
{
    size_t slept = 0;

    for (int i = 0; i < WAITS; i++) {
        slept += PAMIX_Context_wait(job.context[HOLDING], WAIT_US) == PAMI_EAGAIN;
        PAMI_Context_advance(job.context[HOLDING], 1);
    }
    return slept;
}

static void receive(void)
{
    settle();
    send_other();
    settle();
    /* A sender that gets no processor may not have begun. */
    WAIT_WITH((void)0, sleeps() > WAITS / 2);
    test_dispatch(job.context[HOLDING], ID, on_message, NULL, test_ordered());
    WAIT(&job, arrived == COUNT);
}

int main(void)
{
    unsigned char *source = test_alloc(COUNT + BYTES);

    test_fill(source, COUNT + BYTES, 1, 0);
    job_start(&job, "hold_sleep", 2);
    test_dispatch(job.context[OWN], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[OWN], ID_OTHER, on_other, NULL, test_ordered());
    test_dispatch(job.context[HOLDING], ID_OTHER, on_other, NULL, test_ordered());
    job_barrier(&job);
    if (job.task == 0)
        for (size_t i = 0; i < COUNT; i++)
            test_send_immediate(job.context[OWN], job_endpoint(&job, 1, HOLDING), ID, NULL, 0,
                                source + i, BYTES);
    else if (job.task == 1)
        receive();
    if (job.task == job.tasks - 1)
        WAIT(&job, others == 1);
    job_finish(&job);
    free(source);
    return 0;
}
