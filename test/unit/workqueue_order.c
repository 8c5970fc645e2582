/*
 * The work queue's contract with one thread: order, EAGAIN, storage that is re-used or freed inside
 * the function, unaligned storage, and a producer that stops half-way.
 *
 * Run: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "workqueue/workqueue.h"

#define CONTEXT ((pami_context_t)0x1234)

struct item {
    char room[sizeof(pami_work_t) + 4]; /* with 4 bytes to spare, so that any offset fits */
    pami_work_t work;
    int number, calls, agains; /* returns EAGAIN so many times */
    struct workqueue *queue;
};

static int order[1000];
static size_t ordered;

static pami_result_t run(pami_context_t context, void *cookie)
{
    struct item *item = cookie;

    assert_ptr_equal(context, CONTEXT);
    if (item->calls++ == 0) {
        assert_true(ordered < sizeof order / sizeof order[0]);
        order[ordered++] = item->number;
    }
    return item->agains-- > 0 ? PAMI_EAGAIN : PAMI_SUCCESS;
}

static void check_order(int first, int last)
{
    assert_int_equal(ordered, last - first + 1);
    for (size_t i = 0; i < ordered; i++)
        assert_int_equal(order[i], first + (int)i);
    ordered = 0;
}

static void first_in_first_out(void **state)
{
    static struct item items[600];
    struct workqueue queue;
    int calls = 0, runs = 0;

    (void)state;
    workqueue_init(&queue);
    assert_true(workqueue_idle(&queue));
    assert_int_equal(workqueue_run(&queue, CONTEXT), 0);
    for (int i = 0; i < 600; i++) {
        items[i].number = i;
        workqueue_post(&queue, &items[i].work, run, &items[i]);
        assert_false(workqueue_idle(&queue));
        assert_int_equal(items[i].calls, 0); /* never inside the post */
    }
    while (!workqueue_idle(&queue)) {
        int count = workqueue_run(&queue, CONTEXT);

        assert_true(count > 0);
        calls += count;
        assert_true(++runs < 100);
    }
    assert_int_equal(calls, 600);
    check_order(0, 599);
    assert_int_equal(workqueue_run(&queue, CONTEXT), 0);
}

/* Posts between runs of every possible number, so that the stub is put back at every place. */
static void interleaved(void **state)
{
    static struct item items[200];
    struct workqueue queue;
    int posted = 0, done = 0;

    (void)state;
    workqueue_init(&queue);
    while (posted < 200) {
        for (int i = 0; i < 1 + posted % 5 && posted < 200; i++) {
            items[posted].number = posted;
            workqueue_post(&queue, &items[posted].work, run, &items[posted]);
            posted++;
        }
        done += workqueue_run(&queue, CONTEXT);
        assert_int_equal(done, posted);
        assert_true(workqueue_idle(&queue));
    }
    check_order(0, 199);
}

static void again_once_per_run(void **state)
{
    struct item items[5] = {{.agains = 3}, {.agains = 0}, {.agains = 1}, {.agains = 7}};
    struct workqueue queue;

    (void)state;
    workqueue_init(&queue);
    for (int i = 0; i < 4; i++) {
        items[i].number = i;
        workqueue_post(&queue, &items[i].work, run, &items[i]);
    }
    assert_int_equal(workqueue_run(&queue, CONTEXT), 1); /* number 1 */
    check_order(0, 3);
    assert_false(workqueue_idle(&queue));
    assert_int_equal(workqueue_run(&queue, CONTEXT), 1); /* number 2 */
    items[4].number = 4;
    workqueue_post(&queue, &items[4].work, run, &items[4]);
    assert_int_equal(workqueue_run(&queue, CONTEXT), 1); /* number 4 */
    check_order(4, 4);
    assert_int_equal(workqueue_run(&queue, CONTEXT), 1); /* number 0 */
    for (int i = 0; i < 3; i++)
        assert_int_equal(workqueue_run(&queue, CONTEXT), 0);
    assert_int_equal(workqueue_run(&queue, CONTEXT), 1); /* number 3 */
    assert_true(workqueue_idle(&queue));
    assert_int_equal(items[0].calls, 4);
    assert_int_equal(items[1].calls, 1);
    assert_int_equal(items[2].calls, 2);
    assert_int_equal(items[3].calls, 8);
    assert_int_equal(items[4].calls, 1);
}

