/*
 * Creating and destroying geometries: the world, ranges, lists in any order, with and without a
 * parent, disjoint ones with equal ids at once, and one task long before the others.
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2 timeout=60
 */
#include "geometry.h"

static pami_task_t *all_tasks(const struct job *job, size_t rotate, bool backwards)
{
    pami_task_t *tasks = test_alloc(job->tasks * sizeof(*tasks));

    for (size_t i = 0; i < job->tasks; i++) {
        size_t at = (i + rotate) % job->tasks;

        tasks[i] = (pami_task_t)(backwards ? job->tasks - 1 - at : at);
    }
    return tasks;
}

static void world(struct job *job)
{
    pami_geometry_t first = world_of(job), second = world_of(job);
    struct told told = {.context = job->context[0]};

    CHECK(first == second);
    CHECK_OK(
        TEST_CALL(PAMI_Geometry_destroy(job->client, &first, job->context[0], on_told, &told)));
    CHECK(first == PAMI_GEOMETRY_NULL);
    WAIT(job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
    CHECK(world_of(job) == second);
    CHECK_OK(PAMI_Geometry_destroy(job->client, &second, job->context[0], NULL, NULL));
}

static void orders(struct job *job)
{
    for (size_t rotate = 0; rotate < job->tasks; rotate++)
        for (int backwards = 0; backwards < 2; backwards++) {
            pami_task_t *tasks = all_tasks(job, rotate, backwards);
            pami_geometry_t geometry;

            create_list(job, &geometry, rotate % 2 ? world_of(job) : NULL, 17, tasks, job->tasks,
                        0);
            memset(tasks, 0xff, job->tasks * sizeof(*tasks));
            destroy_geometry(job, &geometry);
            free(tasks);
        }
}

/* One range, and as many ranges as tasks: the same group. */
static void ranges(struct job *job)
{
    pami_geometry_range_t *slices = test_alloc(job->tasks * sizeof(*slices));
    pami_geometry_t geometry;
    struct told told = {.context = job->context[0]};
    size_t count = job->task % 2 ? 1 : job->tasks;

    for (size_t i = 0; i < job->tasks; i++)
        slices[i] = (pami_geometry_range_t){(pami_task_t)i, (pami_task_t)i};
    if (count == 1)
        slices[0].hi = (pami_task_t)job->tasks - 1;
    CHECK_OK(TEST_CALL(PAMI_Geometry_create_taskrange(job->client, 0, NULL, 0, &geometry, NULL,
                                                      0xffffffffu, slices, count, job->context[0],
                                                      on_told, &told)));
    free(slices);
    WAIT(job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
    destroy_geometry(job, &geometry);
}

/* Even and odd tasks, with the same id at the same time, without a parent and with one. */
static void disjoint(struct job *job, pami_geometry_t parent)
{
    pami_task_t *tasks = test_alloc(job->tasks * sizeof(*tasks));
    pami_geometry_t geometry[3];
    size_t count = 0;

    for (size_t i = job->task % 2; i < job->tasks; i += 2)
        tasks[count++] = (pami_task_t)i;
    for (unsigned id = 1; id <= 3; id++)
        create_list(job, &geometry[id - 1], parent, id, tasks, count, 0);
    for (unsigned id = 1; id <= 3; id++)
        destroy_geometry(job, &geometry[id - 1]);
    free(tasks);
}

/* Every parent member calls, some of them from outside of the new group; parents of parents. */
static void outside(struct job *job)
{
    pami_task_t *tasks = all_tasks(job, 0, false);
    pami_geometry_t parent = world_of(job), geometry, stack[8];
    size_t depth = 0;
    struct told told;

    for (size_t count = job->tasks; count > 0 && job->task < count && depth < 8; count--) {
        bool member = job->task < count - 1;

        if (count == 1)
            break;
        begin_list(job, member ? &geometry : NULL, parent, 5 + (unsigned)depth,
                   member ? tasks : NULL, member ? count - 1 : 0, 0, &told);
        WAIT(job, told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
        if (!member)
            break;
        parent = stack[depth++] = geometry;
    }
    while (depth-- > 0)
        destroy_geometry(job, &stack[depth]);
    free(tasks);
}

/* A parent is a synchronisation: fn does not run before the last one has called. */
static void synchronises(struct job *job)
{
    pami_task_t first = 0;
    pami_geometry_t geometry;
    struct told told;
    bool last = job->task == job->tasks - 1;
    double before = test_now();

    job_barrier(job);
    if (last && job->tasks > 1)
        test_sleep(0.2);
    begin_list(job, job->task == 0 ? &geometry : NULL, world_of(job), 9, &first, 1, 0, &told);
    WAIT(job, told.count != 0);
    if (!last)
        CHECK(test_now() - before > 0.1);
    if (job->task == 0)
        destroy_geometry(job, &geometry);
}

/* Many at once, begun in an order of each task's own. */
static void many(struct job *job)
{
    enum {
        MANY = 40
    };
    pami_task_t *tasks = all_tasks(job, 1, true);
    pami_geometry_t geometry[MANY];
    struct told told[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        unsigned which = (i + 7 * (unsigned)job->task) % MANY;

        begin_list(job, &geometry[which], NULL, 100 + which, tasks, job->tasks, 0, &told[which]);
    }
    for (unsigned i = 0; i < MANY; i++) {
        WAIT(job, told[i].count != 0);
        CHECK(told[i].result == PAMI_SUCCESS);
        destroy_geometry(job, &geometry[i]);
    }
    free(tasks);
}

int main(void)
{
    struct job job;
    pami_geometry_t early = NULL, left_behind;
    pami_task_t *tasks;

    job_create_client(&job, "geometry");
    CHECK_OK(PAMI_Geometry_world(job.client, &early));
    CHECK(early != PAMI_GEOMETRY_NULL);
    job_create_contexts(&job, 1);
    CHECK(world_of(&job) == early);
    world(&job);
    orders(&job);
    ranges(&job);
    disjoint(&job, NULL);
    disjoint(&job, world_of(&job));
    outside(&job);
    synchronises(&job);
    many(&job);
    /* What is never destroyed is freed with the client. */
    tasks = all_tasks(&job, 0, false);
    create_list(&job, &left_behind, NULL, 77, tasks, job.tasks, 0);
    free(tasks);
    job_finish(&job);
    return 0;
}
