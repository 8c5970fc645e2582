/*
 * Memory that runs out while aggregation nodes work, for all members or for the leaders of their
 * nodes, or for both in turn. A run for which a segment cannot be sent ends on all members, with
 * the right result or with an error, and those after it are right again. So do runs during which
 * any one allocation fails, or up to seven in a row: while the members join, while nodes are made,
 * and while they run; and while they move on to another term, for which a member that finds no
 * memory waits, as nobody has gone.
 *
 * Run: args="--seeds 150" env="PAMI_COLL_AGGREGATE_SEGMENT=1K" timeout=240
 * Run: env="PAMI_COLL_AGGREGATE_SEGMENT=1K PAMI_COLL_AGGREGATE_RADIX=2" timeout=240
 */
#include "no_memory.h"

enum {
    MEMBERS = 20,
    DOUBLES = 1000,
    OPERATIONS = 6,
    /* So many in a row can break the shared memory of a node's members for good. */
    ROW_BREAKS = 4,
    /* What only the message of a whole segment has: a segment and 40 bytes. */
    BYTES = 1024 + 40
};

static const char all_members[] = ":Aggregated:", leaders[] = ":HierarchicalAggregated:";

struct member {
    double target[OPERATIONS][DOUBLES];
    pami_result_t result[OPERATIONS];
    size_t done;
};

struct call {
    struct member *member;
    size_t operation;
};

static struct member members[MEMBERS];
static struct call calls[MEMBERS][OPERATIONS];

/* Of successive operations, in turn. */
static const char *rows[2];

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct call *call = cookie;

    (void)context;
    CHECK(result != PAMI_INVAL);
    CHECK(result == PAMI_SUCCESS || strstr(test_text(), "has gone") == NULL);
    call->member->result[call->operation] = result;
    call->member->done++;
}

/* Not all members have neighbours on their nodes. */
static pami_algorithm_t named(pami_client_t client, size_t operation)
{
    pami_algorithm_t handle;
    pami_geometry_t world;

    CALL(PAMI_Geometry_world(client, &world));
    handle = sim_algorithm(world, PAMI_XFER_ALLREDUCE, rows[operation % 2]);
    if (handle == PAMI_ALGORITHM_NULL)
        handle = sim_algorithm(world, PAMI_XFER_ALLREDUCE, all_members);
    CHECK(handle != PAMI_ALGORITHM_NULL);
    return handle;
}

static void on_updated(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
}

/* To another term, while runs are under way in this one. */
static void update_all(const struct sim_job *job)
{
    pami_configuration_t wish = {.name = PAMI_GEOMETRY_OPTIMIZE, .value.intval = 1};
    pami_geometry_t world;
    pami_result_t result;

    for (size_t i = 0; i < job->tasks; i++) {
        CALL(PAMI_Geometry_world(job->client[i], &world));
        while ((result = PAMI_Geometry_update(world, &wish, 1, job->context[i], on_updated,
                                              NULL)) == PAMI_ENOMEM)
            CHECK(no_memory.refused != 0);
        CHECK(result == PAMI_SUCCESS);
    }
}

/* All members call operations from..to-1; every one adds up 1s. */
static void call_some(const struct sim_job *job, const double *ones, size_t from, size_t to)
{
    for (size_t o = from; o < to; o++)
        for (size_t i = 0; i < job->tasks; i++) {
            char *into = (char *)members[i].target[o];
            pami_xfer_t xfer = {.cb_done = on_done, .cookie = &calls[i][o]};
            pami_result_t result;

            calls[i][o] = (struct call){&members[i], o};
            xfer.algorithm = named(job->client[i], o);
            xfer.cmd.xfer_allreduce =
                (pami_allreduce_t){(char *)ones, PAMI_TYPE_DOUBLE, DOUBLES, into, PAMI_TYPE_DOUBLE,
                                   DOUBLES,      PAMI_DATA_SUM,    NULL,    1};
            while ((result = PAMI_Collective(job->context[i], &xfer)) == PAMI_ENOMEM)
                CHECK(no_memory.refused != 0);
            CHECK(result == PAMI_SUCCESS);
        }
}

static void settle(const struct sim_job *job)
{
    job_settle(job);
    for (size_t i = 0; i < job->tasks; i++)
        CHECK(members[i].done == OPERATIONS);
}

static void call_all(const struct sim_job *job, const double *ones)
{
    memset(members, 0, sizeof(members));
    call_some(job, ones, 0, OPERATIONS);
    settle(job);
}

