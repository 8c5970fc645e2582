/*
 * List, pool and map.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash.h"
#include "util/list.h"
#include "util/pool.h"

struct element {
    int number;
    struct list link;
};

static int sum_in_order(struct list *head)
{
    struct list *item;
    int sum = 0;

    list_for_each (item, head)
        sum = sum * 10 + list_entry(item, struct element, link)->number;
    return sum;
}

static void list_order(void **state)
{
    struct element e[5];
    struct list head, other, *item, *following;
    int i;

    (void)state;
    list_init(&head);
    list_init(&other);
    assert_true(list_empty(&head));
    assert_null(list_first(&head));
    assert_null(list_pop_front(&head));
    for (i = 0; i < 5; i++)
        e[i].number = i + 1;
    list_push_back(&head, &e[1].link);
    list_push_back(&head, &e[2].link);
    list_push_front(&head, &e[0].link);
    assert_int_equal(sum_in_order(&head), 123);
    list_splice_back(&head, &other);
    assert_int_equal(sum_in_order(&head), 123);
    list_push_back(&other, &e[3].link);
    list_push_back(&other, &e[4].link);
    list_splice_back(&head, &other);
    assert_true(list_empty(&other));
    assert_int_equal(sum_in_order(&head), 12345);
    list_remove(&e[2].link);
    list_remove(&e[2].link);
    assert_int_equal(sum_in_order(&head), 1245);
    assert_ptr_equal(list_pop_front(&head), &e[0].link);
    list_for_each_safe (item, following, &head)
        if (list_entry(item, struct element, link)->number == 4)
            list_remove(item);
    assert_int_equal(sum_in_order(&head), 25);
}

#define OBJECTS 5000

static void pool_objects_are_distinct(void **state)
{
    static unsigned char *objects[OBJECTS];
    struct pool pool;
    size_t i, k;

    (void)state;
    pool_init(&pool, 40, 64);
    for (i = 0; i < OBJECTS; i++) {
        objects[i] = pool_get(&pool);
        assert_non_null(objects[i]);
        assert_int_equal((uintptr_t)objects[i] % 64, 0);
        memset(objects[i], (int)(i % 251), 40);
    }
    for (i = 0; i < OBJECTS; i++)
        for (k = 0; k < 40; k++)
            assert_int_equal(objects[i][k], i % 251);
    for (i = 0; i < OBJECTS; i++)
        pool_put(&pool, objects[i]);
    assert_ptr_equal(pool_get(&pool), objects[OBJECTS - 1]);
    pool_finish(&pool);
    /* Usable again. */
    assert_non_null(pool_get(&pool));
    pool_finish(&pool);
}

static void pool_sizes(void **state)
{
    static const struct {
        size_t size, align;
    } shapes[] = {{1, 0}, {8, 8}, {9, 16}, {1 << 20, 4096}, {100, 128}};
    struct pool pool;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char *one, *other;

        pool_init(&pool, shapes[i].size, shapes[i].align);
        one = pool_get(&pool);
        other = pool_get(&pool);
        assert_true(one != NULL && other != NULL);
        assert_true((size_t)labs(one - other) >= shapes[i].size);
        if (shapes[i].align != 0)
            assert_int_equal((uintptr_t)one % shapes[i].align, 0);
        pool_finish(&pool);
    }
    pool_init(&pool, SIZE_MAX / 2, 8);
    assert_null(pool_get(&pool));
    pool_finish(&pool);
}

static void map_finds_what_was_put(void **state)
{
    static int things[20000];
    struct u64map map = {0};
    size_t cursor = 0, i, seen = 0;
    int *thing;

    (void)state;
    assert_null(u64map_get(&map, 0));
    assert_null(u64map_next(&map, &cursor));
    assert_int_equal(u64map_put(&map, 1, NULL), -EINVAL);
    for (i = 0; i < 20000; i++)
        assert_int_equal(u64map_put(&map, (uint32_t)(i * 4096 + 7), &things[i]), 0);
    assert_int_equal(map.count, 20000);
    for (i = 0; i < 20000; i++) {
        assert_ptr_equal(u64map_get(&map, (uint32_t)(i * 4096 + 7)), &things[i]);
        assert_null(u64map_get(&map, (uint32_t)(i * 4096 + 8)));
    }
    for (cursor = 0; (thing = u64map_next(&map, &cursor)) != NULL; seen++)
        assert_int_equal((*thing)++, 0);
    assert_int_equal(seen, 20000);
    assert_int_equal(u64map_put(&map, 7, &things[5]), 0);
    assert_int_equal(map.count, 20000);
    assert_ptr_equal(u64map_get(&map, 7), &things[5]);
    u64map_finish(&map);
    assert_null(u64map_get(&map, 7));
    assert_int_equal(u64map_put(&map, UINT32_MAX, &things[0]), 0);
    assert_ptr_equal(u64map_get(&map, UINT32_MAX), &things[0]);
    u64map_finish(&map);
}

static void map_forgets_what_was_removed(void **state)
{
    enum {
        KEYS = 700
    };
    static bool present[KEYS];
    struct u64map of = {0};
    uint64_t seed = 7;
    size_t count = 0;

    (void)state;
    assert_null(u64map_get(&of, 1));
    assert_null(u64map_remove(&of, 1));
    for (int step = 0; step < 60000; step++) {
        size_t which = (seed = seed * 6364136223846793005u + 1442695040888963407u) % 4093 % KEYS;
        uint64_t key = which % 3 == 0 ? which : (uint64_t)which << 40;

        assert_ptr_equal(u64map_get(&of, key), present[which] ? &present[which] : NULL);
        if (present[which]) {
            assert_ptr_equal(u64map_remove(&of, key), &present[which]);
            assert_null(u64map_remove(&of, key));
            count--;
        } else {
            assert_int_equal(u64map_put(&of, key, &present[which]), 0);
            count++;
        }
        present[which] = !present[which];
        assert_int_equal(of.count, count);
    }
    u64map_finish(&of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_order),
        cmocka_unit_test(pool_objects_are_distinct),
        cmocka_unit_test(pool_sizes),
        cmocka_unit_test(map_finds_what_was_put),
        cmocka_unit_test(map_forgets_what_was_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
