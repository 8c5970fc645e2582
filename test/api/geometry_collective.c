/*
 * Geometries that come and go under collectives: one id again and again while slower members are
 * still in the former geometry's last collective, and geometries of all contexts that one context
 * destroys while the others are still busy with them.
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2 timeout=120
 */
#include "coll.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    ROUNDS = 600,
    CONTEXTS = 3,
    THREAD_ROUNDS = 80
};

static struct job job;

/* The root of a broadcast is done before the others have it: stale traffic would be noticed. */
static void rounds(void)
{
    pami_task_t *tasks = test_alloc(job.tasks * sizeof(*tasks));

    for (unsigned round = 0; round < ROUNDS; round++) {
        pami_geometry_t geometry;
        struct told told;
        pami_xfer_t xfer;
        unsigned value[3];

        for (size_t i = 0; i < job.tasks; i++)
            tasks[i] = (pami_task_t)((i + (round % 4 == 3)) % job.tasks);
        create_list(&job, &geometry, NULL, 1, tasks, job.tasks, 0);
        for (unsigned i = 0; i < 2; i++) {
            size_t root = (round + i) % job.tasks;

            memset(value, 0, sizeof(value));
            if (job.task == root)
                value[0] = value[1] = value[2] = round * 2 + i + 1;
            xfer = coll_xfer(algorithm_of(geometry, PAMI_XFER_BROADCAST), &told);
            xfer.cmd.xfer_broadcast = (pami_broadcast_t){.root = job_endpoint(&job, root, 0),
                                                         .buf = (char *)value,
                                                         .type = PAMI_TYPE_UNSIGNED_INT,
                                                         .typecount = 3};
            coll_run(&job, job.context[0], &xfer);
            CHECK(value[0] == round * 2 + i + 1 && value[2] == value[0]);
        }
        if ((round * 7 + job.task * 13) % 197 == 0)
            test_sleep(0.002);
        CHECK_OK(PAMI_Geometry_destroy(job.client, &geometry, job.context[0], NULL, NULL));
    }
    free(tasks);
}

static _Atomic(pami_geometry_t) current;
static atomic_uint round_now, started;

/* Each context by a thread of its own; the first one creates, and destroys when its own barrier is
 * over and all others have begun theirs. */
static void *thread(void *argument)
{
    size_t offset = (size_t)(uintptr_t)argument;
    pami_context_t context = job.context[offset];
    pami_geometry_range_t slice = {0, (pami_task_t)job.tasks - 1};
    pami_geometry_t geometry;

    for (unsigned round = 1; round <= THREAD_ROUNDS; round++) {
        struct told told = {.context = context};
        pami_xfer_t xfer;

        if (offset == 0) {
            WAIT_WITH(test_advance(context, 10), atomic_load(&started) >= (round - 1) * CONTEXTS);
            CHECK_OK(TEST_CALL(PAMI_Geometry_create_taskrange(job.client, PAMI_ALL_CONTEXTS, NULL,
                                                              0, &geometry, NULL, 7, &slice, 1,
                                                              context, on_told, &told)));
            WAIT_WITH(test_advance(context, 10), told.count != 0);
            CHECK(told.result == PAMI_SUCCESS);
            atomic_store(&current, geometry);
            atomic_store(&round_now, round);
        } else {
            WAIT_WITH(test_advance(context, 10), atomic_load(&round_now) == round);
            geometry = atomic_load(&current);
        }
        xfer = coll_xfer(algorithm_of(geometry, PAMI_XFER_BARRIER), &told);
        coll_start(context, &xfer);
        atomic_fetch_add(&started, 1);
        WAIT_WITH(test_advance(context, 10), told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
        if (offset != 0)
            continue;
        WAIT_WITH(test_advance(context, 10), atomic_load(&started) >= round * CONTEXTS);
        CHECK_OK(PAMI_Geometry_destroy(job.client, &geometry, context, NULL, NULL));
    }
    /* Others may still need this context. */
    atomic_fetch_add(&started, 1);
    WAIT_WITH(test_advance(context, 10), atomic_load(&started) >= (THREAD_ROUNDS + 1) * CONTEXTS);
    return NULL;
}

int main(void)
{
    pthread_t threads[CONTEXTS];

    job_start(&job, "geometry collective", CONTEXTS);
    rounds();
    job_barrier(&job);
    for (size_t i = 0; i < CONTEXTS; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < CONTEXTS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    job_finish(&job);
    return 0;
}
