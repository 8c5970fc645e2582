/*
 * The lock of a context: recursive for its owner, held across advance and taken in callbacks,
 * refused to others, one per context; advance itself takes none, trylock_advancev passes by what
 * others hold. A thread that tries again and again gets it from one that waits with it, again and
 * again, also on the same processor.
 *
 * Run: tasks=1,2
 * Run: env="PAMI_YIELD=always"
 */
#include "api_test.h"

#include <pthread.h>
#include <sched.h>

enum {
    ID = 1,
    THREADS = 4,
    ROUNDS = 5000
};

static struct job job;
static size_t received, counter;
static pami_result_t seen;
static bool entered, held_elsewhere;

static void *in_thread(void *(*fn)(void *), void *argument)
{
    pthread_t thread;
    void *result;

    CHECK(pthread_create(&thread, NULL, fn, argument) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    return result;
}

static void *other_trylock(void *context)
{
    seen = PAMI_Context_trylock(context);
    if (seen == PAMI_SUCCESS)
        CHECK_OK(PAMI_Context_unlock(context));
    return NULL;
}

static void *other_unlock(void *context)
{
    seen = PAMI_Context_unlock(context);
    return NULL;
}

static pami_result_t as_other(void *(*fn)(void *), pami_context_t context)
{
    in_thread(fn, context);
    return seen;
}

static void recursion(void)
{
    size_t i;

    for (i = 0; i < 5; i++)
        CHECK_OK(PAMI_Context_lock(job.context[0]));
    for (i = 0; i < 5; i++)
        CHECK_OK(PAMI_Context_trylock(job.context[0]));
    for (i = 0; i < 10; i++) {
        CHECK_RESULT(as_other(other_trylock, job.context[0]), PAMI_EAGAIN);
        CHECK_RESULT(as_other(other_unlock, job.context[0]), PAMI_INVAL);
        CHECK_OK(as_other(other_trylock, job.context[1])); /* each has its own */
        CHECK_OK(PAMI_Context_unlock(job.context[0]));
    }
    CHECK_OK(as_other(other_trylock, job.context[0]));
    CHECK_RESULT(PAMI_Context_unlock(job.context[0]), PAMI_INVAL);
    CHECK_RESULT(as_other(other_unlock, job.context[0]), PAMI_INVAL);
    CHECK_OK(PAMI_Context_trylock(job.context[0]));
    CHECK_OK(PAMI_Context_unlock(job.context[0]));
}

static void refused(void)
{
    CHECK_REFUSED(PAMI_Context_lock(PAMI_CONTEXT_NULL), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Context_trylock(PAMI_CONTEXT_NULL), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Context_unlock(PAMI_CONTEXT_NULL), PAMI_INVAL, "context");
}

static void *waits_for_lock(void *context)
{
    CHECK_OK(PAMI_Context_lock(context));
    __atomic_store_n(&entered, true, __ATOMIC_RELEASE);
    CHECK_OK(PAMI_Context_unlock(context));
    return NULL;
}

static void blocks(void)
{
    pthread_t thread;

    CHECK_OK(PAMI_Context_lock(job.context[0]));
    CHECK(pthread_create(&thread, NULL, waits_for_lock, job.context[0]) == 0);
    test_sleep(0.05);
    CHECK(!__atomic_load_n(&entered, __ATOMIC_ACQUIRE));
    CHECK_OK(PAMI_Context_unlock(job.context[0]));
    pthread_join(thread, NULL);
    CHECK(entered);
}

static void *counts(void *context)
{
    size_t i;

    for (i = 0; i < ROUNDS; i++) {
        CHECK_OK(PAMI_Context_lock(context));
        if (i % 3 == 0)
            CHECK_OK(PAMI_Context_lock(context));
        counter++;
        if (i % 3 == 0)
            CHECK_OK(PAMI_Context_unlock(context));
        CHECK_OK(PAMI_Context_unlock(context));
    }
    return NULL;
}

static void excludes(void)
{
    pthread_t threads[THREADS];
    size_t i;

    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, counts, job.context[0]) == 0);
    for (i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_SIZE(counter, THREADS * ROUNDS);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    received++;
    if (held_elsewhere)
        return;
    CHECK_OK(PAMI_Context_lock(context));
    CHECK_OK(PAMI_Context_trylock(context));
    CHECK_OK(PAMI_Context_unlock(context));
    CHECK_OK(PAMI_Context_unlock(context));
}

