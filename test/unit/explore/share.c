/*
 * Scenarios of a context that several threads have to do with: one that sleeps in it and others
 * that post; a helper beside a program that advances, waits or locks; and asynchronous progress
 * that is enabled and disabled. Functions run once, and one at a time; nobody sleeps while there is
 * something to do; after a disable the helper is outside; who has posted does not touch a context
 * that the function has ended.
 */
#include <unistd.h>

#include "client/async_pool.h"
#include "client/async_sleep.h"
#include "context/advance.h"
#include "context/share.h"
#include "tasks.h"

enum {
    POSTS = 2,
};

static struct context *context;
static struct client_core *core;
static pami_work_t *works;
static unsigned called;
static struct async_bell *bell;
static atomic_uint *serving;
static atomic_bool *stopping;

extern const struct device_ops shm_device_ops;

static void make_context(void)
{
    make_tasks();
    core = explore_alloc(sizeof(*core), CACHE_LINE);
    core->bootstrap = &tasks[0].bootstrap;
    core->yield = YIELD_NEVER;
    core->tend_ticks = UINT64_MAX / 2;
    context = aligned_alloc(CACHE_LINE, sizeof(*context)); /* zeros here, see hooks.c */
    context->magic = CONTEXT_MAGIC;
    context->core = core;
    context->tend_at = UINT64_MAX / 2;
    context->ports[0] = tasks[0].port;
    tasks[0].port->ops = &shm_device_ops;
    context->port_count = 1;
    REQUIRE(completion_queue_init(&context->completions) == 0);
    list_init(&context->retries);
    workqueue_init(&context->work);
    context_lock_init(&context->lock);
    works = explore_alloc(POSTS * sizeof(*works), 64);
    bell = explore_alloc(sizeof(*bell), 64);
    serving = explore_alloc(sizeof(*serving), 64);
    stopping = explore_alloc(sizeof(*stopping), 64);
    atomic_store(serving, 1);
    called = 0;
}

/* Plain, so that two at the same time race. */
static pami_result_t is_called(pami_context_t handle, void *cookie)
{
    (void)handle;
    (void)cookie;
    called++;
    return PAMI_SUCCESS;
}

static void on_event(pami_context_t handle, void *cookie, pami_result_t result)
{
    (void)result;
    is_called(handle, cookie);
}

static void post(void)
{
    for (int i = 0; i < POSTS; i++)
        REQUIRE(PAMI_Context_post(context, &works[i], is_called, NULL) == PAMI_SUCCESS);
}

static void all_called(void)
{
    REQUIRE(called == POSTS);
}

/* ---- waiting ---- */

static void wait_for_posts(void)
{
    while (called < POSTS) {
        PAMIX_Context_wait(context, 10000000);
        if (PAMI_Context_advance(context, 1) != PAMI_SUCCESS)
            explore_yield(); /* a post is half done, or another one has come first */
    }
}

/* ---- a function that ends its context ---- */

static void post_last(void)
{
    REQUIRE(PAMI_Context_post(context, &works[0], is_called, NULL) == PAMI_SUCCESS);
}

static void wait_and_free(void)
{
    while (called == 0) {
        PAMIX_Context_wait(context, 10000000);
        if (PAMI_Context_advance(context, 1) != PAMI_SUCCESS)
            explore_yield(); /* the post is half done */
    }
    free(context);
}

/* ---- a helper ---- */

static void ring_bell(void *cookie)
{
    async_bell_ring(cookie);
}

/* Serves until it is stopped. */
static void help(void)
{
    const struct share_rules rules = {
        .spins = 1, .glances = 1, .serving = serving, .stopping = stopping};

    share_helper_begin();
    share_begin(context, ring_bell, bell);
    for (;;) {
        uint32_t heard = async_bell_hear(bell);
        struct async_sleep sleep;
        enum share_turn turn;

        if (atomic_load_explicit(stopping, memory_order_acquire))
            return;
        turn = share_turn(context, &rules);

        if (turn == SHARE_ASLEEP) {
            async_sleep_begin(&sleep, bell, heard);
            async_sleep_add(&sleep, context_doorbell(context));
            async_sleep(&sleep, UINT64_MAX);
        } else if (turn != SHARE_ENDED) {
            explore_nap();
        }
    }
}

static atomic_uint *ended;

static void make_helped(void)
{
    make_context();
    ended = explore_alloc(sizeof(*ended), 64);
}

