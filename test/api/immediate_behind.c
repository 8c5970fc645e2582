/*
 * Short messages that find no room and wait for it: all sizes about what a slot holds, by both
 * calls, with and without shared memory, between large ones: they arrive whole, once and in order.
 * A burst after another one as large asks for no memory. Where there is none the call says so and
 * has kept nothing. A context that still has some for itself can be destroyed.
 *
 * Run: tasks=1,2
 * Run: tasks=3 nodes=1,3
 * Run: tasks=1,2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 */
#include "api_test.h"

enum {
    ID = 1,
    PACKETS_ID = 2,
    MIXED = 4000,
    BURST = 1000,
    MOST = 1000000 /* so many without memory: never */
};

static struct job job;
static size_t next, previous, received;
static bool refuses, counts;
static size_t asked;

static bool is_refused(size_t bytes)
{
    (void)bytes;
    asked += counts;
    return refuses;
}

#include "refusing.h"

/* Bytes of the header behind the number, and of data, of a message. */
static size_t header_of(size_t number)
{
    return number % 7 == 0 ? number % 90 : number % 3;
}

static size_t data_of(size_t number)
{
    return number % 37 == 0 ? 1500 : number * 5 % 110;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    size_t number, task = test_origin(origin);

    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(task == previous && header_bytes >= sizeof number && recv == NULL);
    memcpy(&number, header, sizeof number);
    CHECK_SIZE(number, received);
    received++;
    header_bytes -= sizeof number;
    CHECK_SIZE(test_differs((const char *)header + sizeof number, header_bytes, number, 0),
               header_bytes);
    CHECK_SIZE(test_differs(data, bytes, number, 200), bytes);
}

static void send_number(size_t task, size_t number, size_t header_bytes, size_t bytes)
{
    char header[256], data[2048];
    pami_endpoint_t dest = job_endpoint(&job, task, 0);
    size_t id = number / 3 % 2 == 0 ? ID : PACKETS_ID;

    memcpy(header, &number, sizeof number);
    test_fill(header + sizeof number, header_bytes, number, 0);
    test_fill(data, bytes, number, 200);
    header_bytes += sizeof number;
    if (number % 2 == 0 || bytes > 1000)
        test_send_immediate(job.context[0], dest, id, header, header_bytes, data, bytes);
    else
        test_send(job.context[0], dest, id, header, header_bytes, data, bytes,
                  (pami_send_event_t){NULL, NULL, NULL});
    memset(header, 0x5a, sizeof header);
    memset(data, 0x5a, sizeof data);
}

static void mixed(void)
{
    for (size_t i = 0; i < MIXED; i++)
        send_number(next, i, header_of(i), data_of(i));
    WAIT(&job, received == MIXED);
    received = 0;
    job_barrier(&job);
}

/* Nobody takes anything of it before it is complete. */
static void burst(void)
{
    for (size_t i = 0; i < BURST; i++)
        send_number(job.task, i, i % 40, i % 50);
}

static void bursts(void)
{
    for (int round = 0; round < 3; round++) {
        counts = round == 2;
        burst();
        counts = false;
        WAIT(&job, received == BURST);
        received = 0;
    }
    CHECK_SIZE(asked, 0);
}

/* What is kept is what was accepted. */
static void without_memory(void)
{
    pami_endpoint_t self = job_endpoint(&job, job.task, 0);
    size_t number = 0;
    pami_send_immediate_t message = test_message(self, ID, &number, sizeof number, NULL, 0);

    refuses = true;
    while (number < MOST &&
           TEST_CALL(PAMI_Send_immediate(job.context[0], &message)) == PAMI_SUCCESS)
        number++;
    CHECK_REFUSED(PAMI_Send_immediate(job.context[0], &message), PAMI_ENOMEM, "memory");
    refuses = false;
    WAIT(&job, received == number);
    send_number(job.task, number, 0, 0);
    WAIT(&job, received == number + 1);
    received = 0;
}

int main(void)
{
    pami_dispatch_hint_t packets = test_ordered();

    job_start(&job, "immediate_behind", 1);
    next = (job.task + 1) % job.tasks;
    previous = (job.task + job.tasks - 1) % job.tasks;
    packets.use_shmem = PAMI_HINT_DISABLE;
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[0], PACKETS_ID, on_message, NULL, packets);
    job_barrier(&job);
    mixed();

    previous = job.task;
    bursts();
    if (CAN_REFUSE)
        without_memory();
    job_barrier(&job);
    burst();
    job_destroy(&job);
    return 0;
}
