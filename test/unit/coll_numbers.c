/*
 * Messages of collectives carry the lower half of a run's number. A geometry remembers which run
 * has failed, and why, and takes no later one for that, however many there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "coll/coll.h"

/* Half of the numbers that a message has: the distance at which a difference changes its sign. */
#define HALF (UINT64_C(1) << 31)

static struct coll coll;
static struct context context = {.coll = &coll};
static struct coll_state state;
static struct group group = {.context = &context, .state = &state};

static pami_result_t why(uint64_t number)
{
    return coll_why_over(&group, (uint32_t)number);
}

/* Runs that have ended well are told from one that failed before them. */
static void check(uint64_t failed, pami_result_t result)
{
    assert_int_equal(why(failed), result);
    assert_int_equal(why(failed + 1), result); /* of the same collective */
    assert_int_equal(why(failed - GROUP_BLOCK), result);
    assert_int_equal(why(failed + GROUP_BLOCK), PAMI_SUCCESS);
}

static void far_apart(void **unused)
{
    static const uint64_t steps[] = {4 * GROUP_BLOCK,        HALF,
                                     HALF + 4 * GROUP_BLOCK, 2 * HALF,
                                     3 * HALF - GROUP_BLOCK, 1000 * HALF};
    uint64_t number = 4 * GROUP_BLOCK;

    (void)unused;
    state.top = &group;
    group.sequence = number + 2 * GROUP_BLOCK;
    assert_int_equal(why(number), PAMI_SUCCESS);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        pami_result_t result = i % 2 == 0 ? PAMI_ERROR : PAMI_INVAL;

        coll_failed(&group, (uint32_t)number, result);
        check(number, result);
        coll_failed(&group, (uint32_t)(number - GROUP_BLOCK), PAMI_ERROR);
        check(number, result);
        number += steps[i];
        group.sequence = number + 2 * GROUP_BLOCK;
        assert_int_equal(why(number), PAMI_SUCCESS);
        assert_int_equal(why(number + GROUP_BLOCK), PAMI_SUCCESS);
    }
}

/* Those of a sub-group may be ahead of the geometry's own. */
static void below(void **unused)
{
    struct coll_state own = {.top = &group};
    struct group sub = {.context = &context, .state = &own, .channel = 1};

    (void)unused;
    group.sequence = 2 * HALF - GROUP_BLOCK;
    sub.sequence = 2 * HALF + 5;
    coll_failed(&sub, 3, PAMI_ERROR);
    assert_int_equal(coll_why_over(&sub, 3), PAMI_ERROR);
    assert_int_equal(coll_why_over(&sub, UINT32_MAX), PAMI_ERROR);
    group.sequence += 2 * HALF;
    assert_int_equal(coll_why_over(&sub, UINT32_MAX - GROUP_BLOCK), PAMI_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(far_apart),
        cmocka_unit_test(below),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
