/*
 * All algorithms of the table, for all members at once and without a network: every value that must
 * arrive arrives and nothing else changes, operands are combined once each and in rank order where
 * that matters, schedules neither deadlock nor touch memory while it is in use. See simulate.h.
 *
 * Run: timeout=240
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "problem.h"

static const uint32_t windows[] = {0, 1, 2, 3, 5, 16, 200};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool admits(const struct problem *problem)
{
    unsigned needs = problem->algorithm->needs;
    uint32_t size = problem->size;

    /* Rows without a schedule make their machines otherwise. */
    return problem->algorithm->schedule && !((needs & NEEDS_COMMUTATIVE && problem->ordered) ||
                                             (needs & NEEDS_POWER_OF_TWO && (size & (size - 1))) ||
                                             (needs & NEEDS_EVEN && size % 2));
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
    return problem;
}

static void run_row(const struct algorithm *algorithm, uint32_t size, uint32_t root, uint64_t cells,
                    uint64_t seed)
{
    struct problem problem = problem_of(algorithm, size, root, cells, seed);

    /* The same arithmetic as with fragments of a fixed size, which are drawn here. */
    if (algorithm->segment == SEGMENT_DYNAMIC)
        return;
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
            for (uint32_t root = 0; root < (rooted(algorithm->type) ? size : 2); root++, seed++)
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
                for (uint64_t seed = 0; seed < 4; seed++)
                    run_row(&algorithm_table[row], size, (uint32_t)seed % size, cells[i],
                            row << 20 | size << 10 | i << 5 | seed);
}

/* Members have blocks for all members: size x size cells. */
static bool is_square(pami_xfer_type_t type)
{
    return type == PAMI_XFER_ALLGATHER || type == PAMI_XFER_ALLGATHERV ||
           type == PAMI_XFER_ALLTOALL || type == PAMI_XFER_ALLTOALLV ||
           type == PAMI_XFER_REDUCE_SCATTER;
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

            if (is_square(algorithm_table[row].type) && (size > 130 ? i % 4 != row % 4 : i % 2))
                continue;
            run_row(&algorithm_table[row], size, roots[seed % 4], 1 + seed % 2, seed);
        }
}

/* Offsets beyond 4 GiB: cells of 256 MiB, counts that the algorithms divide by members. */
static void test_large(void **state)
{
    (void)state;
    for (size_t row = 0; row < algorithm_count; row++)
        for (uint32_t size = 2; size <= 8; size *= 2)
            for (uint64_t seed = 0; seed < 6; seed++) {
                struct problem problem =
                    problem_of(&algorithm_table[row], size, (uint32_t)seed % size, 64, seed);

                problem.unit = UINT64_C(1) << 28;
                if (problem.segment)
                    problem.segment = problem.unit * (1 + seed);
                if (algorithm_table[row].type == PAMI_XFER_BROADCAST && size > 2)
                    problem.root = 0;
                if (admits(&problem))
                    problem_run(&problem, NULL);
            }
}

/* As the rows say: fragments of 32 KiB, and halves above 8 KiB. */
static void test_segments(void **state)
{
    static const uint64_t cells[] = {8, 31, 33, 64, 97};

    (void)state;
    for (size_t row = 0; row < algorithm_count; row++) {
        const struct algorithm *algorithm = &algorithm_table[row];
        bool segments = algorithm->schedule != NULL && algorithm->segment != 0;

        for (uint64_t seed = 0; segments && seed < 60; seed++) {
            struct problem problem =
                problem_of(algorithm, 2 + (uint32_t)seed % 11, 0, cells[seed % COUNT(cells)], seed);

            problem.root = (uint32_t)seed / 3 % problem.size;
            problem.unit = 1024;
            problem.segment = algorithm->segment;
            /* Halves and fragments of other types are cut at bytes. */
            if (!type_reduces(algorithm->type) && problem.cells % 2)
                problem.cells++;
            problem_run(&problem, NULL);
        }
    }
}

