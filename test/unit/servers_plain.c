/*
 * Plain calls of communication servers: which go by without a question, for how long, that they are
 * counted once, and that whoever changes the policy is heard by the next call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "servers/plain.h"

#define OFFSET 3u

struct world {
    struct servers servers;
    struct context context, other;
    struct lane lane;
};

static struct world *begin(void)
{
    struct world *world = aligned_alloc(CACHE_LINE, sizeof(*world));

    assert_non_null(world);
    memset(world, 0, sizeof(*world));
    world->context.offset = world->other.offset = world->lane.offset = OFFSET;
    world->context.magic = CONTEXT_MAGIC;
    atomic_init(&world->context.plain_of, &world->context.plain_of);
    atomic_init(&world->context.short_of, &world->context.short_of);
    world->lane.servers = &world->servers;
    world->lane.context = &world->context;
    atomic_store(&world->servers.by_learning, 1);
    atomic_store(&world->servers.state, SERVERS_RUNNING);
    plain_forbid(&world->servers);
    return world;
}

static bool put(struct world *world, size_t bytes)
{
    return plain_take(&world->servers, &world->context, REQUEST_PUT, bytes);
}

/* As PAMIX_Servers_query has it. */
static unsigned long long direct(const struct world *world)
{
    const struct plain *plain = &world->servers.plain[OFFSET];

    return SERVERS_LOAD(world->lane.direct) - SERVERS_LOAD(plain->left);
}

/* A put of so many bytes has been asked about, and rests. */
static void rests(struct world *world, size_t bytes, unsigned left)
{
    struct learner *learner = learn_of(&world->lane, REQUEST_PUT, bytes);

    *learner = (struct learner){.begun = 1, .left = left};
    plain_learned(&world->lane, REQUEST_PUT, learner);
}

static void goes(struct world *world, size_t bytes, uint8_t found, uint8_t phase)
{
    struct learner *learner = learn_of(&world->lane, REQUEST_PUT, bytes);

    *learner = (struct learner){.begun = 1, .left = 9, .found = found, .phase = phase};
    plain_learned(&world->lane, REQUEST_PUT, learner);
    assert_int_equal(learner->left, 9);
}

static void test_counted(void **state)
{
    struct world *world = begin();

    (void)state;
    assert_false(put(world, 8));
    rests(world, 8, 100);
    assert_int_equal(learn_of(&world->lane, REQUEST_PUT, 8)->left, 0);
    assert_int_equal(direct(world), 0);
    for (unsigned i = 1; i <= 100; i++) {
        assert_true(put(world, i % 16));
        assert_int_equal(direct(world), i);
    }
    assert_false(put(world, 8));
    rests(world, 8, 50);
    assert_true(put(world, 8));
    rests(world, 8, 50); /* before the others are used up */
    assert_int_equal(direct(world), 101);
    free(world);
}

static void test_range(void **state)
{
    struct world *world = begin();

    (void)state;
    rests(world, 8, 100);
    assert_false(put(world, 16));
    assert_false(plain_take(&world->servers, &world->context, REQUEST_GET, 8));
    assert_false(plain_take(&world->servers, &world->context, REQUEST_SEND, 8));
    rests(world, 1000, 100);
    assert_true(put(world, 0) && put(world, 16) && put(world, 1023));
    assert_false(put(world, 1024));
    goes(world, 100, LEARN_SHARED, 0);
    assert_true(put(world, 15));
    assert_false(put(world, 16) || put(world, 1000));
    goes(world, 100, LEARN_PLAIN, 2); /* on trial */
    assert_false(put(world, 16) || put(world, 1000));
    goes(world, 8, LEARN_SERVERS, 0);
    assert_false(put(world, 0) || put(world, 8));
    free(world);
}

static void test_large(void **state)
{
    struct world *world = begin();
    struct learner *learner = learn_of(&world->lane, REQUEST_PUT, 65536);

    (void)state;
    rests(world, 65535, 10);
    assert_true(put(world, 65535));
    *learner = (struct learner){.begun = 1, .left = 10};
    plain_learned(&world->lane, REQUEST_PUT, learner);
    assert_int_equal(learner->left, 10);
    assert_false(put(world, 65536));
    assert_int_equal(direct(world), 1);
    free(world);
}

static void test_forbidden(void **state)
{
    struct world *world = begin();

    (void)state;
    rests(world, 8, 100);
    assert_true(put(world, 8));
    plain_forbid(&world->servers);
    assert_false(put(world, 8));
    assert_int_equal(direct(world), 1);
    atomic_store(&world->servers.by_learning, 0);
    rests(world, 8, 100);
    assert_false(put(world, 8));
    assert_int_equal(direct(world), 1);
    free(world);
}

