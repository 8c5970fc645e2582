/*
 * Giving the processor up: a long row of yields contains sleeps, at most one in YIELD_REST_US; rows
 * of one yield contain none, nor does the beginning of any. What the caller does between two yields
 * brings no sleep nearer.
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
    ROW_US = 50 * YIELD_REST_US,
    YIELDS_MOST = 1000000
};

/* A thread that yields stays runnable: the system counts that as involuntary, if at all. */
static long sleeps(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_nvcsw;
}

/* Until it has slept at least once: where yields take long, few of them are made meanwhile. */
static void long_row_sleeps(void **state)
{
    uint64_t begin = clock_now_ns(), end = begin + 1000 * (uint64_t)ROW_US;
    long before = sleeps(), count = 0;

    (void)state;
    for (uint32_t tries = 0; clock_now_ns() < end || (count == 0 && tries < YIELDS_MOST); tries++) {
        yield_again(tries);
        count = sleeps() - before;
    }
    assert_in_range(count, 1, (clock_now_ns() - begin) / (1000 * (uint64_t)YIELD_REST_US) + 1);
}

/* Of one yield, as one alone can take long. */
static void short_rows_do_not(void **state)
{
    uint64_t end = clock_now_ns() + 1000 * (uint64_t)ROW_US;
    long before = sleeps();

    (void)state;
    while (clock_now_ns() < end)
        yield_again(0);
    assert_int_equal(sleeps() - before, 0);
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

/* Who works, and yields now and then, waits for a part of the time only. */
static void work_is_no_wait(void **state)
{
    uint64_t end = clock_now_ns() + 1000 * (uint64_t)ROW_US;
    long before = sleeps();
    uint32_t tries = 0;

    (void)state;
    for (; clock_now_ns() < end; tries++) {
        uint64_t free = clock_now_ns() + 1000 * (uint64_t)(5 * YIELD_GAP_US);

        yield_again(tries);
        while (clock_now_ns() < free)
            ;
    }
    assert_in_range(sleeps() - before, 0, tries * YIELD_GAP_US / YIELD_REST_US);
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
        cmocka_unit_test(long_row_sleeps),        cmocka_unit_test(short_rows_do_not),
        cmocka_unit_test(new_row_does_not_go_on), cmocka_unit_test(work_is_no_wait),
        cmocka_unit_test(first_row_of_a_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
