/*
 * Handles: what is stale, repeated or forged finds nothing; growing keeps what is valid.
 *
 * Run: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "p2p/handle.h"

#define MANY 5000

static char objects[MANY];

static void empty_table(void **state)
{
    struct handle_table table = {0};
    uint32_t cursor = 0;

    (void)state;
    assert_null(handle_find(&table, 0));
    assert_null(handle_find(&table, 1u << HANDLE_INDEX_BITS));
    assert_null(handle_find(&table, UINT32_MAX));
    handle_drop(&table, 0);
    assert_null(handle_next(&table, &cursor));
    handle_table_finish(&table);
}

static void growing(void **state)
{
    struct handle_table table = {0};
    static uint32_t handles[MANY];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        handles[i] = handle_new(&table, &objects[i]);
        assert_int_not_equal(handles[i], 0);
        for (int k = i; k >= 0; k = k / 2 - 1)
            assert_ptr_equal(handle_find(&table, handles[k]), &objects[k]);
    }
    assert_int_equal(table.used, MANY);
    for (int i = 0; i < MANY; i++)
        handle_drop(&table, handles[i]);
    for (int i = 0; i < MANY; i++)
        assert_null(handle_find(&table, handles[i]));
    assert_int_equal(table.used, 0);
    handle_table_finish(&table);
}

/* A handle of the past finds nothing for as long as there are generations. */
static void stale(void **state)
{
    struct handle_table table = {0};
    uint32_t past[254];

    (void)state;
    for (int i = 0; i < 254; i++) {
        past[i] = handle_new(&table, &objects[0]);
        handle_drop(&table, past[i]);
        for (int k = 0; k <= i; k++)
            assert_null(handle_find(&table, past[k]));
    }
    for (int i = 0; i < 1000; i++) {
        uint32_t handle = handle_new(&table, &objects[1]);

        assert_int_not_equal(handle, 0);
        assert_int_not_equal(handle >> HANDLE_INDEX_BITS, 0);
        assert_ptr_equal(handle_find(&table, handle), &objects[1]);
        handle_drop(&table, handle);
    }
    handle_table_finish(&table);
}

/* Of all handles near the live ones only the live ones find anything. */
static void forged(void **state)
{
    struct handle_table table = {0};
    uint32_t live[10];

    (void)state;
    for (int i = 0; i < 10; i++)
        live[i] = handle_new(&table, &objects[i]);
    for (uint32_t generation = 0; generation < 256; generation++) {
        for (uint32_t index = 0; index < 200; index++) {
            uint32_t handle = generation << HANDLE_INDEX_BITS | index;
            void *expected = NULL;

            for (int i = 0; i < 10; i++)
                if (live[i] == handle)
                    expected = &objects[i];
            assert_ptr_equal(handle_find(&table, handle), expected);
        }
        assert_null(handle_find(&table, generation << HANDLE_INDEX_BITS | HANDLE_INDEX_MASK));
    }
    handle_table_finish(&table);
}

/* Walking while what is found is dropped, as when a peer goes. */
static void walking(void **state)
{
    struct handle_table table = {0};
    static uint32_t handles[300];
    uint32_t cursor = 0;
    size_t found = 0;
    char *object;

    (void)state;
    for (int i = 0; i < 300; i++)
        handles[i] = handle_new(&table, &objects[i]);
    for (int i = 0; i < 300; i += 3)
        handle_drop(&table, handles[i]);
    while ((object = handle_next(&table, &cursor)) != NULL) {
        assert_int_not_equal((object - objects) % 3, 0);
        handle_drop(&table, handles[object - objects]);
        found++;
    }
    assert_int_equal(found, 200);
    assert_int_equal(table.used, 0);
    handle_table_finish(&table);
}

/* Two tables that follow one another in time do not take each other's handles for their own. */
static void seeded(void **state)
{
    struct handle_table first = {.first = 17}, second = {.first = 18};

    (void)state;
    for (int i = 0; i < 100; i++) {
        uint32_t old = handle_new(&first, &objects[0]);

        handle_new(&second, &objects[1]);
        assert_null(handle_find(&second, old));
    }
    handle_table_finish(&first);
    handle_table_finish(&second);
}

static void random_use(void **state)
{
    struct handle_table table = {0};
    static uint32_t handles[MANY];
    uint32_t random = 99;
    uint32_t used = 0;

    (void)state;
    for (int i = 0; i < MANY; i++)
        handles[i] = 0;
    for (int step = 0; step < 200000; step++) {
        uint32_t which;

        random = random * 1664525u + 1013904223u;
        which = (random >> 8) % (step < 100000 ? MANY : 100);
        if (handles[which] == 0) {
            handles[which] = handle_new(&table, &objects[which]);
            assert_int_not_equal(handles[which], 0);
            used++;
        } else {
            assert_ptr_equal(handle_find(&table, handles[which]), &objects[which]);
            handle_drop(&table, handles[which]);
            assert_null(handle_find(&table, handles[which]));
            handles[which] = 0;
            used--;
        }
        assert_int_equal(table.used, used);
    }
    handle_table_finish(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_table), cmocka_unit_test(growing), cmocka_unit_test(stale),
        cmocka_unit_test(forged),      cmocka_unit_test(walking), cmocka_unit_test(seeded),
        cmocka_unit_test(random_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
