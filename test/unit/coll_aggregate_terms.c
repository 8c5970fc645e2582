/*
 * Slots of aggregation nodes and updates of PAMI_GEOMETRY_OPTIMIZE, on simulated tasks: what one
 * geometry was granted comes back when it is updated to 0, at once or when its runs have ended, and
 * another one, refused before, is granted it then; the first falls back to messages until it is
 * updated to 1 again. The same of the leaders of nodes, who have slots of their own.
 *
 * Run: env="PAMI_COLL_AGGREGATE_SLOTS=4 PAMI_COLL_AGGREGATE_WINDOW=4" timeout=60
 * Run: env="PAMI_COLL_AGGREGATE_SLOTS=4 PAMI_COLL_AGGREGATE_WINDOW=4 PAMI_COLL_AGGREGATE_RADIX=8"
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/aggregate/internal.h"
#include "coll/coll.h"
#include "sim/sim_test.h"

enum {
    TASKS = 6,
    SLOTS = 4
};

static struct sim_job job;
static pami_geometry_t geometry[2][TASKS];
static const char *row; /* of runs */
static size_t done, failed;
static long sums[TASKS];

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    done++;
    failed += result != PAMI_SUCCESS;
}

static struct aggregate *aggregate_at(size_t task)
{
    return context_from_handle(job.context[task])->coll->aggregate;
}

static void create(size_t which)
{
    pami_geometry_range_t all = {0, TASKS - 1};

    for (size_t i = 0; i < TASKS; i++)
        CALL(PAMI_Geometry_create_taskrange(job.client[i], 0, NULL, 0, &geometry[which][i], NULL,
                                            (unsigned)which + 1, &all, 1, job.context[i], on_done,
                                            NULL));
    job_settle(&job);
}

static void update_one(size_t which, size_t task, bool value)
{
    pami_configuration_t wish = {.name = PAMI_GEOMETRY_OPTIMIZE, .value.intval = value};

    CALL(PAMI_Geometry_update(geometry[which][task], &wish, 1, job.context[task], NULL, NULL));
}

static void update(size_t which, bool value)
{
    for (size_t i = 0; i < TASKS; i++)
        update_one(which, i, value);
}

static pami_algorithm_t algorithm_of(pami_geometry_t from)
{
    enum {
        MOST = 64
    };
    pami_algorithm_t handles[2][MOST];
    pami_metadata_t metadata[2][MOST];
    size_t lengths[2];

    CALL(PAMI_Geometry_algorithms_num(from, PAMI_XFER_ALLREDUCE, lengths));
    CALL(PAMI_Geometry_algorithms_query(from, PAMI_XFER_ALLREDUCE, handles[0], metadata[0], MOST,
                                        handles[1], metadata[1], MOST));
    for (size_t list = 0; list < 2; list++)
        for (size_t i = 0; i < lengths[list]; i++)
            if (strstr(metadata[list][i].name, row) != NULL)
                return handles[list][i];
    FAIL("there is no such algorithm");
}

static void start_one(size_t which, size_t task)
{
    static long ones[1] = {1};
    pami_xfer_t xfer = {.cb_done = on_done, .algorithm = algorithm_of(geometry[which][task])};

    sums[task] = 0;
    xfer.cmd.xfer_allreduce = (pami_allreduce_t){(char *)ones,
                                                 PAMI_TYPE_SIGNED_LONG,
                                                 1,
                                                 (char *)&sums[task],
                                                 PAMI_TYPE_SIGNED_LONG,
                                                 1,
                                                 PAMI_DATA_SUM,
                                                 NULL,
                                                 1};
    CALL(PAMI_Collective(job.context[task], &xfer));
}

static void settle(void)
{
    job_settle(&job);
    assert_int_equal(done, TASKS);
    assert_int_equal(failed, 0);
    for (size_t i = 0; i < TASKS; i++)
        assert_int_equal(sums[i], TASKS);
    done = 0;
}

static void run(size_t which)
{
    for (size_t i = 0; i < TASKS; i++)
        start_one(which, i);
    settle();
}

static uint32_t slots_left(void)
{
    return aggregate_at(0)->manager.slots;
}

static uint64_t combined(void)
{
    return aggregate_at(0)->counts.combined;
}

/* A run of this geometry goes through aggregation nodes, or not. */
static void expect(size_t which, bool granted)
{
    uint64_t before = combined();

    run(which);
    assert_true((combined() != before) == granted);
}

