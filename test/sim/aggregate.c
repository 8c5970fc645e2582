/*
 * Reductions of doubles by aggregation nodes, of all members or of the leaders of their nodes, many
 * in flight and with others among them, on a simulated network with trouble: all members have the
 * same bits, and those of a run without trouble, whatever arrives first. Geometries are optimised
 * or not, on some of the tasks, and are destroyed while others still work.
 *
 * With few slots, or little memory for them, it is a matter of time which groups have some, and
 * others add in another order: then all values are whole, and their sums exact.
 *
 * Run: args="--seeds 150" timeout=120
 * Run: args="--seeds 80 --seed 50" env="PAMI_COLL_AGGREGATE_RADIX=2 PAMI_COLL_AGGREGATE_SEGMENT=64"
 * Run: args="--seeds 80 --seed 700" env="PAMI_COLL_AGGREGATE_RADIX=3 PAMI_COLL_AGGREGATE_WINDOW=1"
 * Run: args="--seeds 80 --seed 900" env="PAMI_COLL_AGGREGATE_SLOTS=5" timeout=120
 * Run: args="--seeds 80 --seed 1500" env="PAMI_COLL_AGGREGATE_SLOTS=3" timeout=120
 * Run: args="--seeds 40 --seed 2500" env="PAMI_COLL_AGGREGATE_BYTES=300K" timeout=120
 */
#include "coll_start.h"
#include "trouble.h"

enum {
    OPERATIONS = 8,
    DOUBLES = 3000,
    MEMBERS = 40
};

struct member {
    pami_geometry_t geometry;
    size_t done;
    double *target[OPERATIONS];
};

struct scene {
    struct sim_job job;
    struct dice dice;
    uint64_t key;
    size_t count[OPERATIONS];
    size_t root[OPERATIONS]; /* of a reduce; members: an allreduce */
    const char *row[OPERATIONS];
    double *source[MEMBERS];
    struct member member[MEMBERS];
};

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct member *m = cookie;

    (void)context;
    CHECK(result == PAMI_SUCCESS);
    m->done++;
}

static void on_created(pami_context_t context, void *cookie, pami_result_t result)
{
    on_done(context, cookie, result);
}

/* Not all members have neighbours on their nodes. */
static pami_algorithm_t named(pami_geometry_t geometry, pami_xfer_type_t type, const char *row)
{
    pami_algorithm_t handle = sim_algorithm(geometry, type, row);

    if (handle == PAMI_ALGORITHM_NULL)
        handle = sim_algorithm(geometry, type, ":Aggregated:");
    CHECK(handle != PAMI_ALGORITHM_NULL);
    return handle;
}

static void create(struct scene *s, bool optimised)
{
    pami_geometry_range_t all = {0, (pami_task_t)s->job.tasks - 1};

    for (size_t i = 0; i < s->job.tasks; i++) {
        pami_configuration_t wish = {.name = PAMI_GEOMETRY_OPTIMIZE, .value.intval = 1};

        s->member[i].done = 0;
        CALL(PAMI_Geometry_create_taskrange(s->job.client[i], 0, &wish, optimised,
                                            &s->member[i].geometry, NULL, 3, &all, 1,
                                            s->job.context[i], on_created, &s->member[i]));
    }
    job_settle(&s->job);
    for (size_t i = 0; i < s->job.tasks; i++)
        CHECK(s->member[i].done == 1);
}

static void start(void *cookie, size_t operation, size_t self)
{
    struct scene *s = cookie;
    struct member *m = &s->member[self];
    size_t n = s->count[operation], root = s->root[operation];
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = m};
    char *from = (char *)(s->source[self] + operation), *into = (char *)m->target[operation];

    if (root == s->job.tasks) {
        xfer.algorithm = named(m->geometry, PAMI_XFER_ALLREDUCE, s->row[operation]);
        xfer.cmd.xfer_allreduce = (pami_allreduce_t){
            from, PAMI_TYPE_DOUBLE, n, into, PAMI_TYPE_DOUBLE, n, PAMI_DATA_SUM, NULL, 1};
    } else {
        xfer.algorithm = named(m->geometry, PAMI_XFER_REDUCE, s->row[operation]);
        xfer.cmd.xfer_reduce = (pami_reduce_t){job_endpoint(&s->job, root, 0),
                                               from,
                                               PAMI_TYPE_DOUBLE,
                                               n,
                                               into,
                                               PAMI_TYPE_DOUBLE,
                                               n,
                                               PAMI_DATA_SUM,
                                               NULL,
                                               1};
    }
    CALL(PAMI_Collective(s->job.context[self], &xfer));
}

