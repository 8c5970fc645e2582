/*
 * Creating and destroying clients, and the end of the process.
 *
 * The process keeps a list of its live clients: when it exits without destroying them, what they
 * still owe to others is sent.
 */
#include "client/client.h"
#include "client/async.h"
#include "client/last_thread.h"
#include "context/registry.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "bootstrap/digest.h"
#include "coll/coll.h"
#include "coll/tuned.h"
#include "device/network.h"
#include "geometry/geometry.h"
#include "p2p/p2p.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/keep.h"
#include "util/log.h"
#include "util/option.h"

/* Between two looks at who has died: a look costs a system call, and a death is noticed soon. */
#define TEND_INTERVAL_US 10000.0

static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list clients = LIST_INITIALIZER(clients);

struct client *client_from_handle(pami_client_t handle)
{
    struct client_core *core = registry_client(handle);

    return core != NULL ? core->client : NULL;
}

struct client *client_of_context(pami_context_t handle)
{
    struct client_core *core = registry_find(handle);

    return core != NULL && context_from_handle(handle) != NULL ? core->client : NULL;
}

/* All tasks create the same clients in the same order, so the count names a client of the job. */
static unsigned next_instance(void)
{
    static unsigned created;
    unsigned instance;

    pthread_mutex_lock(&clients_lock);
    instance = created++;
    pthread_mutex_unlock(&clients_lock);
    return instance;
}

static void seal_key(struct client *client)
{
    struct digest digest;

    digest_init(&digest);
    digest_add(&digest, client->core.bootstrap->job, strlen(client->core.bootstrap->job));
    digest_add(&digest, client->key, strlen(client->key));
    client->core.key[0] = digest.a;
    client->core.key[1] = digest.b;
}

/* A key of the characters that cards allow, short, and different for different names. */
static void make_key(struct client *client)
{
    char word[13], hash[DIGEST_TEXT_MAX];
    struct digest digest;
    size_t length = 0;

    for (const char *c = client->name; *c != '\0' && length + 1 < sizeof(word); c++)
        if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9'))
            word[length++] = *c;
    word[length] = '\0';
    digest_init(&digest);
    digest_add(&digest, client->name, strlen(client->name));
    digest_text(&digest, hash);
    snprintf(client->key, sizeof(client->key), "%s-%.8s.%u", word, hash, client->instance);
    seal_key(client);
}

static int fill_local(struct client *client)
{
    const struct bootstrap *bootstrap = client->core.bootstrap;

    client->local_tasks = calloc(bootstrap->local_count, sizeof(*client->local_tasks));
    if (client->local_tasks == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < bootstrap->local_count; i++)
        client->local_tasks[i] = bootstrap->local_tasks[i];
    return 0;
}

static void fill_processor_name(struct client *client)
{
    char host[65] = "unknown";

    gethostname(host, sizeof(host) - 1);
    snprintf(client->processor_name, sizeof(client->processor_name), "Task %u of %u on %s pid %ld",
             client->core.task, client->core.tasks, host, (long)getpid());
}

static int open_device(struct client *client, const struct device_ops *ops,
                       const void *private_params)
{
    const struct device_params params = {
        .bootstrap = client->core.bootstrap,
        .client = client->key,
        .contexts = client->core.contexts_max,
        .servers = client->core.servers != 0,
        .heap = core_heap_device(&client->core),
        .private_params = private_params,
    };
    char why[256] = "";
    struct device *device;
    int error = ops->open(&params, &device, why, sizeof(why));

    if (error == 0) {
        client->core.devices[client->core.device_count++] = device;
        return 0;
    }
    if (error == -ENODEV) {
        log_info("device %s: %s", ops->name, why);
        return 0;
    }
    if (why[0] == '\0')
        snprintf(why, sizeof(why), "%s", strerror(-error));
    /* The launcher may end us before the program has said it, when others miss us. */
    log_error("device %s: %s", ops->name, why);
    error_set(PAMI_ERROR, "PAMI_Client_create: device %s: %s", ops->name, why);
    return error;
}

static int open_devices(struct client *client)
{
    for (size_t i = 0; device_table[i] != NULL && i < DEVICES_MAX; i++) {
        int error = open_device(client, device_table[i], NULL);

        if (error != 0)
            return error;
    }
    if (client->core.device_count != 0)
        return 0;
    error_set(PAMI_ERROR, "PAMI_Client_create: no device works here");
    return -ENODEV;
}

/* Threads that were about to advance a context of one look at it as well. Of simulated clients
 * there may be very many, and no such threads. */
static struct keep kept = KEEP_OF(struct client);

static void client_free(struct client *client)
{
    if (client->core.simulated)
        free(client);
    else
        keep_put(&kept, client);
}

static struct client *client_new(const char *name, struct bootstrap *bootstrap, bool simulated)
{
    struct client *client = simulated ? calloc(1, sizeof(*client)) : keep_get(&kept);

