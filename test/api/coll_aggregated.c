/*
 * Collectives by aggregation nodes in real processes, of all members and of the leaders of their
 * nodes, and others among them: several in flight, short and long, on geometries that come and go,
 * optimised or not, with one member late; with few slots some of the groups are refused and work
 * all the same, and geometries that are destroyed give theirs back. Groups of which one member,
 * task TEST_ODD, has another radix, and so another tree, work too.
 *
 * Run: tasks=1,2,3,5,7,13 nodes=1,2,3,4 timeout=120
 * Run: tasks=5,7 nodes=1,3 env="PAMI_COLL_AGGREGATE_SLOTS=6 PAMI_COLL_AGGREGATE_RADIX=2" timeout=90
 * Run: tasks=4,6 nodes=2 env="PAMI_COLL_AGGREGATE_SLOTS=0" timeout=120
 * Run: tasks=8 nodes=3 env="PAMI_COLL_SHARED_BYTES=0" timeout=120
 * Run: tasks=5 nodes=4 env="PAMI_NETWORK=ofi PAMI_COLL_AGGREGATE_SEGMENT=32K" timeout=120
 * Run: tasks=4,7 nodes=1,2 env="TEST_ODD=0 PAMI_COLL_ASK=2ms" timeout=120
 * Run: tasks=5,8 nodes=1,3 env="TEST_ODD=3 PAMI_COLL_ASK=2ms" timeout=120
 */
#include "coll.h"

enum {
    ROUNDS = 30,
    FLYING = 6,
    LENGTH = 20000
};

static struct job job;
static unsigned long source[LENGTH + FLYING], target[FLYING][LENGTH];

static pami_geometry_t create(unsigned id, bool optimised)
{
    pami_task_t *tasks = test_alloc(job.tasks * sizeof(*tasks));
    pami_configuration_t wish = {.name = PAMI_GEOMETRY_OPTIMIZE, .value.intval = optimised};
    struct told told = {.context = job.context[0]};
    pami_geometry_t geometry;

    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)((i + id) % job.tasks);
    CHECK_OK(PAMI_Geometry_create_tasklist(job.client, 0, &wish, 1, &geometry, NULL, id, tasks,
                                           job.tasks, job.context[0], on_told, &told));
    WAIT(&job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
    free(tasks);
    return geometry;
}

static pami_xfer_type_t type_of(unsigned round, unsigned which)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_ALLREDUCE, PAMI_XFER_REDUCE,
                                             PAMI_XFER_BARRIER, PAMI_XFER_ALLREDUCE};

    return types[(round / 3 + which) % 4];
}

static size_t count_of(unsigned round, unsigned which)
{
    static const size_t counts[] = {1, 0, 3, 700, 1500, LENGTH};

    return counts[(round + which) % 6];
}

/* Of a reduce: all tasks in turn. */
static size_t root_of(unsigned round, unsigned which)
{
    return (round * FLYING + which) % job.tasks;
}

/* Not all members have neighbours on their nodes. */
static pami_algorithm_t algorithm(pami_geometry_t geometry, unsigned round, unsigned which)
{
    static const char *const rows[] = {"HierarchicalAggregated", "Aggregated", "Hierarchical",
                                       "HierarchicalAggregated", "Auto"};
    pami_xfer_type_t type = type_of(round, which);
    pami_algorithm_t named = algorithm_named(geometry, type, rows[(round + which) % 5]);

    if (named == PAMI_ALGORITHM_NULL)
        named = algorithm_named(geometry, type, "Aggregated");
    CHECK(named != PAMI_ALGORITHM_NULL);
    return named;
}

static void start(pami_geometry_t geometry, unsigned round, unsigned which, struct told *told)
{
    pami_xfer_type_t type = type_of(round, which);
    size_t count = count_of(round, which);
    pami_xfer_t xfer = coll_xfer(algorithm(geometry, round, which), told);

    if (type == PAMI_XFER_REDUCE)
        xfer.cmd.xfer_reduce =
            (pami_reduce_t){job_endpoint(&job, (pami_task_t)root_of(round, which), 0),
                            (char *)(source + which),
                            PAMI_TYPE_UNSIGNED_LONG,
                            count,
                            (char *)target[which],
                            PAMI_TYPE_UNSIGNED_LONG,
                            count,
                            PAMI_DATA_SUM,
                            NULL,
                            1};
    if (type == PAMI_XFER_ALLREDUCE)
        xfer.cmd.xfer_allreduce = (pami_allreduce_t){(char *)(source + which),
                                                     PAMI_TYPE_UNSIGNED_LONG,
                                                     count,
                                                     (char *)target[which],
                                                     PAMI_TYPE_UNSIGNED_LONG,
                                                     count,
                                                     PAMI_DATA_SUM,
                                                     NULL,
                                                     1};
    coll_start(job.context[0], &xfer);
}

static void check(unsigned round, unsigned which)
{
    pami_xfer_type_t type = type_of(round, which);
    unsigned long tasks = job.tasks;

    if (type == PAMI_XFER_BARRIER ||
        (type == PAMI_XFER_REDUCE && root_of(round, which) != job.task))
        return;
    for (size_t i = 0; i < count_of(round, which); i++)
        if (target[which][i] != tasks * (i + which) + tasks * (tasks - 1) / 2)
            FAIL("round %u, operation %u: word %zu is %lu", round, which, i, target[which][i]);
}

int main(void)
{
    const char *rank = getenv("PMI_RANK"), *odd = getenv("TEST_ODD");
    pami_geometry_t kept[4] = {NULL};

    if (rank != NULL && odd != NULL && strcmp(rank, odd) == 0)
        setenv("PAMI_COLL_AGGREGATE_RADIX", "2", 1);
    job_start(&job, "coll aggregated", 1);
    for (size_t i = 0; i < LENGTH + FLYING; i++)
        source[i] = i + job.task;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pami_geometry_t *geometry = &kept[round % 4];
        struct told told[FLYING];

        if (*geometry != NULL)
            CHECK_OK(PAMI_Geometry_destroy(job.client, geometry, job.context[0], NULL, NULL));
        *geometry = create(1 + round, round % 2 != 0);
        if (round % job.tasks == job.task)
            test_sleep(0.001);
        for (unsigned i = 0; i < FLYING; i++)
            start(*geometry, round, i, &told[i]);
        for (unsigned i = 0; i < FLYING; i++) {
            WAIT(&job, told[i].count != 0);
            CHECK(told[i].result == PAMI_SUCCESS);
            check(round, i);
        }
    }
    job_finish(&job);
    return 0;
}
