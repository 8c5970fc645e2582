/*
 * Several threads, each with a context of its own and nothing else: puts, gets, typed transfers,
 * regions and fences to all contexts of all tasks at once. A context makes progress by advancing it
 * alone, and its callbacks run on the thread that does so.
 *
 * Run: tasks=1,2,3
 * Run: tasks=2 args="6"
 * Run: tasks=4 nodes=2
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 */
#include "rma_layouts.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    THREADS_MAX = 8,
    ROUNDS = 40,
    BYTES = 6000
};

struct slot {
    unsigned char data[BYTES];
};

static struct job job;
static size_t threads = 3;
static struct slot **window;            /* of all tasks: [origin task * threads + origin thread] */
static pami_memregion_t *window_region; /* the same as regions */
static atomic_size_t finished;
static pami_type_t every_other;

static void advance_own(size_t thread)
{
    test_advance(job.context[thread], 20);
}

static void own_wait(size_t thread)
{
    WAIT_WITH(advance_own(thread), rma_pending == 0);
}

/* Whole, every other word, and through regions; then back. */
static void one_round(size_t thread, size_t task, size_t round, struct slot *source,
                      struct slot *back)
{
    size_t me = job.task * threads + thread, bytes = 1 + (round * 977 + thread) % BYTES;
    pami_context_t context = job.context[thread];
    pami_endpoint_t to = job_endpoint(&job, task, round % threads);
    struct slot *remote = window[task] + me;
    pami_memregion_t region;
    struct rma put = {0}, get = {0};

    test_fill(source, bytes, me + round, 0);
    memset(back, 0, sizeof *back);
    if (round % 3 == 0) {
        rma_put(&put, context, to, source, remote, bytes);
        own_wait(thread);
        rma_get(&get, context, to, back, remote, bytes);
    } else if (round % 3 == 1) {
        bytes = bytes / 2 + 1;
        rma_put_typed(&put, context, to, (pami_rma_addr_t){source, remote},
                      (pami_rma_typed_t){PAMI_TYPE_BYTE, every_other}, bytes);
        own_wait(thread);
        rma_get_typed(&get, context, to, (pami_rma_addr_t){back, remote},
                      (pami_rma_typed_t){PAMI_TYPE_BYTE, every_other}, bytes);
    } else {
        bool fenced = false;

        put.quiet_done = put.quiet_rdone = true;
        rma_region(context, source, sizeof *source, &region);
        rma_rput(&put, context, to, (pami_rma_mr_t){&region, 0},
                 (pami_rma_mr_t){&window_region[task], me * sizeof *source}, bytes);
        CHECK_OK(TEST_CALL(PAMI_Fence_endpoint(context, rma_on_fence, &fenced, to)));
        WAIT_WITH(advance_own(thread), fenced);
        CHECK_OK(PAMI_Memregion_destroy(context, &region));
        rma_get(&get, context, to, back, remote, bytes);
    }
    own_wait(thread);
    CHECK_SIZE(test_differs(back, bytes, me + round, 0), bytes);
}

static void *work(void *argument)
{
    size_t thread = (size_t)(uintptr_t)argument;
    struct slot *source = test_alloc(sizeof *source), *back = test_alloc(sizeof *back);

    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t task = 0; task < job.tasks; task++)
            one_round(thread, task, round, source, back);
    free(source);
    free(back);
    /* Others may still need this task. */
    atomic_fetch_add(&finished, 1);
    if (thread != 0)
        WAIT_WITH(advance_own(thread), atomic_load(&finished) == threads + 1);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[THREADS_MAX];
    struct slot *mine;
    pami_memregion_t region;

    if (argc > 1)
        threads = strtoul(argv[1], NULL, 10);
    job_start(&job, "rma_threads", threads);
    rma_open(&job);
    CHECK_OK(PAMI_Type_create(&every_other));
    CHECK_OK(PAMI_Type_add_simple(every_other, 4, 0, 2, 8));
    CHECK_OK(PAMI_Type_complete(every_other, 1));
    mine = test_zalloc(job.tasks * threads * sizeof *mine);
    window = test_alloc(job.tasks * sizeof *window);
    window_region = test_alloc(job.tasks * sizeof *window_region);
    rma_region(job.context[0], mine, job.tasks * threads * sizeof *mine, &region);
    rma_share(&job, &mine, sizeof mine, window);
    rma_share(&job, &region, sizeof region, window_region);
    job.driven = 1;
    for (size_t i = 1; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i) == 0);
    work(NULL);
    WAIT(&job, atomic_load(&finished) == threads);
    job_barrier(&job); /* all threads of all tasks have finished */
    atomic_fetch_add(&finished, 1);
    for (size_t i = 1; i < threads; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    job.driven = threads;
    CHECK_OK(PAMI_Memregion_destroy(job.context[0], &region));
    CHECK_OK(PAMI_Type_destroy(&every_other));
    rma_close(&job);
    free(mine), free(window), free(window_region);
    return 0;
}
