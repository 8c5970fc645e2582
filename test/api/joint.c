/*
 * Large messages, puts and gets between tasks of a node, which both of them may copy: all bytes
 * arrive and none beside them, though a task does not advance for a while, there are more copies at
 * a time than are made jointly, or both tasks have some; and nobody writes once an operation is
 * complete. At the end one of the tasks leaves in the middle. With the argument "heap" all memory
 * is in the shared heap, with "some" what the dice say.
 *
 * Run: tasks=1,2
 * Run: tasks=2,3,5,8 env="PAMI_SHM_JOINT_COPY=on"
 * Run: tasks=3 env="PAMI_SHM_JOINT_COPY=on PAMI_YIELD=never"
 * Run: tasks=2,3 env="PAMI_SHM_JOINT_COPY=on PAMI_SHM_RING_SLOTS=8 PAMI_SHM_LANES=0"
 * Run: tasks=2 env="PAMI_SHM_JOINT_COPY=off"
 * Run: tasks=2,3 args="heap"
 * Run: tasks=2,3 args="heap" env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2,3 args="some" env="PAMI_SHM_JOINT_COPY=on"
 * Run: tasks=2,3 args="some" env="PAMI_SHM_SINGLE_COPY=off"
 */
#include <pami/pamix.h>

#include "rma.h"

enum {
    ID = 1,
    ROUNDS = 12,
    MANY = 14, /* of each kind in a round */
    LEAST = 60000,
    LARGEST = 2500000,
    EDGE = 64
};

struct transfer {
    unsigned char *memory;
    size_t bytes, seed;
    bool receive; /* else a get */
};

static struct job job;
static const char *where = "";
static uint64_t dice;
static struct transfer transfers[2 * MANY];
static size_t count, expected, complete, sent, puts_done;
static unsigned char *source, *window, **windows;

static size_t some_bytes(void)
{
    size_t most = test_random(&dice) % 4 == 0 ? LARGEST : 300000;

    return LEAST + test_random(&dice) % (most - LEAST);
}

static bool is_in_heap(const void *memory)
{
    pamix_heap_view_t view;

    if (PAMIX_Mem_view(job.client, (pami_task_t)job.task, &view) != PAMI_SUCCESS)
        return false;
    return (uintptr_t)memory - view.remote < view.bytes;
}

static void *memory_new(size_t bytes)
{
    void *memory;

    if (*where == '\0' || (strcmp(where, "some") == 0 && test_random(&dice) % 2 == 0))
        return test_alloc(bytes);
    CHECK_OK(PAMIX_Mem_alloc(job.client, bytes, 0, PAMIX_MEM_LOCAL, &memory));
    return memory;
}

static void memory_free(void *memory)
{
    if (is_in_heap(memory))
        CHECK_OK(PAMIX_Mem_free(job.client, memory));
    else
        free(memory);
}

static void *room_for(size_t bytes)
{
    unsigned char *memory = memory_new(bytes + 2 * EDGE);

    memset(memory, 0xc3, bytes + 2 * EDGE);
    return memory;
}

static void on_complete(pami_context_t context, void *cookie, pami_result_t result)
{
    struct transfer *transfer = cookie;
    unsigned char *data = transfer->memory + EDGE;

    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    CHECK_SIZE(test_differs(data, transfer->bytes, transfer->seed, 0), transfer->bytes);
    CHECK(test_all(transfer->memory, EDGE, 0xc3));
    CHECK(test_all(data + transfer->bytes, EDGE, 0xc3));
    memset(transfer->memory, 0xee, transfer->bytes + 2 * EDGE);
    complete++;
}

static struct transfer *transfer_new(size_t bytes, size_t seed)
{
    struct transfer *transfer = &transfers[count++];

    CHECK(count <= 2 * MANY);
    *transfer = (struct transfer){.memory = room_for(bytes), .bytes = bytes, .seed = seed};
    return transfer;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct transfer *transfer = transfer_new(bytes, test_origin(origin));

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data;
    CHECK_CALLBACK();
    CHECK(recv != NULL);
    recv->addr = transfer->memory + EDGE;
    recv->local_fn = on_complete;
    recv->cookie = transfer;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    sent++;
}

static void on_put(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    puts_done++;
}

