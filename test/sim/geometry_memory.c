/*
 * No memory for what comes about a geometry before this task's own call, for one allocation or a
 * few in a row, each in turn: the geometry is made all the same, and so is the next one of the same
 * id. Nor for the word that one has been destroyed: then it has not.
 *
 * Run:
 */
#include "no_memory.h"

enum {
    TASKS = 6,
    ID = 7,
    MANY = 1000
};

static size_t done;

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    done++;
}

static void ignore(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
}

static pami_geometry_t geometries[TASKS];

static void create(const struct sim_job *job, size_t task)
{
    static pami_task_t tasks[TASKS];

    for (size_t i = 0; i < TASKS; i++)
        tasks[i] = (pami_task_t)i;
    CALL(PAMI_Geometry_create_tasklist(job->client[task], 0, NULL, 0, &geometries[task], NULL, ID,
                                       tasks, TASKS, job->context[task], on_done, NULL));
}

/* All but the first task call; allocation number `which` from then on fails. */
static bool create_all(const struct sim_job *job, size_t which, size_t count)
{
    bool enough;

    done = 0;
    for (size_t i = 1; i < TASKS; i++)
        create(job, i);
    no_memory.refused = 0;
    refuse_row(which, count);
    CALL(PAMIX_Sim_run(job->client[0], NULL, NULL, 0, 1e-3));
    enough = no_memory.refused != 0;
    refuse_only(SIZE_MAX);
    CHECK(done == 0);
    create(job, 0);
    job_settle(job);
    CHECK(done == TASKS);
    for (size_t i = 0; i < TASKS; i++)
        CALL(PAMI_Geometry_destroy(job->client[i], &geometries[i], job->context[i], ignore, NULL));
    job_settle(job);
    return enough;
}

static bool run(size_t which, size_t count)
{
    struct sim_job job;
    bool enough;

    job_create(&job, NULL, TASKS, 1);
    enough = create_all(&job, which, count);
    create_all(&job, SIZE_MAX, 1);
    job_destroy(&job);
    return enough;
}

/* More than there is room for callbacks. */
static void destroy_many(void)
{
    static pami_geometry_t many[MANY];
    struct sim_job job;
    pami_task_t own = 0;
    size_t refused = 0;

    job_create(&job, NULL, 1, 1);
    for (unsigned i = 0; i < MANY; i++)
        CALL(PAMI_Geometry_create_tasklist(job.client[0], 0, NULL, 0, &many[i], NULL, 1 + i, &own,
                                           1, job.context[0], ignore, NULL));
    job_settle(&job);
    done = 0;
    for (size_t i = 0; i < MANY; i++) {
        pami_result_t result;

        refuse_row(0, MANY);
        result = PAMI_Geometry_destroy(job.client[0], &many[i], job.context[0], on_done, NULL);
        refuse_only(SIZE_MAX);
        if (result == PAMI_SUCCESS)
            continue;
        CHECK(result == PAMI_ENOMEM && many[i] != PAMI_GEOMETRY_NULL);
        refused++;
        CALL(PAMI_Geometry_destroy(job.client[0], &many[i], job.context[0], on_done, NULL));
    }
    CHECK(refused != 0);
    job_settle(&job);
    CHECK(done == MANY);
    job_destroy(&job);
}

int main(void)
{
    need_refusing();
    for (size_t count = 1; count < 12; count += 5) {
        size_t which = 0;

        while (run(which, count))
            which++;
        CHECK(which > 2);
    }
    destroy_many();
    return 0;
}
