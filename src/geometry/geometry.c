/*
 * The object: who is in it, who keeps it, the world, and what is local of the public functions.
 */
#include "geometry/geometry.h"

#include <errno.h>
#include <stdlib.h>

#include "context/registry.h"
#include "geometry/state.h"
#include "util/error.h"

/* ---- members ---- */

static bool is_first_of_task(const struct geometry_client *client, const struct topology *topology,
                             uint32_t rank)
{
    uint32_t endpoint = topology_endpoint(topology, rank);

    for (uint32_t offset = 0; offset < client->core->contexts_max; offset++) {
        uint32_t other = endpoint_make(endpoint_task(endpoint), offset);

        /* No rank is larger than all ranks. */
        if (other != endpoint && topology_rank(topology, other) < rank)
            return false;
    }
    return true;
}

/* Each task once, where its first member is. */
static int list_tasks(struct geometry *geometry)
{
    const struct topology *topology = &geometry->topology;
    uint32_t *tasks = malloc((size_t)topology->size * sizeof(*tasks));
    uint32_t count = 0;

    if (tasks == NULL)
        return -ENOMEM;
    for (uint32_t rank = 0; rank < topology->size; rank++)
        if (is_first_of_task(geometry->client, topology, rank))
            tasks[count++] = endpoint_task(topology_endpoint(topology, rank));
    geometry->tasks = tasks;
    geometry->task_count = count;
    for (uint32_t i = 0; i < count; i++)
        if (tasks[i] == geometry->client->core->task)
            geometry->position = i;
    return 0;
}

static int find_tasks(struct geometry *geometry)
{
    const struct topology *topology = &geometry->topology;

    if (topology->kind == TOPOLOGY_LIST)
        return list_tasks(geometry);
    geometry->task_count = topology->size / topology->contexts;
    geometry->position =
        (uint32_t)(((int64_t)geometry->client->core->task - topology->first) / topology->stride);
    return 0;
}

/* Groups for the contexts of this task. */
static int make_groups(struct geometry *geometry)
{
    const struct topology *topology = &geometry->topology;
    struct geometry_client *client = geometry->client;
    uint32_t count = 0;

    for (uint32_t offset = 0; offset < ENDPOINT_OFFSETS_MAX; offset++) {
        uint32_t own = endpoint_make(client->core->task, offset);

        geometry->slot[offset] = GEOMETRY_NO_SLOT;
        if (topology_rank(topology, own) != TOPOLOGY_NO_RANK)
            geometry->slot[offset] = (uint8_t)count++;
    }
    geometry->groups = calloc(count + 1, sizeof(*geometry->groups));
    if (geometry->groups == NULL)
        return -ENOMEM;
    geometry->group_count = count;
    return 0;
}

struct geometry *geometry_new(struct geometry_client *client, const struct topology *topology)
{
    struct geometry *geometry = calloc(1, sizeof(*geometry));

    if (geometry == NULL)
        return NULL;
    geometry->magic = GEOMETRY_MAGIC;
    geometry->client = client;
    geometry->topology = *topology;
    atomic_init(&geometry->state, GEOMETRY_FORMING);
    atomic_init(&geometry->users, 1);
    list_init(&geometry->link);
    if (find_tasks(geometry) == 0 && make_groups(geometry) == 0)
        return geometry;
    free(geometry->tasks);
    free(geometry);
    return NULL;
}

void geometry_drop(struct geometry *geometry)
{
    /* Release and acquire: whoever frees sees what the others did with it. */
    if (atomic_fetch_sub_explicit(&geometry->users, 1, memory_order_acq_rel) != 1)
        return;
    topology_finish(&geometry->topology);
    free(geometry->tasks);
    free(geometry->groups);
    free(geometry);
}

/* The last identity that its first task has given, as far as this one knows; of its own it does. */
static uint64_t last_given(struct geometry_client *client, uint32_t task)
{
    uint64_t low = (uintptr_t)u64map_get(&client->given, task);

    if (task == client->core->task)
        low = client->next_identity - 1;
    return (uint64_t)task << IDENTITY_TASK_SHIFT | low;
}

void geometry_forming(struct geometry *geometry)
{
    geometry->identity = last_given(geometry->client, geometry_task(geometry, 0));
}