    if (client == NULL)
        return NULL;
    pthread_mutex_init(&client->async_lock, NULL);
    client->pid = getpid();
    list_init(&client->link);
    snprintf(client->name, sizeof(client->name), "%s", name);
    client->core = (struct client_core){
        .bootstrap = bootstrap,
        .task = bootstrap->task,
        .tasks = bootstrap->tasks,
        .contexts_max = (uint32_t)option_int(OPT_NUM_CONTEXTS),
        .send_immediate_max = option_bytes(OPT_SEND_IMMEDIATE_MAX),
        .recv_immediate_max = option_bytes(OPT_RECV_IMMEDIATE_MAX),
        .tend_ticks = (uint64_t)(clock_ticks_per_us() * TEND_INTERVAL_US),
        .client = client,
        .simulated = simulated,
    };
    fill_processor_name(client);
    if (fill_local(client) != 0 || geometry_open(&client->core, &coll_geometry_hooks) != 0) {
        free(client->local_tasks);
        client_free(client);
        return NULL;
    }
    return client;
}

static int enlist(struct client *client)
{
    int error = registry_add(client, &client->core);

    if (error != 0) {
        error_set(PAMI_ENOMEM, "PAMI_Client_create: out of memory");
        return error;
    }
    pthread_mutex_lock(&clients_lock);
    list_push_back(&clients, &client->link);
    pthread_mutex_unlock(&clients_lock);
    return 0;
}

int client_create_with(const char *name, struct bootstrap *bootstrap,
                       const struct device_ops *device, const void *private_params,
                       double (*now)(void *), void *now_cookie, struct client **out)
{
    struct client *client = client_new(name, bootstrap, now != NULL);
    int error;

    if (client == NULL) {
        error_set(PAMI_ENOMEM, "out of memory");
        return -ENOMEM;
    }
    make_key(client);
    client->clock = (struct client_clock){.now = now, .cookie = now_cookie};
    if (now != NULL)
        atomic_fetch_add(&client_own_clocks, 1);
    client->core.yield = YIELD_NEVER;
    client->core.network = client->core.simulated && bootstrap->nodes > 1;
    error = tuned_offer(&client->core, client->key);
    if (error == 0)
        error = open_device(client, device, private_params);
    if (error == 0)
        error = client->core.device_count != 0 ? enlist(client) : -ENODEV;
    if (error != 0) {
        client_destroy(client);
        return error;
    }
    *out = client;
    return 0;
}

static void close_devices(struct client *client)
{
    while (client->core.device_count != 0) {
        struct device *device = client->core.devices[--client->core.device_count];

        device->ops->close(device);
    }
}

void client_destroy(struct client *client)
{
    pthread_mutex_lock(&clients_lock);
    list_remove(&client->link);
    registry_remove(client);
    pthread_mutex_unlock(&clients_lock);
    if (client->pid != getpid()) {
        client_destroy_contexts(client);
        return;
    }
    for (size_t i = 0; i < client->core.device_count; i++)
        if (client->core.devices[i]->ops->leave != NULL)
            client->core.devices[i]->ops->leave(client->core.devices[i]);
    client_destroy_contexts(client);
    geometry_close(&client->core);
    close_devices(client);
    tuned_finish(&client->core);
    if (client->own_bootstrap)
        bootstrap_close(client->core.bootstrap);
    if (client->clock.now != NULL)
        atomic_fetch_sub(&client_own_clocks, 1);
    memregions_free(&client->core);
    free(client->local_tasks);
    free(client->is_local);
    client_free(client);
}

/*
 * The key of the one client that the job's server processes have as well, the first of each task:
 * task 0 tells them by a card.
 */
static int share_key(struct client *client)
{
    static const char card[] = "pami-served.0";
    struct bootstrap *bootstrap = client->core.bootstrap;
    int error = 0;

    if (bootstrap->task == 0)
        error = bootstrap_put(bootstrap, card, client->key);
    if (error == 0)
        error = bootstrap_fence(bootstrap);
    if (error == 0 && bootstrap->task >= bootstrap->tasks) {
        error = bootstrap_get(bootstrap, card, client->key, sizeof(client->key));
        if (error == -ENOENT)
            error_set(PAMI_ERROR, "PAMI_Client_create: the first program of the tasks that waited "
                                  "for the others was no client of this library");
        seal_key(client);
    }
    client->core.servers = bootstrap->servers;
    return error;
}

/* With all tasks of the job, and in the same order as they do: there are fences in it. */
static int join_job(struct client *client)
{
    struct client_core *core = &client->core;
    int error = core->bootstrap->servers != 0 && client->instance == 0 ? share_key(client) : 0;

    if (error == 0)
        error = tuned_offer(core, client->key);
    if (error == 0)
        error = open_devices(client);
    if (error == 0)
        error = tuned_join(core, client->key);
    if (error != 0)
        return error;
    core->network = core->bootstrap->nodes > 1 && !network_by_segment(core->bootstrap);
    core->yield = client_yield_policy(client);
    core->spin_passes = client_spin_passes(core);
    core->spread = client_spreads(client) ? client_spread : NULL;
    return 0;
}