static void start_get(size_t task, size_t bytes)
{
    struct transfer *transfer = transfer_new(bytes, task);
    pami_get_simple_t get = {
        .rma = {.dest = job_endpoint(&job, task, 0),
                .bytes = bytes,
                .cookie = transfer,
                .done_fn = on_complete},
        .addr = {.local = transfer->memory + EDGE, .remote = windows[task]},
    };

    expected++;
    CHECK_OK(TEST_CALL(PAMI_Get(job.context[0], &get)));
}

static void start_put(size_t task, size_t bytes)
{
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, task, 0), .bytes = bytes},
        .addr = {.local = source, .remote = windows[task] + LARGEST + EDGE},
        .put = {.rdone_fn = on_put},
    };

    CHECK_OK(TEST_CALL(PAMI_Put(job.context[0], &put)));
}

/* Everybody sends to the next task, reads what it offers, and writes beside that. */
static void exchange(size_t round)
{
    size_t next = (job.task + 1) % job.tasks, previous = (job.task + job.tasks - 1) % job.tasks;
    unsigned char *landing = window + LARGEST + EDGE;
    size_t put_bytes = LARGEST - 1000 * (1 + round);

    count = complete = sent = puts_done = 0;
    expected = MANY;
    memset(landing - EDGE, 0xc3, LARGEST + 2 * EDGE);
    job_barrier(&job);
    for (size_t i = 0; i < MANY; i++)
        test_send(job.context[0], job_endpoint(&job, next, 0), ID, NULL, 0, source, some_bytes(),
                  (pami_send_event_t){.remote_fn = on_sent});
    if (round % 2 != 0)
        for (size_t i = 0; i < MANY; i++)
            start_get(next, i % 4 != 0 ? some_bytes() : LARGEST);
    start_put(next, put_bytes);
    if (round % 3 == job.task % 3)
        test_sleep(0.005);
    WAIT(&job, complete == expected && sent == MANY && puts_done == 1);
    job_barrier(&job);
    CHECK_SIZE(test_differs(landing, put_bytes, previous, 0), put_bytes);
    CHECK(test_all(landing - EDGE, EDGE, 0xc3));
    CHECK(test_all(landing + put_bytes, LARGEST + EDGE - put_bytes, 0xc3));
    for (size_t i = 0; i < count; i++) {
        CHECK(test_all(transfers[i].memory, transfers[i].bytes + 2 * EDGE, 0xee));
        memory_free(transfers[i].memory);
    }
}

static void ignore(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
}

/* Task 0 ends while the others read its memory, and while it has invited them. */
static void leave(void)
{
    size_t task = job.task == 0 ? job.tasks - 1 : 0;

    pami_send_t message = {
        .send = test_message(job_endpoint(&job, task, 0), ID + 1, NULL, 0, source, LARGEST),
        .events = {.local_fn = ignore, .remote_fn = ignore},
    };

    for (size_t i = 0; i < MANY; i++)
        PAMI_Send(job.context[0], &message); /* or it has gone already */
    if (job.task != 0)
        job_linger(&job, 0.05);
    else
        test_advance(job.context[0], 3);
}

static void on_last(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    static unsigned char last[LARGEST];

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK_SIZE(bytes, LARGEST);
    recv->addr = last;
    recv->local_fn = ignore;
}

int main(int argc, char **argv)
{
    unsigned char *own[2];

    if (argc > 1)
        where = argv[1];
    job_start(&job, "joint", 1);
    rma_open(&job);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[0], ID + 1, on_last, NULL, test_ordered());
    dice = job.task + 1;
    source = memory_new(LARGEST);
    test_fill(source, LARGEST, job.task, 0);
    window = memory_new(2 * (size_t)LARGEST + 2 * EDGE);
    memcpy(window, source, LARGEST);
    windows = test_alloc(job.tasks * sizeof *windows);
    rma_share(&job, &window, sizeof window, windows);
    for (size_t round = 0; round < ROUNDS; round++)
        exchange(round);
    job_barrier(&job);
    own[0] = is_in_heap(source) ? NULL : source;
    own[1] = is_in_heap(window) ? NULL : window;
    leave();
    job_destroy(&job); /* and the heap */
    free(own[0]);
    free(own[1]);
    free(windows);
    free(rma_board.table[0]);
    free(rma_board.table[1]);
    return 0;
}
