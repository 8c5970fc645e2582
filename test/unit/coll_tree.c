/*
 * Trees, segments and pieces: parents and children agree, every node is reached once, subtrees are
 * runs of nodes in ascending order, who has children in one of two twins has none in the other and
 * gets and sends one message in a step, nothing is cut inside an element, nothing overflows.
 *
 * Run: timeout=20
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/algorithm.h"
#include "coll/build.h"
#include "coll/tree.h"

#define SIZES 300u

static void check_tree(const struct tree *tree)
{
    uint8_t *reached = calloc(tree->size, 1);
    bool runs = tree->kind != TREE_KARY;

    assert_int_equal(tree_parent(tree, 0), NOBODY);
    for (uint32_t node = 0; node < tree->size; node++) {
        uint32_t children = tree_children(tree, node), next = node + 1;

        for (uint32_t i = 0; i < children; i++) {
            uint32_t child = tree_child(tree, node, i);

            assert_in_range(child, node + 1, tree->size - 1);
            assert_int_equal(tree_parent(tree, child), node);
            assert_int_equal(reached[child]++, 0);
            if (runs) {
                assert_int_equal(child, next);
                next += tree_span(tree, child);
            }
        }
        if (runs)
            assert_int_equal(next, node + tree_span(tree, node));
    }
    for (uint32_t node = 1; node < tree->size; node++)
        assert_int_equal(reached[node], 1);
    free(reached);
}

static void test_trees(void **state)
{
    (void)state;
    for (enum tree_kind kind = TREE_FLAT; kind <= TREE_KARY; kind++)
        for (uint32_t radix = 2; radix <= 9; radix++)
            for (uint32_t size = 1; size <= SIZES; size++) {
                struct tree tree = {kind, radix, size};

                check_tree(&tree);
            }
}

/* What ends at the nodes of both twins and what starts there, by the parity of its steps. */
struct twin_edges {
    uint8_t in[2], out[2];
};

static void check_twin_edge(const struct tree *tree, uint32_t twin, uint32_t node,
                            struct twin_edges *edges)
{
    uint32_t parent = tree_parent(tree, node), step = twins_step(tree, twin, node);
    uint32_t from = parent == NOBODY ? tree->size : twins_node(tree, twin, parent);

    assert_int_equal(edges[twins_node(tree, twin, node)].in[step % 2]++, 0);
    assert_int_equal(edges[from].out[step % 2]++, 0);
    if (parent == NOBODY)
        assert_in_range(step, 0, 1);
    else
        assert_in_range(step - twins_step(tree, twin, parent), TWINS_LAG, TWINS_LAG + 1);
}

/* All are in both and have children in one; in no step anybody gets or sends two messages. */
static void test_twins(void **state)
{
    struct twin_edges *edges = calloc(4 * SIZES + 1, sizeof(*edges));

    (void)state;
    for (uint32_t size = 1; size <= 4 * SIZES; size++) {
        const struct tree tree = {TREE_KARY, 2, size};

        memset(edges, 0, (size + 1) * sizeof(*edges));
        for (uint32_t node = 0; node < size; node++) {
            assert_int_equal(twins_node(&tree, 1, twins_node(&tree, 1, node)), node);
            assert_true(tree_children(&tree, node) == 0 ||
                        tree_children(&tree, twins_node(&tree, 1, node)) == 0);
            for (uint32_t twin = 0; twin < 2; twin++)
                check_twin_edge(&tree, twin, node, edges);
        }
        /* The one outside, number `size`, serves node 0 of both. */
        for (uint32_t node = 0; node <= size; node++)
            assert_int_equal(edges[node].in[0] + edges[node].in[1], node == size ? 0 : 2);
        assert_int_equal(edges[size].out[0] + edges[size].out[1], 2);
    }
    free(edges);
}

/* Depth: no node is further from the root than digits say. */
static void test_depth(void **state)
{
    (void)state;
    for (uint32_t radix = 2; radix <= 8; radix++) {
        struct tree tree = {TREE_KNOMIAL, radix, 1000};

        for (uint32_t node = 0; node < tree.size; node++) {
            uint32_t depth = 0, digits = 0;

            for (uint32_t at = node; at != 0; at = tree_parent(&tree, at))
                depth++;
            for (uint32_t rest = node; rest != 0; rest /= radix)
                digits += rest % radix != 0;
            assert_int_equal(depth, digits);
        }
    }
}

