/*
 * Clocks: they do not go back, agree with each other, and are cheap to read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <time.h>

#include "util/clock.h"

static void never_back(void **state)
{
    uint64_t ticks = clock_ticks();
    double now = clock_now();
    int i;

    (void)state;
    for (i = 0; i < 100000; i++) {
        uint64_t later = clock_ticks();
        double later_now = clock_now();

        assert_true(later >= ticks);
        assert_true(later_now >= now);
        ticks = later;
        now = later_now;
    }
}

static void rates_agree(void **state)
{
    struct timespec pause = {.tv_nsec = 20000000};
    double rate = clock_ticks_per_us();
    uint64_t ns = clock_now_ns(), ticks = clock_ticks();
    double by_ticks, by_ns;

    (void)state;
    assert_true(rate >= 1.0 && rate < 1e5);
    nanosleep(&pause, NULL);
    by_ns = (double)(clock_now_ns() - ns) / 1000.0;
    by_ticks = (double)(clock_ticks() - ticks) / rate;
    assert_true(by_ns >= 20000.0);
    /* The two readings are not taken at the same instant: allow for an interruption. */
    assert_true(by_ticks > by_ns * 0.9 && by_ticks < by_ns * 1.1 + 20000.0);
    assert_true(clock_ticks_per_us() == rate);
}

static void *read_rate(void *cookie)
{
    *(double *)cookie = clock_ticks_per_us() + 0.0 * (double)clock_ticks();
    return NULL;
}

static void threads_see_one_rate(void **state)
{
    pthread_t threads[4];
    double rates[4];
    int i;

    (void)state;
    for (i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_rate, &rates[i]), 0);
    for (i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (i = 1; i < 4; i++)
        assert_true(rates[i] == rates[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_see_one_rate),
        cmocka_unit_test(never_back),
        cmocka_unit_test(rates_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