/* One item that always returns EAGAIN starves nobody, and counts for nothing. */
static void again_for_ever(void **state)
{
    struct item forever = {.agains = 1000000}, item = {.number = 1};
    struct workqueue queue;

    (void)state;
    workqueue_init(&queue);
    workqueue_post(&queue, &forever.work, run, &forever);
    for (int i = 1; i <= 1000; i++) {
        workqueue_post(&queue, &item.work, run, &item);
        assert_int_equal(workqueue_run(&queue, CONTEXT), 1);
        assert_int_equal(item.calls, i);
        assert_int_equal(forever.calls, i);
        assert_int_equal(workqueue_run(&queue, CONTEXT), 0);
        forever.calls--;
    }
    ordered = 0;
}

/* ---- storage that is not the queue's any more ---- */

static int reposts;

static pami_result_t repost(pami_context_t context, void *cookie)
{
    struct item *item = cookie;

    (void)context;
    if (reposts++ < 10000)
        workqueue_post(item->queue, &item->work, repost, item);
    return PAMI_SUCCESS;
}

/* Posting the same object inside its function: it runs again, once in each later run. */
static void repost_inside(void **state)
{
    struct workqueue queue;
    struct item item = {.queue = &queue}, other = {.number = 7};

    (void)state;
    workqueue_init(&queue);
    reposts = 0;
    workqueue_post(&queue, &item.work, repost, &item);
    assert_int_equal(workqueue_run(&queue, CONTEXT), 1);
    assert_int_equal(reposts, 1);
    workqueue_post(&queue, &other.work, run, &other);
    assert_int_equal(workqueue_run(&queue, CONTEXT), 2);
    check_order(7, 7);
    for (int runs = 3; !workqueue_idle(&queue); runs++) {
        assert_int_equal(workqueue_run(&queue, CONTEXT), 1);
        assert_int_equal(reposts, runs);
    }
    assert_int_equal(reposts, 10001);
}

static struct workqueue outer, inner;
static struct item first = {.number = 1}, second = {.number = 2};

static pami_result_t post_second(pami_context_t context, void *cookie)
{
    (void)context;
    workqueue_post(&outer, &second.work, run, cookie);
    return PAMI_SUCCESS;
}

static pami_result_t post_first_and_run(pami_context_t context, void *cookie)
{
    struct item poster;

    (void)cookie;
    workqueue_post(&outer, &first.work, run, &first);
    workqueue_post(&inner, &poster.work, post_second, &second);
    assert_int_equal(workqueue_run(&inner, context), 1);
    return PAMI_SUCCESS;
}

/* What a function posts comes before what one posts that it runs from another queue. */
static void another_queue_inside(void **state)
{
    struct item item;

    (void)state;
    workqueue_init(&outer);
    workqueue_init(&inner);
    workqueue_post(&outer, &item.work, post_first_and_run, NULL);
    while (!workqueue_idle(&outer))
        workqueue_run(&outer, CONTEXT);
    check_order(1, 2);
}

/* The run that a function never returns to, as it ends the process, leaves nothing behind that
 * keeps other queues from working. */
static pami_result_t jump(pami_context_t context, void *cookie)
{
    (void)context;
    workqueue_post(&outer, &first.work, run, &first);
    longjmp(*(jmp_buf *)cookie, 1);
}

static void never_returned(void **state)
{
    struct item item;
    jmp_buf back;

    (void)state;
    first.calls = 0;
    workqueue_init(&outer);
    workqueue_post(&outer, &item.work, jump, &back);
    if (setjmp(back) == 0)
        workqueue_run(&outer, CONTEXT);
    assert_false(workqueue_idle(&outer));
    assert_int_equal(workqueue_run(&outer, CONTEXT), 1);
    check_order(1, 1);
    workqueue_close(&outer);
    workqueue_post(&outer, &item.work, run, &item);
    assert_ptr_equal(atomic_load(&outer.inside), NULL);
}

