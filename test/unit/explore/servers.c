/*
 * Scenarios of communication servers: each request is carried once, sees what was written before
 * it, and ends once, on the context that has made it; those that are ordered begin in order, also
 * when servers are stopped meanwhile; and nobody sleeps while there is something to do. What
 * carries a request is a put that ends in the next advance.
 */
#include <errno.h>
#include <stdlib.h>

#include "servers/servers.h"

#include "explore.h"

enum {
    SERVER, /* its thread and context */
    CLIENT,
    OTHER,
    TASKS,
    REQUESTS = 2,
};

/* All plain. */
struct item {
    unsigned number, carried, done[2];
};

static struct client_core *core;
static struct context *contexts[TASKS];
static struct servers *servers;
static struct item *items;
static unsigned *next; /* ordered requests that have been carried, by client */
static unsigned ended[TASKS];
static unsigned flags;
static bool wants_ends, refused;
static atomic_uint *finished, *disabled, *outside;

/* ---- what the servers are built on ---- */

struct client_core *__wrap_registry_find(const void *handle);
struct client_core *__wrap_registry_find(const void *handle)
{
    (void)handle;
    return core;
}

pami_result_t __wrap_PAMI_Put(pami_context_t handle, pami_put_simple_t *put);
pami_result_t __wrap_PAMI_Put(pami_context_t handle, pami_put_simple_t *put)
{
    struct context *context = handle;
    struct item *item = put->addr.local;
    unsigned client = (unsigned)(item - items) / REQUESTS;

    REQUIRE((int)context->offset == explore_self());
    if (!refused && explore_choose(2) == 1) {
        refused = true;
        return PAMI_EAGAIN;
    }
    REQUIRE(item->carried++ == 0);
    if ((flags & PAMIX_SERVERS_ORDERED) != 0)
        REQUIRE(item->number == next[client]++);
    REQUIRE(context_complete(context, put->rma.done_fn, put->rma.cookie, PAMI_SUCCESS) == 0);
    REQUIRE(context_complete(context, put->put.rdone_fn, put->rma.cookie, PAMI_SUCCESS) == 0);
    return PAMI_SUCCESS;
}

pami_result_t __wrap_PAMI_Fence_all(pami_context_t handle, pami_event_function done, void *cookie);
pami_result_t __wrap_PAMI_Fence_all(pami_context_t handle, pami_event_function done, void *cookie)
{
    struct context *context = handle;

    REQUIRE((int)context->offset == explore_self());
    REQUIRE(context_complete(context, done, cookie, PAMI_SUCCESS) == 0);
    return PAMI_SUCCESS;
}

/* The server's thread has left when this returns. */
pami_result_t __wrap_PAMIX_Context_async_disable(pami_context_t handles[], size_t count);
pami_result_t __wrap_PAMIX_Context_async_disable(pami_context_t handles[], size_t count)
{
    REQUIRE(count == 1 && handles[0] == contexts[SERVER]);
    atomic_store_explicit(disabled, 1, memory_order_release);
    while (atomic_load_explicit(outside, memory_order_acquire) == 0)
        explore_yield();
    return PAMI_SUCCESS;
}

/* Nobody sleeps on it. */
static void no_wake(struct port *port)
{
    (void)port;
}

/* ---- threads ---- */

static struct context *make_context(unsigned index)
{
    static const struct device_ops ops = {.wake = no_wake};
    static struct port port = {.ops = &ops};
    struct context *context = explore_alloc(sizeof(*context), CACHE_LINE);

    context->magic = CONTEXT_MAGIC;
    context->core = core;
    context->offset = index;
    context->tend_at = UINT64_MAX / 2;
    context->ports[0] = &port;
    REQUIRE(completion_queue_init(&context->completions) == 0);
    list_init(&context->retries);
    workqueue_init(&context->work);
    context_lock_init(&context->lock);
    return context;
}

