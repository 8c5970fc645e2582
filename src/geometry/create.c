/*
 * The three calls that create a geometry: what is wrong with their arguments, and who is a member.
 * join.c does the rest.
 */
#include <errno.h>
#include <stdlib.h>

#include "context/registry.h"
#include "geometry/state.h"
#include "util/error.h"

/* What the three calls have in common. */
struct call {
    const char *function;
    const char *list;   /* name of the argument with the members, ... */
    const char *offset; /* ... and of that which names their contexts */
    pami_client_t client_handle;
    pami_configuration_t *configuration;
    size_t num_configs;
    pami_geometry_t *geometry_out; /* NULL: the caller is outside the new group */
    pami_geometry_t parent_handle;
    unsigned id;
    pami_context_t context_handle;
    pami_event_function function_done;
    void *cookie;
    /* Found by check_call: */
    struct geometry_client *client;
    struct geometry *parent;
    struct context *context;
    uint32_t contexts; /* of this task */
};

static uint32_t count_contexts(struct geometry_client *client)
{
    struct list *item;
    uint32_t count = 0;

    list_for_each (item, &client->contexts)
        count++;
    return count;
}

static pami_result_t check_parent(struct call *call)
{
    if (call->parent_handle == PAMI_GEOMETRY_NULL)
        return call->geometry_out != NULL
                   ? PAMI_SUCCESS
                   : error_set(PAMI_INVAL, "%s: geometry: NULL without a parent", call->function);
    call->parent = geometry_from_handle(call->parent_handle);
    if (call->parent == NULL || call->parent->client != call->client)
        return error_set(PAMI_INVAL, "%s: parent: not a geometry of the client", call->function);
    if (atomic_load_explicit(&call->parent->creating, memory_order_relaxed) ||
        atomic_load_explicit(&call->parent->state, memory_order_acquire) != GEOMETRY_READY)
        return error_set(PAMI_INVAL, "%s: parent: its creation is not complete, or has failed",
                         call->function);
    return PAMI_SUCCESS;
}

/* All but the list of members. */
static pami_result_t check_call(struct call *call)
{
    struct client_core *core = registry_client(call->client_handle);

    if (core == NULL)
        return error_set(PAMI_INVAL, "%s: client: not a client", call->function);
    call->client = core->geometry;
    call->context = context_from_handle(call->context_handle);
    if (call->context == NULL || call->context->core != core)
        return error_set(PAMI_INVAL, "%s: context: %s", call->function,
                         call->context == NULL ? context_fault(call->context_handle)
                                               : "of another client");
    if (check_parent(call) != PAMI_SUCCESS)
        return PAMI_INVAL;
    if (call->geometry_out != NULL && call->id == 0)
        return error_set(PAMI_INVAL, "%s: id: 0 is the world's", call->function);
    call->contexts = count_contexts(call->client);
    return geometry_check_attributes(call->function, call->configuration, call->num_configs);
}

/* ---- members ---- */

static pami_result_t no_memory(const struct call *call)
{
    return error_set(PAMI_ENOMEM, "%s: out of memory", call->function);
}

static pami_result_t check_task(const struct call *call, size_t index, pami_task_t task)
{
    uint32_t tasks = call->client->core->tasks;

    if (task < tasks)
        return PAMI_SUCCESS;
    return error_set(PAMI_INVAL, "%s: %s[%zu]: task %u is outside the job (%u tasks)",
                     call->function, call->list, index, task, tasks);
}

/* Which contexts of each task: `count` of them from `first` on. */
static pami_result_t check_offset(const struct call *call, size_t offset, uint32_t *first,
                                  uint32_t *count)
{
    if (offset == PAMI_ALL_CONTEXTS) {
        if (call->parent != NULL)
            return error_set(PAMI_INVAL, "%s: context_offset: all contexts, but with a parent",
                             call->function);
        *first = 0;
        *count = call->contexts;
        return PAMI_SUCCESS;
    }
    if (offset >= call->client->core->contexts_max)
        return error_set(PAMI_INVAL, "%s: context_offset: %zu, but a task has at most %u contexts",
                         call->function, offset, call->client->core->contexts_max);
    *first = (uint32_t)offset;
    *count = 1;
    return PAMI_SUCCESS;
}

/* Takes the array over. */
static pami_result_t make_list(const struct call *call, uint32_t *endpoints, size_t size,
                               struct topology *topology)
{
    int error = topology_init_list(topology, endpoints, (uint32_t)size);

