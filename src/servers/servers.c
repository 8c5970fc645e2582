/*
 * Servers from create to destroy, their policy and their counters.
 *
 * Their threads are those of asynchronous progress: a server runs while its context is enabled
 * there. Servers stop in three steps: the rings are closed, a fence goes behind everything that is
 * in them, and then the threads leave the contexts.
 */
#include <stdlib.h>
#include <string.h>

#include "client/async.h"
#include "context/registry.h"
#include "servers/model.h"
#include "servers/plain.h"
#include "servers/process.h"
#include "util/cpu.h"
#include "util/error.h"
#include "util/option.h"

#define QUEUE_DEFAULT 1024u
#define QUEUE_MOST (1u << 20)
#define SPLIT_DEFAULT ((size_t)256 << 10)

static const pamix_servers_policy_t defaults = {
    .operations = PAMIX_SERVERS_PUT | PAMIX_SERVERS_GET | PAMIX_SERVERS_SEND,
    .bytes_most = SIZE_MAX,
    .split = SPLIT_DEFAULT,
    .batch = 4,
    .in_flight = 256,
};

enum fetch_option {
    FETCH_OFF,
    FETCH_LEARN,
    FETCH_ON,
};

/* The policy that servers begin with, and NULL stands for. */
static pamix_servers_policy_t policy_default(void)
{
    pamix_servers_policy_t policy = defaults;

    if (option_choice(OPT_SERVERS_FETCH) != FETCH_OFF)
        policy.operations |= PAMIX_SERVERS_FETCH;
    return policy;
}

static void policy_store(struct servers *servers, const pamix_servers_policy_t *policy)
{
    atomic_store(&servers->operations, policy->operations);
    atomic_store(&servers->bytes_least, policy->bytes_least);
    atomic_store(&servers->bytes_most, policy->bytes_most);
    atomic_store(&servers->split, policy->split);
    atomic_store(&servers->batch, policy->batch);
    atomic_store(&servers->few, policy->few);
    atomic_store(&servers->used, policy->servers != 0 ? policy->servers : servers->count);
    atomic_store(&servers->in_flight, policy->in_flight);
    atomic_store(&servers->active, policy->active != 0);
    atomic_store(&servers->learn, policy->learn != 0);
    atomic_store(&servers->by_learning, policy->learn != 0 && policy->few == 0);
    plain_forbid(servers);
}

static pami_result_t policy_check(const char *function, const struct servers *servers,
                                  const pamix_servers_policy_t *policy)
{
    const unsigned known =
        PAMIX_SERVERS_PUT | PAMIX_SERVERS_GET | PAMIX_SERVERS_SEND | PAMIX_SERVERS_FETCH;

    if ((policy->operations & ~known) != 0)
        return error_set(PAMI_INVAL,
                         "%s: policy: operations: %#x has bits that are no PAMIX_SERVERS_*",
                         function, policy->operations);
    if (policy->batch == 0)
        return error_set(PAMI_INVAL, "%s: policy: batch: 0, but at least 1", function);
    if (policy->servers > servers->count)
        return error_set(PAMI_INVAL, "%s: policy: servers: %u, but there are %u", function,
                         policy->servers, servers->count);
    return PAMI_SUCCESS;
}

/* ---- create, destroy ---- */

pami_result_t servers_config_check(const char *function, const pamix_servers_config_t *config)
{
    if (config != NULL && config->queue > QUEUE_MOST)
        return error_set(PAMI_INVAL, "%s: config: queue: %zu is more than %u", function,
                         config->queue, QUEUE_MOST);
    return PAMI_SUCCESS;
}

/* The context of a server has no plain calls; instead of the servers that these belong to it has
 * this. */
static const char is_a_server;

/* Programs may destroy their contexts before the servers. */
static bool is_there(const struct servers *servers, const void *context)
{
    return registry_find(context) == servers->core;
}

static void contexts_take(const struct servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++) {
        struct context *context = servers->contexts[i];

        atomic_store(&context->plain_of, &is_a_server);
        atomic_store(&context->short_of, &context->short_of);
        atomic_store(&context->serves, true);
    }
}

