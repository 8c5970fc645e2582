/*
 * A task ends in the middle of collectives: those that need it end with an error on every survivor,
 * soon and once, whatever the algorithm; a geometry without it goes on.
 *
 *     coll_dying --victim first|middle|last
 *
 * Run: tasks=2,3,5,8 nodes=1,2 args="--victim last" timeout=120
 * Run: tasks=2,5,8 args="--victim first" timeout=120
 * Run: tasks=3,8 args="--victim middle" timeout=120
 * Run: tasks=5 args="--victim middle" env="PAMI_COLL_SHARED_RELAY=64" timeout=120
 * Run: tasks=2 args="--victim first" env="PAMI_YIELD=never PAMI_COLL_SHARED_DIRECT=64K" timeout=120
 */
#include "api/coll.h"

enum {
    INTS = 30000
};

static struct job job;
static size_t victim;
static int source[INTS], target[8 * INTS];
static struct coll_blocks blocks = {.from = source, .into = target};

/* Every algorithm once, with the victim among the members. */
static void all_fail(pami_xfer_type_t type, size_t count)
{
    struct algorithms all = algorithms_of(world_of(&job), type);

    for (size_t i = 0; i < all.count[0]; i++) {
        struct told told;
        pami_xfer_t xfer = coll_xfer(all.handle[0][i], &told);
        double start = test_now();

        coll_arguments(&blocks, type, count, &xfer.cmd);
        coll_start(job.context[0], &xfer);
        WAIT(&job, told.count != 0);
        if (told.result == PAMI_SUCCESS)
            FAIL("%s of type %d succeeds without task %zu", all.metadata[0][i].name, (int)type,
                 victim);
        if (test_now() - start > 1.0 * test_factor() + 4)
            FAIL("%s of type %d takes %.1f s to fail", all.metadata[0][i].name, (int)type,
                 test_now() - start);
    }
    algorithms_free(&all);
}

/* Barriers until one fails. The victim leaves after some. */
static void until_it_ends(void)
{
    pami_algorithm_t algorithm = algorithm_of(world_of(&job), PAMI_XFER_BARRIER);

    for (int i = 0;; i++) {
        struct told told;
        pami_xfer_t xfer = coll_xfer(algorithm, &told);

        if (job.task == victim && i == 100)
            _exit(0);
        coll_start(job.context[0], &xfer);
        WAIT(&job, told.count != 0);
        if (told.result != PAMI_SUCCESS) {
            CHECK(i >= 99);
            return;
        }
    }
}

static void go_on_without(void)
{
    pami_task_t tasks[64];
    size_t count = 0;
    pami_geometry_t rest;

    for (size_t i = 0; i < job.tasks; i++)
        if (i != victim)
            tasks[count++] = (pami_task_t)i;
    create_list(&job, &rest, NULL, 9, tasks, count, 0);
    for (int i = 0; i < 20; i++)
        CHECK(coll_total(&job, rest, i) == i * (int)count);
    destroy_geometry(&job, &rest);
}

int main(int argc, char **argv)
{
    job_start(&job, "coll dying", 1);
    victim = job.tasks - 1;
    if (argc > 2 && strcmp(argv[2], "first") == 0)
        victim = 0;
    if (argc > 2 && strcmp(argv[2], "middle") == 0)
        victim = 1;
    blocks.type = PAMI_TYPE_SIGNED_INT;
    blocks.members = job.tasks;
    until_it_ends();
    all_fail(PAMI_XFER_BARRIER, 0);
    all_fail(PAMI_XFER_ALLREDUCE, 4);
    all_fail(PAMI_XFER_ALLREDUCE, INTS);
    all_fail(PAMI_XFER_ALLGATHER, INTS / job.tasks);
    all_fail(PAMI_XFER_ALLTOALL, INTS / job.tasks);
    go_on_without();
    job_destroy(&job);
    return 0;
}