/* Runs all operations; `expected` is filled, or compared with. */
static void run_all(struct scene *s, const pamix_sim_config_t *config, size_t tasks,
                    double (*expected)[DOUBLES], bool first, bool optimised)
{
    job_create(&s->job, config, tasks, 1);
    create(s, optimised);
    coll_start_all(&s->job, &s->dice, OPERATIONS, start, s);
    job_settle(&s->job);
    for (size_t i = 0; i < tasks; i++)
        CHECK(s->member[i].done == 1 + OPERATIONS);
    for (size_t o = 0; o < OPERATIONS; o++)
        for (size_t i = 0; i < tasks; i++) {
            if (s->root[o] != tasks && s->root[o] != i)
                continue;
            if (first && (i == 0 || s->root[o] == i))
                memcpy(expected[o], s->member[i].target[o], s->count[o] * sizeof(double));
            CHECK(memcmp(expected[o], s->member[i].target[o], s->count[o] * sizeof(double)) == 0);
        }
    for (size_t i = 0; i < tasks; i++)
        CALL(PAMI_Geometry_destroy(s->job.client[i], &s->member[i].geometry, s->job.context[i],
                                   NULL, NULL));
    job_settle(&s->job);
    job_destroy(&s->job);
}

static double value(struct dice *dice)
{
    if (getenv("PAMI_COLL_AGGREGATE_SLOTS") != NULL || getenv("PAMI_COLL_AGGREGATE_BYTES") != NULL)
        return (double)dice_below(dice, 1000);
    return (dice_unit(dice) - 0.5) * (dice_one_in(dice, 3) ? 1e20 : 1.0);
}

static void run(uint64_t seed, size_t tasks)
{
    static const char *const rows[] = {":Aggregated:", ":HierarchicalAggregated:",
                                       ":HierarchicalAggregated:", ":Hierarchical:", ":Auto"};
    static double expected[OPERATIONS][DOUBLES];
    struct scene s = {.dice = {seed}};
    pamix_sim_config_t trouble = trouble_config(&s.dice, seed), calm;

    tasks = tasks != 0 ? tasks : 1 + dice_below(&s.dice, MEMBERS);
    for (size_t o = 0; o < OPERATIONS; o++) {
        s.count[o] = dice_one_in(&s.dice, 5) ? 0 : 1 + dice_size(&s.dice, DOUBLES - OPERATIONS - 1);
        s.root[o] = dice_one_in(&s.dice, 3) ? dice_below(&s.dice, tasks) : tasks;
        s.row[o] = rows[dice_below(&s.dice, 5)];
    }
    for (size_t i = 0; i < tasks; i++) {
        s.source[i] = malloc(DOUBLES * sizeof(double));
        CHECK(s.source[i] != NULL);
        for (size_t k = 0; k < DOUBLES; k++)
            s.source[i][k] = value(&s.dice);
        for (size_t o = 0; o < OPERATIONS; o++) {
            s.member[i].target[o] = malloc(DOUBLES * sizeof(double));
            CHECK(s.member[i].target[o] != NULL);
        }
    }
    PAMIX_Sim_default(&calm);
    calm.tasks_per_node = trouble.tasks_per_node;
    run_all(&s, &calm, tasks, expected, true, false);
    run_all(&s, &trouble, tasks, expected, false, dice_one_in(&s.dice, 2));
    for (size_t i = 0; i < tasks; i++) {
        free(s.source[i]);
        for (size_t o = 0; o < OPERATIONS; o++)
            free(s.member[i].target[o]);
    }
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 40);

    test_each_seed(&given, run);
    return 0;
}
