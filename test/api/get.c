/*
 * PAMI_Get: any size and alignment, from memory of any kind that nobody has announced, read-only
 * memory too, of oneself and of another task, through any of its contexts. done_fn: the data are in
 * the local buffer, and nothing beside them was written. Thousands may be started without
 * advancing.
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
    DATA = 40000
};

static struct job job;
static struct rma_rows rows = {RMA_ROWS_ALL - RMA_ROWS_LARGE};
static struct rma ops[2 * RMA_ROWS_ALL];
static size_t next;

/* Everybody reads the window of its neighbour and its own. */
static void every_size(enum rma_memory kind, void *stack)
{
    size_t i, room = rma_rows_room(&rows);
    unsigned char *window = rma_memory(&job, kind, room, stack);
    unsigned char *target = test_alloc(2 * room), *mine = window;
    unsigned char **all = test_alloc(job.tasks * sizeof *all);

    rma_rows_fill(&rows, window, job.task);
    if (kind == RMA_MEMORY_MAPPED) /* who may be read need not be writable */
        CHECK(mprotect(window, room, PROT_READ) == 0);
    rma_rows_clear(&rows, target);
    rma_rows_clear(&rows, target + room);
    rma_share(&job, &mine, sizeof mine, all);
    for (i = 0; i < 2 * rows.count; i++) {
        size_t task = i % 2 ? job.task : next, at = rma_rows_at(i / 2);

        ops[i] = (struct rma){0};
        rma_get(&ops[i], job.context[0], job_endpoint(&job, task, i % CONTEXTS),
                target + (i % 2 ? room : 0) + at, all[task] + at, rma_rows_bytes[i / 2]);
    }
    rma_wait(&job);
    rma_rows_verify(&rows, target, next, rma_memory_name[kind]);
    rma_rows_verify(&rows, target + room, job.task, rma_memory_name[kind]);
    job_barrier(&job);
    rma_rows_verify(&rows, window, job.task, "the source");
    free(target);
    free(all);
    rma_memory_free(&job, kind, window, room);
}

/* Constants are where the program was loaded, which is not the same address everywhere. */
static void every_context(void)
{
    static const char constant[] = "the same text in all tasks";
    const char *mine = constant, **all = test_alloc(job.tasks * sizeof *all);
    char got[CONTEXTS * CONTEXTS][sizeof constant];
    struct rma op[CONTEXTS * CONTEXTS] = {0};

    rma_share(&job, &mine, sizeof mine, all);
    for (size_t i = 0; i < CONTEXTS * CONTEXTS; i++)
        rma_get(&op[i], job.context[i / CONTEXTS], job_endpoint(&job, next, i % CONTEXTS), got[i],
                all[next], sizeof constant);
    rma_wait(&job);
    for (size_t i = 0; i < CONTEXTS * CONTEXTS; i++)
        CHECK(memcmp(got[i], constant, sizeof constant) == 0);
    job_barrier(&job);
    free(all);
}

static void nothing(void)
{
    struct rma op[4] = {0};

    for (size_t i = 0; i < 4; i++)
        rma_get(&op[i], job.context[i % CONTEXTS], job_endpoint(&job, i / 2 ? next : job.task, 0),
                i % 2 ? NULL : (void *)8, i % 2 ? (void *)-1L : NULL, 0);
    rma_wait(&job);
    for (size_t i = 0; i < 4; i++)
        CHECK(op[i].done == 1);
    job_barrier(&job);
}

/* Nobody says that the data have come; they do. */
static void without_callback(void)
{
    static unsigned char source[DATA], target[DATA];
    unsigned char *mine = source, **all = test_alloc(job.tasks * sizeof *all);

    test_fill(source, DATA, job.task, 0);
    rma_share(&job, &mine, sizeof mine, all);
    for (size_t bytes = 8; bytes <= DATA; bytes *= 50) {
        struct rma op = {.quiet_done = true};

        memset(target, 0, sizeof target);
        rma_get(&op, job.context[0], job_endpoint(&job, next, 0), target, all[next], bytes);
        WAIT(&job, test_differs(target, bytes, next, 0) == bytes);
        CHECK(test_all(target + bytes, DATA - bytes, 0));
    }
    job_barrier(&job);
    free(all);
}

static void many(void)
{
    static uint64_t source[MANY], target[MANY];
    uint64_t *mine = source, **all = test_alloc(job.tasks * sizeof *all);
    struct rma *op = test_zalloc(MANY * sizeof *op);

    for (size_t i = 0; i < MANY; i++)
        source[i] = i * 77 + job.task;
    rma_share(&job, &mine, sizeof mine, all);
    for (size_t i = 0; i < MANY; i++)
        rma_get(&op[i], job.context[0], job_endpoint(&job, next, 0), &target[i], &all[next][i],
                sizeof target[i]);
    rma_wait(&job);
    for (size_t i = 0; i < MANY; i++)
        CHECK(target[i] == i * 77 + next);
    job_barrier(&job);
    free(op);
    free(all);
}

/* What was put can be got, by the task that put it and by others. */
static void after_put(void)
{
    static uint64_t window[2];
    uint64_t *mine = window, **all = test_alloc(job.tasks * sizeof *all), value, got[2];
    struct rma put = {0}, get[2] = {0};

    memset(window, 0, sizeof window);
    rma_share(&job, &mine, sizeof mine, all);
    value = 1000 + job.task;
    rma_put(&put, job.context[0], job_endpoint(&job, next, 0), &value, &all[next][0], 8);
    rma_wait(&job);
    rma_get(&get[0], job.context[1], job_endpoint(&job, next, 1), &got[0], &all[next][0], 8);
    rma_wait(&job);
    CHECK(got[0] == value);
    job_barrier(&job);
    rma_get(&get[1], job.context[1], job_endpoint(&job, 0, 0), &got[1], &all[0][0], 8);
    rma_wait(&job);
    CHECK(got[1] == 1000 + job.tasks - 1);
    job_barrier(&job);
    free(all);
}

int main(int argc, char **argv)
{
    unsigned char stack[RMA_ROWS_STATIC];

    job_start(&job, "get", CONTEXTS);
    rma_open(&job);
    next = (job.task + 1) % job.tasks;
    if (argc > 1 && strcmp(argv[1], "large") == 0) {
        rows.count = RMA_ROWS_ALL;
        every_size(RMA_MEMORY_HEAP, NULL);
        every_size(RMA_MEMORY_NODE, NULL);
    } else {
        for (int kind = 0; kind < RMA_MEMORY_KINDS; kind++)
            every_size((enum rma_memory)kind, stack);
        every_context();
        nothing();
        without_callback();
        many();
        after_put();
    }
    rma_close(&job);
    return 0;
}