static pami_result_t check_create(const char *name, const pami_client_t *client,
                                  const pami_configuration_t configuration[], size_t num_configs)
{
    if (name == NULL)
        return error_set(PAMI_INVAL, "PAMI_Client_create: name: NULL");
    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMI_Client_create: client: NULL");
    if (num_configs != 0 && configuration == NULL)
        return error_set(PAMI_INVAL, "PAMI_Client_create: configuration: NULL");
    for (size_t i = 0; i < num_configs; i++)
        if (configuration[i].name != PAMI_CLIENT_NONCONTIG &&
            configuration[i].name != PAMI_CLIENT_MEMORY_OPTIMIZE)
            return error_set(PAMI_INVAL,
                             "PAMI_Client_create: configuration[%zu].name: attribute %d cannot be "
                             "given here",
                             i, (int)configuration[i].name);
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Client_create(const char *name, pami_client_t *out,
                                 pami_configuration_t configuration[], size_t num_configs)
{
    pami_result_t result = check_create(name, out, configuration, num_configs);
    struct bootstrap *bootstrap;
    struct client *client;
    int error;

    if (result != PAMI_SUCCESS)
        return result;
    *out = NULL;
    error = option_load_again();
    if (error == 0)
        error = bootstrap_open(&bootstrap);
    if (error == -ENOMEM)
        return error_set(PAMI_ENOMEM, "PAMI_Client_create: out of memory");
    if (error != 0)
        return PAMI_ERROR; /* the text is the bootstrap's */
    log_set_task(bootstrap->task);
    client = client_new(name, bootstrap, false);
    if (client == NULL) {
        bootstrap_close(bootstrap);
        return error_set(PAMI_ENOMEM, "PAMI_Client_create: out of memory");
    }
    client->own_bootstrap = true;
    client->instance = next_instance();
    make_key(client);
    error = join_job(client);
    if (error == 0)
        error = enlist(client);
    if (error != 0) {
        client_destroy(client);
        return error == -ENOMEM ? PAMI_ENOMEM : PAMI_ERROR;
    }
    last_thread_watch();
    *out = client;
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Client_destroy(pami_client_t *handle)
{
    struct client *client = handle != NULL ? client_from_handle(*handle) : NULL;

    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMI_Client_destroy: client: not a client");
    client_destroy(client);
    *handle = NULL;
    return PAMI_SUCCESS;
}

pami_result_t PAMIX_Client_abort(pami_client_t handle, int status, const char *why)
{
    struct client *client = client_from_handle(handle);

    if (client == NULL || !client->own_bootstrap)
        return error_set(PAMI_INVAL, "PAMIX_Client_abort: client: not one of a launcher's job");
    if (status < 1 || status > 255)
        return error_set(PAMI_INVAL, "PAMIX_Client_abort: status: %d is not in 1..255", status);
    bootstrap_abort(client->core.bootstrap, status, why);
    return PAMI_SUCCESS;
}

static bool has_thread(struct client *client, pid_t id)
{
    bool found = client->pid == getpid() && async_has_thread(client, id);

    for (size_t i = 0; client->pid == getpid() && i < client->core.device_count; i++)
        found = found || atomic_load(&client->core.devices[i]->thread) == id;
    return found;
}

bool clients_exist(void)
{
    bool found;

    if (pthread_mutex_trylock(&clients_lock) != 0)
        return true;
    found = !list_empty(&clients);
    pthread_mutex_unlock(&clients_lock);
    return found;
}

bool clients_have_thread(pid_t id)
{
    struct list *item;
    bool found = false;

    if (pthread_mutex_trylock(&clients_lock) != 0)
        return false;
    list_for_each (item, &clients)
        found = found || has_thread(list_entry(item, struct client, link), id);
    pthread_mutex_unlock(&clients_lock);
    return found;
}

/*
 * The process ends without having destroyed its clients: what was accepted still has to arrive and
 * what is owed to others has to be returned. Other threads may be inside an advance; their contexts
 * are taken over once they have left it.
 */
__attribute__((destructor)) static void end_of_process(void)
{
    struct timespec until;
    struct list *item;

    /* Held by others for a moment at a time; by the caller itself where a signal handler exits. By
     * the time of day, as the thread sanitizer does not know pthread_mutex_clocklock. */
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (pthread_mutex_timedlock(&clients_lock, &until) != 0)
        return;
    list_for_each (item, &clients) {
        struct client *client = list_entry(item, struct client, link);

        if (client->pid == getpid() && client->clock.now == NULL)
            client_leave(client);
    }
    pthread_mutex_unlock(&clients_lock);
}
