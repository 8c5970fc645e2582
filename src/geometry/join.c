/*
 * The creation protocol between tasks: everybody has come, and this is the identity.
 *
 * A join is a tree over the tasks of a geometry, rooted at the first one. Each task sends UP to its
 * parent when it has called itself and all of its children have sent UP; the root then chooses the
 * identity and sends it DOWN. A creation without a parent geometry is one join, over the new
 * members. With one it is a join over the parent's tasks, and for the members another one.
 *
 * What belongs together: the key, which is the user's id, a hash of the members in order, and the
 * parent's identity and how many creations it has seen. Messages that come before this task's call
 * are kept. Every join has exactly one UP and one DOWN on each edge of its tree, so those of one
 * key match calls in order; that also holds when it fails: a join that has failed stays until each
 * child has sent its UP or is known to be gone (join_gone.c). A HERE may come after the DOWN of its
 * join, which stays until then.
 *
 * A task may advance any of its contexts, and each in another thread. So every message goes to each
 * member endpoint of the destination's task, and where the context of its creation is known also to
 * that; copies have a number (neighbour.h). Whoever receives the first copy goes on, under the
 * client's mutex, and sends from the context it owns. The user's function is posted to the context
 * that it is for.
 */
#include <errno.h>
#include <stdlib.h>

#include "geometry/join.h"
#include "geometry/neighbour.h"
#include "p2p/message.h"

/* The header of an internal message, which has no data. */
struct message {
    struct key key;
    uint64_t number;
    uint64_t identity; /* DOWN */
    uint32_t context;  /* endpoint of the sender's creation */
    uint16_t kind;
    uint16_t result; /* pami_result_t */
};

_Static_assert(sizeof(struct message) == MESSAGE_HEADER_SHORT, "goes the fast way, has no holes");

struct early {
    struct list link;
    uint32_t task;
    struct message message;
};

static bool key_equal(const struct key *a, const struct key *b)
{
    return a->members == b->members && a->parent == b->parent && a->id == b->id &&
           a->sequence == b->sequence;
}

/* ---- sending ---- */

static int send_copy(struct context *context, uint32_t endpoint, const struct message *message)
{
    int sent = message_send(context, endpoint, MESSAGE_GEOMETRY, message, sizeof(*message), NULL, 0,
                            NULL, NULL);

    return sent < 0 ? sent : 0;
}

/*
 * A copy to each endpoint of the task that may be listening. Where our own creation's context is no
 * member, the others' are likely to have the same offset. -EPIPE: a member has gone; -ENOMEM.
 */
static int send_copies(const struct join *join, struct context *context, const struct edge *edge,
                       const struct message *message)
{
    uint32_t offsets = context->core->contexts_max;
    uint32_t guess = join_has_member(join, join->own) ? NO_ENDPOINT : endpoint_offset(join->own);
    int result = 0;

    for (uint32_t offset = 0; offset < offsets; offset++) {
        uint32_t endpoint = endpoint_make(edge->task, offset);
        bool member = join_has_member(join, endpoint);
        int error;

        if (!member && endpoint != edge->extra && offset != guess)
            continue;
        error = send_copy(context, endpoint, message);
        if (error == -ENOMEM ? result == 0 : error != 0 && member)
            result = error;
    }
    return result;
}

/* What finds no memory is sent later. 0, or -EPIPE: a member has gone. */
static int send_message(struct join *join, struct context *context, struct edge *edge,
                        enum join_kind kind)
{
    struct u64map *neighbours = &join->team->client->neighbours;
    struct message message = {
        .key = join->key,
        .identity = join->identity,
        .context = join->own,
        .kind = (uint16_t)kind,
        .result = (uint16_t)join->result,
    };
    int error = -ENOMEM;

    if (edge->numbers[kind] == 0)
        edge->numbers[kind] = neighbour_next(neighbours, edge->task);
    message.number = edge->numbers[kind];
    if (message.number != 0)
        error = send_copies(join, context, edge, &message);
    edge->owed &= (uint8_t) ~(1u << kind);
    if (error != -ENOMEM)
        return error;
    edge->owed |= (uint8_t)(1u << kind);
    if (list_empty(&context->geometry->retry.link))
        list_push_back(&context->retries, &context->geometry->retry.link);
    return 0;
}