static pami_result_t repost_elsewhere(pami_context_t context, void *cookie)
{
    struct item *item = cookie;

    (void)context;
    /* Other storage for the same cookie, and the old one is overwritten at once. */
    memset(&item->work, 0x5a, sizeof item->work);
    if (item->agains-- > 0)
        workqueue_post(item->queue, (pami_work_t *)(void *)item->room, repost_elsewhere, item);
    return PAMI_SUCCESS;
}

static pami_result_t freeing(pami_context_t context, void *cookie)
{
    (void)context;
    memset(cookie, 0xa5, sizeof(struct item));
    free(cookie);
    order[ordered++] = 1;
    return PAMI_SUCCESS;
}

static void free_inside(void **state)
{
    struct workqueue queue;
    struct item moving = {.queue = &queue, .agains = 1};

    (void)state;
    workqueue_init(&queue);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < round; i++) {
            struct item *item = malloc(sizeof *item);

            assert_non_null(item);
            workqueue_post(&queue, &item->work, freeing, item);
        }
        assert_int_equal(workqueue_run(&queue, CONTEXT), round);
        assert_int_equal(ordered, round);
        ordered = 0;
    }
    workqueue_post(&queue, &moving.work, repost_elsewhere, &moving);
    assert_int_equal(workqueue_run(&queue, CONTEXT), 1);
    assert_false(workqueue_idle(&queue));
    assert_int_equal(workqueue_run(&queue, CONTEXT), 1);
    assert_true(workqueue_idle(&queue));
}

/* Storage aligned to 4 bytes only, and no byte behind the first 48 is touched. */
static void unaligned_storage(void **state)
{
    static _Alignas(64) unsigned char memory[256];
    struct workqueue queue;

    (void)state;
    workqueue_init(&queue);
    for (size_t offset = 0; offset < 64; offset += 4) {
        struct item item = {.number = 3, .agains = 2};

        memset(memory, 0xcc, sizeof memory);
        workqueue_post(&queue, (pami_work_t *)(void *)(memory + 64 + offset), run, &item);
        assert_int_equal(workqueue_run(&queue, CONTEXT), 0);
        assert_int_equal(workqueue_run(&queue, CONTEXT), 0);
        assert_int_equal(workqueue_run(&queue, CONTEXT), 1);
        assert_int_equal(item.calls, 3);
        for (size_t i = 0; i < sizeof memory; i++)
            if (i < 64 + offset || i >= 64 + offset + 48)
                assert_int_equal(memory[i], 0xcc);
        check_order(3, 3);
    }
}

/* ---- a producer that is stopped between its two steps ---- */

static void half_a_post(void **state)
{
    struct item before = {.number = 0}, half = {.number = 1}, after = {.number = 2};
    struct workqueue queue;
    struct work_node *node = work_node_of(&half.work), *previous;

    (void)state;
    for (int with_before = 0; with_before < 2; with_before++) {
        workqueue_init(&queue);
        before.calls = half.calls = after.calls = 0;
        if (with_before)
            workqueue_post(&queue, &before.work, run, &before);
        atomic_store(&node->next, NULL);
        node->function = run;
        node->cookie = &half;
        previous = atomic_exchange(&queue.tail, node);
        workqueue_post(&queue, &after.work, run, &after);
        /* What was posted later is hidden, nothing else happens. */
        for (int i = 0; i < 3; i++)
            workqueue_run(&queue, CONTEXT);
        assert_int_equal(half.calls + after.calls, 0);
        atomic_store(&previous->next, node);
        while (!workqueue_idle(&queue))
            workqueue_run(&queue, CONTEXT);
        check_order(!with_before, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_in_first_out),   cmocka_unit_test(interleaved),
        cmocka_unit_test(again_once_per_run),   cmocka_unit_test(again_for_ever),
        cmocka_unit_test(repost_inside),        cmocka_unit_test(free_inside),
        cmocka_unit_test(another_queue_inside), cmocka_unit_test(never_returned),
        cmocka_unit_test(unaligned_storage),    cmocka_unit_test(half_a_post),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
