/*
 * Giving the processor up: a long row of yields contains sleeps, at most one in YIELD_REST_US; rows
 * of one yield contain none, nor does the beginning of any.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

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

/* The row before began long ago, and has ended: who begins is not taken for one that goes on. */
static void new_row_does_not_go_on(void **state)
{
    static const struct timespec pause = {.tv_nsec = 3000L * YIELD_REST_US};
    static const uint32_t begins[] = {0, 1, 2, 100, 2000, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        long before;

        yield_again(1000);
        yield_again(1001);
        nanosleep(&pause, NULL);
        before = sleeps();
        yield_again(begins[i]);
        assert_int_equal(sleeps() - before, 0);
    }
}

static void *first_yield(void *count)
{
    long before = sleeps();

    yield_again(1);
    *(long *)count = sleeps() - before;
    return NULL;
}

static void first_row_of_a_thread(void **state)
{
    pthread_t thread;
    long count = -1;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, first_yield, &count), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_row_sleeps),
        cmocka_unit_test(short_rows_do_not),
        cmocka_unit_test(new_row_does_not_go_on),
        cmocka_unit_test(first_row_of_a_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
