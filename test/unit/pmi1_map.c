/*
 * PMI_process_mapping: one block, several, repeated ones, and texts that are no map.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/pmi1_map.h"

#define TASKS 70

/* A map that needs no table says the same as the table. */
static bool expect_same(const char *text, uint32_t tasks, const uint32_t *ids)
{
    struct pmi1_map map;
    uint32_t list[TASKS];
    uint32_t total = 0, run;

    if (!pmi1_map_read(text, &map))
        return false;
    run = pmi1_map_run(&map);
    for (uint32_t i = 0; i < tasks; i++) {
        assert_int_equal(pmi1_map_node(&map, i), ids[i]);
        assert_true(run == 0 || ids[i] == i / run % map.nodes);
    }
    for (uint32_t node = 0; node < map.nodes && node < TASKS; node++) {
        uint32_t count = pmi1_map_local(&map, node, tasks, list);

        assert_int_equal(pmi1_map_local(&map, node, tasks, NULL), count);
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(ids[list[i]], node);
            assert_true(i == 0 || list[i] > list[i - 1]);
        }
        total += count;
    }
    assert_int_equal(total, tasks);
    return true;
}

static void expect(const char *text, uint32_t tasks, const char *nodes)
{
    uint32_t ids[TASKS];
    uint32_t i;

    assert_int_equal(pmi1_map_parse(text, tasks, ids), 0);
    for (i = 0; i < tasks; i++)
        assert_int_equal(ids[i], nodes[i] - '0');
    expect_same(text, tasks, ids);
}

static void test_blocks(void **state)
{
    (void)state;
    expect("(vector,(0,1,4))", 4, "0000");
    expect("(vector,(0,1,8))", 4, "0000");
    expect("(vector,(0,2,2))", 4, "0011");
    expect("(vector,(0,4,1))", 3, "012");
    expect("(vector,(2,1,3),(0,2,1))", 5, "22201");
    expect("( vector , ( 0 , 2 , 1 ) )", 2, "01");
}

static void test_repetition(void **state)
{
    (void)state;
    expect("(vector,(0,1,1))", 4, "0000");
    expect("(vector,(0,2,1))", 5, "01010");
    expect("(vector,(0,2,2))", 9, "001100110");
    expect("(vector,(0,2,1),(0,1,1))", 7, "0100100");
    expect("(vector,(3,1,2),(1,2,1))", 10, "3312331233");
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "vector",
        "(vector)",
        "(vector,)",
        "(vector,())",
        "(vector,(0,1))",
        "(vector,(0,1,1,1))",
        "(vector,(0,0,1))",
        "(vector,(0,1,0))",
        "(vector,(-1,1,1))",
        "(vector,(0,1,1)",
        "(vector,(0,1,1)))",
        "(vector,(0,1,1)) ",
        "(vector,(0,1,1),)",
        "(vector,(0,1,x))",
        "(matrix,(0,1,1))",
        "(vector,(0,1,99999999999999999999))",
        "(vector(0,1,1))",
    };
    uint32_t ids[TASKS];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (pmi1_map_parse(bad[i], 4, ids) != -EPROTO)
            fail_msg("accepted: %s", bad[i]);
}

/* Largest numbers: no overflow, no long loop. */
static void test_huge(void **state)
{
    uint32_t ids[TASKS];

    (void)state;
    assert_int_equal(pmi1_map_parse("(vector,(2147483647,2147483647,1))", TASKS, ids), 0);
    assert_true(ids[TASKS - 1] == 2147483647u + TASKS - 1);
    assert_int_equal(pmi1_map_parse("(vector,(0,2147483647,2147483647))", TASKS, ids), 0);
    assert_int_equal(ids[TASKS - 1], 0);
}

static void test_format(void **state)
{
    uint32_t ids[TASKS], tasks, nodes, i;
    char text[64];

    (void)state;
    for (tasks = 1; tasks <= TASKS; tasks++) {
        for (nodes = 1; nodes <= tasks; nodes++) {
            uint32_t on[TASKS] = {0};

            assert_int_equal(pmi1_map_format(tasks, nodes, text, sizeof text), 0);
            assert_int_equal(pmi1_map_parse(text, tasks, ids), 0);
            assert_true(expect_same(text, tasks, ids));
            for (i = 0; i < tasks; i++) {
                assert_true(i == 0 ? ids[i] == 0
                                   : ids[i] == ids[i - 1] || ids[i] == ids[i - 1] + 1);
                on[ids[i]]++;
            }
            assert_int_equal(ids[tasks - 1], nodes - 1);
            assert_true(on[0] - on[nodes - 1] <= 1);
        }
    }
    assert_int_equal(pmi1_map_format(5, 2, text, 10), -ENOBUFS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),  cmocka_unit_test(test_repetition),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_huge),
        cmocka_unit_test(test_format),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
