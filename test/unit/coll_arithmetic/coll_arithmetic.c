/*
 * All algorithms of the table, for all members at once and without a network: every value that must
 * arrive arrives and nothing else changes, operands are combined once each and in rank order where
 * that matters, schedules neither deadlock nor touch memory while it is in use. See simulate.h.
 *
 * Run: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "problem.h"

static const uint32_t windows[] = {0, 1, 2, 3, 5, 16, 200};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool admits(const struct problem *problem)
{
    unsigned needs = problem->algorithm->needs;
    uint32_t size = problem->size;

    return !((needs & NEEDS_COMMUTATIVE && problem->ordered) ||
             (needs & NEEDS_POWER_OF_TWO && (size & (size - 1))) ||
             (needs & NEEDS_EVEN && size % 2) || (needs & NEEDS_DENSE && problem->scattered) ||
             (needs & NEEDS_EQUAL && problem->varied) ||
             (needs & NEEDS_DIVISIBLE && problem->cells < size));
}

static bool rooted(pami_xfer_type_t type)
{
    return type == PAMI_XFER_BROADCAST || type == PAMI_XFER_REDUCE || type == PAMI_XFER_GATHER ||
           type == PAMI_XFER_GATHERV || type == PAMI_XFER_SCATTER || type == PAMI_XFER_SCATTERV;
}

/* A problem of this row; everything that is not given varies with the seed. */
static struct problem problem_of(const struct algorithm *algorithm, uint32_t size, uint32_t root,
                                 uint64_t cells, uint64_t seed)
{
    uint64_t draw = value_leaf(seed).sequence;
    pami_xfer_type_t type = algorithm->type;
    struct problem problem = {.algorithm = algorithm,
                              .size = size,
                              .root = root,
                              .cells = cells,
                              .seed = seed,
                              .radix = algorithm->radix};

    problem.window = windows[draw % COUNT(windows)];
    problem.in_place = (enum in_place)(draw >> 8 & 3) % 3;
    problem.ordered = draw >> 12 & 1 && type_reduces(type);
    problem.exclusive = draw >> 13 & 1 && type == PAMI_XFER_SCAN;
    problem.varied = type_varies(type) || (draw >> 14 & 1 && type == PAMI_XFER_REDUCE_SCATTER);
    problem.scattered = draw >> 15 & 1 && type_varies(type);
    if (algorithm->segment)
        problem.segment = (draw >> 16 & 3) * (type_reduces(type) ? 4 : 1);
    if (type == PAMI_XFER_REDUCE_SCATTER && !problem.varied)
        problem.cells *= size;
    if (algorithm->needs & NEEDS_COMMUTATIVE)
        problem.ordered = false;
    if (algorithm->needs & NEEDS_DENSE)
        problem.scattered = false;
    if (algorithm->needs & NEEDS_EQUAL)
        problem.varied = false;
    return problem;
}

static void run_row(const struct algorithm *algorithm, uint32_t size, uint32_t root, uint64_t cells,
                    uint64_t seed)
{
    struct problem problem = problem_of(algorithm, size, root, cells, seed);

    if (admits(&problem))
        problem_run(&problem, NULL);
}

static void test_all_roots(void **state)
{
    static const uint64_t cells[] = {0, 1, 2, 3, 7, 12};
    uint64_t seed = 1;

    (void)state;
    for (size_t row = 0; row < algorithm_count; row++) {
        const struct algorithm *algorithm = &algorithm_table[row];

        for (uint32_t size = 1; size <= 40; size++)
            for (uint32_t root = 0; root < (rooted(algorithm->type) ? size : 3); root++)
                for (int i = 0; i < 2; i++, seed++)
                    run_row(algorithm, size, root % size, cells[seed % COUNT(cells)], seed);
    }
}

static void test_small(void **state)
{
    static const uint64_t cells[] = {0, 1, 2, 3, 5, 9, 16, 33};

    (void)state;
    for (size_t row = 0; row < algorithm_count; row++)
        for (uint32_t size = 1; size <= 9; size++)
            for (uint64_t i = 0; i < COUNT(cells); i++)
                for (uint64_t seed = 0; seed < 12; seed++)
                    run_row(&algorithm_table[row], size, (uint32_t)seed % size, cells[i],
                            row << 20 | size << 10 | i << 5 | seed);
}

static void test_many(void **state)
{
    static const uint32_t sizes[] = {63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 300};

    (void)state;
    for (size_t row = 0; row < algorithm_count; row++)
        for (size_t i = 0; i < COUNT(sizes); i++) {
            uint32_t size = sizes[i];
            const uint32_t roots[] = {0, 1, size / 2 - 1, size - 1};
            uint64_t seed = row * 131 + i;
            bool blocks = algorithm_table[row].type >= PAMI_XFER_ALLGATHER &&
                          algorithm_table[row].type != PAMI_XFER_BARRIER;

            /* Blocks make size x size cells. */
            if (blocks && algorithm_table[row].type != PAMI_XFER_SCAN && size > 130 &&
                i % 3 != row % 3)
                continue;
            run_row(&algorithm_table[row], size, roots[seed % 4], 1 + seed % 2, seed);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_all_roots),
        cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