/* Returns how many have failed. */
static size_t check_all(size_t tasks)
{
    size_t failed = 0;

    for (size_t i = 0; i < tasks; i++)
        for (size_t o = 0; o < OPERATIONS; o++) {
            failed += members[i].result[o] != PAMI_SUCCESS;
            for (size_t k = 0; k < DOUBLES && members[i].result[o] == PAMI_SUCCESS; k++)
                CHECK(members[i].target[o][k] == (double)tasks);
        }
    return failed;
}

/* Has anything failed that needs no shared memory? */
static bool failed_without(size_t tasks)
{
    for (size_t i = 0; i < tasks; i++)
        for (size_t o = 0; o < OPERATIONS; o++)
            if (members[i].result[o] != PAMI_SUCCESS && rows[o % 2] != leaders)
                return true;
    return false;
}

static void run(uint64_t seed)
{
    static double ones[DOUBLES];
    struct dice dice = {seed};
    struct sim_job job;
    pamix_sim_config_t config;
    size_t failed;

    test_seed = seed;
    no_memory.bytes = BYTES;
    no_memory.luck = (struct dice){seed * 77};
    for (size_t i = 0; i < 2; i++)
        rows[i] = dice_one_in(&dice, 2) ? all_members : leaders;
    for (size_t k = 0; k < DOUBLES; k++)
        ones[k] = 1;
    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.tasks_per_node = 1 + (uint32_t)dice_below(&dice, 4);
    job_create(&job, &config, 2 + dice_below(&dice, MEMBERS - 1), 1);
    call_all(&job, ones);
    CHECK(check_all(job.tasks) == 0);
    no_memory.refused = 0;
    no_memory.one_in = 2 + dice_below(&dice, 400);
    call_all(&job, ones);
    no_memory.one_in = 0;
    failed = check_all(job.tasks);
    CHECK((failed != 0) == (no_memory.refused != 0));
    call_all(&job, ones);
    CHECK(check_all(job.tasks) == 0);
    job_destroy(&job);
}

/* Allocation number `which` of the first runs fails, and `row` - 1 behind it; or, if `moves`, from
 * an update on that some of them are behind. Whether there are so many. */
static bool run_without(size_t which, size_t row, size_t tasks, uint32_t tasks_per_node, bool moves)
{
    static double ones[DOUBLES];
    struct sim_job job;
    pamix_sim_config_t config;
    size_t failed, refused;

    for (size_t k = 0; k < DOUBLES; k++)
        ones[k] = 1;
    PAMIX_Sim_default(&config);
    config.seed = which + 1;
    config.tasks_per_node = tasks_per_node;
    job_create(&job, &config, tasks, 1);
    memset(members, 0, sizeof(members));
    no_memory.refused = 0;
    if (moves) {
        call_some(&job, ones, 0, OPERATIONS / 2);
        update_all(&job);
    }
    refuse_row(which, row);
    call_some(&job, ones, moves ? OPERATIONS / 2 : 0, OPERATIONS);
    settle(&job);
    refused = no_memory.refused;
    failed = check_all(job.tasks);
    CHECK(failed == 0 || refused != 0);
    refuse_only(SIZE_MAX);
    call_all(&job, ones);
    failed = check_all(job.tasks);
    CHECK(failed == 0 || (row >= ROW_BREAKS && !failed_without(job.tasks)));
    job_destroy(&job);
    return refused != 0;
}

/* All of them in turn; of what is far behind the joining, some. */
static void run_without_each(size_t row, size_t tasks, uint32_t tasks_per_node, bool moves)
{
    size_t which = 0;

    while (run_without(which, row, tasks, tasks_per_node, moves))
        which += 1 + which / 64;
    CHECK(which > 50);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 40);

    need_refusing();
    for (uint64_t i = 0; i < given.seeds; i++)
        run(given.seed + i);
    for (size_t row = 1; row <= 7; row++) {
        for (int moves = 0; moves < 2; moves++) {
            rows[0] = rows[1] = all_members;
            run_without_each(row, 2, 1, moves != 0);
            run_without_each(row, 5, 2, moves != 0);
            run_without_each(row, 9, 1, moves != 0);
            rows[1] = leaders;
            run_without_each(row, 5, 2, moves != 0);
            rows[0] = leaders;
            run_without_each(row, 4, 2, moves != 0);
            run_without_each(row, 10, 3, moves != 0);
        }
    }
    return 0;
}
