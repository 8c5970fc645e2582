/*
 * Geometries of several contexts per task: whichever contexts are advanced, a creation goes on.
 *
 *   alone     each context has a thread of its own that advances nothing else; one of them creates
 *   one       only `context` is advanced; it is no member on some or all tasks
 *   lists     endpoint lists in which tasks take part with different contexts, and orders
 *   updates   each context in a thread of its own updates one geometry's attributes, queries them,
 *             and runs a collective; members agree where it matters, in the world
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2 timeout=60
 */
#include "coll.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    CONTEXTS = 4,
    ROUNDS = 60
};

static struct job job;
static atomic_bool stop;
static atomic_uint ready;

static void *drive(void *argument)
{
    pami_context_t context = argument;

    while (!atomic_load(&stop))
        test_advance(context, 10);
    return NULL;
}

static void threads_start(pthread_t thread[], size_t except)
{
    atomic_store(&stop, false);
    for (size_t i = 0; i < CONTEXTS; i++)
        if (i != except)
            CHECK(pthread_create(&thread[i], NULL, drive, job.context[i]) == 0);
}

static void threads_join(pthread_t thread[], size_t except)
{
    atomic_store(&stop, true);
    for (size_t i = 0; i < CONTEXTS; i++)
        if (i != except)
            CHECK(pthread_join(thread[i], NULL) == 0);
}

/* fn runs on `context`, whoever received the last message. */
static void all_contexts(size_t creator)
{
    pthread_t thread[CONTEXTS];
    pami_geometry_range_t slice = {0, (pami_task_t)job.tasks - 1};

    threads_start(thread, creator);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct told told = {.context = job.context[creator]};
        pami_geometry_t geometry;

        CHECK_OK(TEST_CALL(PAMI_Geometry_create_taskrange(job.client, PAMI_ALL_CONTEXTS, NULL, 0,
                                                          &geometry, NULL, 7, &slice, 1,
                                                          job.context[creator], on_told, &told)));
        WAIT_WITH(test_advance(job.context[creator], 10), told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
        told.count = 0;
        CHECK_OK(TEST_CALL(
            PAMI_Geometry_destroy(job.client, &geometry, job.context[creator], on_told, &told)));
        WAIT_WITH(test_advance(job.context[creator], 10), told.count != 0);
    }
    threads_join(thread, creator);
}

/* Only `context` is advanced; `offset` of it may be no member on some or on all tasks. */
static void one_context(size_t member_offset, size_t offset)
{
    pami_endpoint_t *list = test_alloc(job.tasks * sizeof(*list));

    for (size_t i = 0; i < job.tasks; i++)
        list[i] = job_endpoint(&job, (i + 1) % job.tasks, member_offset);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct told told = {.context = job.context[offset]};
        pami_geometry_t geometry;

        CHECK_OK(TEST_CALL(PAMI_Geometry_create_endpointlist(job.client, NULL, 0, &geometry, 8,
                                                             list, job.tasks, job.context[offset],
                                                             on_told, &told)));
        WAIT_WITH(test_advance(job.context[offset], 10), told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
        CHECK_OK(PAMI_Geometry_destroy(job.client, &geometry, job.context[offset], NULL, NULL));
    }
    free(list);
}