static void make_servers(void)
{
    core = explore_alloc(sizeof(*core), CACHE_LINE);
    core->client = explore_alloc(64, 64);
    core->yield = YIELD_NEVER;
    core->tend_ticks = UINT64_MAX / 2;
    for (unsigned i = 0; i < TASKS; i++) {
        contexts[i] = make_context(i);
        ended[i] = 0;
    }
    servers = explore_alloc(sizeof(*servers), CACHE_LINE);
    servers->magic = SERVERS_MAGIC;
    servers->core = core;
    servers->client = (pami_client_t)core->client;
    servers->count = 1;
    servers->batch = 1;
    servers->in_flight = 1;
    servers->used = 1;
    servers->operations = PAMIX_SERVERS_PUT;
    servers->bytes_most = SIZE_MAX;
    servers->state = SERVERS_RUNNING;
    servers->server = explore_alloc(sizeof(*servers->server), CACHE_LINE);
    servers->slots = explore_alloc(2 * sizeof(*servers->slots), CACHE_LINE);
    servers->contexts[0] = contexts[SERVER];
    servers->server->servers = servers;
    servers->server->context = contexts[SERVER];
    servers->server->idle = 1;
    list_init(&servers->server->fences);
    ring_init(&servers->server->ring, servers->slots, 2);
    ring_open(&servers->server->ring);
    items = explore_alloc(TASKS * REQUESTS * sizeof(*items), 64);
    next = explore_alloc(TASKS * sizeof(*next), 64);
    finished = explore_alloc(sizeof(*finished), 64);
    disabled = explore_alloc(sizeof(*disabled), 64);
    outside = explore_alloc(sizeof(*outside), 64);
    wants_ends = refused = true;
    flags = 0;
}

static void advance(unsigned self)
{
    if (PAMI_Context_advance(contexts[self], 1) != PAMI_SUCCESS)
        explore_yield();
}

static void serve(void)
{
    while (atomic_load_explicit(disabled, memory_order_acquire) == 0)
        advance(SERVER);
    atomic_store_explicit(outside, 1, memory_order_release);
}

static void on_done(pami_context_t handle, void *cookie, pami_result_t result)
{
    struct item *item = cookie;

    REQUIRE(handle == contexts[explore_self()] && result == PAMI_SUCCESS);
    item->done[0]++;
}

static void on_rdone(pami_context_t handle, void *cookie, pami_result_t result)
{
    struct item *item = cookie;

    REQUIRE(handle == contexts[explore_self()] && result == PAMI_SUCCESS);
    REQUIRE(item->carried == 1 && item->done[0] == 1 && item->done[1]++ == 0);
    ended[explore_self()]++;
}

static void request(unsigned self, struct item *item)
{
    pami_put_simple_t put = {
        .rma = {.dest = self, .bytes = 8, .cookie = item},
        .addr = {.local = item, .remote = item},
    };
    pami_result_t result;

    if (wants_ends) {
        put.rma.done_fn = on_done;
        put.put.rdone_fn = on_rdone;
    }
    while ((result = PAMIX_Servers_put(servers, contexts[self], &put, flags)) != PAMI_SUCCESS) {
        REQUIRE(result == PAMI_EAGAIN);
        advance(self);
    }
}

static bool has_outstanding(unsigned self)
{
    struct lane *lane = atomic_load_explicit(&servers->lanes[self], memory_order_relaxed);

    lane_collect(lane);
    return atomic_load_explicit(&lane->outstanding, memory_order_relaxed) != 0;
}

static void ask_all(unsigned self)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        struct item *item = &items[self * REQUESTS + i];

        item->number = i;
        request(self, item);
    }
    while (wants_ends ? ended[self] < REQUESTS : has_outstanding(self))
        advance(self);
    REQUIRE(!has_outstanding(self));
}

/* The last client ends the server. */
static void ask(unsigned self, unsigned clients)
{
    ask_all(self);
    if (atomic_fetch_add_explicit(finished, 1, memory_order_relaxed) + 1 == clients)
        atomic_store_explicit(disabled, 1, memory_order_release);
}