/* ---- the state of a join ---- */

static bool all_children_done(const struct join *join)
{
    for (uint32_t i = 0; i < join->child_count; i++)
        if (!join->children[i].done)
            return false;
    return true;
}

/* The outcome is known: pass it on. */
static void settle(struct join *join, struct context *context)
{
    struct creation *creation = join->creation;

    for (uint32_t i = 0; i < join->child_count; i++)
        send_message(join, context, &join->children[i], JOIN_DOWN);
    join->creation = NULL;
    if (creation->result == PAMI_SUCCESS)
        creation->result = join->result;
    if (join->key.id != 0)
        creation->identity = join->identity;
    if (--creation->waiting == 0)
        creation_complete(creation);
}

static void parent_gone(struct join *join, struct context *context)
{
    join->parent.done = join->here = true;
    if (join->creation == NULL)
        return;
    join->result = PAMI_ERROR;
    settle(join, context);
}

/* Go on as far as possible. The join stays where it is; see reap. */
static void step(struct join *join, struct context *context)
{
    if (join->parent.done || (join->result == PAMI_SUCCESS && !all_children_done(join)))
        return;
    join->parent.done = true;
    if (join->is_root) {
        struct geometry_client *client = join->team->client;

        if (join->key.id != 0)
            join->identity =
                (uint64_t)client->core->task << IDENTITY_TASK_SHIFT | client->next_identity++;
        settle(join, context);
    } else if (send_message(join, context, &join->parent, JOIN_UP) != 0) {
        parent_gone(join, context);
    }
}

void join_lose(struct join *join, struct context *context, struct edge *edge)
{
    if (edge == &join->parent) {
        parent_gone(join, context);
    } else if (!edge->done) {
        edge->done = true;
        join->result = PAMI_ERROR;
        step(join, context);
    }
}

static void join_free(struct join *join)
{
    list_remove(&join->link);
    geometry_drop(join->team);
    free(join);
}

static bool owes(const struct join *join)
{
    unsigned owed = join->parent.owed;

    for (uint32_t i = 0; i < join->child_count; i++)
        owed |= join->children[i].owed;
    return owed != 0;
}

void join_reap(struct join *join)
{
    if (join->creation == NULL && join->here && join->parent.done && all_children_done(join) &&
        !owes(join))
        join_free(join);
}

static void send_owed(struct join *join, struct context *context, struct edge *edge)
{
    for (unsigned kind = 0; kind < JOIN_KINDS; kind++)
        if ((edge->owed & 1u << kind) != 0 &&
            send_message(join, context, edge, (enum join_kind)kind) != 0 && kind == JOIN_UP)
            parent_gone(join, context);
}

int join_retry(struct retry *retry, struct context *context)
{
    struct geometry_client *client = context->core->geometry;
    struct list *item, *following;

    list_remove(&retry->link);
    pthread_mutex_lock(&client->lock);
    list_for_each_safe (item, following, &client->joins) {
        struct join *join = list_entry(item, struct join, link);

        send_owed(join, context, &join->parent);
        for (uint32_t i = 0; i < join->child_count; i++)
            send_owed(join, context, &join->children[i]);
        join_reap(join);
    }
    pthread_mutex_unlock(&client->lock);
    return 1;
}

/* ---- what arrives ---- */

static bool take_up(struct join *join, struct context *context, uint32_t task,
                    const struct message *message)
{
    for (uint32_t i = 0; i < join->child_count; i++) {
        struct edge *child = &join->children[i];

        if (child->task != task || child->done)
            continue;
        child->done = true;
        child->extra = message->context;
        if (join->result == PAMI_SUCCESS)
            join->result = (pami_result_t)message->result;
        step(join, context);
        return true;
    }
    return false;
}

