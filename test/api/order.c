/*
 * Per pair of endpoints, dispatches run in the order of sending: across ids, across the three ways
 * to send, across sizes and protocols, for two contexts of every task at once.
 *
 * Run: tasks=1,2,3,8 args="1"
 * Run: tasks=4 nodes=2,4 args="2"
 * Run: tasks=3 args="3" env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=3 args="4" env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=3 args="5" env="PAMI_RNDV_BYTES=0"
 * Run: tasks=2 args="6" env="PAMI_RNDV_BYTES=2000 PAMI_YIELD=always"
 * Run: tasks=2 args="7" env="PAMI_RNDV_BYTES=1G PAMI_SHM_CHUNK_BYTES=1K PAMI_SHM_CHUNKS=3"
 */
#include "api_test.h"

enum {
    FIRST_ID = 1,
    IDS = 8,
    CONTEXTS = 2,
    TASKS_MAX = 16,
    MESSAGES = 400, /* from each context to each */
    LARGEST = 140000
};

static struct job job;
static unsigned char *source;
static size_t next_number[CONTEXTS][TASKS_MAX * CONTEXTS]; /* per receiving and sending context */
static size_t dispatched, landed;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    free(cookie);
    landed++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    size_t offset, number, to = context == job.context[1];
    pami_task_t task;

    CHECK_CALLBACK();
    (void)cookie, (void)data;
    CHECK_OK(PAMI_Endpoint_query(origin, &task, &offset));
    CHECK(header_bytes >= sizeof number);
    memcpy(&number, header, sizeof number);
    if (number != next_number[to][task * CONTEXTS + offset])
        FAIL("from context %zu of task %u: message %zu (%zu + %zu bytes) comes instead of %zu",
             offset, task, number, header_bytes, bytes, next_number[to][task * CONTEXTS + offset]);
    next_number[to][task * CONTEXTS + offset]++;
    dispatched++;
    if (recv == NULL) {
        landed++;
        return;
    }
    recv->addr = recv->cookie = test_alloc(bytes);
    recv->local_fn = on_landed;
}

static void send_one(size_t from, pami_endpoint_t dest, size_t number, uint64_t *random)
{
    static const size_t limits[] = {0, 0, 64, 500, 600, 3000, 9000, 40000, LARGEST};
    uint64_t dice = test_random(random);
    size_t limit = limits[dice % 9], bytes = limit ? (dice >> 8) % limit : 0;
    size_t header = 8 + ((dice >> 40) % 16 == 0 ? (dice >> 44) % 4000 : 0);
    size_t id = FIRST_ID + (dice >> 32) % IDS, way = (dice >> 36) % 3;
    unsigned char text[4096] = {0};
    pami_send_typed_t send = {.typed.type = PAMI_TYPE_DOUBLE, .typed.offset = 8};
    pami_send_event_t none = {0};

    memcpy(text, &number, sizeof number);
    if (way == 0 && header + bytes <= 8192) {
        test_send_immediate(job.context[from], dest, id, text, header, source, bytes);
    } else if (way == 1) {
        send.send = test_message(dest, id, text, header, source, bytes / 8 * 8);
        CHECK_OK(TEST_CALL(PAMI_Send_typed(job.context[from], &send)));
    } else {
        test_send(job.context[from], dest, id, text, header, source, bytes, none);
    }
}

int main(int argc, char **argv)
{
    uint64_t random = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    size_t i, task, number, from, to;

    source = test_zalloc(LARGEST + 64);
    job_start(&job, "order", CONTEXTS);
    CHECK(job.tasks <= TASKS_MAX);
    random += job.task * 1000;
    for (i = 0; i < CONTEXTS; i++)
        for (number = 0; number < IDS; number++)
            test_dispatch(job.context[i], FIRST_ID + number, on_message, NULL, test_ordered());
    job_barrier(&job);
    for (number = 0; number < MESSAGES; number++) {
        for (task = 0; task < job.tasks; task++)
            for (from = 0; from < CONTEXTS; from++)
                for (to = 0; to < CONTEXTS; to++)
                    send_one(from, job_endpoint(&job, task, to), number, &random);
        if (test_random(&random) % 8 == 0)
            job_advance(&job);
        /* Some memory must be left for the messages of the others. */
        WAIT(&job, dispatched + 16 * job.tasks * CONTEXTS * CONTEXTS >=
                       number * job.tasks * CONTEXTS * CONTEXTS);
    }
    WAIT(&job, landed == MESSAGES * job.tasks * CONTEXTS * CONTEXTS);
    CHECK(dispatched == landed);
    job_finish(&job);
    free(source);
    return 0;
}
