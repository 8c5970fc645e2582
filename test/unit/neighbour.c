/*
 * Numbers of copies from another task, against a set of all that were seen: each is new once, in
 * whatever order they come; and what is kept of them is no more than the gaps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <stdbool.h>

#include "geometry/neighbour.h"

enum {
    NUMBERS = 4000,
    WINDOW = 8, /* a number comes with those so far behind it at the latest */
    TASK = 3
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static size_t grown; /* not counted */
#else
static size_t grown;
extern void *__libc_realloc(void *block, size_t bytes);

__attribute__((visibility("default"))) void *realloc(void *block, size_t bytes)
{
    grown++;
    return __libc_realloc(block, bytes);
}
#endif

static uint64_t state;

static uint32_t below(uint32_t most)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % most;
}

/* 1 .. NUMBERS, shuffled in blocks that overlap. */
static void shuffle(uint64_t order[NUMBERS])
{
    for (size_t i = 0; i < NUMBERS; i++)
        order[i] = i + 1;
    for (size_t i = 0; i + WINDOW <= NUMBERS; i += WINDOW / 2)
        for (size_t k = WINDOW - 1; k > 0; k--) {
            size_t other = below((uint32_t)k + 1);
            uint64_t number = order[i + k];

            order[i + k] = order[i + other];
            order[i + other] = number;
        }
}

/* One that has not come before is noted. */
static bool takes_as_new(struct u64map *map, uint32_t task, uint64_t number)
{
    if (neighbour_is_new(map, task, number) != 1)
        return false;
    neighbour_seen(map, task, number);
    return true;
}

static void test_any_order(void **unused)
{
    static uint64_t order[NUMBERS];

    (void)unused;
    for (state = 1; state < 20; state++) {
        uint64_t seed = state;
        struct u64map map = {0};
        size_t before;

        shuffle(order);
        before = grown;
        for (size_t i = 0; i < NUMBERS; i++) {
            assert_true(takes_as_new(&map, TASK, order[i]));
            /* A copy of this one, or of any before it. */
            assert_false(takes_as_new(&map, TASK, order[i]));
            assert_false(takes_as_new(&map, TASK, order[below((uint32_t)i + 1)]));
        }
        for (uint64_t number = 1; number <= NUMBERS; number++)
            assert_false(takes_as_new(&map, TASK, number));
        assert_true(takes_as_new(&map, TASK + 1, 1));
        assert_in_range(grown - before, 0, 4);
        neighbours_free(&map);
        state = seed;
    }
}

static void test_next(void **unused)
{
    struct u64map map = {0};

    (void)unused;
    for (uint64_t number = 1; number < 5; number++) {
        assert_int_equal(neighbour_next(&map, TASK), number);
        assert_int_equal(neighbour_next(&map, 0), number);
    }
    neighbours_free(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_next),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