static void ask_first(void)
{
    ask(CLIENT, 2);
}

static void ask_second(void)
{
    ask(OTHER, 2);
}

static void ask_alone(void)
{
    ask(CLIENT, 1);
}

static void all_carried(unsigned clients)
{
    const struct server *server = servers->server;

    for (unsigned i = 0; i < clients * REQUESTS; i++)
        REQUIRE(items[REQUESTS + i].carried == 1);
    REQUIRE(!ring_ready(&server->ring) && server->in_flight == 0 && server->held == NULL);
}

static void carried_of_two(void)
{
    all_carried(2);
}

static void carried_of_one(void)
{
    all_carried(1);
}

static void make_unheard(void)
{
    make_servers();
    wants_ends = false;
}

static void make_reluctant(void)
{
    make_servers();
    refused = false;
}

/* ---- a stop ---- */

static void make_ordered(void)
{
    make_servers();
    flags = PAMIX_SERVERS_ORDERED;
    servers->in_flight = 0;
}

static void on_stopped(pami_context_t handle, void *cookie, pami_result_t result)
{
    REQUIRE(handle == contexts[OTHER] && cookie == NULL && result == PAMI_SUCCESS);
    REQUIRE(!ring_ready(&servers->server->ring) && servers->server->in_flight == 0);
    ended[OTHER]++;
}

static void ask_meanwhile(void)
{
    ask_all(CLIENT);
}

static void stop(void)
{
    REQUIRE(PAMIX_Servers_stop(servers, contexts[OTHER], on_stopped, NULL) == PAMI_SUCCESS);
    while (ended[OTHER] == 0)
        advance(OTHER);
}

/* ---- the mover ---- */

static struct mover *mover;

static int on_fetch(struct mover *what, const struct mover_fetch *fetch)
{
    REQUIRE(what->fetch == on_fetch && fetch->context == contexts[CLIENT]);
    return 0;
}

static void make_mover(void)
{
    make_servers();
    mover = malloc(sizeof(*mover));
    mover->fetch = on_fetch;
    mover_install(core, mover);
}

static void fetch_twice(void)
{
    const struct mover_fetch fetch = {.context = contexts[CLIENT]};

    for (int i = 0; i < 2; i++) {
        int error = mover_fetch(&fetch);

        REQUIRE(error == 0 || error == -ENOTSUP);
    }
}

static void remove_mover(void)
{
    mover_remove(core, mover);
    while (mover_in_use(core))
        explore_yield();
    free(mover);
}

const struct explore_scenario explore_servers[] = {
    {
        .name = "servers: two clients",
        .setup = make_servers,
        .threads = {serve, ask_first, ask_second},
        .check = carried_of_two,
        .bounds = {1, 1, 0},
    },
    {
        .name = "servers: one client",
        .setup = make_servers,
        .threads = {serve, ask_alone},
        .check = carried_of_one,
        .bounds = {1, 1, 1},
        .orders = 2,
    },
    {
        .name = "servers: puts that have to be tried again",
        .setup = make_reluctant,
        .threads = {serve, ask_alone},
        .check = carried_of_one,
        .bounds = {1, 1, 1},
    },
    {
        .name = "servers: nobody hears of the ends",
        .setup = make_unheard,
        .threads = {serve, ask_alone},
        .check = carried_of_one,
        .bounds = {1, 1, 1},
    },
    {
        .name = "servers: a stop meanwhile",
        .setup = make_ordered,
        .threads = {serve, ask_meanwhile, stop},
        .check = carried_of_one,
        .bounds = {1, 1, 1},
    },
    {
        .name = "servers: a mover that goes",
        .setup = make_mover,
        .threads = {fetch_twice, remove_mover},
        .bounds = {2, 2, 2},
        .orders = 2,
    },
    {.name = NULL},
};
