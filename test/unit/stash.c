/*
 * Memory that is kept for the next one of about its size: what is found again, how much is kept,
 * and that all of it goes back.
 *
 * Run: timeout=30
 */
#include "util/stash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

static struct stash stash;

static int setup(void **state)
{
    (void)state;
    stash_init(&stash, 4 * MIB);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stash_finish(&stash);
    assert_int_equal(stash.count, 0);
    assert_int_equal(stash.bytes, 0);
    return 0;
}

static char *get(size_t bytes)
{
    char *block = stash_get(&stash, bytes);

    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
    memset(block, 1, bytes);
    return block;
}

static void test_the_same_size_is_found_again(void **state)
{
    char *first = get(MIB), *second = get(MIB);

    (void)state;
    assert_ptr_not_equal(first, second);
    stash_put(&stash, first);
    assert_ptr_equal(get(MIB), first);
    stash_put(&stash, first);
    stash_put(&stash, second);
    assert_int_equal(stash.bytes, 2 * MIB);
}

static void test_about_the_size_is_found(void **state)
{
    char *block = get(MIB), *close = get(MIB / 2 + 100);

    (void)state;
    stash_put(&stash, block);
    stash_put(&stash, close);
    assert_ptr_equal(get(MIB / 2), close); /* it fits better */
    assert_ptr_equal(get(MIB / 2), block);
    stash_put(&stash, block);
    stash_put(&stash, close);
    stash_put(&stash, get(MIB / 4)); /* neither: more than half would be in vain */
    assert_int_equal(stash.count, 3);
    stash_put(&stash, get(MIB + 1));
    assert_int_equal(stash.count, 4);
}

static void test_the_oldest_go(void **state)
{
    char *blocks[5];

    (void)state;
    for (size_t i = 0; i < 5; i++)
        blocks[i] = get(MIB);
    for (size_t i = 0; i < 5; i++)
        stash_put(&stash, blocks[i]);
    assert_int_equal(stash.count, 4);
    assert_int_equal(stash.bytes, 4 * MIB);
    for (size_t i = 5; i-- > 1;)
        assert_ptr_equal(get(MIB), blocks[i]);
    assert_int_equal(stash.count, 0);
    for (size_t i = 1; i < 5; i++)
        stash_put(&stash, blocks[i]);
}

static void test_only_so_many(void **state)
{
    char *blocks[STASH_COUNT + 3];

    (void)state;
    for (size_t i = 0; i < STASH_COUNT + 3; i++)
        blocks[i] = get(STASH_LEAST + i);
    for (size_t i = 0; i < STASH_COUNT + 3; i++)
        stash_put(&stash, blocks[i]);
    assert_int_equal(stash.count, STASH_COUNT);
}

static void test_what_is_not_kept(void **state)
{
    (void)state;
    stash_put(&stash, get(STASH_LEAST - 1));
    stash_put(&stash, get(4 * MIB + 1));
    stash_put(&stash, get(0));
    stash_put(&stash, NULL);
    assert_int_equal(stash.count, 0);
    assert_null(stash_get(&stash, SIZE_MAX));
    assert_null(stash_get(&stash, SIZE_MAX - 100));
}

static void test_blocks_may_outlast_it(void **state)
{
    char *block = get(MIB);

    stash_put(&stash, get(MIB));
    teardown(state);
    stash_put(&stash, block);
    assert_int_equal(stash.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_same_size_is_found_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_about_the_size_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_oldest_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_so_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blocks_may_outlast_it, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
