/*
 * The registry of live handles: anything may be asked about, removal leaves no holes in which
 * others get lost, and threads may use it at once.
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

#include <cmocka.h>

#include "context/registry.h"

#define HANDLES 4000
#define THREADS 4

static char memory[HANDLES * 8];
static char owners[HANDLES];

static struct client_core *owner_of(size_t number)
{
    return (struct client_core *)(void *)&owners[number];
}

static void anything(void **state)
{
    const void *odd[] = {NULL, (void *)1, (void *)UINTPTR_MAX, &odd, (void *)0x5a5a5a5a};

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
            assert_null(registry_find(odd[i]));
            registry_remove(odd[i]); /* of what is not there: nothing */
        }
        if (round == 0)
            assert_int_equal(registry_add(memory, owner_of(0)), 0);
    }
    registry_remove(memory);
    registry_remove(memory);
    assert_null(registry_find(memory));
}

/* Any stride, so that runs of any length come about; against a plain array of what is in it. */
static void random_use(size_t stride, size_t count, uint32_t random)
{
    static bool present[HANDLES];

    for (size_t i = 0; i < count; i++)
        present[i] = false;
    for (int step = 0; step < 40000; step++) {
        size_t which;

        random = random * 1664525u + 1013904223u;
        which = (random >> 8) % count;
        if (present[which])
            registry_remove(memory + which * stride);
        else
            assert_int_equal(registry_add(memory + which * stride, owner_of(which)), 0);
        present[which] = !present[which];
        if (step % 1000 != 0)
            continue;
        for (size_t i = 0; i < count; i++)
            assert_ptr_equal(registry_find(memory + i * stride), present[i] ? owner_of(i) : NULL);
    }
    for (size_t i = 0; i < count; i++)
        registry_remove(memory + i * stride);
    for (size_t i = 0; i < count; i++)
        assert_null(registry_find(memory + i * stride));
}

static void removal(void **state)
{
    (void)state;
    random_use(1, 20, 1);
    random_use(8, 100, 2);
    random_use(8, HANDLES, 3);
    random_use(1, HANDLES, 4);
    random_use(3, 500, 5);
}

static void *use(void *argument)
{
    size_t first = (size_t)(uintptr_t)argument;

    for (int round = 0; round < 20; round++) {
        for (size_t i = first; i < HANDLES; i += THREADS)
            if (registry_add(memory + i * 8, owner_of(i)) != 0)
                abort();
        for (size_t i = first; i < HANDLES; i += THREADS)
            if (registry_find(memory + i * 8) != owner_of(i))
                abort();
        for (size_t i = first; i < HANDLES; i += THREADS)
            registry_remove(memory + i * 8);
        for (size_t i = first; i < HANDLES; i += THREADS)
            if (registry_find(memory + i * 8) != NULL)
                abort();
    }
    return NULL;
}

static void threads(void **state)
{
    pthread_t thread[THREADS];

    (void)state;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anything),
        cmocka_unit_test(removal),
        cmocka_unit_test(threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