/* The last function stops the helper, whoever runs it. */
static pami_result_t is_counted(pami_context_t handle, void *cookie)
{
    is_called(handle, cookie);
    if (called == POSTS) {
        atomic_store_explicit(stopping, true, memory_order_release);
        async_bell_ring(bell);
    }
    return PAMI_SUCCESS;
}

static void post_counted(void)
{
    for (int i = 0; i < POSTS; i++)
        REQUIRE(PAMI_Context_post(context, &works[i], is_counted, NULL) == PAMI_SUCCESS);
}

static void advance_beside(void)
{
    for (int i = 0; i < 3; i++)
        PAMI_Context_advance(context, 1);
}

static void wait_beside(void)
{
    while (!atomic_load_explicit(stopping, memory_order_acquire)) {
        PAMIX_Context_wait(context, 10000000);
        if (PAMI_Context_advance(context, 1) != PAMI_SUCCESS)
            explore_nap(); /* a post is half done, or another one has come first */
    }
}

static void on_last_event(pami_context_t handle, void *cookie, pami_result_t result)
{
    (void)result;
    is_counted(handle, cookie);
}

/* What the program leaves behind under the lock the helper does. */
static void leave_work(void)
{
    for (int i = 0; i < POSTS; i++) {
        REQUIRE(PAMI_Context_lock(context) == PAMI_SUCCESS);
        REQUIRE(context_complete(context, on_last_event, NULL, PAMI_SUCCESS) == 0);
        REQUIRE(PAMI_Context_unlock(context) == PAMI_SUCCESS);
    }
}

/* ---- asynchronous progress that ends ---- */

static struct async_pool *pool;
static struct client *client;

struct client *__wrap_client_of_context(pami_context_t handle);
struct client *__wrap_client_of_context(pami_context_t handle)
{
    REQUIRE(handle == context);
    return client;
}

static void make_pool(void)
{
    make_context();
    client = explore_alloc(sizeof(*client), CACHE_LINE);
    pool = explore_alloc(sizeof(*pool), CACHE_LINE);
    client->contexts[0] = context;
    client->context_count = 1;
    client->async = pool;
    pool->client = client;
    pool->pid = getpid();
    pool->thread_count = 1;
    pool->threads[0].pool = pool;
    pool->slots[0].context = context;
    pool->slots[0].wake_at = UINT64_MAX;
}

static void progress(void)
{
    async_thread_main(&pool->threads[0]);
}

/* While it is disabled the context is the program's, which takes no lock. */
static void enable_and_disable(void)
{
    for (int i = 0; i < 2; i++) {
        REQUIRE(context_complete(context, on_event, NULL, PAMI_SUCCESS) == 0);
        REQUIRE(async_enable(context, ASYNC_ALL) == PAMI_SUCCESS);
        if (explore_choose(2) == 0)
            PAMI_Context_advance(context, 1);
        REQUIRE(async_disable(context, ASYNC_ALL) == PAMI_SUCCESS);
        called += 0;
        PAMI_Context_advance(context, 1);
        REQUIRE(called == (unsigned)i + 1);
    }
    atomic_store_explicit(&pool->threads[0].stopping, true, memory_order_release);
    async_bell_ring(&pool->threads[0].bell);
}

const struct explore_scenario explore_share[] = {
    {
        .name = "context: posts wake who waits",
        .setup = make_context,
        .threads = {wait_for_posts, post},
        .check = all_called,
        .bounds = {2, 2, 2},
    },
    {
        .name = "context: a posted function ends it",
        .setup = make_context,
        .threads = {wait_and_free, post_last},
        .bounds = {2, 2, 2},
    },
    {
        .name = "share: a program that advances",
        .setup = make_helped,
        .threads = {help, advance_beside, post_counted},
        .check = all_called,
        .bounds = {1, 1, 1},
    },
    {
        .name = "share: a program that waits",
        .setup = make_helped,
        .threads = {help, wait_beside, post_counted},
        .check = all_called,
        .bounds = {1, 1, 1},
    },
    {
        .name = "share: a program that locks",
        .setup = make_helped,
        .threads = {help, leave_work},
        .check = all_called,
        .bounds = {2, 2, 2},
    },
    {
        .name = "async: enable and disable",
        .setup = make_pool,
        .threads = {enable_and_disable, progress},
        .bounds = {1, 1, 1},
        .timeouts = true,
    },
    {.name = NULL},
};
