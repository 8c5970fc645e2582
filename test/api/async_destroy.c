/*
 * Contexts are destroyed while a thread of asynchronous progress sleeps for one of them. What is
 * still to be sent calls a data function of the program, which uses that context: nobody rings for
 * the thread, which has ended. (Only sanitizers and valgrind see it if somebody does.)
 *
 * Run: tasks=1,2 env="PAMI_SHM_CHUNKS=2"
 */
#include "async.h"

enum {
    ID = 1,
    MESSAGES = 6, /* more than there are chunks for */
    BYTES = 8000  /* not asked for first */
};

static struct job job;
static pami_endpoint_t self;
static bool destroying;
static size_t calls;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
}

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
}

/* Leaves the other context with a callback that is due. */
static void produce(void *target, void *source, size_t bytes, void *cookie)
{
    pami_send_event_t events = {.local_fn = on_local};

    (void)cookie;
    memcpy(target, source, bytes);
    if (!destroying)
        return;
    CHECK_OK(PAMI_Context_lock(job.context[1]));
    test_send(job.context[1], self, ID, "h", 1, NULL, 0, events);
    CHECK_OK(PAMI_Context_unlock(job.context[1]));
    calls++;
}

static void send(const char *data)
{
    pami_send_typed_t message = {
        .send = test_message(self, ID, "h", 1, data, BYTES),
        .events = {.local_fn = on_local},
        .typed = {.type = PAMI_TYPE_BYTE, .data_fn = produce},
    };

    CHECK_OK(TEST_CALL(PAMI_Send_typed(job.context[0], &message)));
}

int main(void)
{
    static char data[BYTES];
    size_t i;

    job_start(&job, "async_destroy", 2);
    for (i = 0; i < 2; i++)
        test_dispatch(job.context[i], ID, on_message, NULL, test_ordered());
    self = job_endpoint(&job, job.task, 0);
    job_barrier(&job);
    CHECK_OK(PAMIX_Context_async_enable(&job.context[1], 1, NULL));
    test_sleep(0.3); /* long enough for it to fall asleep */
    for (i = 0; i < MESSAGES; i++)
        send(data);
    destroying = true;
    job_destroy(&job);
    CHECK(calls != 0);
    return 0;
}