void geometry_ready(struct geometry *geometry, uint64_t identity)
{
    struct geometry_client *client = geometry->client;
    uint32_t task = geometry_task(geometry, 0);

    /* Without memory less is known. */
    if (identity > last_given(client, task))
        (void)u64map_put(&client->given, task, (void *)(uintptr_t)(identity & IDENTITY_LOWER));
    geometry->identity = identity;
    for (uint32_t offset = 0; offset < ENDPOINT_OFFSETS_MAX; offset++) {
        uint8_t slot = geometry->slot[offset];
        struct context *context;

        if (slot == GEOMETRY_NO_SLOT)
            continue;
        context = geometry_context_at(client, offset);
        if (context != NULL)
            group_init(&geometry->groups[slot], geometry, context, &geometry->topology, identity);
    }
    atomic_store_explicit(&geometry->state, GEOMETRY_READY, memory_order_release); /* G1 */
}

/* ---- per client ---- */

int geometry_open(struct client_core *core, const struct geometry_hooks *hooks)
{
    static const struct geometry_hooks none;
    struct geometry_client *client = calloc(1, sizeof(*client));
    struct geometry *world;

    if (client == NULL)
        return -ENOMEM;
    client->core = core;
    client->hooks = hooks != NULL ? hooks : &none;
    pthread_mutex_init(&client->lock, NULL);
    list_init(&client->contexts);
    list_init(&client->geometries);
    list_init(&client->creations);
    list_init(&client->joins);
    list_init(&client->early);
    client->next_identity = IDENTITY_FIRST;
    world = &client->world;
    world->magic = GEOMETRY_MAGIC;
    world->client = client;
    world->identity = IDENTITY_WORLD;
    world->is_world = true;
    world->task_count = core->tasks;
    world->position = core->task;
    topology_init_stride(&world->topology, 0, 1, core->tasks, 0, 1);
    memset(world->slot, GEOMETRY_NO_SLOT, sizeof(world->slot));
    atomic_init(&world->state, GEOMETRY_READY);
    atomic_init(&world->users, 1);
    if (registry_add(world, core) != 0) {
        pthread_mutex_destroy(&client->lock);
        free(client);
        return -ENOMEM;
    }
    core->geometry = client;
    return 0;
}

void geometry_close(struct client_core *core)
{
    struct geometry_client *client = core->geometry;
    struct list *item;

    if (client == NULL)
        return;
    join_close(client);
    while ((item = list_pop_front(&client->geometries)) != NULL) {
        struct geometry *geometry = list_entry(item, struct geometry, link);

        registry_remove(geometry);
        geometry_drop(geometry);
    }
    registry_remove(&client->world);
    u64map_finish(&client->ids);
    u64map_finish(&client->given);
    pthread_mutex_destroy(&client->lock);
    free(client->places);
    free(client);
    core->geometry = NULL;
}

struct geometry *geometry_world(struct client_core *core)
{
    return &core->geometry->world;
}

struct geometry *geometry_from_handle(pami_geometry_t handle)
{
    struct geometry *geometry = handle;

    /* What is registered may be read: it begins with a word of its own. */
    return registry_find(handle) != NULL && geometry->magic == GEOMETRY_MAGIC ? geometry : NULL;
}

pami_result_t PAMI_Geometry_world(pami_client_t handle, pami_geometry_t *world_geometry)
{
    struct client_core *core = registry_client(handle);

    if (core == NULL)
        return error_set(PAMI_INVAL, "PAMI_Geometry_world: client: not a client");
    if (world_geometry == NULL)
        return error_set(PAMI_INVAL, "PAMI_Geometry_world: world_geometry: NULL");
    *world_geometry = geometry_world(core);
    return PAMI_SUCCESS;
}

/* ---- attributes ---- */

