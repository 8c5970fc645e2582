/*
 * A task ends while geometries with it are being created: whoever waits gets an error, once, and
 * soon; groups of the others are not touched.
 *
 *     geometry_dying --victim first|middle|last [--called]
 *
 * With --called the victim has called create itself before it ends, without advancing.
 *
 * Run: tasks=2,3,5,8 nodes=1,2 args="--victim last" timeout=60
 * Run: tasks=2,3,5,8 args="--victim first" timeout=60
 * Run: tasks=3,5,8 args="--victim middle" timeout=60
 * Run: tasks=3,8 args="--victim middle --called" timeout=60
 * Run: tasks=3,8 args="--victim first --called" timeout=60
 */
#include "api/geometry.h"

static struct job job;
static size_t victim;

/* All tasks but the victim, or all, beginning with `first`. */
static size_t members(pami_task_t *tasks, size_t first, bool with_victim)
{
    size_t count = 0;

    for (size_t i = 0; i < job.tasks; i++) {
        size_t task = (first + i) % job.tasks;

        if (with_victim || task != victim)
            tasks[count++] = (pami_task_t)task;
    }
    return count;
}

static void expect_error(size_t first, pami_geometry_t parent, unsigned id)
{
    pami_task_t tasks[64];
    size_t count = members(tasks, first, parent == NULL);
    pami_geometry_t geometry;
    struct told told;

    begin_list(&job, &geometry, parent, id, tasks, count, 0, &told);
    WAIT(&job, told.count != 0);
    CHECK(told.result == PAMI_ERROR);
    job_linger(&job, 0.02);
    CHECK(told.count == 1);
    destroy_geometry(&job, &geometry);
}

static void expect_success(size_t first, unsigned id)
{
    pami_task_t tasks[64];
    size_t count = members(tasks, first, false);
    pami_geometry_t geometry;

    create_list(&job, &geometry, NULL, id, tasks, count, 0);
    destroy_geometry(&job, &geometry);
}

int main(int argc, char **argv)
{
    bool called = argc > 3 && strcmp(argv[3], "--called") == 0;
    pami_task_t tasks[64];
    pami_geometry_t before, during;
    struct told told;

    job_start(&job, "geometry dying", 1);
    victim = job.tasks - 1;
    if (argc > 2 && strcmp(argv[2], "first") == 0)
        victim = 0;
    if (argc > 2 && strcmp(argv[2], "middle") == 0)
        victim = 1;
    create_list(&job, &before, NULL, 1, tasks, members(tasks, 0, true), 0);
    job_barrier(&job);
    if (job.task == victim) {
        if (called)
            begin_list(&job, &during, NULL, 2, tasks, members(tasks, 0, true), 0, &told);
        job_linger(&job, called ? 0 : 0.05);
        _exit(0);
    }
    if (called) {
        /* May still succeed: everybody may have called. */
        begin_list(&job, &during, NULL, 2, tasks, members(tasks, 0, true), 0, &told);
        WAIT(&job, told.count != 0);
        CHECK(told.result == PAMI_SUCCESS || told.result == PAMI_ERROR);
    } else {
        expect_error(0, NULL, 2);
    }
    for (size_t first = 0; first < job.tasks; first++) {
        expect_error(first, NULL, 3);
        expect_success(first, 3);
        expect_error(first, world_of(&job), 3);
        expect_success(first, 4);
    }
    destroy_geometry(&job, &before);
    job_destroy(&job);
    return 0;
}