static void set_up_nodes(uint32_t tasks_per_node)
{
    pamix_sim_config_t config;

    PAMIX_Sim_default(&config);
    config.tasks_per_node = tasks_per_node;
    job_create(&job, &config, TASKS, 1);
    create(0);
    create(1);
    done = 0;
}

static int set_up(void **state)
{
    (void)state;
    row = ":Aggregated:";
    set_up_nodes(TASKS);
    return 0;
}

static int set_up_leaders(void **state)
{
    (void)state;
    row = ":HierarchicalAggregated:";
    set_up_nodes(2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    job_destroy(&job);
    return 0;
}

static void slots_go_from_one_to_the_other(void **state)
{
    (void)state;
    update(0, true);
    job_settle(&job);
    assert_int_equal(slots_left(), 0);
    update(1, true);
    expect(1, false);
    expect(0, true);
    for (unsigned round = 0; round < 10; round++) {
        size_t from = round % 2, to = 1 - from;

        update(from, false);
        update(to, true);
        expect(to, true);
        expect(from, false);
        assert_int_equal(slots_left(), 0);
    }
    update(0, false);
    update(1, false);
    job_settle(&job);
    assert_int_equal(slots_left(), SLOTS);
    expect(0, false);
    for (size_t i = 0; i < TASKS; i++)
        assert_true(list_empty(&aggregate_at(i)->nodes) || i == 0);
}

/* Some are past the update before others have begun the runs. */
static void runs_under_way_end_first(void **state)
{
    (void)state;
    update(0, true);
    for (size_t i = 0; i < TASKS / 2; i++) {
        start_one(0, i);
        update_one(0, i, false);
        update_one(0, i, true);
    }
    job_settle(&job);
    assert_int_equal(done, 0);
    for (size_t i = TASKS / 2; i < TASKS; i++) {
        start_one(0, i);
        update_one(0, i, false);
        update_one(0, i, true);
    }
    settle();
    assert_int_equal(combined(), 1);
    assert_int_equal(slots_left(), 0);
    assert_int_equal(aggregate_at(0)->counts.refused, 0);
    expect(0, true);
    update(0, false);
    job_settle(&job);
    assert_int_equal(slots_left(), SLOTS);
    for (size_t i = 0; i < TASKS; i++) {
        assert_true(list_empty(&aggregate_at(i)->nodes));
        assert_true(list_empty(&aggregate_at(i)->members));
    }
}

/* Members that do not agree about the value are refused together. */
static void values_may_differ(void **state)
{
    (void)state;
    for (size_t i = 0; i < TASKS; i++)
        update_one(0, i, i != TASKS / 2);
    expect(0, false);
    assert_int_equal(slots_left(), SLOTS);
    update(0, true);
    expect(0, true);
}

/* What does not name it changes nothing. */
static void other_attributes_are_no_updates(void **state)
{
    pami_configuration_t other = {.name = PAMI_GEOMETRY_NONCONTIG, .value.intval = 0};

    (void)state;
    update(0, true);
    expect(0, true);
    CALL(PAMI_Geometry_update(geometry[0][1], &other, 1, job.context[1], NULL, NULL));
    expect(0, true);
}

static void leaders_have_slots_of_their_own(void **state)
{
    (void)state;
    expect(0, true);
    assert_int_equal(slots_left(), 0);
    expect(1, false);
    update(0, false);
    job_settle(&job);
    assert_int_equal(slots_left(), SLOTS);
    expect(0, false);
    expect(1, false); /* refused for this term */
    update(1, true);
    job_settle(&job);
    expect(1, true);
    assert_int_equal(slots_left(), 0);
    row = ":Aggregated:"; /* of the same geometry, in the same term */
    expect(1, false);
    row = ":HierarchicalAggregated:";
    expect(1, true);
}

/* The others are not asked, so a group of leaders is never that of all members. */
static void leaders_alone_join(void **state)
{
    (void)state;
    expect(0, true);
    for (size_t i = 0; i < TASKS; i++)
        assert_true(list_empty(&aggregate_at(i)->members) == (i % 2 != 0));
    for (size_t i = 1; i < TASKS; i++)
        assert_true(list_empty(&aggregate_at(i)->nodes));
    update(0, false);
    job_settle(&job);
    for (size_t i = 0; i < TASKS; i++) {
        assert_true(list_empty(&aggregate_at(i)->nodes));
        assert_true(list_empty(&aggregate_at(i)->members));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(slots_go_from_one_to_the_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_under_way_end_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(values_may_differ, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_attributes_are_no_updates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leaders_have_slots_of_their_own, set_up_leaders, tear_down),
        cmocka_unit_test_setup_teardown(leaders_alone_join, set_up_leaders, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