/* Where geometry.attributes has it; negative: it is none of geometries. */
static int attribute_place(pami_attribute_name_t name)
{
    static const pami_attribute_name_t names[GEOMETRY_ATTRIBUTES] = {
        [GEOMETRY_OPTIMIZE] = PAMI_GEOMETRY_OPTIMIZE,
        [GEOMETRY_NONCONTIG] = PAMI_GEOMETRY_NONCONTIG,
        [GEOMETRY_MEMORY_OPTIMIZE] = PAMI_GEOMETRY_MEMORY_OPTIMIZE,
    };

    for (size_t i = 0; i < GEOMETRY_ATTRIBUTES; i++)
        if (names[i] == name)
            return (int)i;
    return -1;
}

pami_result_t geometry_check_attributes(const char *function,
                                        const pami_configuration_t configuration[], size_t count)
{
    if (count != 0 && configuration == NULL)
        return error_set(PAMI_INVAL, "%s: configuration: NULL", function);
    for (size_t i = 0; i < count; i++)
        if (attribute_place(configuration[i].name) < 0)
            return error_set(PAMI_INVAL,
                             "%s: configuration[%zu].name: %d is no attribute of geometries",
                             function, i, (int)configuration[i].name);
    return PAMI_SUCCESS;
}

void geometry_set_attributes(struct geometry *geometry, const pami_configuration_t configuration[],
                             size_t count)
{
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&geometry->attributes[attribute_place(configuration[i].name)],
                              configuration[i].value.intval, memory_order_relaxed);
}

void geometry_optimise(struct geometry *geometry, struct context *context, bool ahead)
{
    const struct geometry_hooks *hooks = geometry->client->hooks;
    struct group *group = geometry_group(geometry, context);

    if (group != NULL && hooks->group_optimise != NULL)
        hooks->group_optimise(group, ahead);
}

/* That all members count updates of; NULL: with several members of a task it is not known which of
 * their collectives come before a call. */
static struct group *counting_group(struct geometry *geometry, struct context *context)
{
    bool one_each = geometry->topology.size == geometry->task_count && geometry->group_count == 1;

    if (geometry->is_world)
        return &context->geometry->world;
    if (atomic_load_explicit(&geometry->state, memory_order_acquire) /* G1 */ != GEOMETRY_READY)
        return NULL;
    return one_each ? &geometry->groups[0] : NULL;
}

static void count_update(struct geometry *geometry, struct context *context, bool ahead)
{
    struct group *group = counting_group(geometry, context);
    unsigned word, updates;

    if (group == NULL)
        return;
    /* Relaxed: the program orders updates and collectives. */
    word = atomic_load_explicit(&group->optimise, memory_order_relaxed);
    updates = word >> GROUP_UPDATES_SHIFT;
    if (updates == GROUP_UPDATES_MAX)
        return;
    word = (updates + 1) << GROUP_UPDATES_SHIFT;
    word |= ahead ? GROUP_OPTIMISED : 0;
    atomic_store_explicit(&group->optimise, word, memory_order_relaxed);
}

/* The last one that is given; NULL: none is. */
static const pami_configuration_t *find_optimise(const pami_configuration_t configuration[],
                                                 size_t count)
{
    for (size_t i = count; i-- != 0;)
        if (configuration[i].name == PAMI_GEOMETRY_OPTIMIZE)
            return &configuration[i];
    return NULL;
}

pami_result_t PAMI_Geometry_query(pami_geometry_t handle, pami_configuration_t configuration[],
                                  size_t num_configs)
{
    struct geometry *geometry = geometry_from_handle(handle);

    if (geometry == NULL)
        return error_set(PAMI_INVAL, "PAMI_Geometry_query: geometry: not a geometry");
    if (num_configs != 0 && configuration == NULL)
        return error_set(PAMI_INVAL, "PAMI_Geometry_query: configuration: NULL");
    for (size_t i = 0; i < num_configs; i++) {
        int place = attribute_place(configuration[i].name);

        if (place >= 0)
            configuration[i].value.intval =
                geometry_attribute(geometry, (enum geometry_attribute)place);
    }
    return geometry_check_attributes("PAMI_Geometry_query", configuration, num_configs);
}

