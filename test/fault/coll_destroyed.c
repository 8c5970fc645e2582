/*
 * A task ends. Those who are left call a collective of a geometry with it one after the other, and
 * each destroys the geometry as soon as it has its error: the next ones get theirs all the same.
 *
 * Run: tasks=3,4,8 nodes=1,2 timeout=60
 * Run: tasks=3,8 args="--backwards" timeout=60
 */
#include "api/coll.h"

enum {
    LIMIT = 10 /* seconds, on a machine with a lot else to do */
};

static struct job job;

/* A barrier of it; in shared memory where all are on one node. */
static pami_result_t meet(pami_geometry_t geometry)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(geometry, PAMI_XFER_BARRIER), &told);
    double start = test_now();

    coll_start(job.context[0], &xfer);
    WAIT(&job, told.count != 0);
    CHECK(test_now() - start < LIMIT * test_factor());
    return told.result;
}

int main(int argc, char **argv)
{
    bool backwards = argc > 1 && strcmp(argv[1], "--backwards") == 0;
    pami_task_t tasks[64];
    pami_geometry_t all, rest;
    size_t victim, survivors;

    job_start(&job, "coll destroyed", 1);
    survivors = victim = job.tasks - 1;
    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)i;
    create_list(&job, &all, NULL, 1, tasks, job.tasks, 0);
    if (job.task != victim)
        create_list(&job, &rest, NULL, 2, tasks, survivors, 0);
    job_barrier(&job);
    if (job.task == victim) {
        job_linger(&job, 0.02);
        _exit(0);
    }
    job_linger(&job, 0.03 * (double)(backwards ? survivors - 1 - job.task : job.task));
    CHECK_RESULT(meet(all), PAMI_ERROR);
    destroy_geometry(&job, &all);
    CHECK_RESULT(meet(rest), PAMI_SUCCESS);
    destroy_geometry(&job, &rest);
    job_destroy(&job);
    return 0;
}