/* Those that are still there. */
static void contexts_give_back(const struct servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++) {
        struct context *context = servers->contexts[i];
        const void *own = &is_a_server;

        if (is_there(servers, context) &&
            atomic_compare_exchange_strong(&context->plain_of, &own, &context->plain_of))
            atomic_store(&context->serves, false);
    }
}

static pami_result_t create_check(pami_context_t contexts[], size_t count,
                                  const pamix_servers_config_t *config)
{
    static const char function[] = "PAMIX_Servers_create";
    const struct context *first;

    if (contexts == NULL || count == 0 || count >= ENDPOINT_OFFSETS_MAX)
        return error_set(PAMI_INVAL, "%s: contexts: NULL, none or too many", function);
    for (size_t i = 0; i < count; i++) {
        if (context_from_handle(contexts[i]) == NULL)
            return error_set(PAMI_INVAL, "%s: contexts: entry %zu is not a context", function, i);
        for (size_t j = 0; j < i; j++)
            if (contexts[j] == contexts[i])
                return error_set(PAMI_INVAL, "%s: contexts: entry %zu is there twice", function, i);
        if (atomic_load(&((struct context *)contexts[i])->plain_of) == &is_a_server)
            return error_set(PAMI_INVAL, "%s: contexts: entry %zu is a server already", function,
                             i);
    }
    first = contexts[0];
    for (size_t i = 1; i < count; i++)
        if (((const struct context *)contexts[i])->core != first->core)
            return error_set(PAMI_INVAL, "%s: contexts: of several clients", function);
    if (first->core->simulated)
        return error_set(PAMI_INVAL, "%s: contexts: of a simulation", function);
    return servers_config_check(function, config);
}

static size_t queue_slots(const pamix_servers_config_t *config)
{
    size_t wanted = config != NULL && config->queue != 0 ? config->queue : QUEUE_DEFAULT;
    size_t slots = 2;

    while (slots < wanted)
        slots *= 2;
    return slots;
}

struct servers *servers_find(const char *function, pamix_servers_t handle)
{
    struct servers *servers = registry_find(handle) != NULL ? servers_from_handle(handle) : NULL;

    if (servers != NULL && registry_client(servers->client) == servers->core)
        return servers;
    error_set(PAMI_INVAL, "%s: %s", function,
              servers == NULL ? servers_fault(handle) : "servers: their client has gone");
    return NULL;
}

static void servers_free(struct servers *servers)
{
    registry_remove(servers);
    servers->magic = 0;
    for (size_t i = 0; i < ENDPOINT_OFFSETS_MAX; i++) {
        struct lane *lane = atomic_load(&servers->lanes[i]);

        if (lane == NULL)
            continue;
        if (!is_there(servers, lane->context))
            lane->context = NULL;
        lane_free(lane);
    }
    free(servers->server);
    free(servers->slots);
    free(servers->cpus);
    free(servers->model);
    free(servers);
}

struct servers *servers_new(struct client_core *core, size_t count,
                            const pamix_servers_config_t *config)
{
    const char *cpus = config != NULL ? config->cpus : NULL;
    const char *table = option_string(OPT_SERVERS_TABLE);
    pamix_servers_policy_t policy;
    struct servers *servers = aligned_alloc(CACHE_LINE, sizeof(*servers));

    if (servers == NULL)
        return NULL;
    memset(servers, 0, sizeof(*servers));
    servers->magic = SERVERS_MAGIC;
    servers->core = core;
    servers->client = (pami_client_t)core->client;
    servers->count = (unsigned)count;
    servers->queue = queue_slots(config);
    servers->server = aligned_alloc(CACHE_LINE, count * sizeof(*servers->server));
    servers->cpus = cpus != NULL ? strdup(cpus) : NULL;
    if (servers->server == NULL || (cpus != NULL && servers->cpus == NULL) ||
        (*table != '\0' && model_read(table, &servers->model) != 0) ||
        registry_add(servers, core) != 0) {
        servers_free(servers);
        return NULL;
    }
    memset(servers->server, 0, count * sizeof(*servers->server));
    servers->mover.fetch = servers_fetch;
    servers->fetch_learns = option_choice(OPT_SERVERS_FETCH) == FETCH_LEARN;
    policy = policy_default();
    policy_store(servers, &policy);
    return servers;
}

