/*
 * The learning policy of communication servers on a simulated clock: requests that take the client,
 * servers, and both together, so many ticks each. It finds the best way, notices when that changes,
 * and never costs more than the 3 % that are promised against the best way, first trial too, over
 * two million requests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "servers/servers.h"
#include "util/clock.h"

struct world {
    struct learner learner;
    struct learn_budget budget;
    double now; /* ticks */
    uint64_t random;
    size_t forwarded, tracked;
    double shared; /* ticks when the client and servers take turns; 0: as servers alone */
};

static double noise(struct world *world, double part)
{
    world->random = world->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return 1 + part * ((double)(world->random >> 40) / (double)(1 << 24) - 0.5);
}

/* So many requests; the ticks that they have taken. Every `rare`-th takes `hiccup` more. */
static double run(struct world *world, size_t requests, double client, double servers,
                  size_t outstanding, double hiccup, size_t rare)
{
    double begin = world->now;

    world->forwarded = world->tracked = 0;
    for (size_t i = 0; i < requests; i++) {
        struct learner *learner = &world->learner;
        double cost = client;

        if (learner->left == 0)
            learn_look(learner, &world->budget, true, outstanding, (uint64_t)world->now);
        assert_true(learner->left > 0);
        learner->left--;
        if (learner->way >= LEARN_SERVERS) {
            cost = learner->way == LEARN_SHARED && world->shared != 0 ? world->shared : servers;
            world->forwarded++;
        }
        world->tracked += learner->way == LEARN_CLIENT;
        world->now += cost * noise(world, 0.2) + (rare != 0 && i % rare == rare - 1 ? hiccup : 0);
    }
    return world->now - begin;
}

static struct world begin(void)
{
    return (struct world){.now = 1e9, .random = 1};
}

static void test_never_a_loss(void **state)
{
    static const double worse[] = {0.98, 1.0, 1.02, 1.1, 1.3, 2, 5, 20, 60};
    static const size_t outstanding[] = {0, 8, 64, 256};

    (void)state;
    for (size_t i = 0; i < sizeof worse / sizeof *worse; i++) {
        for (size_t j = 0; j < sizeof outstanding / sizeof *outstanding; j++) {
            struct world world = begin();
            size_t count = 2000000;
            double took = run(&world, count, 1000, 1000 * worse[i], outstanding[j], 0, 0);

            assert_true(took < 1.03 * 1000 * (double)count);
            assert_true(world.forwarded > 0 && world.tracked > 0);
        }
    }
}

static void test_a_gain_is_found(void **state)
{
    struct world world = begin();

    (void)state;
    run(&world, 20000, 1000, 500, 64, 0, 0);
    assert_true(run(&world, 400000, 1000, 500, 64, 0, 0) < 1.03 * 500 * 400000);
    /* What both take together is the same here: which of the two is better is noise. */
    assert_true(world.learner.found >= LEARN_SERVERS && world.forwarded > 390000);
}

/* A hundred thousand requests at a time, until the learner has found `way`, ten times at most: the
 * window's length is a time, so how many it takes depends on the clock's rate. */
static void run_until(struct world *world, unsigned way, double client, double servers,
                      size_t outstanding)
{
    for (int i = 0; i < 10 && world->learner.found != way; i++)
        run(world, 100000, client, servers, outstanding, 0, 0);
    assert_int_equal(world->learner.found, way);
}

/* Servers alone are slower, but with the client's help they are not. */
static void test_sharing_is_found(void **state)
{
    static const double alone[] = {0.6, 1.0, 1.2, 1.5, 1.9};

    (void)state;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        struct world world = begin();

        world.shared = 550;
        run(&world, 40000, 1000, 1000 * alone[i], 8, 0, 0);
        assert_int_equal(world.learner.found, LEARN_SHARED);
        assert_true(run(&world, 400000, 1000, 1000 * alone[i], 8, 0, 0) < 1.03 * 550 * 400000);
        world.shared = 4000; /* the client has other things to do */
        run_until(&world, i == 0 ? LEARN_SERVERS : LEARN_PLAIN, 1000, 1000 * alone[i], 8);
    }
}

/* A process that is descheduled now and then: what it finds may be wrong, what it costs is not. */
static void test_disturbed(void **state)
{
    struct world world = begin();
    size_t count = 4000000;
    double took = run(&world, count, 1000, 4000, 64, 4e6, 4999);

    (void)state;
    assert_true(took < 1.03 * (1000 * (double)count + 4e6 * (double)(count / 4999)));
}

