/*
 * A connection that somebody else made (a simulated launcher): missing operations are tolerated,
 * present ones are called, and closing it leaves the process's own connection alone.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/backend.h"
#include "bootstrap/bootstrap.h"

static int closed, aborted, fences;

static void count_close(struct bootstrap *bootstrap)
{
    (void)bootstrap;
    closed++;
}

static void count_abort(struct bootstrap *bootstrap, int code, const char *why)
{
    (void)bootstrap;
    assert_string_equal(why, "because");
    aborted = code;
}

static int count_fence(struct bootstrap *bootstrap)
{
    (void)bootstrap;
    return ++fences;
}

static int odd_node(struct bootstrap *bootstrap, uint32_t task, uint32_t *node)
{
    (void)bootstrap;
    *node = task % 2;
    return 0;
}

static void test_nothing(void **state)
{
    const struct bootstrap_ops nothing = {.name = "nothing"};
    struct bootstrap sim = {.ops = &nothing, .task = 1, .tasks = 3, .nodes = 1};
    uint32_t node = 7;
    char value[8];

    (void)state;
    assert_int_equal(bootstrap_put(&sim, "k", "v"), -ENOTSUP);
    assert_int_equal(bootstrap_get(&sim, "k", value, sizeof value), -ENOTSUP);
    assert_int_equal(bootstrap_fence(&sim), 0);
    assert_int_equal(bootstrap_node_of(&sim, 2, &node), 0);
    assert_int_equal(node, 0);
    assert_int_equal(bootstrap_node_of(&sim, 3, &node), -EINVAL);
    sim.nodes = 2;
    assert_int_equal(bootstrap_node_of(&sim, 2, &node), -ENOTSUP);
    bootstrap_abort(&sim, 1, NULL);
    bootstrap_close(&sim);
}

static void test_something(void **state)
{
    const struct bootstrap_ops some = {
        .name = "some",
        .fence = count_fence,
        .node_of = odd_node,
        .abort = count_abort,
        .close = count_close,
    };
    struct bootstrap sim = {.ops = &some, .tasks = 3, .nodes = 2};
    struct bootstrap *own, *again;
    uint32_t node, map[3] = {1, 1, 0};

    (void)state;
    unsetenv("PMI_FD");
    assert_int_equal(bootstrap_open(&own), 0);
    assert_int_equal(bootstrap_fence(&sim), 1);
    assert_int_equal(bootstrap_node_of(&sim, 1, &node), 0);
    assert_int_equal(node, 1);
    sim.node_map = map;
    assert_int_equal(bootstrap_node_of(&sim, 2, &node), 0);
    assert_int_equal(node, 0);
    bootstrap_abort(&sim, 5, "because");
    assert_int_equal(aborted, 5);
    bootstrap_close(&sim);
    assert_int_equal(closed, 1);
    assert_int_equal(bootstrap_open(&again), 0);
    assert_ptr_equal(own, again);
}

/* The back ends' helper: any node ids become 0, 1, ... in the order of the lowest tasks. */
static void test_set_nodes(void **state)
{
    static const uint32_t given[] = {7, 900, 7, 0, 900, 7, 4000000000u};
    static const uint32_t dense[] = {0, 1, 0, 2, 1, 0, 3};
    static const uint32_t local[] = {0, 2, 5};
    struct bootstrap sim = {.task = 5, .tasks = 7};
    uint32_t *ids = malloc(sizeof given);
    uint32_t i;

    (void)state;
    assert_non_null(ids);
    memcpy(ids, given, sizeof given);
    assert_int_equal(bootstrap_set_nodes(&sim, ids), 0);
    assert_int_equal(sim.nodes, 4);
    assert_int_equal(sim.node, 0);
    for (i = 0; i < 7; i++)
        assert_int_equal(sim.node_map[i], dense[i]);
    assert_int_equal(sim.local_count, 3);
    assert_int_equal(sim.local_index, 2);
    for (i = 0; i < 3; i++)
        assert_int_equal(sim.local_tasks[i], local[i]);
    assert_int_equal(sim.run, 0);
    free(sim.local_tasks);
    free(sim.node_map);
}

/* Where as many tasks in turn go to each node, that is found. */
static void test_runs(void **state)
{
    static const struct {
        uint32_t nodes[8], tasks, run;
    } maps[] = {
        {{3, 3, 3, 3}, 4, 4},
        {{5, 5, 5, 1, 1, 1, 2, 2}, 8, 3},
        {{5, 1, 2, 5, 1, 2, 5, 1}, 8, 1},
        {{7, 7, 8, 8, 7, 7, 8}, 7, 2},
        {{7, 7, 8, 8, 8}, 5, 0},
        {{7, 7, 8, 7, 7}, 5, 0},
        {{1, 2, 2}, 3, 0},
        {{1, 1, 2, 3}, 4, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        struct bootstrap sim = {.task = 0, .tasks = maps[i].tasks};
        uint32_t *ids = malloc(sizeof maps[i].nodes);

        assert_non_null(ids);
        memcpy(ids, maps[i].nodes, sizeof maps[i].nodes);
        assert_int_equal(bootstrap_set_nodes(&sim, ids), 0);
        assert_int_equal(sim.run, maps[i].run);
        free(sim.local_tasks);
        free(sim.node_map);
    }
}

/* Lists of the tasks of a node, by nodes of any number. */
static void test_mark_node(void **state)
{
    static const uint32_t after[] = {9, 9, 0, 9, 9, 9, 0};
    static const char *const wrong[] = {"",   "0,",  ",0",  "x",     "0-",    "5-3",        "7",
                                        "-1", "3-7", "0 1", "0,1,1", "0-2,1", "99999999999"};
    uint32_t ids[7], i;

    (void)state;
    memset(ids, 0xff, sizeof ids);
    assert_int_equal(bootstrap_mark_node("0,1,3-5", 9, ids, 7), 0);
    assert_int_equal(ids[2], UINT32_MAX);
    assert_int_equal(bootstrap_mark_node("2,6", 0, ids, 7), 0);
    for (i = 0; i < 7; i++)
        assert_int_equal(ids[i], after[i]);
    assert_int_equal(bootstrap_mark_node("6", 9, ids, 7), -EPROTO);
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memset(ids, 0xff, sizeof ids);
        assert_int_equal(bootstrap_mark_node(wrong[i], 1, ids, 7), -EPROTO);
    }
}

static void test_set_job(void **state)
{
    struct bootstrap a = {0}, b = {0};
    char name[300];

    (void)state;
    bootstrap_set_job(&a, "../kvs 12/host:3");
    assert_memory_equal(a.job, "_._kvs_12_host_3-", 17);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    bootstrap_set_job(&a, name);
    assert_int_equal(strlen(a.job), BOOTSTRAP_JOB_MAX - 1);
    name[sizeof name - 2] = 'm';
    bootstrap_set_job(&b, name);
    assert_int_equal(strlen(b.job), BOOTSTRAP_JOB_MAX - 1);
    assert_string_not_equal(a.job, b.job);
    bootstrap_set_job(&b, "");
    assert_int_equal(b.job[0], '-');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),   cmocka_unit_test(test_something),
        cmocka_unit_test(test_set_nodes), cmocka_unit_test(test_runs),
        cmocka_unit_test(test_mark_node), cmocka_unit_test(test_set_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