static bool take_down(struct join *join, struct context *context, uint32_t task,
                      const struct message *message)
{
    if (join->is_root || join->parent.task != task || join->creation == NULL)
        return false;
    join->here = join->here || join_has_member(join, message->context);
    join->down = message->number;
    join->identity = message->identity;
    if (join->result == PAMI_SUCCESS)
        join->result = (pami_result_t)message->result;
    step(join, context); /* it has failed: the parent still gets its UP */
    if (join->creation != NULL)
        settle(join, context);
    return true;
}

/* The parent listens at another endpoint: what it may have missed is sent once more. */
static bool take_here(struct join *join, struct context *context, uint32_t task,
                      const struct message *message)
{
    if (join->here || join->parent.task != task ||
        (join->down != 0 && message->number > join->down))
        return false;
    join->here = true;
    join->parent.extra = message->context;
    if (join->creation != NULL && join->parent.numbers[JOIN_UP] != 0)
        send_message(join, context, &join->parent, JOIN_UP);
    return true;
}

static bool take(struct join *join, struct context *context, uint32_t task,
                 const struct message *message)
{
    if (!key_equal(&join->key, &message->key))
        return false;
    if (message->kind == JOIN_UP)
        return take_up(join, context, task, message);
    if (message->kind == JOIN_DOWN)
        return take_down(join, context, task, message);
    return take_here(join, context, task, message);
}

/* False: no memory. */
static bool keep_early(struct geometry_client *client, uint32_t task, const struct message *message)
{
    struct early *early = malloc(sizeof(*early));

    if (early == NULL)
        return false;
    early->task = task;
    early->message = *message;
    list_push_back(&client->early, &early->link);
    return true;
}

static bool is_sound(const struct context *context, uint32_t origin, const struct message *message)
{
    return message->kind < JOIN_KINDS && message->result <= PAMI_OTHER &&
           endpoint_task(message->context) == endpoint_task(origin) &&
           endpoint_offset(message->context) < context->core->contexts_max;
}

/* True when a join had use for it. */
static bool offer(struct geometry_client *client, struct context *context, uint32_t task,
                  const struct message *message)
{
    struct list *item;

    list_for_each (item, &client->joins) {
        struct join *join = list_entry(item, struct join, link);

        if (!take(join, context, task, message))
            continue;
        join_reap(join);
        return true;
    }
    return false;
}

void join_handle_message(pami_context_t handle, void *cookie, const void *header, size_t bytes,
                         const void *pipe, size_t data_bytes, pami_endpoint_t origin,
                         pami_recv_t *recv)
{
    struct geometry_client *client = cookie;
    struct context *context = handle;
    uint32_t task = endpoint_task(origin);
    struct message message = {.kind = JOIN_KINDS};
    int is_new;

    (void)pipe;
    if (bytes == sizeof(message))
        memcpy(&message, header, sizeof(message));
    if (bytes != sizeof(message) || data_bytes != 0 || !is_sound(context, origin, &message)) {
        context->counters[COUNTER_FOREIGN]++;
        return;
    }
    pthread_mutex_lock(&client->lock);
    is_new = neighbour_is_new(&client->neighbours, task, message.number);
    if (is_new > 0 &&
        (offer(client, context, task, &message) || keep_early(client, task, &message)))
        neighbour_seen(&client->neighbours, task, message.number);
    else if (is_new != 0)
        message_put_back(context, recv);
    pthread_mutex_unlock(&client->lock);
}

/* ---- beginning ---- */

static struct join *join_new(struct creation *creation, struct geometry *team)
{
    struct join *join = calloc(1, sizeof(*join));
    uint32_t position = team->position;

