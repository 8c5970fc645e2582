/*
 * What a context knows of geometries: its groups by identity.
 *
 * All of it belongs to the context's owner. Other threads only post the closing of a group, and
 * look at `open` to see whether there is one.
 */
#include <errno.h>
#include <stdlib.h>

#include "geometry/state.h"

struct context *geometry_context_at(struct geometry_client *client, uint32_t offset)
{
    struct list *item;

    list_for_each (item, &client->contexts) {
        struct context *context = list_entry(item, struct geometry_context, link)->context;

        if (context->offset == offset)
            return context;
    }
    return NULL;
}

void group_init(struct group *group, struct geometry *geometry, struct context *context,
                const struct topology *topology, uint64_t identity)
{
    *group = (struct group){
        .geometry = geometry,
        .context = context,
        .topology = topology,
        .rank = topology_rank(topology, context->endpoint),
        .size = topology->size,
        .identity = identity,
    };
}

static const struct geometry_hooks *hooks_of(const struct group *group)
{
    return group->geometry->client->hooks;
}

/* The caller owns the context; the geometry is READY. */
static struct group *open_group(struct geometry_context *own, struct group *group)
{
    bool is_world = group->geometry->is_world;

    if (!is_world && u64map_put(&own->groups, group->identity, group) != 0)
        return NULL;
    atomic_store_explicit(&group->open, true, memory_order_relaxed);
    geometry_hold(group->geometry);
    if (hooks_of(group)->group_opened == NULL || hooks_of(group)->group_opened(group) == 0)
        return group;
    if (!is_world)
        u64map_remove(&own->groups, group->identity);
    atomic_store_explicit(&group->open, false, memory_order_relaxed);
    geometry_drop(group->geometry);
    return NULL;
}

/* The group of a context that is a member, open or not; NULL: it is none, or the geometry is not
 * READY. */
static struct group *membership(struct geometry *geometry, struct context *context)
{
    struct group *group;

    if (geometry->is_world) {
        group = &context->geometry->world;
        if (geometry != &context->geometry->client->world)
            return NULL;
    } else {
        uint8_t slot = geometry->slot[context->offset];

        if (slot == GEOMETRY_NO_SLOT ||
            atomic_load_explicit(&geometry->state, memory_order_acquire) /* G1 */ != GEOMETRY_READY)
            return NULL;
        group = &geometry->groups[slot];
    }
    return group->context != context || group->closed ? NULL : group;
}

struct group *geometry_group_open(struct geometry *geometry, struct context *context)
{
    struct group *group = membership(geometry, context);

    if (group == NULL || atomic_load_explicit(&group->open, memory_order_relaxed))
        return group;
    return open_group(context->geometry, group);
}

bool geometry_has_member(struct geometry *geometry, struct context *context)
{
    return membership(geometry, context) != NULL;
}

struct group *geometry_find(struct context *context, uint64_t identity)
{
    struct geometry_context *own = context->geometry;

    if (identity == own->world.identity)
        return geometry_group_open(&own->client->world, context);
    return u64map_get(&own->groups, identity);
}

/* Held; NULL: there is none that is ready. */
static struct geometry *hold_ready(struct geometry_client *client, uint64_t identity)
{
    struct geometry *found = NULL;
    struct list *item;

    pthread_mutex_lock(&client->lock);
    list_for_each (item, &client->geometries) {
        struct geometry *geometry = list_entry(item, struct geometry, link);
        int state = atomic_load_explicit(&geometry->state, memory_order_acquire); /* G1 */

        if (state == GEOMETRY_READY && geometry->identity == identity)
            found = geometry;
    }
    if (found != NULL)
        geometry_hold(found);
    pthread_mutex_unlock(&client->lock);
    return found;
}

/* Whether there is memory to open its group or not. */
static bool is_world(const struct context *context, uint64_t identity)
{
    return identity == context->geometry->world.identity;
}

bool geometry_look(struct context *context, uint64_t identity, geometry_looker *look)
{
    const struct group *group;
    struct geometry *geometry;
    bool answer;

    if (is_world(context, identity))
        return look(context, &context->geometry->world_topology);
    group = geometry_find(context, identity);
    if (group != NULL)
        return look(context, group->topology);
    geometry = hold_ready(context->geometry->client, identity);
    if (geometry == NULL)
        return false;
    answer = look(context, &geometry->topology);
    geometry_drop(geometry);
    return answer;
}