/* Tasks with 1 .. CONTEXTS endpoints, in an order that is no arithmetic sequence. */
static void lists(void)
{
    pami_endpoint_t *list = test_alloc(job.tasks * CONTEXTS * sizeof(*list));
    pthread_t thread[CONTEXTS];
    size_t count = 0;

    for (size_t offset = 0; offset < CONTEXTS; offset++)
        for (size_t i = 0; i < job.tasks; i++)
            if (offset <= i % CONTEXTS)
                list[count++] = job_endpoint(&job, job.tasks - 1 - i, CONTEXTS - 1 - offset);
    threads_start(thread, CONTEXTS - 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct told told = {.context = job.context[CONTEXTS - 1]};
        pami_geometry_t geometry;

        CHECK_OK(TEST_CALL(PAMI_Geometry_create_endpointlist(
            job.client, NULL, 0, &geometry, 9, list, count, told.context, on_told, &told)));
        WAIT_WITH(test_advance(told.context, 10), told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
        CHECK_OK(PAMI_Geometry_destroy(job.client, &geometry, told.context, NULL, NULL));
    }
    threads_join(thread, CONTEXTS - 1);
    free(list);
}

/* Every thread makes geometries of its own context, all at the same time, with equal lists. */
static void *make_own(void *argument)
{
    size_t offset = (size_t)(uintptr_t)argument;
    pami_context_t context = job.context[offset];
    pami_geometry_range_t slice = {0, (pami_task_t)job.tasks - 1};

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct told told = {.context = context};
        pami_geometry_t geometry;

        CHECK_OK(TEST_CALL(PAMI_Geometry_create_taskrange(job.client, offset, NULL, 0, &geometry,
                                                          NULL, 20 + (unsigned)offset, &slice, 1,
                                                          context, on_told, &told)));
        WAIT_WITH(test_advance(context, 10), told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
        told.count = 0;
        CHECK_OK(TEST_CALL(PAMI_Geometry_destroy(job.client, &geometry, context, on_told, &told)));
        WAIT_WITH(test_advance(context, 10), told.count != 0);
    }
    /* Others may still need this context. */
    atomic_fetch_add(&ready, 1);
    WAIT_WITH(test_advance(context, 10), atomic_load(&ready) == CONTEXTS);
    return NULL;
}

static void each_context(void *(*run)(void *))
{
    pthread_t thread[CONTEXTS];

    for (size_t i = 0; i < CONTEXTS; i++)
        CHECK(pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < CONTEXTS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    ++*(unsigned *)cookie;
}

static pami_geometry_t updated;

static void *update(void *argument)
{
    size_t offset = (size_t)(uintptr_t)argument;
    pami_context_t context = job.context[offset];
    pami_xfer_t xfer = coll_xfer(algorithm_of(updated, PAMI_XFER_BARRIER), NULL);
    unsigned done = 0;

    xfer.cb_done = on_done;
    xfer.cookie = &done;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pami_configuration_t wish = {.name = PAMI_GEOMETRY_OPTIMIZE,
                                     .value.intval = (round + offset) % 2};

        CHECK_OK(TEST_CALL(PAMI_Geometry_update(updated, &wish, 1, context, on_done, &done)));
        CHECK_OK(TEST_CALL(PAMI_Collective(context, &xfer)));
        WAIT_WITH(test_advance(context, 10), done == 2 * round + 2);
        CHECK_OK(PAMI_Geometry_query(updated, &wish, 1));
        CHECK(wish.value.intval < 2);
    }
    return NULL;
}

static void updates(void)
{
    pami_geometry_range_t slice = {0, (pami_task_t)job.tasks - 1};
    struct told told = {.context = job.context[0]};
    pami_geometry_t all;

    CHECK_OK(
        TEST_CALL(PAMI_Geometry_create_taskrange(job.client, PAMI_ALL_CONTEXTS, NULL, 0, &all, NULL,
                                                 7, &slice, 1, job.context[0], on_told, &told)));
    WAIT(&job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
    updated = all;
    each_context(update);
    updated = world_of(&job);
    each_context(update);
    job_barrier(&job);
    destroy_geometry(&job, &all);
}

int main(void)
{
    job_start(&job, "geometry threads", CONTEXTS);
    for (size_t creator = 0; creator < CONTEXTS; creator += CONTEXTS - 1) {
        all_contexts(creator);
        job_barrier(&job);
    }
    one_context(1, 1);
    job_barrier(&job);
    one_context(1, 0);
    job_barrier(&job);
    one_context(2, job.task % 2 ? 2 : 0);
    job_barrier(&job);
    lists();
    job_barrier(&job);
    each_context(make_own);
    job_barrier(&job);
    updates();
    job_finish(&job);
    return 0;
}
