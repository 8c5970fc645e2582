/*
 * Complete types shared by threads: references taken and dropped, cursors walked and the serialized
 * form made at once, while other threads create and destroy types of their own. Worth most under
 * a thread sanitizer.
 *
 * Run: timeout=60
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "type/type.h"

#define THREADS 4
#define ROUNDS 2000

static pami_type_t shared;
static atomic_int failures;

static void expect(bool good)
{
    if (!good)
        atomic_fetch_add(&failures, 1);
}

static pami_type_t make(size_t blocks)
{
    pami_type_t type;

    expect(PAMI_Type_create(&type) == PAMI_SUCCESS);
    expect(PAMI_Type_add_simple(type, 8, 0, blocks, 24) == PAMI_SUCCESS);
    expect(PAMI_Type_add_simple(type, 4, 0, 1, 4) == PAMI_SUCCESS);
    expect(PAMI_Type_complete(type, 4) == PAMI_SUCCESS);
    return type;
}

static void *use(void *argument)
{
    char source[256] = {0};
    char target[256];
    void *form = NULL;

    for (int i = 0; i < ROUNDS; i++) {
        struct type *type = type_ref(type_from_handle(shared));
        pami_type_t own = make(3);
        pami_type_t parent;
        void *address;
        size_t size;

        expect(PAMI_Type_create(&parent) == PAMI_SUCCESS);
        expect(PAMI_Type_add_typed(parent, shared, 0, 20, 100) == PAMI_SUCCESS);
        expect(PAMI_Type_transform_data(source, shared, 0, target, own, 0, 28, NULL, NULL) ==
               PAMI_SUCCESS);
        expect(PAMI_Type_serialize(shared, &address, &size) == PAMI_SUCCESS);
        expect(form == NULL || form == address);
        form = address;
        expect(PAMI_Type_destroy(&own) == PAMI_SUCCESS);
        expect(PAMI_Type_destroy(&parent) == PAMI_SUCCESS);
        type_unref(type);
    }
    return argument;
}

static void sharing(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    shared = make(5);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(PAMI_Type_destroy(&shared), PAMI_SUCCESS);
    assert_int_equal(atomic_load(&failures), 0);
}

/* Whoever drops the last reference frees the type, be it a transfer or the handle. */
static void *drop(void *type)
{
    struct type_cursor cursor;
    void *piece;

    type_cursor_init(&cursor, type, NULL, 5);
    expect(type_cursor_next(&cursor, &piece, 100) == 3);
    type_unref(type);
    return NULL;
}

static void last_reference(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        pami_type_t handle = make(7);
        struct type *type = type_from_handle(handle);
        pthread_t threads[2];

        for (int k = 0; k < 2; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, drop, type_ref(type)), 0);
        assert_int_equal(PAMI_Type_destroy(&handle), PAMI_SUCCESS);
        for (int k = 0; k < 2; k++)
            pthread_join(threads[k], NULL);
    }
    assert_int_equal(atomic_load(&failures), 0);
}

/* Of several threads that destroy copies of one handle, one succeeds. */
static atomic_int destroyed;

static void *destroy(void *handle)
{
    pami_type_t copy = handle;

    if (PAMI_Type_destroy(&copy) == PAMI_SUCCESS)
        atomic_fetch_add(&destroyed, 1);
    return NULL;
}

static void destroyed_once(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        pami_type_t handle = make(2);
        pthread_t threads[3];

        atomic_store(&destroyed, 0);
        for (int k = 0; k < 3; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, destroy, handle), 0);
        for (int k = 0; k < 3; k++)
            pthread_join(threads[k], NULL);
        assert_int_equal(atomic_load(&destroyed), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharing),
        cmocka_unit_test(last_reference),
        cmocka_unit_test(destroyed_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
