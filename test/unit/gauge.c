/*
 * The gauge of copies: what makes the other way pay, and what ends it.
 *
 * Run: timeout=30
 */
#include "util/gauge.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LIMIT_NS 100u
#define KIB 1024u

static struct gauge gauge;

/* So many copies, ordinary ones of so many nanoseconds; how many went the other way. */
static unsigned copies(unsigned count, unsigned nanoseconds)
{
    uint64_t ticks = (uint64_t)(nanoseconds * clock_ticks_per_us() / 1000);
    unsigned others = 0;

    for (unsigned i = 0; i < count; i++) {
        if (gauge_pays(&gauge))
            others++;
        else if (gauge_measures(&gauge))
            gauge_note(&gauge, ticks, KIB);
    }
    return others;
}

static int setup(void **state)
{
    (void)state;
    gauge_init(&gauge, LIMIT_NS);
    return 0;
}

static void test_cheap_copies_stay(void **state)
{
    (void)state;
    assert_int_equal(copies(1000, LIMIT_NS / 2), 0);
}

static void test_dear_copies_end(void **state)
{
    (void)state;
    assert_in_range(copies(1000, 4 * LIMIT_NS), 900, 1000);
    assert_true(gauge.dear);
}

static void test_cheap_again(void **state)
{
    (void)state;
    copies(1000, 4 * LIMIT_NS);
    copies(3 * GAUGE_AGAIN, LIMIT_NS / 2);
    assert_int_equal(copies(1000, LIMIT_NS / 2), 0);
}

/* One copy that took a second must not change the way of many. */
static void test_a_disturbed_copy_is_forgotten(void **state)
{
    (void)state;
    copies(1000, LIMIT_NS / 2);
    gauge_note(&gauge, (uint64_t)(1e6 * clock_ticks_per_us()), KIB);
    assert_int_equal(copies(1000, LIMIT_NS / 2), 0);
}

static void test_near_the_limit_nothing_flaps(void **state)
{
    (void)state;
    copies(1000, 2 * LIMIT_NS);
    assert_true(gauge.dear);
    copies(1000, LIMIT_NS - LIMIT_NS / 10);
    assert_true(gauge.dear);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cheap_copies_stay, setup),
        cmocka_unit_test_setup(test_dear_copies_end, setup),
        cmocka_unit_test_setup(test_cheap_again, setup),
        cmocka_unit_test_setup(test_a_disturbed_copy_is_forgotten, setup),
        cmocka_unit_test_setup(test_near_the_limit_nothing_flaps, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
