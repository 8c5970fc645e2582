/*
 * Many threads post to a queue that one thread runs: nothing is lost, nothing runs twice, each
 * producer's items run first in the order in which it posted them. Some items ask to be called
 * again, some post themselves once more, all storage is re-used at once. With more threads than
 * processors, too.
 *
 *     workqueue_stress [--posts N]      posts per case, default 1000000 (fewer under a sanitizer)
 *
 * Run: timeout=120
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "workqueue/workqueue.h"

#define SLOTS 64
#define PRODUCERS_MOST 8

struct producer;

struct item {
    char room[sizeof(pami_work_t) + 4]; /* the storage is anywhere in here */
    _Atomic uint32_t busy;
    uint32_t agains;
    bool twice, called;
    uint64_t number;
    struct producer *producer;
};

struct producer {
    struct item items[SLOTS];
    struct workqueue *queue;
    pthread_t thread;
    uint64_t posts;                                 /* to make */
    _Alignas(CACHE_LINE) uint64_t expected, finals; /* the consumer's */
    uint64_t wrong;
};

static struct producer producers[PRODUCERS_MOST];
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static uint64_t posts_each_case = 100000;
#else
static uint64_t posts_each_case = 1000000;
#endif

static pami_work_t *storage_of(struct item *item)
{
    return (pami_work_t *)(void *)(item->room + (item->number % 2) * 4);
}

static pami_result_t run(pami_context_t context, void *cookie)
{
    struct item *item = cookie;
    struct producer *producer = item->producer;

    (void)context;
    if (!item->called) {
        item->called = true;
        if (item->number != producer->expected)
            producer->wrong++;
        producer->expected++;
    }
    if (item->agains > 0) {
        item->agains--;
        return PAMI_EAGAIN;
    }
    if (item->twice) {
        item->twice = false;
        workqueue_post(producer->queue, storage_of(item), run, item);
        return PAMI_SUCCESS;
    }
    producer->finals++;
    /* From here on the producer may post this storage again, before we have returned. */
    atomic_store_explicit(&item->busy, 0, memory_order_release);
    return PAMI_SUCCESS;
}

static void *produce(void *argument)
{
    struct producer *producer = argument;

    for (uint64_t i = 0; i < producer->posts; i++) {
        struct item *item = &producer->items[i % SLOTS];

        while (atomic_load_explicit(&item->busy, memory_order_acquire) != 0)
            sched_yield();
        memset(item->room, (int)i, sizeof item->room);
        atomic_store_explicit(&item->busy, 1, memory_order_relaxed);
        item->number = i;
        item->called = false;
        item->agains = i % 37 == 5 ? (uint32_t)(i / 37 % 4) : 0;
        item->twice = i % 101 == 3;
        workqueue_post(producer->queue, storage_of(item), run, item);
    }
    return NULL;
}

static uint64_t finished(size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += producers[i].finals;
    return sum;
}

static void stress(size_t count, uint64_t posts)
{
    static struct workqueue queue;
    uint64_t each = posts / count;

    workqueue_init(&queue);
    for (size_t i = 0; i < count; i++) {
        struct producer *producer = &producers[i];

        memset(producer, 0, sizeof *producer);
        producer->queue = &queue;
        producer->posts = each;
        for (size_t k = 0; k < SLOTS; k++)
            producer->items[k].producer = producer;
        assert_int_equal(pthread_create(&producer->thread, NULL, produce, producer), 0);
    }
    while (finished(count) < each * count)
        if (workqueue_idle(&queue) || workqueue_run(&queue, NULL) == 0)
            sched_yield();
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_join(producers[i].thread, NULL), 0);
    /* Nothing comes after the end. */
    while (!workqueue_idle(&queue))
        workqueue_run(&queue, NULL);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(producers[i].wrong, 0);
        assert_int_equal(producers[i].finals, each);
        assert_int_equal(producers[i].expected, each);
    }
}

static void one_producer(void **state)
{
    (void)state;
    stress(1, posts_each_case);
}

static void two_producers(void **state)
{
    (void)state;
    stress(2, posts_each_case);
}

static void four_producers(void **state)
{
    (void)state;
    stress(4, posts_each_case);
}

static void eight_producers(void **state)
{
    (void)state;
    stress(8, posts_each_case);
}

/* Begin and end again and again: the queue goes from empty to not empty all the time. */
static void short_bursts(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++)
        stress(2 + (size_t)i % 3, 60);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_producer),   cmocka_unit_test(two_producers),
        cmocka_unit_test(four_producers), cmocka_unit_test(eight_producers),
        cmocka_unit_test(short_bursts),
    };

    if (argc == 3 && strcmp(argv[1], "--posts") == 0)
        posts_each_case = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
