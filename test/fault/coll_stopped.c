/*
 * A member has died, another one knows of it and starts no collective any more, as programs do
 * after the first error. All collectives that the others start then end, whatever the algorithm:
 * also where nobody waits for the dead one, and what is large waits to be fetched by the one that
 * has stopped. With --first that is the first task, on another node than the dead one, and the
 * others start several collectives one right after the other.
 *
 * Run: tasks=3,4,8 nodes=1,2 timeout=120
 * Run: tasks=8 nodes=3 timeout=120
 * Run: tasks=6,8 nodes=2 args="--first" env="PAMI_COLL_ASK=10ms" timeout=120
 */
#include "api/coll.h"

enum {
    INTS = 200000,
    SHORT = 16,
    AT_ONCE = 3,
    MEMBERS_MAX = 8,
    ROWS_MAX = 128
};

static struct job job;
static size_t victim, stopper, at_once = 1;
static pami_task_t tasks[MEMBERS_MAX];
static int source[INTS], target[INTS];
static struct coll_blocks blocks = {.from = source, .into = target};
static pami_geometry_t fresh[ROWS_MAX]; /* one for each algorithm: the stopper is behind in it */
static size_t rows;

static const pami_xfer_type_t types[] = {PAMI_XFER_BROADCAST, PAMI_XFER_ALLREDUCE,
                                         PAMI_XFER_SCATTER, PAMI_XFER_GATHER, PAMI_XFER_ALLTOALL};

static void make_geometries(void)
{
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        size_t count[2];

        CHECK_OK(PAMI_Geometry_algorithms_num(world_of(&job), types[t], count));
        rows += count[0];
    }
    CHECK(rows <= ROWS_MAX);
    for (size_t i = 0; i < rows; i++)
        create_list(&job, &fresh[i], NULL, 100 + (unsigned)i, tasks, job.tasks, 0);
    for (size_t i = 0; i < rows && at_once > 1; i++) /* arenas are open */
        CHECK(coll_total(&job, fresh[i], 1) == (int)job.tasks);
}

static void lose(void)
{
    pami_xfer_t xfer;
    struct told told;

    job_barrier(&job);
    if (job.task == victim)
        _exit(0);
    xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_BARRIER), &told);
    coll_start(job.context[0], &xfer);
    WAIT(&job, told.count != 0);
    CHECK(told.result != PAMI_SUCCESS);
}

static bool all_told(const struct told *told)
{
    for (size_t k = 0; k < at_once; k++)
        if (told[k].count == 0)
            return false;
    return true;
}

/* Returns how many ended with an error. */
static size_t all_end(pami_xfer_type_t type, pami_geometry_t *geometry)
{
    struct algorithms all = algorithms_of(*geometry, type);
    size_t failed = 0, ints = at_once > 1 ? SHORT : INTS;

    for (size_t i = 0; i < all.count[0]; i++) {
        struct algorithms own = algorithms_of(geometry[i], type);
        struct told told[AT_ONCE];
        double until = test_now() + 5 * test_factor();

        for (size_t k = 0; k < at_once; k++) {
            pami_xfer_t xfer = coll_xfer(own.handle[0][i], &told[k]);

            coll_arguments(&blocks, type, type == PAMI_XFER_BROADCAST ? ints : ints / job.tasks,
                           &xfer.cmd);
            coll_start(job.context[0], &xfer);
        }
        while (!all_told(told)) {
            job_advance(&job);
            if (test_now() > until)
                FAIL("%s of type %d does not end", own.metadata[0][i].name, (int)type);
        }
        for (size_t k = 0; k < at_once; k++)
            failed += told[k].result != PAMI_SUCCESS;
        algorithms_free(&own);
    }
    algorithms_free(&all);
    return failed;
}

int main(int argc, char **argv)
{
    pami_geometry_t rest, *geometry = fresh;
    pami_xfer_t xfer;
    struct told told;
    size_t failed = 0;

    job_start(&job, "coll stopped", 1);
    victim = job.tasks - 1;
    stopper = victim - 1;
    if (argc > 1 && strcmp(argv[1], "--first") == 0) {
        stopper = 0;
        at_once = AT_ONCE;
    }
    blocks.type = PAMI_TYPE_SIGNED_INT;
    blocks.members = job.tasks;
    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)i;
    make_geometries();
    if (job.task != victim)
        create_list(&job, &rest, NULL, 9, tasks, victim, 0);
    lose();
    for (size_t t = 0; job.task != stopper && t < sizeof types / sizeof types[0]; t++) {
        size_t count[2];

        CHECK_OK(PAMI_Geometry_algorithms_num(*geometry, types[t], count));
        failed += all_end(types[t], geometry);
        geometry += count[0];
    }
    if (job.task != stopper && failed == 0)
        FAIL("nothing has failed");
    xfer = coll_xfer(algorithm_of(rest, PAMI_XFER_BARRIER), &told);
    coll_run(&job, job.context[0], &xfer);
    destroy_geometry(&job, &rest);
    job_destroy(&job);
    return 0;
}