static void test_stopped(void **state)
{
    struct world *world = begin();

    (void)state;
    atomic_store(&world->servers.state, SERVERS_STOPPED);
    plain_stopped(&world->lane);
    assert_true(put(world, 8) && put(world, SIZE_MAX - 1));
    assert_true(plain_take(&world->servers, &world->context, REQUEST_SEND, 8));
    assert_true(plain_short(&world->servers, &world->context, 0));
    atomic_store(&world->servers.state, SERVERS_RUNNING);
    plain_forbid(&world->servers);
    assert_false(put(world, 8) || plain_short(&world->servers, &world->context, 0));
    plain_stopped(&world->lane); /* started just then */
    assert_false(put(world, 8) || plain_short(&world->servers, &world->context, 0));
    assert_int_equal(direct(world), 3);
    free(world);
}

static void test_another_context(void **state)
{
    struct world *world = begin();

    (void)state;
    rests(world, 8, 100);
    assert_false(plain_take(&world->servers, &world->other, REQUEST_PUT, 8));
    plain_end(&world->lane);
    assert_false(put(world, 8));
    world->lane = (struct lane){.servers = &world->servers, .context = &world->other};
    rests(world, 8, 100);
    assert_int_equal(direct(world), 0);
    assert_true(plain_take(&world->servers, &world->other, REQUEST_PUT, 8));
    assert_int_equal(direct(world), 1);
    free(world);
}

static bool put_otherwise(struct world *world, struct servers *servers, size_t bytes)
{
    return plain_otherwise(servers, &world->context, REQUEST_PUT, bytes);
}

/* A context that has several servers finds its way back to each of them. */
static void test_several_servers(void **state)
{
    struct world *first = begin(), *second = begin();

    (void)state;
    second->lane.context = &first->context;
    rests(first, 8, 100);
    assert_false(put_otherwise(first, &second->servers, 8));
    rests(second, 8, 100);
    assert_false(put(first, 8));
    assert_true(put_otherwise(first, &first->servers, 8) && put(first, 8));
    assert_int_equal(direct(first), 2);
    assert_true(put_otherwise(first, &second->servers, 8));
    assert_int_equal(direct(second), 1);
    plain_end(&first->lane);
    assert_true(plain_take(&second->servers, &first->context, REQUEST_PUT, 8));
    assert_false(put_otherwise(first, &first->servers, 8));
    plain_end(&second->lane);
    assert_false(plain_take(&second->servers, &first->context, REQUEST_PUT, 8));
    free(second);
    free(first);
}

/* What learning has found for a size is not asked about because a smaller one is on trial. */
static void test_beside_a_trial(void **state)
{
    struct world *world = begin();
    struct learner *learner = learn_of(&world->lane, REQUEST_PUT, 100);

    (void)state;
    atomic_store(&world->servers.lanes[OFFSET], &world->lane);
    goes(world, 8, LEARN_PLAIN, 2);
    *learner = (struct learner){.begun = 1, .left = 2};
    assert_false(put(world, 100));
    assert_true(put_otherwise(world, &world->servers, 100));
    assert_true(put_otherwise(world, &world->servers, 100));
    assert_false(put_otherwise(world, &world->servers, 100));
    assert_int_equal(direct(world), 2);
    free(world);
}

/* Where learning decides, what is over inside the call never asks again. */
static void test_short(void **state)
{
    struct world *world = begin(), *second = begin();
    struct servers *servers = &world->servers;

    (void)state;
    second->lane.context = &world->context;
    assert_false(plain_short(servers, &world->context, 0) || plain_short(NULL, &world->context, 0));
    plain_learns(&world->lane);
    for (unsigned i = 1; i <= 10000; i++)
        assert_true(plain_short(servers, &world->context, 0));
    assert_false(plain_short(servers, &world->context, PAMIX_SERVERS_ORDERED));
    assert_false(put(world, 8));
    plain_learns(&second->lane);
    assert_false(plain_short(servers, &world->context, 0));
    assert_true(plain_otherwise(servers, &world->context, REQUEST_IMMEDIATE, 8));
    assert_true(plain_short(servers, &world->context, 0));
    plain_forbid(servers);
    assert_false(plain_short(servers, &world->context, 0));
    assert_false(plain_otherwise(servers, &world->context, REQUEST_IMMEDIATE, 8));
    atomic_store(&servers->by_learning, 0); /* just then */
    plain_learns(&world->lane);
    assert_false(plain_short(servers, &world->context, 0));
    plain_end(&world->lane);
    assert_false(plain_short(servers, &world->context, 0));
    free(second);
    free(world);
}

/* Which transfers are short. */
static void test_short_sizes(void **state)
{
    (void)state;
    assert_true(plain_is_short(1) && plain_is_short(PLAIN_SHORT_BYTES));
    assert_false(plain_is_short(0) || plain_is_short(PLAIN_SHORT_BYTES + 1));
    assert_false(plain_is_short(SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counted),         cmocka_unit_test(test_range),
        cmocka_unit_test(test_large),           cmocka_unit_test(test_forbidden),
        cmocka_unit_test(test_stopped),         cmocka_unit_test(test_another_context),
        cmocka_unit_test(test_several_servers), cmocka_unit_test(test_beside_a_trial),
        cmocka_unit_test(test_short),           cmocka_unit_test(test_short_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