    free(endpoints);
    if (error == -EEXIST)
        return error_set(PAMI_INVAL, "%s: %s: a member is in it twice", call->function, call->list);
    return error != 0 ? no_memory(call) : PAMI_SUCCESS;
}

static pami_result_t check_count(const struct call *call, const void *list, size_t count)
{
    if (count == 0)
        return error_set(PAMI_INVAL, "%s: %s: no members", call->function, call->list);
    if (list == NULL)
        return error_set(PAMI_INVAL, "%s: %s: NULL", call->function, call->list);
    return PAMI_SUCCESS;
}

static pami_result_t check_twice(const struct call *call, size_t tasks)
{
    if (tasks <= call->client->core->tasks)
        return PAMI_SUCCESS;
    return error_set(PAMI_INVAL, "%s: %s: a member is in it twice", call->function, call->list);
}

static pami_result_t members_of_ranges(const struct call *call, size_t offset,
                                       const pami_geometry_range_t *slices, size_t count,
                                       struct topology *topology)
{
    uint32_t first = 0, each = 1, *endpoints;
    size_t tasks = 0, at = 0;
    pami_result_t result = check_count(call, slices, count);

    if (result == PAMI_SUCCESS)
        result = check_offset(call, offset, &first, &each);
    for (size_t i = 0; result == PAMI_SUCCESS && i < count; i++) {
        if (slices[i].hi < slices[i].lo)
            return error_set(PAMI_INVAL, "%s: task_slices[%zu]: hi %u is below lo %u",
                             call->function, i, slices[i].hi, slices[i].lo);
        result = check_task(call, i, slices[i].hi);
        tasks += (size_t)slices[i].hi - slices[i].lo + 1;
        if (result == PAMI_SUCCESS)
            result = check_twice(call, tasks);
    }
    if (result != PAMI_SUCCESS)
        return result;
    if (count == 1) {
        topology_init_stride(topology, slices[0].lo, 1, (uint32_t)tasks, first, each);
        return PAMI_SUCCESS;
    }
    endpoints = malloc(tasks * each * sizeof(*endpoints));
    if (endpoints == NULL)
        return no_memory(call);
    for (size_t i = 0; i < count; i++)
        for (uint32_t task = slices[i].lo; task <= slices[i].hi; task++)
            for (uint32_t j = 0; j < each; j++)
                endpoints[at++] = endpoint_make(task, first + j);
    return make_list(call, endpoints, at, topology);
}

static pami_result_t members_of_tasks(const struct call *call, size_t offset,
                                      const pami_task_t *tasks, size_t count,
                                      struct topology *topology)
{
    uint32_t first = 0, each = 1, *endpoints;
    size_t at = 0;
    pami_result_t result = check_count(call, tasks, count);

    if (result == PAMI_SUCCESS)
        result = check_offset(call, offset, &first, &each);
    for (size_t i = 0; result == PAMI_SUCCESS && i < count; i++)
        result = check_task(call, i, tasks[i]);
    if (result == PAMI_SUCCESS)
        result = check_twice(call, count);
    if (result != PAMI_SUCCESS)
        return result;
    endpoints = malloc(count * each * sizeof(*endpoints));
    if (endpoints == NULL)
        return no_memory(call);
    for (size_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < each; j++)
            endpoints[at++] = endpoint_make(tasks[i], first + j);
    return make_list(call, endpoints, at, topology);
}

static pami_result_t members_of_endpoints(const struct call *call, const pami_endpoint_t *endpoints,
                                          size_t count, struct topology *topology)
{
    uint32_t contexts_max = call->client->core->contexts_max;
    pami_result_t result = check_count(call, endpoints, count);
    uint32_t *copy;

    for (size_t i = 0; result == PAMI_SUCCESS && i < count; i++) {
        result = check_task(call, i, endpoint_task(endpoints[i]));
        if (result == PAMI_SUCCESS && endpoint_offset(endpoints[i]) >= contexts_max)
            result = error_set(PAMI_INVAL,
                               "%s: endpoints[%zu]: offset %u, but a task has at most "
                               "%u contexts",
                               call->function, i, endpoint_offset(endpoints[i]), contexts_max);
        if (result == PAMI_SUCCESS && i / contexts_max >= call->client->core->tasks)
            result =
                error_set(PAMI_INVAL, "%s: endpoints: a member is in it twice", call->function);
    }
    if (result != PAMI_SUCCESS)
        return result;
    copy = malloc(count * sizeof(*copy));
    if (copy == NULL)
        return no_memory(call);
    memcpy(copy, endpoints, count * sizeof(*copy));
    return make_list(call, copy, count, topology);
}

