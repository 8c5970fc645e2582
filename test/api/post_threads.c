/*
 * Several threads post onto contexts that the main thread, or whoever gets the lock, advances. The
 * storage is on the posting thread's stack and re-used as soon as its function has run.
 *
 * Run: tasks=1,2,3
 * Run: tasks=2 env="PAMI_YIELD=always"
 */
#include "api_test.h"

#include <pthread.h>
#include <sched.h>

enum {
    POSTERS = 3,
    CONTEXTS = 2,
    ROUNDS = 3000,
    BATCH = 16
};

struct item {
    pami_work_t work;
    size_t poster, number, calls;
    bool done;
};

static struct job job;
static size_t ran[CONTEXTS]; /* changed by whoever owns the context */
static size_t latest[CONTEXTS][POSTERS];
static size_t posters_left = POSTERS;
static bool helper_stop;

static pami_result_t run(pami_context_t context, void *cookie)
{
    struct item *item = cookie;
    size_t offset = context == job.context[1];

    CHECK(context == job.context[offset]);
    if (item->calls++ == 0) { /* first calls come in the order of posting */
        CHECK_SIZE(item->number, latest[offset][item->poster] + 1);
        latest[offset][item->poster] = item->number;
        if (item->number % 5 == 0)
            return PAMI_EAGAIN;
    }
    ran[offset]++;
    __atomic_store_n(&item->done, true, __ATOMIC_RELEASE);
    return PAMI_SUCCESS;
}

static void *poster(void *cookie)
{
    size_t number = 0, i, poster = (size_t)(uintptr_t)cookie;
    double until = test_now() + test_limit();

    while (number < ROUNDS) {
        struct item items[BATCH];
        size_t offset = number / BATCH % CONTEXTS;

        memset(items, 0xee, sizeof items);
        for (i = 0; i < BATCH; i++, number++) {
            items[i].poster = poster;
            items[i].number = number / BATCH / CONTEXTS * BATCH + i + 1;
            items[i].calls = 0;
            items[i].done = false;
            CHECK_OK(PAMI_Context_post(job.context[offset], &items[i].work, run, &items[i]));
        }
        for (i = 0; i < BATCH; i++) {
            while (!__atomic_load_n(&items[i].done, __ATOMIC_ACQUIRE)) {
                sched_yield();
                if (test_now() > until)
                    FAIL("poster %zu: item %zu was not called", poster, number - BATCH + i);
            }
        }
    }
    __atomic_fetch_sub(&posters_left, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* A second thread that advances whenever the lock is free. */
static void *helper(void *cookie)
{
    (void)cookie;
    while (!__atomic_load_n(&helper_stop, __ATOMIC_ACQUIRE)) {
        test_trylock_advance(job.context, CONTEXTS, 4);
        sched_yield();
    }
    return NULL;
}

static void advance_locked(void)
{
    size_t i;

    for (i = 0; i < CONTEXTS; i++) {
        if (PAMI_Context_trylock(job.context[i]) == PAMI_SUCCESS) {
            test_advance(job.context[i], 1);
            CHECK_OK(PAMI_Context_unlock(job.context[i]));
        }
    }
}

static void round_of_posts(bool with_helper)
{
    pthread_t threads[POSTERS], second;
    size_t i, total = (ROUNDS + BATCH - 1) / BATCH * BATCH * POSTERS;

    memset(latest, 0, sizeof latest);
    memset(ran, 0, sizeof ran);
    posters_left = POSTERS;
    helper_stop = false;
    for (i = 0; i < POSTERS; i++)
        CHECK(pthread_create(&threads[i], NULL, poster, (void *)(uintptr_t)i) == 0);
    if (with_helper)
        CHECK(pthread_create(&second, NULL, helper, NULL) == 0);
    WAIT_WITH(advance_locked(), __atomic_load_n(&posters_left, __ATOMIC_ACQUIRE) == 0);
    for (i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&helper_stop, true, __ATOMIC_RELEASE);
    if (with_helper)
        pthread_join(second, NULL);
    CHECK_SIZE(ran[0] + ran[1], total);
}

int main(void)
{
    job_start(&job, "post_threads", CONTEXTS);
    job_barrier(&job);
    round_of_posts(false);
    round_of_posts(true);
    job_finish(&job);
    return 0;
}
