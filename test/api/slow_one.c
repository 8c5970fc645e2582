/*
 * A flood to a destination that does not advance takes chunks, and leaves one to others: what needs
 * it, because it may not be queued or cut, goes on.
 *
 * Run: tasks=2
 * Run: tasks=2 env="PAMI_SHM_CHUNKS=64"
 * Run: tasks=2 env="PAMI_SHM_CHUNKS=2 PAMI_SHM_RING_SLOTS=8"
 * Run: tasks=2 nodes=2
 */
#include "api_test.h"

enum {
    QUEUED = 1,
    IMPATIENT = 2,
    FLOOD = 1000,
    MESSAGES = 50, /* of each kind */
    BYTES = 200,
    LARGE = 4000
};

static struct job job;
static unsigned char data[LARGE], sink[LARGE];
static size_t flooded, produced, received;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    received++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *payload, size_t bytes,
                       pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)cookie, (void)header, (void)header_bytes, (void)payload, (void)bytes, (void)origin;
    CHECK_CALLBACK();
    if (recv != NULL) {
        recv->addr = sink;
        recv->local_fn = on_landed;
    } else if (context == job.context[0]) {
        flooded++;
    } else {
        received++;
    }
}

static void produce(void *to, void *from, size_t bytes, void *cookie)
{
    (void)cookie;
    memcpy(to, from, bytes);
    produced += bytes;
}

/* Context 1 of the other task advances, context 0 does not. */
static void send_both(void)
{
    pami_endpoint_t slow = job_endpoint(&job, 1, 0), other = job_endpoint(&job, 1, 1);
    pami_send_immediate_t impatient = test_message(other, IMPATIENT, NULL, 0, data, BYTES);
    pami_send_typed_t typed = {
        .send = test_message(other, QUEUED, NULL, 0, data, LARGE),
        .typed = {.type = PAMI_TYPE_BYTE, .data_fn = produce},
    };

    for (int i = 0; i < FLOOD; i++)
        test_send_immediate(job.context[0], slow, QUEUED, NULL, 0, data, BYTES);
    for (int i = 0; i < MESSAGES; i++) {
        pami_result_t result;

        WAIT(&job,
             (result = TEST_CALL(PAMI_Send_immediate(job.context[0], &impatient))) != PAMI_EAGAIN);
        CHECK_OK(result);
        CHECK_OK(TEST_CALL(PAMI_Send_typed(job.context[0], &typed)));
        WAIT(&job, produced == (size_t)(i + 1) * LARGE);
    }
}

int main(void)
{
    pami_dispatch_hint_t hints = test_ordered();

    job_start(&job, "slow_one", 2);
    for (size_t i = 0; i < 2; i++) {
        hints.queue_immediate = PAMI_HINT_DEFAULT;
        test_dispatch(job.context[i], QUEUED, on_message, NULL, hints);
        hints.queue_immediate = PAMI_HINT_DISABLE;
        test_dispatch(job.context[i], IMPATIENT, on_message, NULL, hints);
    }
    job_barrier(&job);
    if (job.task == 0)
        send_both();
    else
        WAIT_WITH(test_advance(job.context[1], 1), received == 2 * MESSAGES);
    if (job.task == 1)
        CHECK(flooded < FLOOD);
    job_barrier(&job);
    WAIT(&job, job.task == 0 || flooded == FLOOD);
    job_finish(&job);
    return 0;
}