/* Where the work and the memory of one row go with the number of members. */
static void test_bounds(void **state)
{
    (void)state;
    for (size_t row = 0; row < algorithm_count; row++) {
        const struct algorithm *algorithm = &algorithm_table[row];
        struct problem problem = problem_of(algorithm, 64, 5, 64, 3);
        uint64_t all = problem.cells * (type_reduces(algorithm->type) ? 4 : 1);
        struct figures figures;

        if (!algorithm->schedule)
            continue;
        problem.in_place = IN_PLACE_ALL;
        problem.segment = 0;
        problem_run(&problem, &figures);
        if (is_square(algorithm->type) && !type_reduces(algorithm->type))
            all *= problem.size;
        if (algorithm->type == PAMI_XFER_GATHER || algorithm->type == PAMI_XFER_SCATTER)
            all *= problem.size / 2;
        assert_in_range(figures.phases, 0, 3 * problem.size);
        /* Slots of reductions up trees, one for each message: few kilobytes here. */
        assert_in_range(figures.temp, 0, 64 * (type_reduces(algorithm->type) ? all : 0) + 3 * all);
    }
}

static double processor_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Asks for all phases of a member, then for some of them again, as a run does that has failed. */
static void ask_all(const struct algorithm *algorithm, const struct shape *given)
{
    struct shape shape = *given;
    struct shape_mark mark = {0};
    uint32_t phases;

    shape.mark = &mark;
    shape.radix = algorithm->radix;
    phases = algorithm->schedule->prepare(&shape);
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = pass * (phases / 2); i < phases; i++) {
            struct phase phase = {.to = NOBODY, .from = NOBODY, .send_needs = i, .recv_needs = i};

            algorithm->schedule->phase(&shape, i, &phase);
        }
}

/* Blocks of different sizes, for so many members that no algorithm may count all of them in each
 * phase: that takes seconds. */
static void test_effort(void **state)
{
    enum {
        MEMBERS = 1 << 16
    };
    uint64_t *sizes = calloc(MEMBERS, sizeof(*sizes));

    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        sizes[i] = i % 3;
    for (size_t row = 0; row < algorithm_count; row++) {
        const struct algorithm *algorithm = &algorithm_table[row];
        struct shape shape = {.rank = MEMBERS / 3,
                              .size = MEMBERS,
                              .recv_bytes = sizes,
                              .own_bytes = sizes[MEMBERS / 3],
                              .receives = true,
                              .element = 1};
        double began = processor_seconds();

        if (!algorithm->schedule ||
            (algorithm->type != PAMI_XFER_ALLGATHERV && algorithm->type != PAMI_XFER_ALLTOALLV))
            continue;
        shape.send_bytes = algorithm->type == PAMI_XFER_ALLTOALLV ? sizes : NULL;
        ask_all(algorithm, &shape);
        shape.in_place = true;
        ask_all(algorithm, &shape);
        if (processor_seconds() - began > 1)
            fail_msg("%s of %u blocks: %.1f s", algorithm->name, (unsigned)MEMBERS,
                     processor_seconds() - began);
    }
    free(sizes);
}

static void test_types(void **state)
{
    (void)state;
    for (int type = 0; type <= PAMI_XFER_REDUCE_SCATTER; type++) {
        unsigned always = 0,
                 narrow = type == PAMI_XFER_ALLGATHERV_INT || type == PAMI_XFER_SCATTERV_INT ||
                          type == PAMI_XFER_GATHERV_INT || type == PAMI_XFER_ALLTOALLV_INT;

        for (size_t row = 0; row < algorithm_count; row++) {
            assert_true(algorithm_table[row].name[0] && algorithm_table[row].description[0]);
            always += (int)algorithm_table[row].type == type && algorithm_table[row].needs == 0;
        }
        assert_true(always > 0 || narrow);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),    cmocka_unit_test(test_all_roots),
        cmocka_unit_test(test_many),     cmocka_unit_test(test_large),
        cmocka_unit_test(test_segments), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_types),    cmocka_unit_test(test_effort),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