static void send_to_self(size_t offset)
{
    test_send_immediate(job.context[0], job_endpoint(&job, job.task, offset), ID, NULL, 0, NULL, 0);
}

/* Locks held by the thread that advances are no obstacle, whatever the way to advance. */
static void held_across_advance(void)
{
    size_t i;

    received = 0;
    for (i = 0; i < 3; i++)
        CHECK_OK(PAMI_Context_lock(job.context[i]));
    for (i = 0; i < 3; i++)
        send_to_self(i);
    WAIT(&job, received == 3);
    for (i = 0; i < 3; i++)
        send_to_self(i);
    WAIT_WITH(test_trylock_advance(job.context, 3, 1), received == 6);
    for (i = 0; i < 3; i++) {
        CHECK_RESULT(as_other(other_trylock, job.context[i]), PAMI_EAGAIN);
        CHECK_OK(PAMI_Context_unlock(job.context[i]));
        CHECK_OK(as_other(other_trylock, job.context[i]));
    }
}

static void *keeps_two(void *argument)
{
    size_t i;

    (void)argument;
    for (i = 0; i < 3; i++)
        CHECK_OK(PAMI_Context_lock(job.context[i]));
    CHECK_OK(PAMI_Context_unlock(job.context[1]));
    return NULL;
}

static void *waits_with_lock(void *stop)
{
    while (!__atomic_load_n((bool *)stop, __ATOMIC_ACQUIRE)) {
        CHECK_OK(PAMI_Context_lock(job.context[0]));
        test_advance(job.context[0], 1);
        __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
        CHECK_OK(PAMI_Context_unlock(job.context[0]));
    }
    return NULL;
}

/* Both on one processor, which the one with the lock gives up inside its advance. */
static void tried(void)
{
    cpu_set_t before, one;
    pthread_t thread;
    bool stop = false;
    size_t i;

    CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(pthread_create(&thread, NULL, waits_with_lock, &stop) == 0);
    for (i = 0; i < 20; i++) {
        size_t last = __atomic_load_n(&counter, __ATOMIC_RELAXED);

        WAIT_WITH(sched_yield(), __atomic_load_n(&counter, __ATOMIC_RELAXED) > last + 5);
        WAIT_WITH((void)0, PAMI_Context_trylock(job.context[0]) == PAMI_SUCCESS);
        CHECK_OK(PAMI_Context_unlock(job.context[0]));
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
}

/* A thread that ended keeps its locks; contexts 0 and 2 stay busy for everybody else. */
static void busy(void)
{
    double until;

    in_thread(keeps_two, NULL);
    held_elsewhere = true;
    received = 0;
    /* Sending needs ownership, which this program knows it has. */
    send_to_self(0), send_to_self(1), send_to_self(2);
    until = test_now() + 0.05;
    while (test_now() < until || received == 0) {
        test_trylock_advance(job.context, 3, 1);
        CHECK(test_now() < until + test_limit());
    }
    CHECK_SIZE(received, 1);
    CHECK_OK(PAMI_Context_lock(job.context[1]));
    CHECK_OK(PAMI_Context_unlock(job.context[1]));
    CHECK_RESULT(test_trylock_advance(&job.context[2], 1, 10), PAMI_EAGAIN);
    CHECK_RESULT(test_trylock_advance(&job.context[2], 1, (size_t)-1), PAMI_EAGAIN);
    CHECK_RESULT(PAMI_Context_trylock(job.context[0]), PAMI_EAGAIN);
    WAIT(&job, received == 3); /* advancev asks for no lock */
}

int main(void)
{
    size_t i;

    job_start(&job, "context_lock", 3);
    for (i = 0; i < 3; i++)
        test_dispatch(job.context[i], ID, on_message, NULL, test_ordered());
    recursion();
    refused();
    blocks();
    excludes();
    held_across_advance();
    tried();
    job_barrier(&job);
    busy();
    job_finish(&job); /* with locks held */
    return 0;
}
