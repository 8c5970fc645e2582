/*
 * PAMI_Put: any size and alignment, to memory of any kind that nobody has announced, to oneself and
 * to another task, through any of its contexts. done_fn: the source may be used again; rdone_fn,
 * later: all bytes are visible at the target, and nothing beside them was written. Callbacks may be
 * missing. Thousands may be started without advancing. A put that is started when an earlier one is
 * done does not become visible before it.
 *
 * Run: tasks=1,2,3,5,8
 * Run: tasks=2,5 nodes=2
 * Run: tasks=2 args="large"
 * Run: tasks=2 nodes=2 args="large"
 * Run: tasks=2,3 env="PAMI_SHM_SINGLE_COPY=off" args="large"
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_SHM_CHUNK_BYTES=1K PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2,5 env="PAMI_YIELD=always"
 */
#include "rma_rows.h"

enum {
    CONTEXTS = 2,
    MANY = 10240,
    ROUNDS = 50,
    DATA = 40000
};

static struct job job;
static struct rma_rows rows = {RMA_ROWS_ALL - RMA_ROWS_LARGE};
static struct rma ops[2 * RMA_ROWS_ALL];
static size_t next, previous;

/* Everybody writes into windows of its neighbour and of its own, from a buffer that is spoiled as
 * soon as done_fn has said that it may. */
static void every_size(enum rma_memory kind, void *stack)
{
    size_t i, room = rma_rows_room(&rows);
    unsigned char *window = rma_memory(&job, kind, 2 * room, stack);
    unsigned char *source = test_alloc(2 * room), *mine = window;
    unsigned char **all = test_alloc(job.tasks * sizeof *all);

    rma_rows_clear(&rows, window);
    rma_rows_clear(&rows, window + room);
    rma_rows_fill(&rows, source, job.task);
    memcpy(source + room, source, room);
    rma_share(&job, &mine, sizeof mine, all);
    for (i = 0; i < 2 * rows.count; i++) {
        size_t row = i / 2, task = i % 2 ? job.task : next;
        size_t at = rma_rows_at(row) + (i % 2 ? room : 0);

        ops[i] = (struct rma){.spoil = source + at, .spoil_bytes = rma_rows_bytes[row]};
        rma_put(&ops[i], job.context[0], job_endpoint(&job, task, i % CONTEXTS), source + at,
                all[task] + at, rma_rows_bytes[row]);
    }
    rma_wait(&job);
    rma_rows_verify(&rows, window + room, job.task, rma_memory_name[kind]);
    job_barrier(&job);
    rma_rows_verify(&rows, window, previous, rma_memory_name[kind]);
    job_barrier(&job);
    free(source);
    free(all);
    rma_memory_free(&job, kind, window, 2 * room);
}

/* A source that cannot be written to; a structure on the stack; every context to every context. */
static void every_context(void)
{
    static const char constant[] = "constants are not writable, and may be sent as they are";
    char window[CONTEXTS][CONTEXTS][sizeof constant], *mine = window[0][0];
    char **all = test_alloc(job.tasks * sizeof *all);
    struct rma op[CONTEXTS * CONTEXTS] = {0};

    memset(window, 0, sizeof window);
    rma_share(&job, &mine, sizeof mine, all);
    for (size_t i = 0; i < CONTEXTS * CONTEXTS; i++)
        rma_put(&op[i], job.context[i / CONTEXTS], job_endpoint(&job, next, i % CONTEXTS), constant,
                all[next] + i * sizeof constant, sizeof constant);
    rma_wait(&job);
    job_barrier(&job);
    for (size_t i = 0; i < CONTEXTS * CONTEXTS; i++)
        CHECK(memcmp(window[i / CONTEXTS][i % CONTEXTS], constant, sizeof constant) == 0);
    job_barrier(&job);
    free(all);
}

/* Nothing to move: any address will do, and the callbacks come all the same. */
static void nothing(void)
{
    struct rma op[4] = {0};

    for (size_t i = 0; i < 4; i++)
        rma_put(&op[i], job.context[i % CONTEXTS], job_endpoint(&job, i / 2 ? next : job.task, 0),
                i % 2 ? NULL : (void *)8, i % 2 ? (void *)-1L : NULL, 0);
    rma_wait(&job);
    for (size_t i = 0; i < 4; i++)
        CHECK(op[i].done == 1 && op[i].rdone == 1);
    job_barrier(&job);
}

