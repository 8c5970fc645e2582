/*
 * Thousands of geometries with a collective in flight on each, and one task that comes late: the
 * results are right, and those who wait do not send questions about all of them again and again,
 * which would hold up what they wait for. What PAMI_STATS says of packets shows it.
 *
 * Run: tasks=3 env="PAMI_STATS=1" timeout=120
 * Run: tasks=3 nodes=3 env="PAMI_STATS=1" timeout=120
 */
#define TEST_LIMIT 60

#include "coll.h"
#include "stats.h"

enum {
    MANY = 3000
};

static struct job job;
static pami_geometry_t geometry[MANY];
static struct told told[MANY];
static long mine[MANY], sum[MANY];

/* Each with its ranks in another order. */
static void create(void)
{
    for (size_t i = 0; i < MANY; i++) {
        pami_task_t tasks[64];

        for (size_t k = 0; k < job.tasks; k++)
            tasks[k] = (pami_task_t)((i + k) % job.tasks);
        begin_list(&job, &geometry[i], NULL, (unsigned)i + 1, tasks, job.tasks, 0, &told[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        WAIT(&job, told[i].count != 0);
        CHECK(told[i].result == PAMI_SUCCESS);
    }
}

static void reduce(void)
{
    for (size_t i = 0; i < MANY; i++) {
        pami_xfer_t xfer = coll_xfer(algorithm_of(geometry[i], PAMI_XFER_ALLREDUCE), &told[i]);

        mine[i] = (long)(i * (job.task + 1));
        xfer.cmd.xfer_allreduce = coll_sum(&mine[i], &sum[i], PAMI_TYPE_SIGNED_LONG, 1);
        coll_start(job.context[0], &xfer);
    }
    for (size_t i = 0; i < MANY; i++) {
        WAIT(&job, told[i].count != 0);
        CHECK(told[i].result == PAMI_SUCCESS);
        CHECK_SIZE((size_t)sum[i], i * job.tasks * (job.tasks + 1) / 2);
    }
}

static void destroy(void)
{
    for (size_t i = 0; i < MANY; i++) {
        told[i] = (struct told){.context = job.context[0]};
        CHECK_OK(
            PAMI_Geometry_destroy(job.client, &geometry[i], job.context[0], on_told, &told[i]));
    }
    for (size_t i = 0; i < MANY; i++)
        WAIT(&job, told[i].count != 0);
}

int main(void)
{
    unsigned long long packets;
    double start;

    job_start(&job, "coll-many", 1);
    create();
    job_barrier(&job);
    start = test_now();
    if (job.task == 1)
        test_sleep(2.0);
    reduce();
    destroy();
    start = test_now() - start;
    packets = stats_at_end(&job, job_finish, "packets sent");
    /* A few for each geometry. A look, ten times a second, asks 2 others about 64 arenas. */
    if (packets > 5 * MANY + 1500 * start)
        FAIL("%llu packets in %.1f s", packets, start);
    return 0;
}