/* ---- making ---- */

/* Does any context of this task take part? */
static bool has_task(const struct geometry_client *client, const struct topology *topology,
                     uint32_t task)
{
    if (topology->kind == TOPOLOGY_STRIDE)
        return topology_rank(topology, endpoint_make(task, topology->offset)) != TOPOLOGY_NO_RANK;
    for (uint32_t offset = 0; offset < client->core->contexts_max; offset++)
        if (topology_rank(topology, endpoint_make(task, offset)) != TOPOLOGY_NO_RANK)
            return true;
    return false;
}

static pami_result_t check_members(const struct call *call, const struct geometry *geometry)
{
    const struct topology *topology = &geometry->topology;
    uint32_t own = call->client->core->task;

    for (uint32_t offset = call->contexts; offset < ENDPOINT_OFFSETS_MAX; offset++)
        if (topology_rank(topology, endpoint_make(own, offset)) != TOPOLOGY_NO_RANK)
            return error_set(PAMI_INVAL, "%s: %s: offset %u, but this task has %u contexts",
                             call->function, call->offset, offset, call->contexts);
    if (call->parent == NULL || call->parent->is_world)
        return PAMI_SUCCESS;
    for (uint32_t i = 0; i < geometry->task_count; i++) {
        uint32_t task = geometry_task(geometry, i);

        if (!has_task(call->client, &call->parent->topology, task))
            return error_set(PAMI_INVAL, "%s: %s: task %u is not in parent", call->function,
                             call->list, task);
    }
    return PAMI_SUCCESS;
}

/* From now on the id is taken. */
static pami_result_t enlist(const struct call *call, struct geometry *geometry)
{
    struct geometry_client *client = call->client;
    pami_result_t result = PAMI_SUCCESS;

    pthread_mutex_lock(&client->lock);
    if (u64map_get(&client->ids, call->id) != NULL)
        result = error_set(PAMI_INVAL, "%s: id: %u is in use", call->function, call->id);
    else if (u64map_put(&client->ids, call->id, geometry) != 0)
        result = no_memory(call);
    else
        list_push_back(&client->geometries, &geometry->link);
    pthread_mutex_unlock(&client->lock);
    if (result == PAMI_SUCCESS && registry_add(geometry, client->core) != 0) {
        pthread_mutex_lock(&client->lock);
        list_remove(&geometry->link);
        u64map_remove(&client->ids, call->id);
        pthread_mutex_unlock(&client->lock);
        result = no_memory(call);
    }
    return result;
}

static void delist(const struct call *call, struct geometry *geometry)
{
    registry_remove(geometry);
    pthread_mutex_lock(&call->client->lock);
    list_remove(&geometry->link);
    u64map_remove(&call->client->ids, call->id);
    pthread_mutex_unlock(&call->client->lock);
}

/* Begins the protocol; `geometry` NULL: outside the group. */
static pami_result_t start(const struct call *call, struct geometry *geometry)
{
    struct creation *creation = calloc(1, sizeof(*creation));

    if (creation == NULL)
        return no_memory(call);
    creation->client = call->client;
    creation->geometry = geometry;
    creation->parent = call->parent;
    creation->context = call->context;
    creation->function = call->function_done;
    creation->cookie = call->cookie;
    if (geometry != NULL) {
        atomic_init(&geometry->creating, true);
        geometry_hold(geometry);
    }
    if (call->parent != NULL)
        geometry_hold(call->parent);
    if (join_start(creation) == 0)
        return PAMI_SUCCESS;
    if (geometry != NULL)
        geometry_drop(geometry);
    if (call->parent != NULL)
        geometry_drop(call->parent);
    free(creation);
    return no_memory(call);
}