    if (join == NULL)
        return NULL;
    list_init(&join->link);
    join->team = team;
    join->creation = creation;
    join->own = creation->context->endpoint;
    join->is_root = join->here = position == 0;
    join->parent.extra = NO_ENDPOINT;
    if (!join->is_root)
        join->parent.task = geometry_task(team, (position - 1) / JOIN_RADIX);
    for (uint64_t i = 1; i <= JOIN_RADIX; i++) {
        uint64_t child = (uint64_t)position * JOIN_RADIX + i;

        if (child >= team->task_count)
            break;
        join->children[join->child_count++] = (struct edge){
            .task = geometry_task(team, (uint32_t)child),
            .extra = NO_ENDPOINT,
        };
    }
    if (join_watch(join, creation->context) == 0)
        return join;
    free(join);
    return NULL;
}

static void join_begin(struct join *join, struct context *context)
{
    struct geometry_client *client = join->team->client;
    struct list *item, *following;

    geometry_hold(join->team);
    list_push_back(&client->joins, &join->link);
    if (!join_has_member(join, join->own))
        for (uint32_t i = 0; i < join->child_count; i++)
            send_message(join, context, &join->children[i], JOIN_HERE);
    join_look_for_gone(join, context);
    list_for_each_safe (item, following, &client->early) {
        struct early *early = list_entry(item, struct early, link);

        if (!take(join, context, early->task, &early->message))
            continue;
        list_remove(&early->link);
        free(early);
    }
    step(join, context);
    join_reap(join);
}

int join_start(struct creation *creation)
{
    struct geometry_client *client = creation->client;
    struct geometry *geometry = creation->geometry, *parent = creation->parent;
    struct context *context = creation->context;
    struct join *joins[2] = {NULL, NULL};

    if (parent != NULL)
        joins[0] = join_new(creation, parent);
    if (geometry != NULL)
        joins[1] = join_new(creation, geometry);
    if ((parent != NULL && joins[0] == NULL) || (geometry != NULL && joins[1] == NULL)) {
        free(joins[0]);
        free(joins[1]);
        return -ENOMEM;
    }
    pthread_mutex_lock(&client->lock);
    list_push_back(&client->creations, &creation->link);
    creation->waiting = (parent != NULL) + (geometry != NULL);
    if (geometry != NULL)
        geometry_forming(geometry);
    for (int i = 0; i < 2; i++) {
        if (joins[i] == NULL)
            continue;
        if (parent != NULL) {
            joins[i]->key.parent = parent->identity;
            joins[i]->key.sequence = parent->sequence;
        }
        if (i == 1) {
            joins[i]->key.id = geometry->id;
            joins[i]->key.members = topology_digest(&geometry->topology);
        }
    }
    if (parent != NULL)
        parent->sequence++;
    for (int i = 0; i < 2; i++)
        if (joins[i] != NULL)
            join_begin(joins[i], context);
    pthread_mutex_unlock(&client->lock);
    return 0;
}

/* ---- the end ---- */

/* Others have seen us leave: nothing of what is under way can be completed. */
static void drop_all(struct geometry_client *client)
{
    struct list *item;

    while ((item = list_pop_front(&client->joins)) != NULL)
        join_free(list_entry(item, struct join, link));
    while ((item = list_pop_front(&client->early)) != NULL)
        free(list_entry(item, struct early, link));
    while ((item = list_first(&client->creations)) != NULL) {
        struct creation *creation = list_entry(item, struct creation, link);

        if (creation->geometry != NULL && creation->waiting != 0)
            atomic_store_explicit(&creation->geometry->state, GEOMETRY_FAILED,
                                  memory_order_relaxed);
        creation_free(creation);
    }
}

void join_detach(struct context *context)
{
    struct geometry_client *client = context->core->geometry;
    struct list *item, *following;

    pthread_mutex_lock(&client->lock);
    list_for_each_safe (item, following, &client->creations) {
        struct creation *creation = list_entry(item, struct creation, link);

        if (creation->context != context)
            continue;
        /* Posted work of a context that ends is dropped and not looked at. */
        creation->context = NULL;
        if (creation->waiting == 0)
            creation_free(creation);
    }
    if (list_empty(&client->contexts))
        drop_all(client);
    pthread_mutex_unlock(&client->lock);
}

void join_close(struct geometry_client *client)
{
    drop_all(client);
    neighbours_free(&client->neighbours);
}
