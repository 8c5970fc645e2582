/*
 * Ids are registered again while messages for them are on their way, with other hints and from
 * inside the functions they were registered with: nothing is lost, and all messages between two
 * endpoints stay in order, whatever id and call they were sent by.
 *
 * Run: tasks=1,2,5
 * Run: tasks=3 nodes=2
 * Run: tasks=3 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0"
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 */
#include "api_test.h"

enum {
    CONTEXTS = 2,
    IDS = 6,
    MESSAGES = 400, /* of each task */
    TASKS_MAX = 5,
    BYTES_MAX = 100000
};

struct header {
    size_t number; /* among the messages of this pair of endpoints */
    size_t bytes;
};

struct message {
    struct header header;
    char *data;
};

struct arrival {
    size_t number, bytes;
    char *data;
};

static struct job job;
static uint64_t seed;
static size_t next_number[CONTEXTS][TASKS_MAX][CONTEXTS]; /* mine, origin's task and offset */
static size_t sent_number[CONTEXTS][TASKS_MAX][CONTEXTS];
static size_t expected, arrived, outstanding;

static void set_anew(pami_context_t context);

static void on_data(pami_context_t context, void *cookie, pami_result_t result)
{
    struct arrival *arrival = cookie;

    (void)context;
    CHECK(result == PAMI_SUCCESS);
    CHECK_SIZE(test_differs(arrival->data, arrival->bytes, arrival->number, 0), arrival->bytes);
    free(arrival->data);
    free(arrival);
    arrived++;
}

static void on_message(pami_context_t context, void *cookie, const void *header_address,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct arrival *arrival = test_alloc(sizeof *arrival);
    struct header header;
    pami_task_t task;
    size_t offset, mine = context == job.context[1];

    CHECK_CALLBACK();
    CHECK(cookie == context);
    CHECK((data == NULL) != (recv == NULL));
    CHECK_SIZE(header_bytes, sizeof header);
    memcpy(&header, header_address, sizeof header);
    CHECK_SIZE(bytes, header.bytes);
    CHECK_OK(PAMI_Endpoint_query(origin, &task, &offset));
    CHECK_SIZE(header.number, next_number[mine][task][offset]);
    next_number[mine][task][offset]++;
    arrival->number = header.number;
    arrival->bytes = bytes;
    arrival->data = test_alloc(bytes);
    set_anew(context);
    if (recv == NULL) {
        if (bytes != 0)
            memcpy(arrival->data, data, bytes);
        on_data(context, arrival, PAMI_SUCCESS);
        return;
    }
    recv->addr = arrival->data;
    recv->local_fn = on_data;
    recv->cookie = arrival;
}

static unsigned any_hint(void)
{
    return (unsigned)(test_random(&seed) % 3);
}

/* One id or another, with hints that leave the receiver free to say where the data goes. */
static void set_anew(pami_context_t context)
{
    pami_dispatch_hint_t hints = test_ordered();

    hints.multicontext = any_hint();
    hints.use_rdma = any_hint();
    hints.use_shmem = test_random(&seed) % 2 ? PAMI_HINT_DISABLE : PAMI_HINT_DEFAULT;
    hints.recv_immediate = test_random(&seed) % 2 ? PAMI_HINT_DISABLE : PAMI_HINT_DEFAULT;
    hints.recv_copy = any_hint();
    hints.recv_contiguous = any_hint();
    test_dispatch(context, test_random(&seed) % IDS, on_message, context, hints);
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    struct message *message = cookie;

    (void)context;
    CHECK(result == PAMI_SUCCESS);
    free(message->data);
    free(message);
    outstanding--;
}

static void send_one(void)
{
    static const size_t sizes[] = {0, 8, 495, 496, 497, 4000, 8000, 30000, BYTES_MAX};
    struct message *message = test_alloc(sizeof *message);
    size_t mine = test_random(&seed) % CONTEXTS, theirs = test_random(&seed) % CONTEXTS;
    size_t task = test_random(&seed) % job.tasks, id = test_random(&seed) % IDS;
    pami_endpoint_t dest = job_endpoint(&job, task, theirs);
    struct header *header = &message->header;
    pami_send_typed_t typed = {.events = {message, on_sent, NULL}};

    header->number = sent_number[mine][task][theirs]++;
    header->bytes = sizes[test_random(&seed) % (sizeof sizes / sizeof sizes[0])];
    message->data = test_alloc(header->bytes);
    test_fill(message->data, header->bytes, header->number, 0);
    outstanding++;
    switch (header->bytes <= 8000 ? test_random(&seed) % 3 : 1 + test_random(&seed) % 2) {
    case 0:
        test_send_immediate(job.context[mine], dest, id, header, sizeof *header, message->data,
                            header->bytes);
        on_sent(job.context[mine], message, PAMI_SUCCESS);
        break;
    case 1:
        test_send(job.context[mine], dest, id, header, sizeof *header, message->data, header->bytes,
                  typed.events);
        break;
    default:
        typed.send = test_message(dest, id, header, sizeof *header, message->data, header->bytes);
        typed.typed.type = PAMI_TYPE_BYTE;
        CHECK_OK(TEST_CALL(PAMI_Send_typed(job.context[mine], &typed)));
    }
}

/* How many messages go from each endpoint to mine, told by each task to each. */
static void on_count(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t count, *tellers = cookie;

    (void)context, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_SIZE(header_bytes, sizeof count);
    memcpy(&count, header, sizeof count);
    expected += count;
    ++*tellers;
}

int main(void)
{
    size_t i, task, tellers = 0, count;

    job_start(&job, "dispatch_change", CONTEXTS);
    CHECK(job.tasks <= TASKS_MAX);
    seed = job.task;
    for (i = 0; i < CONTEXTS * IDS; i++)
        test_dispatch(job.context[i % CONTEXTS], i / CONTEXTS, on_message,
                      job.context[i % CONTEXTS], test_ordered());
    test_dispatch(job.context[0], IDS, on_count, &tellers, test_ordered());
    job_barrier(&job);
    for (i = 0; i < MESSAGES; i++) {
        send_one();
        set_anew(job.context[i % CONTEXTS]);
        if (i % 4 == 0)
            job_advance(&job);
    }
    for (task = 0; task < job.tasks; task++) {
        for (i = count = 0; i < CONTEXTS * CONTEXTS; i++)
            count += sent_number[i / CONTEXTS][task][i % CONTEXTS];
        test_send_immediate(job.context[0], job_endpoint(&job, task, 0), IDS, &count, sizeof count,
                            NULL, 0);
    }
    WAIT(&job, tellers == job.tasks && arrived == expected && outstanding == 0);
    job_barrier(&job);
    CHECK_SIZE(arrived, expected);
    job_finish(&job);
    return 0;
}