static void test_changes(void **state)
{
    struct world world = begin();
    double took;

    (void)state;
    run(&world, 100000, 1000, 500, 64, 0, 0);
    assert_true(world.learner.found != LEARN_PLAIN);
    took = run(&world, 1000000, 1000, 3000, 64, 0, 0); /* the program needs the core now */
    assert_true(world.learner.found == LEARN_PLAIN);
    assert_true(took < 1.03 * 1000 * 1000000);
    run(&world, 2000000, 1000, 500, 64, 0, 0); /* and no longer */
    assert_true(world.learner.found != LEARN_PLAIN);
}

/* Many large requests at a time, in a program that is short: no trial may take seconds. */
static void test_slow_requests(void **state)
{
    double us = clock_ticks_per_us();

    (void)state;
    for (size_t outstanding = 1; outstanding <= 256; outstanding *= 4) {
        struct world world = begin();
        size_t count = 3000;
        double took = run(&world, count, 1000 * us, 2000 * us, outstanding, 0, 0);

        assert_true(took < (1.03 * 1000 * (double)count + 50000) * us);
        run(&world, 100 * count, 1000 * us, 500 * us, outstanding, 0, 0);
        assert_int_not_equal(world.learner.found, LEARN_PLAIN);
    }
}

/* Many sizes in turn: what they cost together is bounded. */
static void test_many_learners(void **state)
{
    struct world world = begin();
    struct learner learners[40] = {{.phase = 0}};
    size_t turns = 100, each = 2000;
    double first = world.now;

    (void)state;
    for (size_t turn = 0; turn < turns; turn++) {
        for (size_t i = 0; i < 40; i++) {
            world.learner = learners[i];
            run(&world, each, 1000, 1500 + 100 * (double)i, 64, 0, 0);
            learners[i] = world.learner;
        }
    }
    assert_true(world.now - first <
                1.03 * 1000 * 40 * (double)(turns * each) + 2e4 * clock_ticks_per_us());
}

/* A server that sleeps takes a while for its first requests; what it is worth shows later. */
static void test_wakes(void **state)
{
    double us = clock_ticks_per_us();
    struct world world = begin();
    size_t i, woken = 0;

    (void)state;
    for (i = 0; i < 200000 && world.learner.found == LEARN_PLAIN; i++) {
        bool forwarded;

        if (world.learner.left == 0)
            learn_look(&world.learner, &world.budget, true, 8, (uint64_t)world.now);
        world.learner.left--;
        forwarded = world.learner.way >= LEARN_SERVERS;
        world.now += (forwarded ? 0.5 : 1) * us + (forwarded && woken == 0 ? 60 * us : 0);
        woken = forwarded ? 1000 : woken - (woken != 0); /* awake for so many requests */
    }
    assert_int_not_equal(world.learner.found, LEARN_PLAIN);
}

static void test_no_core_no_trial(void **state)
{
    struct world world = begin();

    (void)state;
    for (size_t i = 0; i < 1000000; i++) {
        if (world.learner.left == 0)
            learn_look(&world.learner, &world.budget, false, 64, (uint64_t)world.now);
        world.learner.left--;
        assert_int_equal(world.learner.way, LEARN_PLAIN);
        world.now += 1000;
    }
}

/* A table knows that with so many outstanding servers do not pay: nothing is forwarded, and
 * requests are hardly ever counted. */
static void test_unpromising(void **state)
{
    struct world world = begin();
    size_t counted = 0;

    (void)state;
    for (size_t i = 0; i < 1000000; i++) {
        if (world.learner.left == 0)
            learn_look(&world.learner, &world.budget, learn_rests(&world.learner), 64,
                       (uint64_t)world.now);
        world.learner.left--;
        assert_true(world.learner.way < LEARN_SERVERS);
        counted += world.learner.way == LEARN_CLIENT;
        world.now += 1000;
    }
    assert_true(counted > 0 && counted < 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_a_loss),     cmocka_unit_test(test_a_gain_is_found),
        cmocka_unit_test(test_sharing_is_found), cmocka_unit_test(test_disturbed),
        cmocka_unit_test(test_changes),          cmocka_unit_test(test_no_core_no_trial),
        cmocka_unit_test(test_unpromising),      cmocka_unit_test(test_slow_requests),
        cmocka_unit_test(test_many_learners),    cmocka_unit_test(test_wakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
