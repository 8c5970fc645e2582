/*
 * One task after the other ends while all run collectives of any algorithm. Who gets an error
 * destroys the geometry and creates one without the task, at once: others may have their error one
 * collective later, and wait in that for somebody who is creating already.
 *
 *     coll_again [--seed N]
 *
 * Run: tasks=8 nodes=1,2 timeout=60
 * Run: tasks=6 nodes=3 args="--seed 2" timeout=60
 * Run: tasks=8 args="--seed 3" env="PAMI_COLL_SHARED_BYTES=0" timeout=60
 */
#include "api/coll.h"

enum {
    INTS = 4000,
    TASKS_MAX = 64
};

static struct job job;
static uint64_t seed = 1;
static int ints[INTS], all_ints[TASKS_MAX * INTS];

/* What all do as the i-th of a round with so many members. */
static void set_arguments(pami_xfer_t *xfer, pami_geometry_t geometry, size_t members, uint64_t i)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_BROADCAST, PAMI_XFER_BROADCAST,
                                             PAMI_XFER_SCATTER, PAMI_XFER_ALLREDUCE};
    uint64_t dice = (seed * TASKS_MAX + members) * 1000003 + i;
    pami_xfer_type_t type = types[test_random(&dice) % 4];
    size_t n = test_random(&dice) % 3 == 0 ? INTS : 4;
    pami_endpoint_t root = job_endpoint(&job, test_random(&dice) % members, 0);
    pami_type_t t = PAMI_TYPE_SIGNED_INT;
    struct algorithms all = algorithms_of(geometry, type);

    xfer->algorithm = all.handle[0][test_random(&dice) % all.count[0]];
    algorithms_free(&all);
    if (type == PAMI_XFER_BROADCAST)
        xfer->cmd.xfer_broadcast = (pami_broadcast_t){root, (char *)ints, t, n};
    else if (type == PAMI_XFER_SCATTER)
        xfer->cmd.xfer_scatter = (pami_scatter_t){root, (char *)all_ints, t, n, (char *)ints, t, n};
    else
        xfer->cmd.xfer_allreduce = coll_sum(ints, all_ints, t, n);
}

/* Until the first error; the last of the members ends meanwhile. */
static void run_until_error(pami_geometry_t geometry, size_t members)
{
    uint64_t dice = seed * TASKS_MAX + members;
    double end = test_now() + 1e-3 * (double)(test_random(&dice) % 20);
    struct told told = {.result = PAMI_SUCCESS};

    for (uint64_t i = 0; told.result == PAMI_SUCCESS; i++) {
        pami_xfer_t xfer = coll_xfer(PAMI_ALGORITHM_NULL, &told);

        if (job.task == members - 1 && test_now() > end)
            _exit(0);
        set_arguments(&xfer, geometry, members, i);
        coll_start(job.context[0], &xfer);
        WAIT(&job, told.count != 0);
    }
}

int main(int argc, char **argv)
{
    pami_task_t tasks[TASKS_MAX];
    pami_geometry_t geometry;

    if (argc > 2 && strcmp(argv[1], "--seed") == 0)
        seed = strtoull(argv[2], NULL, 10);
    job_start(&job, "coll again", 1);
    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)i;
    for (size_t members = job.tasks; members > job.task; members--) {
        create_list(&job, &geometry, NULL, (unsigned)members, tasks, members, 0);
        CHECK(coll_total(&job, geometry, 1) == (int)members);
        if (members > 1)
            run_until_error(geometry, members);
        destroy_geometry(&job, &geometry);
    }
    job_destroy(&job);
    return 0;
}