/* Without done_fn, without rdone_fn, without both: the data come, and nobody says so. */
static void without_callbacks(void)
{
    static unsigned char source[DATA], window[3 * DATA];
    unsigned char *mine = window, **all = test_alloc(job.tasks * sizeof *all);

    for (size_t bytes = 8; bytes <= DATA; bytes *= 50) {
        struct rma op[3] = {
            {.quiet_done = true}, {.quiet_rdone = true}, {.quiet_done = true, .quiet_rdone = true}};

        memset(window, 0, sizeof window);
        test_fill(source, bytes, job.task, 0);
        rma_share(&job, &mine, sizeof mine, all);
        for (size_t i = 0; i < 3; i++)
            rma_put(&op[i], job.context[0], job_endpoint(&job, next, 0), source,
                    all[next] + i * DATA, bytes);
        rma_wait(&job);
        for (size_t i = 0; i < 3; i++)
            WAIT(&job, test_differs(window + i * DATA, bytes, previous, 0) == bytes);
        job_barrier(&job);
        CHECK(op[0].rdone == 1 && op[1].done == 1 && op[2].done == 0 && op[2].rdone == 0);
    }
    free(all);
}

/* Two windows in turn, so that a reader is never behind the next but one. */
struct box {
    unsigned char data[2][DATA];
    volatile uint64_t flag, seen;
};

/* Data, and when they are done a flag: who sees the flag sees the data. */
static void in_order(void)
{
    static struct box box;
    static unsigned char source[DATA];
    static uint64_t number, acknowledged;
    struct box *mine = &box, **all = test_alloc(job.tasks * sizeof *all);
    pami_endpoint_t to = job_endpoint(&job, next, 0), back = job_endpoint(&job, previous, 0);

    rma_share(&job, &mine, sizeof mine, all);
    for (size_t i = 1; i <= ROUNDS; i++) {
        size_t bytes = i % 3 == 0 ? DATA : i % 3 == 1 ? 8 : 1000;
        struct rma data = {.spoil = source, .spoil_bytes = bytes}, flag = {0}, seen = {0};

        WAIT(&job, box.seen + 2 > i);
        test_fill(source, bytes, i, 0);
        rma_put(&data, job.context[0], to, source, all[next]->data[i % 2], bytes);
        WAIT(&job, data.done == 1);
        number = i;
        rma_put(&flag, job.context[0], to, &number, (void *)&all[next]->flag, sizeof number);
        WAIT(&job, box.flag >= i);
        CHECK_SIZE(test_differs(box.data[i % 2], bytes, i, 0), bytes);
        acknowledged = i;
        rma_put(&seen, job.context[0], back, &acknowledged, (void *)&all[previous]->seen,
                sizeof acknowledged);
        rma_wait(&job);
    }
    job_barrier(&job);
    free(all);
}

/* Thousands at once, and no advance until all have been started. */
static void many(void)
{
    static uint64_t source[MANY], window[MANY];
    uint64_t *mine = window, **all = test_alloc(job.tasks * sizeof *all);
    struct rma *op = test_zalloc(MANY * sizeof *op);

    memset(window, 0, sizeof window);
    rma_share(&job, &mine, sizeof mine, all);
    for (size_t i = 0; i < MANY; i++) {
        source[i] = i * 77 + job.task;
        op[i].spoil = &source[i];
        op[i].spoil_bytes = sizeof source[i];
        rma_put(&op[i], job.context[0], job_endpoint(&job, next, 0), &source[i], &all[next][i],
                sizeof source[i]);
    }
    rma_wait(&job);
    job_barrier(&job);
    for (size_t i = 0; i < MANY; i++)
        CHECK(window[i] == i * 77 + previous);
    job_barrier(&job);
    free(op);
    free(all);
}

/* In one's own memory: onto itself, and into the other half of a buffer. */
static void alone(void)
{
    static unsigned char buffer[2 * DATA];
    struct rma op[2] = {0};
    pami_endpoint_t self = job_endpoint(&job, job.task, 0);

    test_fill(buffer, DATA, 5, 0);
    rma_put(&op[0], job.context[0], self, buffer, buffer, DATA);
    rma_put(&op[1], job.context[1], self, buffer, buffer + DATA, DATA);
    rma_wait(&job);
    CHECK_SIZE(test_differs(buffer, DATA, 5, 0), DATA);
    CHECK_SIZE(test_differs(buffer + DATA, DATA, 5, 0), DATA);
}

int main(int argc, char **argv)
{
    unsigned char stack[RMA_ROWS_STATIC];

    job_start(&job, "put", CONTEXTS);
    rma_open(&job);
    next = (job.task + 1) % job.tasks;
    previous = (job.task + job.tasks - 1) % job.tasks;
    if (argc > 1 && strcmp(argv[1], "large") == 0) {
        rows.count = RMA_ROWS_ALL;
        every_size(RMA_MEMORY_HEAP, NULL);
        every_size(RMA_MEMORY_NODE, NULL);
    } else {
        for (int kind = 0; kind < RMA_MEMORY_KINDS; kind++)
            every_size((enum rma_memory)kind, stack);
        every_context();
        nothing();
        without_callbacks();
        in_order();
        many();
        alone();
    }
    rma_close(&job);
    return 0;
}
