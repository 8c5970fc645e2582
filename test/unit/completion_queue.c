/*
 * The queue of completions: order, growth at every position of the ring, also inside a callback,
 * no callback that runs in the run that added it, and the error text that each failure has.
 *
 * Run: timeout=60
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "context/completion.h"

#define CONTEXT ((pami_context_t)0x77)

static size_t next; /* number of the completion that is due */

static void in_order(pami_context_t context, void *cookie, pami_result_t result)
{
    assert_ptr_equal(context, CONTEXT);
    assert_int_equal((size_t)cookie, next);
    assert_int_equal(result, next % 7);
    next++;
}

static void push(struct completion_queue *queue, size_t number)
{
    assert_int_equal(completion_push(queue, in_order, (void *)number, (pami_result_t)(number % 7)),
                     0);
}

static void order(void **state)
{
    struct completion_queue queue;

    (void)state;
    next = 0;
    assert_int_equal(completion_queue_init(&queue), 0);
    assert_true(completion_queue_empty(&queue));
    assert_int_equal(completion_queue_run(&queue, CONTEXT), 0);
    for (size_t i = 0; i < 100000; i++)
        push(&queue, i);
    assert_false(completion_queue_empty(&queue));
    assert_int_equal(completion_queue_run(&queue, CONTEXT), 100000);
    assert_int_equal(next, 100000);
    assert_true(completion_queue_empty(&queue));
    completion_queue_finish(&queue);
}

/* The ring grows when its oldest record is at any place. */
static void growth_anywhere(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 130; shift++) {
        struct completion_queue queue;

        next = 0;
        assert_int_equal(completion_queue_init(&queue), 0);
        for (size_t i = 0; i < shift; i++) {
            push(&queue, i);
            assert_int_equal(completion_queue_run(&queue, CONTEXT), 1);
        }
        for (size_t i = shift; i < shift + 300; i++)
            push(&queue, i);
        assert_int_equal(completion_queue_run(&queue, CONTEXT), 300);
        assert_int_equal(next, shift + 300);
        completion_queue_finish(&queue);
    }
}

/* ---- callbacks that add more ---- */

struct breeder {
    struct completion_queue *queue;
    size_t calls, children, depth;
};

static void breed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct breeder *breeder = cookie;

    (void)context, (void)result;
    assert_int_equal(breeder->depth++, 0); /* never nested */
    breeder->calls++;
    for (size_t i = 0; i < breeder->children; i++)
        assert_int_equal(completion_push(breeder->queue, breed, breeder, PAMI_SUCCESS), 0);
    breeder->depth--;
}

static void adding_inside(void **state)
{
    struct completion_queue queue;
    struct breeder breeder = {.queue = &queue, .children = 3};

    (void)state;
    assert_int_equal(completion_queue_init(&queue), 0);
    assert_int_equal(completion_push(&queue, breed, &breeder, PAMI_SUCCESS), 0);
    for (int generation = 0, size = 1; generation < 9; generation++, size *= 3)
        assert_int_equal(completion_queue_run(&queue, CONTEXT), size);
    breeder.children = 0;
    assert_int_equal(completion_queue_run(&queue, CONTEXT), 19683);
    assert_true(completion_queue_empty(&queue));
    assert_int_equal(breeder.calls, (19683 * 3 - 1) / 2);
    completion_queue_finish(&queue);
}

/* A chain that never ends: one call per run, and memory that does not grow. */
static void chain(void **state)
{
    struct completion_queue queue;
    struct breeder breeder = {.queue = &queue, .children = 1};
    size_t mask;

    (void)state;
    assert_int_equal(completion_queue_init(&queue), 0);
    mask = queue.mask;
    assert_int_equal(completion_push(&queue, breed, &breeder, PAMI_SUCCESS), 0);
    for (int i = 0; i < 200000; i++)
        assert_int_equal(completion_queue_run(&queue, CONTEXT), 1);
    assert_int_equal(queue.mask, mask);
    completion_queue_finish(&queue);
}

static void has_text(pami_context_t context, void *cookie, pami_result_t result)
{
    char text[ERROR_TEXT_MAX];

    (void)context;
    assert_int_equal(result, PAMI_ERROR);
    PAMI_Error_text(text, sizeof(text));
    assert_string_equal(text, cookie);
    error_set(PAMI_INVAL, "what the callback has done wrong");
}

static void succeeds(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    assert_int_equal(result, PAMI_SUCCESS);
}

static void push_failure(struct completion_queue *queue, const char *text)
{
    pami_result_t result = error_set(PAMI_ERROR, "%s", text);

    assert_int_equal(completion_push(queue, has_text, (void *)(uintptr_t)text, result), 0);
}

static void *fail_elsewhere(void *queue)
{
    push_failure(queue, "the first failure");
    push_failure(queue, "the second failure");
    completion_push(queue, succeeds, NULL, PAMI_SUCCESS);
    return NULL;
}

static void texts(void **state)
{
    struct completion_queue queue;
    pthread_t thread;
    char text[ERROR_TEXT_MAX];

    (void)state;
    assert_int_equal(completion_queue_init(&queue), 0);
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &queue), 0);
    pthread_join(thread, NULL);
    push_failure(&queue, "a failure of this thread");
    assert_int_equal(completion_queue_run(&queue, CONTEXT), 4);
    push_failure(&queue, "what nobody hears of");
    error_set(PAMI_ERROR, "the latest");
    completion_queue_finish(&queue);
    PAMI_Error_text(text, sizeof(text));
    assert_string_equal(text, "the latest");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order), cmocka_unit_test(growth_anywhere), cmocka_unit_test(adding_inside),
        cmocka_unit_test(chain), cmocka_unit_test(texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
