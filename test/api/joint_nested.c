/*
 * Data functions of messages that start one-sided transfers with the destination of their own
 * message, so large that both tasks may copy them: all of it arrives, and what is sent afterwards.
 * Messages of one packet, by each way that a packet may take, and of several.
 *
 * Run: tasks=1,2,3
 * Run: tasks=2,3 env="PAMI_SHM_JOINT_COPY=on"
 * Run: tasks=2 env="PAMI_SHM_JOINT_COPY=on PAMI_SHM_LANES=0"
 * Run: tasks=2 env="PAMI_SHM_JOINT_COPY=on PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 nodes=2
 */
#include "rma.h"

enum {
    ID = 1,
    ROUNDS = 120, /* enough for lanes both ways, and then some */
    LARGE = 256 << 10,
    MOST = 40000
};

static const size_t size_of[] = {8, 1, 2000, 8, 70, MOST};

static struct job job;
static size_t next, arrived, sent, calls;
static unsigned char *window, **windows; /* LARGE to be read, LARGE to be written to */
static unsigned char *fetched, *source;
static unsigned char received[MOST];
static struct rma get, put;

static void on_arrived(pami_context_t context, void *cookie, pami_result_t result)
{
    size_t bytes = size_of[arrived % 6];

    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    CHECK_SIZE(test_differs(received, bytes, arrived, 0), bytes);
    arrived++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)cookie, (void)header, (void)header_bytes, (void)origin;
    CHECK_CALLBACK();
    CHECK_SIZE(bytes, size_of[arrived % 6]);
    if (recv == NULL) {
        memcpy(received, data, bytes);
        on_arrived(context, NULL, PAMI_SUCCESS);
        return;
    }
    recv->addr = received;
    recv->local_fn = on_arrived;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    sent++;
}

static void copy_and_start(void *target, void *from, size_t bytes, void *cookie)
{
    (void)cookie;
    memcpy(target, from, bytes);
    if (calls++ != 0)
        return;
    get = put = (struct rma){0};
    rma_get(&get, job.context[0], job_endpoint(&job, next, 0), fetched, windows[next], LARGE);
    rma_put(&put, job.context[0], job_endpoint(&job, next, 0), source, windows[next] + LARGE,
            LARGE);
}

/* One after the other round the tasks, so that messages are answers. */
static void exchange(size_t round)
{
    static unsigned char data[MOST];
    pami_send_typed_t send = {.events = {.local_fn = on_sent}};
    size_t bytes = size_of[round % 6];

    if (job.task != 0)
        WAIT(&job, arrived > round);
    test_fill(data, bytes, round, 0);
    memset(fetched, 0, LARGE);
    calls = 0;
    send.send = test_message(job_endpoint(&job, next, 0), ID, NULL, 0, data, bytes);
    send.typed.type = PAMI_TYPE_BYTE;
    send.typed.data_fn = copy_and_start;
    CHECK_OK(TEST_CALL(PAMI_Send_typed(job.context[0], &send)));
    WAIT(&job, sent == round + 1 && calls != 0 && rma_pending == 0 && arrived > round);
    CHECK_SIZE(test_differs(fetched, LARGE, next, 0), LARGE);
}

int main(void)
{
    job_start(&job, "joint_nested", 1);
    rma_open(&job);
    next = (job.task + 1) % job.tasks;
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    fetched = test_alloc(LARGE);
    source = test_alloc(LARGE);
    window = test_alloc(2 * (size_t)LARGE);
    windows = test_alloc(job.tasks * sizeof *windows);
    test_fill(window, LARGE, job.task, 0);
    test_fill(source, LARGE, job.task + 50, 0);
    rma_share(&job, &window, sizeof window, windows);
    for (size_t round = 0; round < ROUNDS; round++)
        exchange(round);
    job_barrier(&job);
    CHECK_SIZE(test_differs(window + LARGE, LARGE, (job.task + job.tasks - 1) % job.tasks + 50, 0),
               LARGE);
    job_barrier(&job);
    rma_close(&job);
    free(fetched), free(source), free(window), free(windows);
    return 0;
}