static void test_huge_tree(void **state)
{
    const uint32_t nodes[] = {0, 1, 0x7fffffff, 0x80000000, 0xfffffffd};

    (void)state;
    for (enum tree_kind kind = TREE_CHAIN; kind <= TREE_KARY; kind++)
        for (uint32_t radix = 2; radix <= 64; radix *= 2)
            for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
                struct tree tree = {kind, radix, UINT32_MAX - 1};
                uint32_t children = tree_children(&tree, nodes[i]);

                for (uint32_t child = 0; child < children; child++)
                    assert_int_equal(tree_parent(&tree, tree_child(&tree, nodes[i], child)),
                                     nodes[i]);
                if (nodes[i] != 0)
                    assert_true(tree_parent(&tree, nodes[i]) < nodes[i]);
            }
}

static void check_segments(uint64_t total, uint64_t segment, uint32_t element)
{
    struct shape shape = {.segment = segment, .element = element};
    struct segments segments = segments_of(&shape, total);
    uint64_t sum = 0;

    assert_in_range(segments.count, 1, SEGMENTS_MAX);
    for (uint32_t i = 0; i < segments.count; i++) {
        assert_true(segment_start(&segments, i) == sum);
        assert_true(segments.count == 1 || segment_bytes(&segments, i) > 0);
        assert_true(i + 1 == segments.count || segment_bytes(&segments, i) % element == 0);
        sum += segment_bytes(&segments, i);
    }
    assert_true(sum == total);
}

static void test_segments(void **state)
{
    const uint64_t totals[] = {
        0, 1, 2, 7, 96, 8192, 8193, 100000, UINT64_C(1) << 33, (UINT64_C(1) << 40) + 12};
    const uint64_t segments[] = {0, 1, 2, 3, 24, 8192, SEGMENT_STATIC, SEGMENT_DYNAMIC};
    const uint32_t elements[] = {1, 2, 8, 12, 16, 1000};
    struct segments halves;
    struct shape shape = {.segment = SEGMENT_DYNAMIC, .element = 1};

    (void)state;
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++)
        for (size_t j = 0; j < sizeof(segments) / sizeof(segments[0]); j++)
            for (size_t k = 0; k < sizeof(elements) / sizeof(elements[0]); k++)
                check_segments(totals[i] * elements[k], segments[j], elements[k]);
    halves = segments_of(&shape, 8192);
    assert_int_equal(halves.count, 1);
    halves = segments_of(&shape, 8193);
    assert_int_equal(halves.count, 2);
    assert_int_equal(halves.bytes, 4097);
}

static void test_pieces(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 40; count++)
        for (uint64_t units = 0; units <= 90; units++) {
            uint64_t largest = 0, smallest = UINT64_MAX;

            assert_int_equal(piece_start(units * 12, 12, count, 0), 0);
            assert_int_equal(piece_start(units * 12, 12, count, count), units * 12);
            for (uint32_t i = 0; i < count; i++) {
                uint64_t bytes = piece_start(units * 12, 12, count, i + 1) -
                                 piece_start(units * 12, 12, count, i);

                assert_int_equal(bytes % 12, 0);
                largest = larger(largest, bytes);
                smallest = smaller(smallest, bytes);
            }
            assert_in_range(largest - smallest, 0, 12);
        }
    assert_true(piece_start(UINT64_C(1) << 60, 8, UINT32_MAX, UINT32_MAX - 1) < UINT64_C(1) << 60);
}

static void test_ranks(void **state)
{
    const uint32_t last = UINT32_MAX - 2;

    (void)state;
    assert_int_equal(rank_after(last, last, UINT32_MAX - 1), last - 1);
    assert_int_equal(rank_before(0, last, UINT32_MAX - 1), 1);
    assert_int_equal(rank_after(0, 0, 1), 0);
    assert_int_equal(rank_before(0, 0, 1), 0);
    assert_int_equal(power_of_two(1), 1);
    assert_int_equal(power_of_two(UINT32_MAX), 0x80000000);
    assert_int_equal(exponent_of(64), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees),     cmocka_unit_test(test_depth),
        cmocka_unit_test(test_huge_tree), cmocka_unit_test(test_twins),
        cmocka_unit_test(test_segments),  cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
