/*
 * queue_immediate = DISABLE: PAMI_Send_immediate says EAGAIN when there is no room now, and has
 * then kept nothing; what it accepted arrives, in order. What is turned down is accepted once there
 * is room, at all sizes, also where several packets are needed. Without the hint nothing is ever
 * turned down.
 *
 * Run: tasks=1,2
 * Run: tasks=3 nodes=1,3
 * Run: tasks=2,7 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=1,2 env="PAMI_SHM_CHUNK_BYTES=1K"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_INTERFACE=lo PAMI_OFI_PACKET_BYTES=2K"
 */
#include "api_test.h"

enum {
    IMPATIENT = 1,
    PATIENT = 2,
    SURELY_FULL = 2000000, /* messages that nobody takes in */
    MORE = 3000
};

static struct job job;
static size_t received, patient;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    size_t number, *expected = cookie;

    (void)context, (void)data, (void)bytes, (void)origin;
    CHECK_CALLBACK();
    CHECK(header_bytes == sizeof number && recv == NULL);
    memcpy(&number, header, sizeof number);
    CHECK_SIZE(number, *expected);
    ++*expected;
}

static pami_result_t try(size_t id, size_t number, size_t bytes)
{
    static char data[8192];
    pami_send_immediate_t message = test_message(job_endpoint(&job, (job.task + 1) % job.tasks, 0),
                                                 id, &number, sizeof number, data, bytes);

    return TEST_CALL(PAMI_Send_immediate(job.context[0], &message));
}

/* Send until told to stop; the number accepted. */
static size_t until_full(size_t number, size_t bytes)
{
    size_t limit = number + SURELY_FULL;
    pami_result_t result;

    for (; number < limit; number++) {
        result = try(IMPATIENT, number, bytes);
        if (result == PAMI_EAGAIN)
            return number;
        CHECK_OK(result);
    }
    FAIL("%d messages were accepted while nobody advanced", SURELY_FULL);
}

int main(void)
{
    pami_dispatch_hint_t impatient = test_ordered();
    size_t i, accepted, turned_down = 0;

    job_start(&job, "queue_immediate", 1);
    impatient.queue_immediate = PAMI_HINT_DISABLE;
    test_dispatch(job.context[0], IMPATIENT, on_message, &received, impatient);
    test_dispatch(job.context[0], PATIENT, on_message, &patient, test_ordered());
    job_barrier(&job);

    accepted = until_full(0, 0);
    for (i = 0; i < 1000; i++) /* still full: nobody has advanced, or they have made room */
        turned_down += try(IMPATIENT, accepted + i - turned_down, 0) == PAMI_EAGAIN;
    accepted += 1000 - turned_down;
    job_linger(&job, 0.01);
    accepted = until_full(accepted, 8000);
    for (i = 0; i < 10000; i++)
        CHECK_OK(try(PATIENT, i, i % 5 * 1000));
    for (i = 0; i < MORE; i++) {
        pami_result_t result;

        WAIT(&job, (result = try(IMPATIENT, accepted + i, i % 7 * 1300)) != PAMI_EAGAIN);
        CHECK_OK(result);
    }
    accepted += MORE;
    /* The count of the predecessor goes to its successor as an ordinary message. */
    test_send_immediate(job.context[0], job_endpoint(&job, (job.task + 1) % job.tasks, 0), PATIENT,
                        &(size_t){10000}, sizeof(size_t), NULL, 0);
    WAIT(&job, patient == 10001);
    job_barrier(&job);
    if (job.tasks == 1)
        CHECK_SIZE(received, accepted);
    else
        CHECK(received >= MORE);
    job_finish(&job);
    return 0;
}