pami_result_t PAMI_Geometry_update(pami_geometry_t handle, pami_configuration_t configuration[],
                                   size_t num_configs, pami_context_t context_handle,
                                   pami_event_function fn, void *cookie)
{
    struct geometry *geometry = geometry_from_handle(handle);
    struct context *context = context_from_handle(context_handle);
    const pami_configuration_t *optimise;
    pami_result_t result;

    if (geometry == NULL)
        return error_set(PAMI_INVAL, "PAMI_Geometry_update: geometry: not a geometry");
    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Geometry_update: context: %s",
                         context_fault(context_handle));
    if (context->core != geometry->client->core)
        return error_set(PAMI_INVAL, "PAMI_Geometry_update: context: of another client");
    result = geometry_check_attributes("PAMI_Geometry_update", configuration, num_configs);
    if (result != PAMI_SUCCESS)
        return result;
    if (context_complete(context, fn, cookie, PAMI_SUCCESS) != 0)
        return error_set(PAMI_ENOMEM, "PAMI_Geometry_update: out of memory");
    geometry_set_attributes(geometry, configuration, num_configs);
    optimise = find_optimise(configuration, num_configs);
    if (optimise != NULL) {
        count_update(geometry, context, optimise->value.intval != 0);
        geometry_optimise(geometry, context, optimise->value.intval != 0);
    }
    return PAMI_SUCCESS;
}

/* ---- destroy ---- */

/* Work of the group's context: EAGAIN until no collective runs on it. */
static pami_result_t close_later(pami_context_t context, void *cookie)
{
    struct group *group = cookie;
    const struct geometry_hooks *hooks = group->geometry->client->hooks;

    (void)context;
    if (hooks->group_busy != NULL && hooks->group_busy(group))
        return PAMI_EAGAIN;
    group_close(group);
    return PAMI_SUCCESS;
}

/* Close the groups; those of other contexts, and of `context` when busy, when they can. */
static void close_groups(struct geometry *geometry, struct context *context)
{
    const struct geometry_hooks *hooks = geometry->client->hooks;

    for (uint32_t i = 0; i < geometry->group_count; i++) {
        struct group *group = &geometry->groups[i];

        if (!atomic_load_explicit(&group->open, memory_order_relaxed))
            continue;
        if (group->context == context && (hooks->group_busy == NULL || !hooks->group_busy(group))) {
            group_close(group);
            continue;
        }
        PAMI_Context_post(group->context, &group->closing, close_later, group);
    }
}

static void destroy(struct geometry *geometry, struct context *context)
{
    struct geometry_client *client = geometry->client;

    pthread_mutex_lock(&client->lock);
    atomic_store_explicit(&geometry->state, GEOMETRY_ENDED, memory_order_relaxed);
    list_remove(&geometry->link);
    if (u64map_get(&client->ids, geometry->id) == geometry)
        u64map_remove(&client->ids, geometry->id);
    pthread_mutex_unlock(&client->lock);
    registry_remove(geometry);
    close_groups(geometry, context);
    geometry_drop(geometry);
}

pami_result_t PAMI_Geometry_destroy(pami_client_t handle, pami_geometry_t *geometry_handle,
                                    pami_context_t context_handle, pami_event_function fn,
                                    void *cookie)
{
    struct client_core *core = registry_client(handle);
    struct context *context = context_from_handle(context_handle);
    struct geometry *geometry;

    if (core == NULL)
        return error_set(PAMI_INVAL, "PAMI_Geometry_destroy: client: not a client");
    geometry = geometry_handle != NULL ? geometry_from_handle(*geometry_handle) : NULL;
    if (geometry == NULL || geometry->client->core != core)
        return error_set(PAMI_INVAL,
                         "PAMI_Geometry_destroy: geometry: not a geometry of the client");
    if (context == NULL || context->core != core)
        return error_set(PAMI_INVAL, "PAMI_Geometry_destroy: context: %s",
                         context == NULL ? context_fault(context_handle) : "of another client");
    if (atomic_load_explicit(&geometry->creating, memory_order_relaxed))
        return error_set(PAMI_INVAL,
                         "PAMI_Geometry_destroy: geometry: its creation is not complete");
    if (context_complete(context, fn, cookie, PAMI_SUCCESS) != 0)
        return error_set(PAMI_ENOMEM, "PAMI_Geometry_destroy: out of memory");
    if (!geometry->is_world)
        destroy(geometry, context);
    *geometry_handle = PAMI_GEOMETRY_NULL;
    return PAMI_SUCCESS;
}