static bool look_no_further(struct context *context, const struct topology *members)
{
    (void)context, (void)members;
    return true;
}

bool geometry_is_known(struct context *context, uint64_t identity)
{
    return geometry_look(context, identity, look_no_further);
}

/* One that others know by this identity, or that has it here. */
static bool may_have(const struct geometry *geometry, uint64_t identity)
{
    int state = atomic_load_explicit(&geometry->state, memory_order_acquire); /* G1 */

    if (state == GEOMETRY_FORMING)
        return identity >> IDENTITY_TASK_SHIFT == geometry_task(geometry, 0) &&
               identity > geometry->identity;
    return state == GEOMETRY_READY && identity == geometry->identity;
}

/* A member has called for the creation of each geometry that others know. */
bool geometry_is_over(struct context *context, uint64_t identity)
{
    struct geometry_client *client = context->geometry->client;
    struct list *item;
    bool over = !is_world(context, identity) && geometry_find(context, identity) == NULL;

    pthread_mutex_lock(&client->lock);
    list_for_each (item, &client->geometries)
        over = over && !may_have(list_entry(item, struct geometry, link), identity);
    pthread_mutex_unlock(&client->lock);
    return over;
}

/* The caller owns the context. The geometry may be freed. */
void group_close(struct group *group)
{
    struct geometry_context *own = group->context->geometry;

    group->closed = true;
    if (!atomic_load_explicit(&group->open, memory_order_relaxed))
        return;
    if (hooks_of(group)->group_closed != NULL)
        hooks_of(group)->group_closed(group);
    if (!group->geometry->is_world)
        u64map_remove(&own->groups, group->identity);
    atomic_store_explicit(&group->open, false, memory_order_relaxed);
    geometry_drop(group->geometry);
}

static void endpoint_gone(struct message_watch *watch, struct context *context, uint32_t endpoint)
{
    (void)watch;
    join_endpoint_gone(context, endpoint);
}

/* ---- attach, detach ---- */

int geometry_attach(struct context *context)
{
    struct geometry_client *client = context->core->geometry;
    struct geometry_context *own = calloc(1, sizeof(*own));

    if (own == NULL)
        return -ENOMEM;
    own->context = context;
    own->client = client;
    topology_init_stride(&own->world_topology, 0, 1, context->core->tasks, context->offset, 1);
    group_init(&own->world, &client->world, context, &own->world_topology,
               IDENTITY_WORLD + context->offset);
    context->geometry = own;
    own->retry.run = join_retry;
    list_init(&own->retry.link);
    own->watch.gone = endpoint_gone;
    message_watch(context, &own->watch);
    message_register(context, MESSAGE_GEOMETRY, join_handle_message, client);
    pthread_mutex_lock(&client->lock);
    list_push_back(&client->contexts, &own->link);
    pthread_mutex_unlock(&client->lock);
    return 0;
}

/* Groups that were never opened do not find a later context at the same address. */
static void forget_context(struct geometry_client *client, const struct context *context)
{
    struct list *item;

    list_for_each (item, &client->geometries) {
        struct geometry *geometry = list_entry(item, struct geometry, link);
        uint8_t slot = geometry->slot[context->offset];

        if (slot != GEOMETRY_NO_SLOT)
            geometry->groups[slot].closed = true;
    }
}

void geometry_detach(struct context *context)
{
    struct geometry_context *own = context->geometry;
    struct group *group;
    size_t cursor = 0;

    if (own == NULL)
        return;
    pthread_mutex_lock(&own->client->lock);
    list_remove(&own->link);
    forget_context(own->client, context);
    pthread_mutex_unlock(&own->client->lock);
    join_detach(context);
    group_close(&own->world);
    while ((group = u64map_next(&own->groups, &cursor)) != NULL) {
        group_close(group);
        cursor--; /* closing may have moved another one there */
    }
    u64map_finish(&own->groups);
    list_remove(&own->watch.link);
    list_remove(&own->retry.link);
    context->geometry = NULL;
    free(own);
}
