/*
 * One id again and again, at once after destroy, while slower members are still busy with the
 * geometry before; with groups that overlap, and with late members. What is still to come of a
 * creation that is over takes no memory when it has come.
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2 timeout=120
 */
#include "geometry.h"

#include <malloc.h>

enum {
    ROUNDS = 3000,
    OVERLAPS = 300,
    CONTEXTS = 3
};

/* Every task dawdles now and then, each at other times. */
static void dawdle(const struct job *job, unsigned round)
{
    if ((round * 7 + job->task * 13) % 997 == 0)
        test_sleep(0.003);
}

static void same_group(struct job *job)
{
    pami_task_t *tasks = test_alloc(job->tasks * sizeof(*tasks));
    pami_geometry_t geometry;

    for (size_t i = 0; i < job->tasks; i++)
        tasks[i] = (pami_task_t)(job->tasks - 1 - i);
    for (unsigned round = 0; round < ROUNDS; round++) {
        dawdle(job, round);
        create_list(job, &geometry, NULL, 1, tasks, job->tasks, 0);
        if (round % 3 == 0)
            CHECK_OK(PAMI_Geometry_destroy(job->client, &geometry, job->context[0], NULL, NULL));
        else
            destroy_geometry(job, &geometry);
    }
    free(tasks);
}

/* Groups of round % tasks + 1 members starting anywhere, all with the same id. */
static void overlapping(struct job *job)
{
    pami_task_t *tasks = test_alloc(job->tasks * sizeof(*tasks));
    pami_geometry_t geometry;

    for (unsigned round = 0; round < OVERLAPS; round++) {
        size_t count = round % job->tasks + 1;
        bool member = false;

        dawdle(job, round);
        for (size_t i = 0; i < count; i++) {
            tasks[i] =
                (pami_task_t)((round * 3 + i * (round % 2 ? 1 : job->tasks - 1)) % job->tasks);
            member = member || tasks[i] == job->task;
        }
        if (!member)
            continue;
        create_list(job, &geometry, NULL, 1, tasks, count, 0);
        destroy_geometry(job, &geometry);
    }
    free(tasks);
}

/* With the world as parent there are callers outside, who run ahead of those inside. */
static void with_parent(struct job *job)
{
    pami_geometry_t geometry;
    struct told told;

    for (unsigned round = 0; round < OVERLAPS; round++) {
        pami_task_t members[2] = {(pami_task_t)(round % job->tasks),
                                  (pami_task_t)((round + 1) % job->tasks)};
        size_t count = job->tasks > 1 ? 2 : 1;
        bool member = job->task == members[0] || (count == 2 && job->task == members[1]);

        dawdle(job, round);
        begin_list(job, member ? &geometry : NULL, world_of(job), 3, members, count, 0, &told);
        WAIT(job, told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
        if (member)
            destroy_geometry(job, &geometry);
    }
}

/*
 * Each task creates on a context that is no member, of its own choice, and the first one begins
 * when the others are waiting. Those that wait for no other task advance that context only, and
 * find on the others what is over, when they are done.
 */
static void other_contexts(struct job *job, bool parent)
{
    bool waits = job->tasks > 4 && job->task < job->tasks / 2;
    pami_context_t own = job->context[1 + job->task % 2];
    pami_geometry_range_t all = {0, (pami_task_t)job->tasks - 1};
    size_t before = 0;

    for (unsigned round = 0; round < OVERLAPS; round++) {
        struct told told = {.context = own};
        pami_geometry_t geometry;

        if (job->task == 0)
            test_sleep(0.002);
        CHECK_OK(TEST_CALL(PAMI_Geometry_create_taskrange(
            job->client, 0, NULL, 0, &geometry, parent ? world_of(job) : NULL,
            parent ? 1 : 1 + round, &all, 1, own, on_told, &told)));
        if (job->task == 0 || waits)
            WAIT(job, told.count != 0);
        else
            WAIT_WITH(test_advance(own, 1), told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
        told.count = 0;
        CHECK_OK(TEST_CALL(PAMI_Geometry_destroy(job->client, &geometry, own, on_told, &told)));
        WAIT(job, told.count != 0);
        for (size_t i = 0; i < 4 * CONTEXTS; i++)
            test_advance(job->context[i % CONTEXTS], 1);
        if (round == OVERLAPS / 10)
            before = mallinfo2().uordblks;
    }
    if (mallinfo2().uordblks > before + 16 * OVERLAPS)
        FAIL("%zu bytes of memory became %zu", before, mallinfo2().uordblks);
}

int main(void)
{
    struct job job;

    job_start(&job, "reuse", CONTEXTS);
    same_group(&job);
    overlapping(&job);
    with_parent(&job);
    other_contexts(&job, true);
    other_contexts(&job, false);
    job_finish(&job);
    return 0;
}
