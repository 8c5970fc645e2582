/*
 * A task is killed at an agreed moment, in the middle of collectives in shared memory and over the
 * levels of nodes, several of them in flight: on every survivor what needs it ends with an error
 * within a second, and so does what is started later; a geometry without it works on as if nothing
 * had happened, before, during and after.
 *
 *     coll_nodes_dying [--way kill|exit] [--victim first|middle|last] [--rows NAME] [--seed N]
 *
 * exit: with status 0, between two collectives. Survivors print "task N done".
 *
 * Run: tasks=3,5,8 nodes=1,2 args="--way exit" timeout=60
 * Run: tasks=4 nodes=2,4 args="--way exit --victim first" timeout=60
 */
#include <pthread.h>
#include <signal.h>

#include "api/coll.h"

enum {
    WORDS = 50000,
    FLIGHTS = 4,
    KINDS = 10
};

static const pami_xfer_type_t kinds[KINDS] = {
    PAMI_XFER_BARRIER, PAMI_XFER_BROADCAST,     PAMI_XFER_REDUCE,    PAMI_XFER_ALLREDUCE,
    PAMI_XFER_GATHER,  PAMI_XFER_SCATTER,       PAMI_XFER_ALLGATHER, PAMI_XFER_ALLTOALL,
    PAMI_XFER_SCAN,    PAMI_XFER_REDUCE_SCATTER};

static struct job job;
static size_t victim;
static const char *rows = "Hierarchical";
static bool kills = true;
static uint64_t dice = 1;
static double moment; /* of the death */

static size_t below(size_t limit)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(dice >> 33) % limit;
}

static pami_algorithm_t handle_of(pami_geometry_t geometry, pami_xfer_type_t type)
{
    struct algorithms all = algorithms_of(geometry, type);
    pami_algorithm_t handle = all.handle[0][0];

    for (int list = 0; list < 2; list++)
        for (size_t i = 0; i < all.count[list]; i++)
            if (strcmp(all.metadata[list][i].name, rows) == 0)
                handle = all.handle[list][i];
    algorithms_free(&all);
    return handle;
}

static void start(pami_xfer_type_t type, size_t root, size_t count, uint32_t *buffers,
                  struct told *told)
{
    static size_t counts[64]; /* read at the call */
    pami_xfer_t xfer = coll_xfer(handle_of(world_of(&job), type), told);
    char *send = (char *)buffers, *recv = (char *)(buffers + WORDS);
    pami_endpoint_t from = job_endpoint(&job, root, 0);
    size_t block = count / job.tasks;

    for (size_t i = 0; i < job.tasks; i++)
        counts[i] = block;
    if (type == PAMI_XFER_BROADCAST)
        xfer.cmd.xfer_broadcast = (pami_broadcast_t){from, recv, PAMI_TYPE_UNSIGNED_INT, count};
    else if (type == PAMI_XFER_REDUCE)
        xfer.cmd.xfer_reduce = (pami_reduce_t){from,  send,          PAMI_TYPE_UNSIGNED_INT,
                                               count, recv,          PAMI_TYPE_UNSIGNED_INT,
                                               count, PAMI_DATA_SUM, NULL,
                                               1};
    else if (type == PAMI_XFER_ALLREDUCE)
        xfer.cmd.xfer_allreduce =
            (pami_allreduce_t){send,  PAMI_TYPE_UNSIGNED_INT, count, recv, PAMI_TYPE_UNSIGNED_INT,
                               count, PAMI_DATA_SUM,          NULL,  1};
    else if (type == PAMI_XFER_GATHER)
        xfer.cmd.xfer_gather = (pami_gather_t){
            from, send, PAMI_TYPE_UNSIGNED_INT, block, recv, PAMI_TYPE_UNSIGNED_INT, block};
    else if (type == PAMI_XFER_SCATTER)
        xfer.cmd.xfer_scatter = (pami_scatter_t){
            from, send, PAMI_TYPE_UNSIGNED_INT, block, recv, PAMI_TYPE_UNSIGNED_INT, block};
    else if (type == PAMI_XFER_SCAN)
        xfer.cmd.xfer_scan =
            (pami_scan_t){send,  PAMI_TYPE_UNSIGNED_INT, count, recv, PAMI_TYPE_UNSIGNED_INT,
                          count, PAMI_DATA_SUM,          NULL,  0};
    else if (type == PAMI_XFER_REDUCE_SCATTER)
        xfer.cmd.xfer_reduce_scatter = (pami_reduce_scatter_t){send,
                                                               PAMI_TYPE_UNSIGNED_INT,
                                                               block * job.tasks,
                                                               recv,
                                                               PAMI_TYPE_UNSIGNED_INT,
                                                               counts,
                                                               PAMI_DATA_SUM,
                                                               NULL,
                                                               1};
    else if (type != PAMI_XFER_BARRIER)
        xfer.cmd.xfer_allgather = (pami_allgather_t){send, PAMI_TYPE_UNSIGNED_INT, block,
                                                     recv, PAMI_TYPE_UNSIGNED_INT, block};
    coll_start(job.context[0], &xfer);
}

