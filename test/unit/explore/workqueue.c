/*
 * Scenarios of the work queue: each function is called once, in the order of its producer's posts,
 * sees what was written before the post, and may free its storage, or post it once more.
 */
#include <stdlib.h>

#include "workqueue/workqueue.h"

#include "explore.h"

enum {
    EACH = 2, /* posts of a producer */
};

struct item {
    pami_work_t storage;
    unsigned producer, number;
    unsigned again; /* times that it asks to be called again, or posts itself */
};

static struct workqueue *queue;
static struct item *items[2][EACH];
static unsigned expected[2], called, posts;
static bool frees;

static void make_queue(void)
{
    queue = explore_alloc(sizeof(*queue), CACHE_LINE);
    workqueue_init(queue);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = 0; k < EACH; k++)
            items[i][k] = frees ? NULL : explore_alloc(sizeof(struct item), 64);
    expected[0] = expected[1] = called = 0;
}

static void make_kept(void)
{
    frees = false;
    make_queue();
}

static void make_freed(void)
{
    frees = true;
    make_queue();
}

static pami_result_t is_called(pami_context_t context, void *cookie)
{
    struct item *item = cookie;

    (void)context;
    REQUIRE(item->number == expected[item->producer]);
    expected[item->producer]++;
    called++;
    if (frees)
        free(item);
    return PAMI_SUCCESS;
}

static void post(unsigned producer)
{
    for (unsigned i = 0; i < EACH; i++) {
        struct item *item = frees ? malloc(sizeof(*item)) : items[producer][i];

        item->producer = producer;
        item->number = i;
        workqueue_post(queue, &item->storage, is_called, item);
    }
}

static void produce_first(void)
{
    post(0);
}

static void produce_second(void)
{
    post(1);
}

static void consume(void)
{
    while (called < 2 * EACH)
        if (workqueue_run(queue, NULL) == 0)
            explore_yield();
    REQUIRE(workqueue_idle(queue));
}

static void all_called(void)
{
    REQUIRE(called == 2 * EACH);
    REQUIRE(workqueue_idle(queue));
}

/* ---- functions that post themselves, or want to be called again ---- */

static void make_again(void)
{
    make_kept();
    posts = 0;
}

static pami_result_t posts_itself(pami_context_t context, void *cookie)
{
    struct item *item = cookie;

    (void)context;
    called++;
    if (item->again == 0)
        return PAMI_SUCCESS;
    if (--item->again == 1)
        return PAMI_EAGAIN;
    posts++;
    workqueue_post(queue, &item->storage, posts_itself, item);
    return PAMI_SUCCESS;
}

static void produce_again(void)
{
    struct item *item = items[0][0];

    item->again = 2;
    workqueue_post(queue, &item->storage, posts_itself, item);
}

static void produce_simple(void)
{
    for (unsigned i = 0; i < EACH; i++)
        workqueue_post(queue, &items[1][i]->storage, posts_itself, items[1][i]);
}

static void consume_again(void)
{
    while (called < 3 + EACH)
        if (workqueue_run(queue, NULL) == 0 && queue->again.first == NULL)
            explore_yield();
}

static void all_called_again(void)
{
    REQUIRE(called == 3 + EACH && posts == 1);
    REQUIRE(workqueue_idle(queue));
}

const struct explore_scenario explore_workqueue[] = {
    {
        .name = "workqueue: two producers",
        .setup = make_kept,
        .threads = {consume, produce_first, produce_second},
        .check = all_called,
        .bounds = {2, 2, 1},
        .orders = 4,
    },
    {
        .name = "workqueue: functions free their storage",
        .setup = make_freed,
        .threads = {consume, produce_first, produce_second},
        .check = all_called,
        .bounds = {2, 2, 1},
    },
    {
        .name = "workqueue: functions post themselves",
        .setup = make_again,
        .threads = {consume_again, produce_again, produce_simple},
        .check = all_called_again,
        .bounds = {2, 2, 1},
    },
    {.name = NULL},
};
