/*
 * The context lock: recursive for its owner, exclusive for all others, released by its owner only.
 *
 * Run: timeout=60
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "context/lock.h"
#include "util/clock.h"

#define THREADS 4
#if defined(__SANITIZE_THREAD__)
#define ROUNDS 5000
#else
#define ROUNDS 50000
#endif

static struct context_lock lock;
static uint64_t guarded, twice; /* plain words: a race is an error by itself */

static void recursive(void **state)
{
    (void)state;
    context_lock_init(&lock);
    assert_false(context_lock_release(&lock));
    for (int i = 0; i < 1000; i++) {
        if (i % 2)
            assert_true(context_lock_try(&lock));
        else
            context_lock_acquire(&lock);
    }
    for (int i = 0; i < 1000; i++)
        assert_true(context_lock_release(&lock));
    assert_false(context_lock_release(&lock));
    assert_true(context_lock_try(&lock));
    assert_true(context_lock_release(&lock));
}

/* What another thread sees of it. */
struct view {
    bool taken, released, taken_in_time;
};

static void *look(void *argument)
{
    struct view *view = argument;

    view->released = context_lock_release(&lock);
    view->taken = context_lock_try(&lock);
    if (view->taken)
        context_lock_release(&lock);
    view->taken_in_time = context_lock_until(&lock, clock_now() + 0.001);
    if (view->taken_in_time)
        context_lock_release(&lock);
    return NULL;
}

static struct view view_of_another(void)
{
    struct view view;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, look, &view), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return view;
}

static void others(void **state)
{
    (void)state;
    context_lock_init(&lock);
    assert_true(view_of_another().taken);
    for (int depth = 1; depth <= 3; depth++) {
        struct view view;

        context_lock_acquire(&lock);
        view = view_of_another();
        assert_false(view.taken);
        assert_false(view.taken_in_time);
        assert_false(view.released);
    }
    for (int depth = 3; depth >= 1; depth--) {
        assert_false(view_of_another().taken);
        assert_true(context_lock_release(&lock));
    }
    assert_true(view_of_another().taken);
    assert_true(view_of_another().taken_in_time);
    assert_int_equal(lock.waiters, 0);
}

static void *count(void *argument)
{
    uint64_t failed = 0;

    for (int i = 0; i < ROUNDS; i++) {
        if (i % 7 == 0) {
            while (!context_lock_until(&lock, 0))
                failed++;
        } else if (i % 5 == 0) {
            while (!context_lock_try(&lock)) {
                failed++;
                sched_yield();
            }
        } else {
            context_lock_acquire(&lock);
        }
        guarded++;
        if (i % 3 == 0) {
            context_lock_acquire(&lock);
            twice++;
            context_lock_release(&lock);
        }
        guarded++;
        context_lock_release(&lock);
    }
    *(uint64_t *)argument = failed;
    return NULL;
}

static void exclusion(void **state)
{
    pthread_t threads[THREADS];
    uint64_t failed[THREADS];

    (void)state;
    context_lock_init(&lock);
    guarded = twice = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, &failed[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(guarded, 2 * THREADS * ROUNDS);
    assert_int_equal(twice, THREADS * ((ROUNDS + 2) / 3));
    assert_true(view_of_another().taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recursive),
        cmocka_unit_test(others),
        cmocka_unit_test(exclusion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
