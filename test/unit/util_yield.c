/*
 * Giving the processor up: a long row of yields contains sleeps, at most one in YIELD_REST_US; rows
 * of one yield contain none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>

#include "util/clock.h"
#include "util/yield.h"

enum {
    ROW_US = 50 * YIELD_REST_US
};

/* A thread that yields stays runnable: the system counts that as involuntary, if at all. */
static long sleeps(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_nvcsw;
}

/* Rows of so many yields, for ROW_US, or two of each where a single one takes longer; the sleeps in
 * them. */
static long sleeps_in_rows(uint32_t length)
{
    uint64_t end = clock_now_ns() + 1000 * (uint64_t)ROW_US;
    long before = sleeps();

    while (clock_now_ns() < end)
        for (uint32_t tries = 0; tries < length && (tries < 2 || clock_now_ns() < end); tries++)
            yield_again(tries);
    return sleeps() - before;
}

static void long_row_sleeps(void **state)
{
    long count = sleeps_in_rows(UINT32_MAX);

    (void)state;
    assert_in_range(count, 1, ROW_US / YIELD_REST_US + 1);
}

static void short_rows_do_not(void **state)
{
    (void)state;
    assert_int_equal(sleeps_in_rows(1), 0); /* of one yield, as one alone can take long */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_row_sleeps),
        cmocka_unit_test(short_rows_do_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
