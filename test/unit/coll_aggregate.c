/*
 * Aggregation: every member is a leaf of the tree once, every vertex has between two and `radix`
 * children and is hosted by the first member below it, nodes' members are below one vertex if they
 * are several; what a manager gives away never exceeds what it has, and comes back.
 *
 * Run: timeout=20
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "coll/aggregate/manager.h"
#include "coll/aggregate/tree.h"

enum {
    MEMBERS = 150
};

static uint32_t state = 1;

static uint32_t below(uint32_t most)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % most;
}

/* Members below a vertex or leaf; `domain` is that of all, or NONE. */
static uint32_t count_below(const struct aggregate_tree *tree, uint32_t id, const uint32_t *domains,
                            uint32_t *domain)
{
    uint32_t count = 0;

    if (id < tree->members) {
        *domain = domains[id];
        return 1;
    }
    for (uint32_t i = 0; i < tree->vertex[id - tree->members].count; i++) {
        uint32_t child = tree->children[tree->vertex[id - tree->members].first + i];
        uint32_t one = AGGREGATE_NONE;

        count += count_below(tree, child, domains, &one);
        if (i == 0)
            *domain = one;
        else if (*domain != one)
            *domain = AGGREGATE_NONE;
    }
    return count;
}

static uint32_t host_of(const struct aggregate_tree *tree, uint32_t id)
{
    return id < tree->members ? id : tree->vertex[id - tree->members].host;
}

static void check_vertex(const struct aggregate_tree *tree, uint32_t number, uint32_t radix)
{
    const struct aggregate_vertex *vertex = &tree->vertex[number];

    assert_in_range(vertex->count, 2, radix);
    assert_int_equal(vertex->host, host_of(tree, tree->children[vertex->first]));
    for (uint32_t i = 0; i < vertex->count; i++) {
        uint32_t id = tree->children[vertex->first + i];
        const struct aggregate_place *at =
            id < tree->members ? &tree->leaf[id] : &tree->vertex[id - tree->members].at;

        assert_int_equal(at->parent, number);
        assert_int_equal(at->place, i);
    }
}

static void check_tree(const uint32_t *domains, uint32_t members, uint32_t radix)
{
    struct aggregate_tree tree;
    uint32_t domain;

    assert_int_equal(aggregate_tree_make(&tree, domains, members, radix), 0);
    assert_true(tree.vertices < members);
    for (uint32_t i = 0; i < tree.vertices; i++)
        check_vertex(&tree, i, radix);
    if (members == 1) {
        assert_int_equal(tree.leaf[0].parent, AGGREGATE_NONE);
    } else {
        uint32_t root = tree.vertices - 1;

        assert_int_equal(tree.vertex[root].at.parent, AGGREGATE_NONE);
        assert_int_equal(count_below(&tree, members + root, domains, &domain), members);
    }
    /* The only vertex of which some, but not all, children are of a node is above all of them. */
    for (uint32_t i = 0; i < tree.vertices; i++) {
        uint32_t count = count_below(&tree, members + i, domains, &domain), all = 0;

        if (domain != AGGREGATE_NONE || i == tree.vertices - 1)
            continue;
        for (uint32_t k = 0; k < members; k++)
            all += domains[k] == domains[tree.vertex[i].host];
        assert_true(count > all);
    }
    aggregate_tree_free(&tree);
}

static void test_trees(void **unused)
{
    uint32_t domains[MEMBERS];

    (void)unused;
    for (uint32_t members = 1; members <= MEMBERS; members++)
        for (uint32_t radix = 2; radix <= AGGREGATE_RADIX_MAX; radix += radix) {
            uint32_t nodes = 1 + below(members);

            for (uint32_t i = 0; i < members; i++)
                domains[i] = below(nodes) * (1 + below(2) * 1000003u);
            check_tree(domains, members, radix);
            for (uint32_t i = 0; i < members; i++)
                domains[i] = i / (1 + members / nodes);
            check_tree(domains, members, radix);
        }
}

/* Of a job of 8 nodes, radix 2: a group on nodes 4 and 5 ends at the vertex of both; one on 0 and 7
 * at the root, without anything between. */
static void test_trim(void **unused)
{
    const uint32_t near[] = {4, 4, 5, 5}, far[] = {0, 7};
    struct aggregate_tree tree;

    (void)unused;
    assert_int_equal(aggregate_tree_make(&tree, near, 4, 2), 0);
    assert_int_equal(tree.vertices, 3);
    aggregate_tree_free(&tree);
    assert_int_equal(aggregate_tree_make(&tree, far, 2, 2), 0);
    assert_int_equal(tree.vertices, 1);
    aggregate_tree_free(&tree);
}

static void test_manager(void **unused)
{
    struct aggregate_manager manager = {.slots = 10, .bytes = 1000};
    struct aggregate_grant first = aggregate_take(&manager, 4, 100), second, third;

    (void)unused;
    assert_int_equal(first.slots, 4);
    second = aggregate_take(&manager, 8, 50); /* slots are short */
    assert_int_equal(second.slots, 6);
    third = aggregate_take(&manager, 1, 0);
    assert_int_equal(third.slots, 0);
    aggregate_give_back(&manager, &second, 2);
    assert_int_equal(second.slots, 2);
    third = aggregate_take(&manager, 4, 400); /* bytes are short */
    assert_int_equal(third.slots, 1);
    assert_int_equal(aggregate_take(&manager, 4, 400).slots, 0);
    aggregate_give_back(&manager, &first, 0);
    aggregate_give_back(&manager, &second, 0);
    aggregate_give_back(&manager, &third, 0);
    assert_int_equal(manager.slots, 10);
    assert_int_equal(manager.bytes, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees),
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_manager),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