/* Contexts are dealt out to threads by their numbers (client/async.h): the fewest of which each
 * server has one to itself. */
static unsigned count_threads(const struct servers *servers)
{
    for (unsigned threads = servers->count;; threads++) {
        uint64_t seen = 0;

        for (unsigned i = 0; i < servers->count; i++)
            seen |= UINT64_C(1) << servers->server[i].context->offset % threads;
        if ((unsigned)__builtin_popcountll(seen) == servers->count)
            return threads;
    }
}

pami_result_t PAMIX_Servers_create(pami_context_t contexts[], size_t count,
                                   const pamix_servers_config_t *config, pamix_servers_t *out)
{
    pami_result_t result = create_check(contexts, count, config);
    struct servers *servers;

    if (result != PAMI_SUCCESS)
        return result;
    if (out == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Servers_create: servers: NULL");
    servers = servers_new(((struct context *)contexts[0])->core, count, config);
    if (servers != NULL)
        servers->slots = calloc(count * servers->queue, sizeof(*servers->slots));
    if (servers == NULL || servers->slots == NULL) {
        if (servers != NULL)
            servers_free(servers);
        return error_set(PAMI_ENOMEM, "PAMIX_Servers_create: out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        struct server *server = &servers->server[i];

        servers->contexts[i] = contexts[i];
        server->servers = servers;
        server->context = contexts[i];
        atomic_init(&server->idle, 1);
        list_init(&server->fences);
        ring_init(&server->ring, servers->slots + i * servers->queue, servers->queue);
    }
    servers->threads = count_threads(servers);
    contexts_take(servers);
    *out = servers;
    return PAMI_SUCCESS;
}

/* What was posted goes with the context. */
static bool is_kicked(const struct servers *servers, unsigned i)
{
    const struct server *server = &servers->server[i];

    return (atomic_load(&server->idle) == 0 || atomic_load(&server->retuning) != 0) &&
           is_there(servers, servers->contexts[i]);
}

pami_result_t PAMIX_Servers_destroy(pamix_servers_t *handle)
{
    struct servers *servers =
        servers_find("PAMIX_Servers_destroy", handle != NULL ? *handle : NULL);

    if (servers == NULL)
        return PAMI_INVAL;
    if (atomic_load(&servers->state) != SERVERS_STOPPED)
        return error_set(PAMI_EAGAIN, "PAMIX_Servers_destroy: servers: are not stopped");
    if (mover_in_use(servers->core))
        return error_set(PAMI_EAGAIN, "PAMIX_Servers_destroy: servers: a context asks for one");
    /* A kick may have been posted after the last request had been served. */
    for (unsigned i = 0; !servers->processes && i < servers->count; i++)
        if (is_kicked(servers, i))
            PAMI_Context_advance(servers->contexts[i], 1);
    for (unsigned i = 0; !servers->processes && i < servers->count; i++)
        if (is_kicked(servers, i))
            return error_set(PAMI_EAGAIN, "PAMIX_Servers_destroy: server %u is not idle", i);
    for (size_t i = 0; i < ENDPOINT_OFFSETS_MAX; i++) {
        const struct lane *lane = atomic_load(&servers->lanes[i]);

        if (lane != NULL && is_there(servers, lane->context) && lane_unfinished(lane))
            return error_set(
                PAMI_EAGAIN,
                "PAMIX_Servers_destroy: context %zu: requests or fences have not ended", i);
    }
    if (!servers->processes)
        contexts_give_back(servers);
    servers_free(servers);
    *handle = NULL;
    return PAMI_SUCCESS;
}

/* ---- start, stop ---- */

/* Has the program, or its user, said which processors are for servers? */
static bool has_place(const char *cpus)
{
    return cpus != NULL && cpus[0] >= '0' && cpus[0] <= '9';
}

pami_result_t PAMIX_Servers_start(pamix_servers_t handle)
{
    struct servers *servers = servers_find("PAMIX_Servers_start", handle);
    pamix_context_async_t how = {.threads = 0};
    pami_result_t result;

    if (servers == NULL)
        return PAMI_INVAL;
    switch (atomic_load(&servers->state)) {
    case SERVERS_RUNNING:
        return PAMI_SUCCESS;
    case SERVERS_WINDING:
        return error_set(PAMI_EAGAIN, "PAMIX_Servers_start: servers: are being stopped");
    default:
        break;
    }
    /* A context may still be asking, in a call that began before the last stop. */
    atomic_store(&servers->processors, cpu_available());
    atomic_store(&servers->spare, has_place(servers->cpus) ||
                                      has_place(option_string(OPT_ASYNC_CPUS)) ||
                                      async_spare(servers->core->client) != 0);
    if (!servers->processes) {
        how.threads = servers->threads;
        how.cpus = servers->cpus;
        result = PAMIX_Context_async_enable(servers->contexts, servers->count, &how);
        if (result != PAMI_SUCCESS)
            return result;
        for (unsigned i = 0; i < servers->count; i++)
            ring_open(&servers->server[i].ring);
    }
    atomic_store(&servers->state, SERVERS_RUNNING);
    plain_forbid(servers);
    mover_install(servers->core, &servers->mover);
    return PAMI_SUCCESS;
}

struct stop {
    struct servers *servers;
    pami_event_function function;
    void *cookie;
};

static void stopped(pami_context_t context, void *cookie, pami_result_t result)
{
    struct stop stop = *(struct stop *)cookie;
    pami_result_t left = PAMIX_Context_async_disable(stop.servers->contexts, stop.servers->count);

    free(cookie);
    mover_remove(stop.servers->core, &stop.servers->mover);
    atomic_store(&stop.servers->state, SERVERS_STOPPED);
    if (stop.function != NULL)
        stop.function(context, stop.cookie, result != PAMI_SUCCESS ? result : left);
}

static pami_result_t stop_processes(struct servers *servers, pami_context_t context,
                                    pami_event_function fn, void *cookie)
{
    int state = SERVERS_RUNNING;
    pami_result_t result;
    struct lane *lane = lane_of("PAMIX_Servers_stop", servers, context, &result);

    if (lane == NULL)
        return result;
    if (!atomic_compare_exchange_strong(&servers->state, &state, SERVERS_WINDING))
        return error_set(PAMI_EAGAIN, "PAMIX_Servers_stop: servers: do not run");
    result = process_stop(lane, fn, cookie);
    if (result != PAMI_SUCCESS)
        atomic_store(&servers->state, SERVERS_RUNNING);
    return result;
}

pami_result_t PAMIX_Servers_stop(pamix_servers_t handle, pami_context_t context,
                                 pami_event_function fn, void *cookie)
{
    struct servers *servers = servers_find("PAMIX_Servers_stop", handle);
    struct context *own = context_from_handle(context);
    int state = SERVERS_RUNNING;
    struct stop *stop;
    pami_result_t result;

    if (servers == NULL)
        return PAMI_INVAL;
    if (own == NULL || own->core != servers->core)
        return error_set(PAMI_INVAL, "PAMIX_Servers_stop: context: is not of the servers' client");
    if (servers->processes)
        return stop_processes(servers, context, fn, cookie);
    stop = malloc(sizeof(*stop));
    if (stop == NULL)
        return error_set(PAMI_ENOMEM, "PAMIX_Servers_stop: out of memory");
    *stop = (struct stop){.servers = servers, .function = fn, .cookie = cookie};
    if (!atomic_compare_exchange_strong(&servers->state, &state, SERVERS_WINDING)) {
        free(stop);
        return error_set(PAMI_EAGAIN, "PAMIX_Servers_stop: servers: do not run");
    }
    for (unsigned i = 0; i < servers->count; i++)
        ring_close(&servers->server[i].ring);
    result = fence_last(servers, own, stopped, stop);
    if (result == PAMI_SUCCESS)
        return PAMI_SUCCESS;
    free(stop);
    for (unsigned i = 0; i < servers->count; i++)
        ring_open(&servers->server[i].ring);
    atomic_store(&servers->state, SERVERS_RUNNING);
    return result;
}

/* ---- at run time ---- */

pami_result_t PAMIX_Servers_set_policy(pamix_servers_t handle, const pamix_servers_policy_t *policy)
{
    struct servers *servers = servers_find("PAMIX_Servers_set_policy", handle);
    pamix_servers_policy_t usual = policy_default();
    pami_result_t result;

    if (servers == NULL)
        return PAMI_INVAL;
    if (policy == NULL)
        policy = &usual;
    result = policy_check("PAMIX_Servers_set_policy", servers, policy);
    if (result != PAMI_SUCCESS)
        return result;
    policy_store(servers, policy);
    if (!servers->processes && atomic_load(&servers->state) != SERVERS_STOPPED)
        for (unsigned i = 0; i < servers->count; i++)
            server_retune(&servers->server[i]);
    return PAMI_SUCCESS;
}

pami_result_t PAMIX_Servers_get_policy(pamix_servers_t handle, pamix_servers_policy_t *policy)
{
    const struct servers *servers = servers_find("PAMIX_Servers_get_policy", handle);

    if (servers == NULL)
        return PAMI_INVAL;
    if (policy == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Servers_get_policy: policy: NULL");
    *policy = (pamix_servers_policy_t){
        .operations = SERVERS_LOAD(servers->operations),
        .bytes_least = SERVERS_LOAD(servers->bytes_least),
        .bytes_most = SERVERS_LOAD(servers->bytes_most),
        .split = SERVERS_LOAD(servers->split),
        .batch = SERVERS_LOAD(servers->batch),
        .few = SERVERS_LOAD(servers->few),
        .servers = SERVERS_LOAD(servers->used) % servers->count,
        .in_flight = SERVERS_LOAD(servers->in_flight),
        .active = SERVERS_LOAD(servers->active),
        .learn = SERVERS_LOAD(servers->learn),
    };
    return PAMI_SUCCESS;
}

static void add_server(pamix_servers_status_t *status, const struct server *server)
{
    unsigned most = SERVERS_LOAD(server->most);

    status->puts += SERVERS_LOAD(server->puts);
    status->gets += SERVERS_LOAD(server->gets);
    status->sends += SERVERS_LOAD(server->sends);
    status->bytes += SERVERS_LOAD(server->bytes);
    status->failed += SERVERS_LOAD(server->failed);
    status->wakes += SERVERS_LOAD(server->wakes);
    if (most > status->in_flight_most)
        status->in_flight_most = most;
}

pami_result_t PAMIX_Servers_query(pamix_servers_t handle, int server,
                                  pamix_servers_status_t *status)
{
    struct servers *servers = servers_find("PAMIX_Servers_query", handle);

    if (servers == NULL)
        return PAMI_INVAL;
    if (status == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Servers_query: status: NULL");
    if (server < PAMIX_SERVERS_ALL || server >= (int)servers->count)
        return error_set(
            PAMI_INVAL, "PAMIX_Servers_query: server: %d is neither below %u nor PAMIX_SERVERS_ALL",
            server, servers->count);
    memset(status, 0, sizeof(*status));
    status->servers = servers->count;
    for (unsigned i = 0; i < servers->count; i++)
        status->lost += SERVERS_LOAD(servers->server[i].dead) != 0;
    status->running = atomic_load(&servers->state) == SERVERS_RUNNING;
    for (unsigned i = 0; i < servers->count; i++)
        if (server == PAMIX_SERVERS_ALL || server == (int)i)
            add_server(status, &servers->server[i]);
    for (size_t i = 0; i < ENDPOINT_OFFSETS_MAX; i++) {
        const struct lane *lane = atomic_load_explicit(&servers->lanes[i], memory_order_acquire);

        if (lane == NULL)
            continue;
        status->forwarded += SERVERS_LOAD(lane->forwarded);
        status->direct += SERVERS_LOAD(lane->direct) - SERVERS_LOAD(servers->plain[i].left);
        status->refused += SERVERS_LOAD(lane->refused);
    }
    return PAMI_SUCCESS;
}