/* Takes the topology over. */
static pami_result_t create(const struct call *call, struct topology *topology)
{
    struct geometry *geometry;
    pami_result_t result;

    if (!has_task(call->client, topology, call->client->core->task)) {
        topology_finish(topology);
        if (call->parent == NULL)
            return error_set(PAMI_INVAL,
                             "%s: %s: the calling task is not in it, and there is no "
                             "parent",
                             call->function, call->list);
        result = start(call, NULL);
        if (result == PAMI_SUCCESS)
            *call->geometry_out = PAMI_GEOMETRY_NULL;
        return result;
    }
    geometry = geometry_new(call->client, topology);
    if (geometry == NULL) {
        topology_finish(topology);
        return no_memory(call);
    }
    geometry->id = call->id;
    geometry_set_attributes(geometry, call->configuration, call->num_configs);
    result = check_members(call, geometry);
    if (result == PAMI_SUCCESS)
        result = enlist(call, geometry);
    if (result != PAMI_SUCCESS) {
        geometry_drop(geometry);
        return result;
    }
    *call->geometry_out = geometry;
    result = start(call, geometry);
    if (result != PAMI_SUCCESS) {
        *call->geometry_out = PAMI_GEOMETRY_NULL;
        delist(call, geometry);
        geometry_drop(geometry);
    }
    return result;
}

pami_result_t PAMI_Geometry_create_taskrange(pami_client_t client, size_t context_offset,
                                             pami_configuration_t configuration[],
                                             size_t num_configs, pami_geometry_t *geometry,
                                             pami_geometry_t parent, unsigned id,
                                             pami_geometry_range_t *task_slices, size_t slice_count,
                                             pami_context_t context, pami_event_function fn,
                                             void *cookie)
{
    struct call call = {
        .function = "PAMI_Geometry_create_taskrange",
        .list = "task_slices",
        .offset = "context_offset",
        .client_handle = client,
        .configuration = configuration,
        .num_configs = num_configs,
        .geometry_out = geometry,
        .parent_handle = parent,
        .id = id,
        .context_handle = context,
        .function_done = fn,
        .cookie = cookie,
    };
    struct topology topology;
    pami_result_t result = check_call(&call);

    if (result == PAMI_SUCCESS && geometry == NULL)
        return start(&call, NULL);
    if (result == PAMI_SUCCESS)
        result = members_of_ranges(&call, context_offset, task_slices, slice_count, &topology);
    return result == PAMI_SUCCESS ? create(&call, &topology) : result;
}

pami_result_t PAMI_Geometry_create_tasklist(pami_client_t client, size_t context_offset,
                                            pami_configuration_t configuration[],
                                            size_t num_configs, pami_geometry_t *geometry,
                                            pami_geometry_t parent, unsigned id, pami_task_t *tasks,
                                            size_t task_count, pami_context_t context,
                                            pami_event_function fn, void *cookie)
{
    struct call call = {
        .function = "PAMI_Geometry_create_tasklist",
        .list = "tasks",
        .offset = "context_offset",
        .client_handle = client,
        .configuration = configuration,
        .num_configs = num_configs,
        .geometry_out = geometry,
        .parent_handle = parent,
        .id = id,
        .context_handle = context,
        .function_done = fn,
        .cookie = cookie,
    };
    struct topology topology;
    pami_result_t result = check_call(&call);

    if (result == PAMI_SUCCESS && geometry == NULL)
        return start(&call, NULL);
    if (result == PAMI_SUCCESS)
        result = members_of_tasks(&call, context_offset, tasks, task_count, &topology);
    return result == PAMI_SUCCESS ? create(&call, &topology) : result;
}

pami_result_t PAMI_Geometry_create_endpointlist(pami_client_t client,
                                                pami_configuration_t configuration[],
                                                size_t num_configs, pami_geometry_t *geometry,
                                                unsigned id, pami_endpoint_t *endpoints,
                                                size_t endpoint_count, pami_context_t context,
                                                pami_event_function fn, void *cookie)
{
    struct call call = {
        .function = "PAMI_Geometry_create_endpointlist",
        .list = "endpoints",
        .offset = "endpoints",
        .client_handle = client,
        .configuration = configuration,
        .num_configs = num_configs,
        .geometry_out = geometry,
        .parent_handle = PAMI_GEOMETRY_NULL,
        .id = id,
        .context_handle = context,
        .function_done = fn,
        .cookie = cookie,
    };
    struct topology topology;
    pami_result_t result = check_call(&call);

    if (result == PAMI_SUCCESS)
        result = members_of_endpoints(&call, endpoints, endpoint_count, &topology);
    return result == PAMI_SUCCESS ? create(&call, &topology) : result;
}
