/*
 * Tens of thousands of PAMI_Send_immediate without an advance in between, results ignored, to one
 * neighbour, to everybody and to oneself: all of them arrive, once and in order. Then
 * ten thousand large PAMI_Send in the same way. And bursts to oneself with one advance after each:
 * what is on its way does not grow with their number.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=4 nodes=2
 * Run: tasks=2,5 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=8 env="PAMI_YIELD=always PAMI_SHM_RING_SLOTS=64"
 */
#include "api_test.h"

enum {
    ID = 1,
    LARGE_ID = 2,
    SMALL = 30000,
    LARGE = 1500, /* of 7.7 KB, as one run-time sends them */
    LARGE_BYTES = 7700,
    OUTSTANDING = 10240,
    OUTSTANDING_BYTES = 33000,
    BURSTS = 500,
    BURST = 64,
    BEHIND = 4 * BURST,
    TASKS_MAX = 16
};

static struct job job;
static size_t next_number[TASKS_MAX];
static unsigned char data[LARGE_BYTES];

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *pipe, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    uint32_t number;
    size_t task = test_origin(origin);

    (void)context, (void)cookie, (void)recv;
    CHECK_CALLBACK();
    CHECK(header_bytes == sizeof number && pipe != NULL);
    memcpy(&number, header, sizeof number);
    CHECK_SIZE(number, next_number[task]++);
    CHECK(bytes == 0 || bytes == LARGE_BYTES);
    if (bytes != 0 && number % 16 == 0)
        CHECK_SIZE(test_differs(pipe, bytes, 1, 0), bytes);
}

static void flood(size_t task, size_t count, size_t bytes, size_t *sent)
{
    size_t i;

    for (i = 0; i < count; i++) {
        uint32_t number = (uint32_t)sent[task]++;
        pami_send_immediate_t message =
            test_message(job_endpoint(&job, task, 0), ID, &number, sizeof number, data, bytes);

        TEST_CALL(PAMI_Send_immediate(job.context[0], &message));
    }
}

static void on_discard(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *pipe, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)pipe, (void)origin;
    CHECK_CALLBACK();
    CHECK(bytes == OUTSTANDING_BYTES && recv != NULL && recv->addr == NULL);
}

static void on_event(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    ++*(size_t *)cookie;
}

/* As many large sends, all from one buffer. */
static void outstanding(size_t task)
{
    static unsigned char buffer[OUTSTANDING_BYTES];
    size_t done = 0, i;
    pami_send_event_t events = {&done, on_event, on_event};

    for (i = 0; i < OUTSTANDING; i++)
        test_send(job.context[0], job_endpoint(&job, task, 0), LARGE_ID, "h", 1, buffer,
                  sizeof buffer, events);
    WAIT(&job, done == 2 * OUTSTANDING);
    job_barrier(&job);
}

static void bursts(size_t *sent)
{
    const size_t task = job.task;
    int i;

    for (i = 0; i < BURSTS; i++) {
        flood(task, BURST, 0, sent);
        test_advance(job.context[0], 1);
    }
    CHECK(sent[task] - next_number[task] <= BEHIND);
    WAIT(&job, next_number[task] == sent[task]);
    job_barrier(&job);
}

int main(void)
{
    size_t sent[TASKS_MAX] = {0}, i, next, previous;

    test_fill(data, sizeof data, 1, 0);
    job_start(&job, "immediate_flood", 1);
    CHECK(job.tasks <= TASKS_MAX);
    next = (job.task + 1) % job.tasks;
    previous = (job.task + job.tasks - 1) % job.tasks;
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[0], LARGE_ID, on_discard, NULL, test_ordered());
    job_barrier(&job);

    flood(next, SMALL, 0, sent);
    WAIT(&job, next_number[previous] == SMALL);
    job_barrier(&job);
    flood(next, LARGE, LARGE_BYTES, sent);
    flood(next, LARGE, 0, sent);
    WAIT(&job, next_number[previous] == SMALL + 2 * LARGE);
    job_barrier(&job);
    for (i = 0; i < job.tasks; i++)
        flood(i, SMALL / job.tasks, 0, sent);
    for (i = 0; i < job.tasks; i++)
        WAIT(&job, next_number[i] == SMALL / job.tasks + (i == previous ? SMALL + 2 * LARGE : 0));
    job_barrier(&job);
    if (job.tasks <= 3 && getenv("PAMI_SHM_RING_SLOTS") == NULL) /* each has a lane from itself */
        bursts(sent);
    outstanding(next);
    job_finish(&job);
    return 0;
}
