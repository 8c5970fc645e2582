/*
 * Creations whose tasks go.
 *
 * What a context has sent to another one comes before the news of its end, but between other pairs
 * of contexts there is no order. So who has gone is the business of one context, that of the
 * creation, to which a DOWN that says success goes in any case. A task has gone when that context
 * has heard the end of all its members; without such a DOWN there will be none. One from a context
 * that is no member, and that join.c has guessed, is there before as well: contexts end when what
 * their task has sent has been taken, as far as that does not take too long (p2p_drain; time does
 * not pass for that in a simulation, where such a creation may fail). A task that goes while others
 * wait for its UP cannot have completed its own creation.
 */
#include <errno.h>

#include "geometry/join.h"
#include "p2p/message.h"

static uint64_t bit_of(uint32_t endpoint)
{
    return UINT64_C(1) << endpoint_offset(endpoint);
}

/* Hear of the end of each member of the task. 0 or -ENOMEM. */
static int watch(const struct join *join, struct context *context, struct edge *edge)
{
    for (uint32_t offset = 0; offset < context->core->contexts_max; offset++) {
        uint32_t endpoint = endpoint_make(edge->task, offset);
        int error = join_has_member(join, endpoint) ? message_expect(context, endpoint) : 0;

        if (error == -ENOMEM)
            return error;
        if (error == -EPIPE)
            edge->gone |= bit_of(endpoint);
    }
    return 0;
}

int join_watch(struct join *join, struct context *context)
{
    int error = join->is_root ? 0 : watch(join, context, &join->parent);

    for (uint32_t i = 0; i < join->child_count && error == 0; i++)
        error = watch(join, context, &join->children[i]);
    return error;
}

/* Also the context that creates there, if that is known. What there is no memory to wait for is not
 * waited for. */
static bool has_gone(const struct join *join, struct context *context, const struct edge *edge)
{
    for (uint32_t offset = 0; offset < context->core->contexts_max; offset++) {
        uint32_t endpoint = endpoint_make(edge->task, offset);

        if ((join_has_member(join, endpoint) || endpoint == edge->extra) &&
            (edge->gone & bit_of(endpoint)) == 0 && message_expect(context, endpoint) == 0)
            return false;
    }
    return true;
}

static void lose_if_gone(struct join *join, struct context *context, struct edge *edge)
{
    if (edge->gone != 0 && has_gone(join, context, edge))
        join_lose(join, context, edge);
}

/* The neighbour in the tree; NULL: the task is none. */
static struct edge *edge_to(struct join *join, uint32_t task)
{
    if (!join->is_root && join->parent.task == task)
        return &join->parent;
    for (uint32_t i = 0; i < join->child_count; i++)
        if (join->children[i].task == task)
            return &join->children[i];
    return NULL;
}

void join_look_for_gone(struct join *join, struct context *context)
{
    if (!join->is_root)
        lose_if_gone(join, context, &join->parent);
    for (uint32_t i = 0; i < join->child_count; i++)
        lose_if_gone(join, context, &join->children[i]);
}

void join_endpoint_gone(struct context *context, uint32_t endpoint)
{
    struct geometry_client *client = context->core->geometry;
    struct list *item, *following;

    pthread_mutex_lock(&client->lock);
    list_for_each_safe (item, following, &client->joins) {
        struct join *join = list_entry(item, struct join, link);
        struct edge *edge = edge_to(join, endpoint_task(endpoint));

        if (edge == NULL || join->own != context->endpoint)
            continue;
        edge->gone |= bit_of(endpoint);
        lose_if_gone(join, context, edge);
        join_reap(join);
    }
    pthread_mutex_unlock(&client->lock);
}
