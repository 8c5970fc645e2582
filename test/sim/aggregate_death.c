/*
 * A leader or another member dies while leaders of nodes contribute to aggregation nodes, several
 * collectives under way: all that others have called ends, well and right, or with an error, which
 * is not that they disagree; and one more, which they call then, fails on all of them.
 *
 * Run: args="--seeds 1000" timeout=120
 * Run: args="--seeds 500 --seed 5000" env="PAMI_COLL_AGGREGATE_RADIX=2" timeout=120
 * Run: args="--seeds 500 --seed 9000" env="PAMI_COLL_AGGREGATE_SEGMENT=64" timeout=120
 * Run: args="--seeds 500 --seed 13000" env="PAMI_COLL_SHARED_BYTES=0" timeout=120
 * Run: args="--seeds 300 --seed 17000" env="PAMI_COLL_AGGREGATE_SLOTS=0" timeout=120
 */
#include "coll_start.h"
#include "trouble.h"

enum {
    MEMBERS = 24,
    OPERATIONS = 5, /* and one more */
    WORDS = 100
};

struct call {
    bool done;
    pami_result_t result;
    unsigned long source[WORDS], target[WORDS];
};

struct scene {
    struct sim_job job;
    struct dice dice;
    pami_xfer_type_t type[OPERATIONS + 1];
    size_t root[OPERATIONS + 1], count[OPERATIONS + 1];
    uint32_t dead;
    struct call (*call)[OPERATIONS + 1]; /* [member] */
};

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct call *call = cookie;

    (void)context;
    CHECK(!call->done);
    call->done = true;
    call->result = result;
}

static unsigned long value(size_t member, size_t operation, size_t word)
{
    return (member + 1) * 1000003ul + operation * 1009 + word;
}

static void start(void *cookie, size_t operation, size_t self)
{
    struct scene *s = cookie;
    struct call *call = &s->call[self][operation];
    char *from = (char *)call->source, *into = (char *)call->target;
    size_t n = s->count[operation];
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = call};
    pami_geometry_t world;

    call->done = false;
    for (size_t k = 0; k < WORDS; k++)
        call->source[k] = value(self, operation, k);
    CALL(PAMI_Geometry_world(s->job.client[self], &world));
    xfer.algorithm = sim_algorithm(world, s->type[operation], ":HierarchicalAggregated:");
    CHECK(xfer.algorithm != PAMI_ALGORITHM_NULL);
    if (s->type[operation] == PAMI_XFER_ALLREDUCE)
        xfer.cmd.xfer_allreduce =
            (pami_allreduce_t){from, PAMI_TYPE_UNSIGNED_LONG, n,    into, PAMI_TYPE_UNSIGNED_LONG,
                               n,    PAMI_DATA_SUM,           NULL, 1};
    else if (s->type[operation] == PAMI_XFER_REDUCE)
        xfer.cmd.xfer_reduce = (pami_reduce_t){job_endpoint(&s->job, s->root[operation], 0),
                                               from,
                                               PAMI_TYPE_UNSIGNED_LONG,
                                               n,
                                               into,
                                               PAMI_TYPE_UNSIGNED_LONG,
                                               n,
                                               PAMI_DATA_SUM,
                                               NULL,
                                               1};
    CALL(PAMI_Collective(s->job.context[self], &xfer));
}

static void check_sum(const struct scene *s, size_t self, size_t operation)
{
    for (size_t k = 0; k < s->count[operation]; k++) {
        unsigned long sum = 0;

        for (size_t i = 0; i < s->job.tasks; i++)
            sum += value(i, operation, k);
        CHECK(s->call[self][operation].target[k] == sum);
    }
}

/* Returns how many have failed. */
static size_t check(const struct scene *s, size_t operation)
{
    size_t failed = 0;

    for (size_t i = 0; i < s->job.tasks; i++) {
        const struct call *call = &s->call[i][operation];

        if (i == s->dead)
            continue;
        CHECK(call->done);
        CHECK(call->result == PAMI_SUCCESS || call->result == PAMI_ERROR);
        failed += call->result != PAMI_SUCCESS;
        if (call->result == PAMI_SUCCESS &&
            (s->type[operation] == PAMI_XFER_ALLREDUCE ||
             (s->type[operation] == PAMI_XFER_REDUCE && s->root[operation] == i)))
            check_sum(s, i, operation);
    }
    return failed;
}

static void choose(struct scene *s, size_t tasks)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_BARRIER, PAMI_XFER_ALLREDUCE,
                                             PAMI_XFER_REDUCE};

    for (size_t o = 0; o <= OPERATIONS; o++) {
        s->type[o] = types[dice_below(&s->dice, 3)];
        s->root[o] = dice_below(&s->dice, tasks);
        s->count[o] = dice_below(&s->dice, WORDS + 1);
    }
    s->type[OPERATIONS] = PAMI_XFER_BARRIER; /* which all members wait in */
}

static void run(uint64_t seed, size_t tasks)
{
    static struct call calls[MEMBERS][OPERATIONS + 1];
    struct scene s = {.dice = {seed}, .call = calls};
    pamix_sim_config_t config;

    test_seed = seed;
    PAMIX_Sim_default(&config);
    config.seed = seed;
    config.tasks_per_node = 2 + (uint32_t)dice_below(&s.dice, 3);
    if (tasks <= config.tasks_per_node) /* at least two nodes */
        tasks =
            config.tasks_per_node + 1 + dice_below(&s.dice, MEMBERS - config.tasks_per_node - 1);
    trouble_network(&config, &s.dice);
    s.dead = (uint32_t)dice_below(&s.dice, tasks);
    config.dead_count = 1;
    config.dead = &s.dead;
    config.dead_time = dice_unit(&s.dice) * 60e-6;
    config.dead_detect = trouble_time(&s.dice, 50e-6);
    choose(&s, tasks);
    job_create(&s.job, &config, tasks, 1);
    coll_start_all(&s.job, &s.dice, OPERATIONS, start, &s);
    job_settle(&s.job);
    for (size_t o = 0; o < OPERATIONS; o++)
        check(&s, o);
    for (size_t i = 0; i < tasks; i++)
        if (i != s.dead)
            start(&s, OPERATIONS, i);
    job_settle(&s.job);
    CHECK(check(&s, OPERATIONS) == tasks - 1);
    job_destroy(&s.job);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 100);

    test_each_seed(&given, run);
    return 0;
}
