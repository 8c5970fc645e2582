/*
 * Every context of every task is a member and has a thread of its own, which looks up algorithms,
 * runs collectives on it and advances nothing else.
 *
 * Run: tasks=1,2,3 nodes=1,2 timeout=120
 */
#include <pthread.h>

#include "coll.h"

enum {
    CONTEXTS = 3,
    ROUNDS = 60,
    INTS = 3000
};

static struct job job;
static pami_geometry_t everybody;

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    *(int *)cookie = 1;
}

static void run(pami_context_t context, pami_xfer_t *xfer, int *done)
{
    double end = test_now() + test_limit();

    *done = 0;
    xfer->cb_done = on_done;
    xfer->cookie = done;
    CHECK_OK(PAMI_Collective(context, xfer));
    while (!*done) {
        test_advance(context, 100);
        if (test_now() > end)
            FAIL("a collective does not end");
    }
}

static void allreduce(pami_context_t context, pami_algorithm_t algorithm, int members, int round)
{
    int done, *mine = test_alloc(INTS * sizeof(int)), *sum = test_alloc(INTS * sizeof(int));
    int count = round % 3 == 0 ? 1 : INTS;
    pami_xfer_t xfer = coll_xfer(algorithm, NULL);

    for (int i = 0; i < count; i++)
        mine[i] = i + round;
    xfer.cmd.xfer_allreduce = coll_sum(mine, sum, PAMI_TYPE_SIGNED_INT, (size_t)count);
    run(context, &xfer, &done);
    for (int i = 0; i < count; i++)
        CHECK(sum[i] == members * (i + round));
    free(mine);
    free(sum);
}

static void *drive(void *arg)
{
    size_t offset = (size_t)arg;
    pami_context_t context = job.context[offset];
    int members = (int)(job.tasks * CONTEXTS);

    for (int round = 0; round < ROUNDS; round++) {
        struct algorithms all = algorithms_of(everybody, PAMI_XFER_ALLREDUCE);
        pami_xfer_t xfer = coll_xfer(algorithm_of(everybody, PAMI_XFER_BROADCAST), NULL);
        size_t root = (size_t)round % job.tasks;
        int done, value = root == job.task && offset == 1 ? round : -1;

        allreduce(context, all.handle[0][(size_t)round % all.count[0]], members, round);
        xfer.cmd.xfer_broadcast = (pami_broadcast_t){job_endpoint(&job, root, 1), (char *)&value,
                                                     PAMI_TYPE_SIGNED_INT, 1};
        run(context, &xfer, &done);
        CHECK(value == round);
        xfer = coll_xfer(algorithm_of(everybody, PAMI_XFER_BARRIER), NULL);
        run(context, &xfer, &done);
        algorithms_free(&all);
    }
    return NULL;
}

int main(void)
{
    pami_geometry_range_t range;
    struct told told;
    pthread_t thread[CONTEXTS];

    job_start(&job, "coll-threads", CONTEXTS);
    range = (pami_geometry_range_t){0, (pami_task_t)job.tasks - 1};
    told = (struct told){.context = job.context[0]};
    CHECK_OK(PAMI_Geometry_create_taskrange(job.client, PAMI_ALL_CONTEXTS, NULL, 0, &everybody,
                                            NULL, 3, &range, 1, job.context[0], on_told, &told));
    WAIT(&job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
    for (size_t i = 0; i < CONTEXTS; i++)
        CHECK(pthread_create(&thread[i], NULL, drive, (void *)i) == 0);
    for (size_t i = 0; i < CONTEXTS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    destroy_geometry(&job, &everybody);
    job_finish(&job);
    return 0;
}