static void *kill_later(void *cookie)
{
    (void)cookie;
    if (moment > test_now())
        test_sleep(moment - test_now());
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Task 0 says when; all read one clock. */
static void agree(void)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_BROADCAST), &told);
    pthread_t thread;

    moment = test_now() + 0.02 + 1e-4 * (double)below(500);
    xfer.cmd.xfer_broadcast = (pami_broadcast_t){job_endpoint(&job, 0, 0), (char *)&moment,
                                                 PAMI_TYPE_BYTE, sizeof moment};
    coll_run(&job, job.context[0], &xfer);
    if (kills && job.task == victim)
        CHECK(pthread_create(&thread, NULL, kill_later, NULL) == 0);
}

/* Their sum. */
static unsigned work_without(pami_geometry_t rest, unsigned value)
{
    unsigned sum = 0;
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(rest, PAMI_XFER_ALLREDUCE), &told);

    xfer.cmd.xfer_allreduce = (pami_allreduce_t){(char *)&value,
                                                 PAMI_TYPE_UNSIGNED_INT,
                                                 1,
                                                 (char *)&sum,
                                                 PAMI_TYPE_UNSIGNED_INT,
                                                 1,
                                                 PAMI_DATA_SUM,
                                                 NULL,
                                                 1};
    coll_run(&job, job.context[0], &xfer);
    return sum;
}

/* Some in flight. True: one has failed. */
static bool round_fails(void)
{
    static uint32_t buffers[FLIGHTS][2 * WORDS];
    struct told told[FLIGHTS];
    bool failed = false;

    for (size_t i = 0; i < FLIGHTS; i++) {
        pami_xfer_type_t type = kinds[below(KINDS)];
        size_t root = below(job.tasks), count = below(below(2) == 0 ? 20 : WORDS);

        start(type, root, count, buffers[i], &told[i]);
    }
    for (size_t i = 0; i < FLIGHTS; i++) {
        WAIT(&job, told[i].count != 0);
        failed = failed || told[i].result != PAMI_SUCCESS;
    }
    return failed;
}

static void expect_failures(void)
{
    static uint32_t buffers[2 * WORDS];

    for (size_t i = 0; i < 8; i++) {
        struct told told;
        double begin = test_now();

        /* Whose part is only to send may have it behind itself at once. */
        start(i % 2 == 0 ? PAMI_XFER_BARRIER : PAMI_XFER_ALLREDUCE, 0, i < 4 ? 2 : WORDS, buffers,
              &told);
        WAIT(&job, told.count != 0);
        if (told.result == PAMI_SUCCESS)
            FAIL("collective %zu succeeds without task %zu", i, victim);
        if (test_now() - begin > test_factor())
            FAIL("collective %zu takes %.2f s to fail", i, test_now() - begin);
    }
}

static void survive(pami_geometry_t rest)
{
    double noticed;

    for (;;) {
        bool failed;

        if (!kills && job.task == victim && test_now() >= moment)
            _exit(0);
        failed = round_fails();
        /* All survivors start the same collectives, also when some have not noticed yet. */
        if (job.task != victim && work_without(rest, failed) != 0)
            break;
    }
    noticed = test_now() - moment;
    /* Collectives that were in flight end within a second; those before it are nobody's matter. */
    if (kills && noticed > test_factor())
        FAIL("noticed %.2f s after the death", noticed);
    expect_failures();
    for (unsigned x = 1; x <= 20; x++)
        CHECK(work_without(rest, x) == x * (unsigned)(job.tasks - 1));
    printf("task %zu done\n", job.task);
}

static void read_options(int argc, char **argv)
{
    victim = job.tasks - 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--way") == 0)
            kills = strcmp(argv[i + 1], "exit") != 0;
        else if (strcmp(argv[i], "--rows") == 0)
            rows = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0)
            dice = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--victim") == 0 && strcmp(argv[i + 1], "last") != 0)
            victim = strcmp(argv[i + 1], "first") == 0 ? 0 : 1;
    }
}

int main(int argc, char **argv)
{
    pami_task_t tasks[64];
    pami_geometry_t rest = PAMI_GEOMETRY_NULL;
    size_t count = 0;

    job_start(&job, "coll nodes dying", 1);
    read_options(argc, argv);
    for (size_t i = 0; i < job.tasks; i++)
        if (i != victim)
            tasks[count++] = (pami_task_t)i;
    if (job.task != victim)
        create_list(&job, &rest, NULL, 9, tasks, count, 0);
    agree();
    survive(rest);
    destroy_geometry(&job, &rest);
    job_destroy(&job);
    return 0;
}
