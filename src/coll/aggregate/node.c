/*
 * Aggregation nodes of one term: how their children come and go, what they are told when a run
 * fails.
 *
 * A node begins with the first message of a child, when the host may not know the geometry yet. It
 * is described when the host joins itself, which is below it. It ends when all children that have
 * joined have left, or have gone; its slots go with the first one, or with the host.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/aggregate/internal.h"
#include "coll/coll.h"
#include "p2p/message.h"
#include "util/option.h"

static uint32_t place_of(const struct aggregate_node *node, const struct aggregate_child *child)
{
    return (uint32_t)(child - node->child);
}

struct aggregate_wire aggregate_wire_up(const struct aggregate_node *node, enum aggregate_kind kind)
{
    return (struct aggregate_wire){.identity = node->identity,
                                   .channel = node->channel,
                                   .term = node->term,
                                   .vertex = node->parent.vertex,
                                   .place = (uint8_t)node->parent.place,
                                   .from = node->vertex,
                                   .kind = (uint8_t)kind};
}

struct aggregate_wire aggregate_wire_down(const struct aggregate_node *node,
                                          const struct aggregate_child *child,
                                          enum aggregate_kind kind)
{
    return (struct aggregate_wire){.identity = node->identity,
                                   .channel = node->channel,
                                   .term = node->term,
                                   .vertex = child->vertex,
                                   .place = (uint8_t)place_of(node, child),
                                   .kind = (uint8_t)kind};
}

static void send_up(const struct aggregate_node *node, const struct aggregate_wire *wire)
{
    if (node->described && !node->is_root)
        aggregate_send(node->aggregate, node->parent.endpoint, wire, NULL, 0);
}

static uint32_t mark_of(uint32_t endpoint)
{
    return endpoint_task(endpoint) + 1;
}

/* ---- making ---- */

static struct aggregate_node *node_get(struct aggregate *aggregate,
                                       const struct aggregate_wire *wire)
{
    struct aggregate_node *node = aggregate_nodes_find(aggregate, wire);

    if (node != NULL)
        return node;
    if (aggregate_may_owe(aggregate) == 0)
        node = calloc(1, sizeof(*node) + AGGREGATE_RADIX_MAX * sizeof(node->child[0]));
    if (node == NULL)
        return NULL;
    node->aggregate = aggregate;
    node->identity = wire->identity;
    node->channel = wire->channel;
    node->term = wire->term;
    node->vertex = wire->vertex;
    node->window = (uint32_t)option_int(OPT_COLL_AGGREGATE_WINDOW);
    node->room = (uint32_t)option_bytes(OPT_COLL_AGGREGATE_SEGMENT);
    list_init(&node->failures);
    if (aggregate_nodes_add(node) == 0)
        return node;
    free(node);
    return NULL;
}

static void release_slots(struct aggregate_node *node)
{
    aggregate_slots_free(node);
    aggregate_give_back(&node->aggregate->manager, &node->grant, 0);
}

void aggregate_node_free(struct aggregate_node *node)
{
    struct list *item;

    release_slots(node);
    while ((item = list_pop_front(&node->failures)) != NULL)
        aggregate_failure_free(node, list_entry(item, struct aggregate_failure, link));
    aggregate_nodes_remove(node);
    free(node);
}

/* The host may yet join, and is to find what has become of its children. */
static bool awaits_host(const struct aggregate_node *node)
{
    struct context *context = node->aggregate->context;
    const struct group *top = geometry_find(context, node->identity);

    if (node->described)
        return false;
    if (top != NULL)
        return !aggregate_is_past(top, node->channel, node->term);
    return node->term != 0 && geometry_is_known(context, node->identity);
}

/* All that have joined have left, and so has the host: it is below the first child. */
static void free_if_alone(struct aggregate_node *node)
{
    if ((node->described && !node->child[0].left) || awaits_host(node))
        return;
    for (uint32_t i = 0; i < AGGREGATE_RADIX_MAX; i++)
        if (aggregate_child_listens(&node->child[i]))
            return;
    aggregate_node_free(node);
}

/* ---- grants ---- */

/* What is known, if anything: may come again. */
static void grant(const struct aggregate_node *node, const struct aggregate_child *child)
{
    struct aggregate_wire wire = aggregate_wire_down(node, child, AGGREGATE_GRANT);

    wire.number = node->state == AGGREGATE_GRANTED ? node->window : 0;
    wire.segment = node->room;
    wire.check = node->mark;
    if ((node->state == AGGREGATE_GRANTED || node->state == AGGREGATE_REFUSED) &&
        aggregate_child_listens(child))
        aggregate_send(node->aggregate, child->endpoint, &wire, NULL, 0);
}

static void grant_all(const struct aggregate_node *node)
{
    for (uint32_t i = 0; i < AGGREGATE_RADIX_MAX; i++)
        grant(node, &node->child[i]);
}

/* May come again: the parent answers again. */
static void join_up(const struct aggregate_node *node, uint32_t window)
{
    struct aggregate_wire wire = aggregate_wire_up(node, AGGREGATE_JOIN);

    wire.number = window;
    wire.segment = node->room;
    wire.check = node->mark;
    send_up(node, &wire);
}

/* `mark`: because a member has gone, or left; 0: for want of slots. */
static void refuse(struct aggregate_node *node, uint32_t mark)
{
    if (node->state == AGGREGATE_REFUSED)
        return;
    node->state = AGGREGATE_REFUSED;
    node->mark = mark;
    release_slots(node);
    grant_all(node);
    join_up(node, 0);
}

/* All children are there: what is possible here and below. */
static void join_if_complete(struct aggregate_node *node)
{
    uint64_t bytes = (uint64_t)node->count * node->room;
    int error;

    if (node->state != AGGREGATE_JOINING || !node->described)
        return;
    for (uint32_t i = 0; i < node->count; i++)
        if (!node->child[i].joined)
            return;
    node->grant = aggregate_take(&node->aggregate->manager, node->window, bytes);
    if (node->grant.slots == 0 || aggregate_slots_make(node) != 0 || node->forgotten != 0) {
        refuse(node, 0);
        return;
    }
    node->window = node->grant.slots;
    if (node->is_root) {
        node->state = AGGREGATE_GRANTED;
        grant_all(node);
        return;
    }
    node->state = AGGREGATE_JOINED;
    error = message_expect(node->aggregate->context, node->parent.endpoint);
    if (error != 0)
        refuse(node, error == -ENOMEM ? 0 : mark_of(node->parent.endpoint));
    else
        join_up(node, node->window);
    aggregate_failures_up(node); /* those of before, for which the parent had no ear */
}

static void on_grant(struct aggregate_node *node, const struct aggregate_wire *wire)
{
    if (node->state != AGGREGATE_JOINED)
        return;
    if (wire->number == 0 || wire->number > node->window || wire->segment > node->room) {
        refuse(node, wire->check);
        return;
    }
    node->window = (uint32_t)wire->number;
    node->room = wire->segment;
    aggregate_give_back(&node->aggregate->manager, &node->grant, node->window);
    node->state = AGGREGATE_GRANTED;
    grant_all(node);
}

/* 0 or -ENOMEM */
static int describe_child(struct aggregate_node *node, uint32_t place, uint32_t endpoint,
                          uint32_t vertex)
{
    struct aggregate_child *child = &node->child[place];
    int error = 0;

    if (child->joined && (child->endpoint != endpoint || child->vertex != vertex))
        refuse(node, 0); /* options differ between tasks */
    child->endpoint = endpoint;
    child->vertex = vertex;
    if (endpoint != node->aggregate->context->endpoint)
        error = message_expect(node->aggregate->context, endpoint);
    if (error == -ENOMEM)
        return error;
    child->gone = child->gone || error != 0;
    return 0;
}

/* Somebody has joined who has no place here: options differ between tasks, and so their trees. */
static bool has_strangers(const struct aggregate_node *node)
{
    for (uint32_t i = node->count; i < AGGREGATE_RADIX_MAX; i++)
        if (node->child[i].joined)
            return true;
    return false;
}

int aggregate_node_describe(struct aggregate_member *member, const struct aggregate_tree *tree,
                            uint32_t vertex)
{
    const struct group *group = member->group;
    const struct aggregate_vertex *from = &tree->vertex[vertex];
    struct aggregate_wire name = aggregate_wire_of(member, AGGREGATE_JOIN, 0);
    struct aggregate_node *node;
    uint32_t mark = 0;

    name.vertex = vertex;
    node = node_get(group->context->coll->aggregate, &name);
    if (node == NULL)
        return -ENOMEM;
    node->count = from->count;
    node->is_root = from->at.parent == AGGREGATE_NONE;
    if (!node->is_root)
        node->parent = (struct aggregate_address){
            topology_endpoint(group->topology, tree->vertex[from->at.parent].host), from->at.parent,
            from->at.place};
    for (uint32_t i = 0; i < from->count; i++) {
        uint32_t id = tree->children[from->first + i];
        bool leaf = id < tree->members;
        uint32_t host = leaf ? id : tree->vertex[id - tree->members].host;

        if (describe_child(node, i, topology_endpoint(group->topology, host),
                           leaf ? AGGREGATE_NONE : id - tree->members) != 0)
            return -ENOMEM;
        if (node->child[i].gone)
            mark = mark_of(node->child[i].endpoint);
    }
    node->described = true;
    if (node->state == AGGREGATE_REFUSED)
        join_up(node, 0);
    else if (mark != 0)
        refuse(node, mark);
    else if (has_strangers(node))
        refuse(node, 0);
    else
        join_if_complete(node);
    return 0;
}

/* ---- waiting ---- */

static void ask(const struct aggregate_node *node, uint32_t endpoint, uint32_t place,
                uint64_t number)
{
    const struct aggregate_wire wire = {.identity = node->identity,
                                        .number = number,
                                        .channel = node->channel,
                                        .term = node->term,
                                        .vertex = node->vertex,
                                        .place = (uint8_t)place,
                                        .kind = AGGREGATE_ASK};

    aggregate_send(node->aggregate, endpoint, &wire, NULL, 0);
}

void aggregate_nodes_repeat(struct aggregate *aggregate, const struct aggregate_wire *question)
{
    const struct aggregate_node *node = aggregate_nodes_first(aggregate, question->identity);

    for (; node != NULL; node = aggregate_nodes_next(node)) {
        if (!aggregate_node_is_of(node, question) || !node->described || node->is_root ||
            node->parent.vertex != question->vertex)
            continue;
        if (node->state == AGGREGATE_JOINED)
            join_up(node, node->window);
        else if (node->state == AGGREGATE_REFUSED)
            join_up(node, 0);
    }
}

void aggregate_nodes_refuse(struct aggregate *aggregate, const struct aggregate_wire *tree)
{
    struct aggregate_node *node = aggregate_nodes_first(aggregate, tree->identity);

    for (; node != NULL; node = aggregate_nodes_next(node))
        if (aggregate_node_is_of(node, tree) && node->state != AGGREGATE_GRANTED)
            refuse(node, 0);
}

/* Of those that wait, the first one asks for all. What is missing below another node is asked for
 * there; when nothing has come from it, its host is asked. */
static void on_waiting(struct aggregate_node *node, const struct aggregate_child *child,
                       uint64_t number)
{
    const struct aggregate_failure *failure = aggregate_node_failure(node, number);
    const struct aggregate_slot *slot = aggregate_slots_find(node, number);
    struct aggregate_wire wire = aggregate_wire_up(node, AGGREGATE_WAITING);
    bool missing = false;

    wire.number = number;
    if (failure != NULL)
        aggregate_node_tell(node, child, failure);
    else if (slot == NULL && number < node->forgotten)
        aggregate_node_tell(node, child, &(struct aggregate_failure){.number = number});
    if (failure != NULL || node->state == AGGREGATE_REFUSED ||
        (node->state == AGGREGATE_GRANTED && slot == NULL))
        return;
    if (!node->described) {
        ask(node, node->aggregate->context->endpoint, AGGREGATE_RADIX_MAX, number);
        return;
    }
    for (uint32_t i = 0, first = AGGREGATE_NONE; i < node->count; i++) {
        const struct aggregate_child *other = &node->child[i];
        bool came = slot != NULL ? (slot->came >> i & 1) != 0 : other->joined;

        if (came && first == AGGREGATE_NONE && (first = i) != place_of(node, child))
            return;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        if (slot != NULL ? (slot->came >> i & 1) != 0 : node->child[i].joined)
            continue;
        missing = true;
        ask(node, node->child[i].endpoint, i, number);
    }
    if (!missing)
        send_up(node, &wire);
}

/* ---- leaving ---- */

static void leave_up(struct aggregate_node *node)
{
    struct aggregate_wire wire = aggregate_wire_up(node, AGGREGATE_LEAVE);

    if (!node->told_left)
        send_up(node, &wire);
    node->told_left = node->described;
}

/* Nothing will be complete here any more; `mark` as in refuse. */
static void stop(struct aggregate_node *node, uint32_t mark)
{
    if (node->state == AGGREGATE_GRANTED) {
        aggregate_slots_give_up(node, NULL, 0, false);
        node->state = AGGREGATE_REFUSED;
        release_slots(node);
    } else {
        refuse(node, mark);
    }
    leave_up(node);
}

static void on_leave(struct aggregate_node *node, struct aggregate_child *child)
{
    child->left = true;
    stop(node, child->joined ? AGGREGATE_LEFT : 0);
    free_if_alone(node);
}

void aggregate_nodes_leave(struct aggregate *aggregate, const struct aggregate_member *member)
{
    const struct aggregate_wire name = aggregate_wire_of(member, AGGREGATE_LEAVE, 0);
    struct aggregate_node *node = aggregate_nodes_first(aggregate, name.identity);

    for (; node != NULL; node = aggregate_nodes_next(node))
        if (node->described && aggregate_node_is_of(node, &name))
            stop(node, member->state == AGGREGATE_REFUSED ? 0 : AGGREGATE_LEFT);
}

void aggregate_nodes_pass(struct aggregate *aggregate, const struct group *top)
{
    struct aggregate_node *node = aggregate_nodes_first(aggregate, top->identity), *next;

    for (; node != NULL; node = next) {
        next = aggregate_nodes_next(node);
        if (node->described || !aggregate_is_past(top, node->channel, node->term))
            continue;
        refuse(node, 0);
        free_if_alone(node);
    }
}

void aggregate_node_gone(struct aggregate_node *node, uint32_t endpoint)
{
    uint32_t mark = mark_of(endpoint);
    bool known = false;

    for (uint32_t i = 0; i < AGGREGATE_RADIX_MAX; i++) {
        struct aggregate_child *child = &node->child[i];

        if (child->endpoint != endpoint || (!child->joined && i >= node->count))
            continue;
        child->gone = known = true;
        if (node->state == AGGREGATE_JOINING)
            refuse(node, mark);
        else if (node->state == AGGREGATE_GRANTED)
            aggregate_slots_give_up(node, child, mark, false);
    }
    if (node->described && !node->is_root && node->parent.endpoint == endpoint) {
        aggregate_slots_give_up(node, NULL, mark, false);
        if (node->state != AGGREGATE_GRANTED)
            refuse(node, mark);
    }
    if (known)
        free_if_alone(node);
}

/* ---- arriving ---- */

static struct aggregate_failure failure_of(const struct aggregate_wire *wire)
{
    return (struct aggregate_failure){.number = wire->number,
                                      .mark = wire->check,
                                      .disagrees = (wire->flags & AGGREGATE_DISAGREES) != 0};
}

/* From a child, or from the member that acts for it, or would. */
static void on_failure(struct aggregate_node *node, const struct aggregate_child *child,
                       const struct aggregate_wire *wire)
{
    const struct aggregate_failure failure = failure_of(wire);
    bool knows = child != NULL && child->vertex == wire->from;

    aggregate_node_fail(node, &failure, knows ? child : NULL, true);
}

/* The node of a child that joins. NULL: out of memory. */
static struct aggregate_node *node_joined(struct aggregate *aggregate,
                                          const struct aggregate_wire *wire)
{
    struct aggregate_node *node = node_get(aggregate, wire);
    const struct group *top = geometry_find(aggregate->context, wire->identity);

    if (node != NULL && !node->described && top != NULL &&
        aggregate_is_past(top, node->channel, node->term))
        refuse(node, 0);
    return node;
}

/* Who joins has no place here: options differ between tasks, and so their trees, so that no node
 * above this one gets all of its children. */
static void turn_away(struct aggregate_node *node, const struct aggregate_wire *wire,
                      uint32_t origin)
{
    struct aggregate_wire answer = *wire;

    if (node->state != AGGREGATE_GRANTED)
        refuse(node, 0);
    answer.kind = AGGREGATE_GRANT;
    answer.vertex = wire->from;
    answer.number = answer.segment = answer.check = 0;
    aggregate_send(node->aggregate, origin, &answer, NULL, 0);
}

static void on_join(struct aggregate_node *node, struct aggregate_child *child,
                    const struct aggregate_wire *wire, uint32_t origin)
{
    bool fits = !node->described || (child->endpoint == origin && child->vertex == wire->from);

    if (!fits || (child->joined && child->endpoint != origin)) {
        turn_away(node, wire, origin);
        return;
    }
    if (child->joined) {
        if (wire->number == 0 && node->state != AGGREGATE_GRANTED)
            refuse(node, wire->check); /* it had to after all */
        grant(node, child);
        return;
    }
    child->endpoint = origin;
    child->vertex = wire->from;
    child->joined = true;
    node->window = wire->number < node->window ? (uint32_t)wire->number : node->window;
    node->room = wire->segment < node->room ? wire->segment : node->room;
    if (node->state == AGGREGATE_REFUSED)
        grant(node, child);
    else if (node->window == 0 || node->room == 0)
        refuse(node, wire->check);
    else
        join_if_complete(node);
}

static void on_data(struct aggregate_node *node, struct aggregate_child *child,
                    const struct aggregate_wire *wire, const void *data, size_t bytes)
{
    const struct aggregate_failure over = {.number = wire->number,
                                           .mark = node->mark != AGGREGATE_LEFT ? node->mark : 0};

    if (node->state == AGGREGATE_GRANTED)
        aggregate_slots_data(node, child, wire, data, bytes);
    else
        aggregate_node_tell(node, child, &over);
}

static struct aggregate_child *child_at(struct aggregate_node *node, uint32_t place)
{
    bool fits = place < (node->described ? node->count : AGGREGATE_RADIX_MAX);

    return fits ? &node->child[place] : NULL;
}

int aggregate_node_join(struct aggregate *aggregate, const struct aggregate_wire *wire,
                        uint32_t origin)
{
    struct aggregate_node *node;
    struct aggregate_child *child;

    if (wire->place >= AGGREGATE_RADIX_MAX) {
        aggregate->context->counters[COUNTER_FOREIGN]++;
        return 0;
    }
    node = node_joined(aggregate, wire);
    if (node == NULL)
        return -ENOMEM;
    child = child_at(node, wire->place);
    if (child != NULL)
        on_join(node, child, wire, origin);
    else
        turn_away(node, wire, origin);
    return 0;
}

void aggregate_node_up(struct aggregate *aggregate, const struct aggregate_wire *wire,
                       uint32_t origin, const void *data, size_t bytes)
{
    struct aggregate_node *node = aggregate_nodes_find(aggregate, wire);
    struct aggregate_child *child;

    if (node == NULL)
        return;
    child = child_at(node, wire->place);
    if (child != NULL && (child->endpoint != origin || !(child->joined || node->described)))
        child = NULL;
    if (wire->kind == AGGREGATE_FAIL && (child != NULL || origin == aggregate->context->endpoint)) {
        on_failure(node, child, wire);
        return;
    }
    if (child == NULL || (!child->joined && wire->kind != AGGREGATE_LEAVE)) {
        aggregate->context->counters[COUNTER_FOREIGN]++;
        return;
    }
    if (wire->kind == AGGREGATE_DATA)
        on_data(node, child, wire, data, bytes);
    else if (wire->kind == AGGREGATE_WAITING)
        on_waiting(node, child, wire->number);
    else
        on_leave(node, child);
}

void aggregate_node_down(struct aggregate *aggregate, const struct aggregate_wire *wire,
                         uint32_t origin, const void *data, size_t bytes)
{
    struct aggregate_node *node = aggregate_nodes_find(aggregate, wire);
    const struct aggregate_failure failure = failure_of(wire);

    if (node == NULL || !node->described || node->is_root || node->parent.endpoint != origin)
        return;
    if (wire->kind == AGGREGATE_GRANT)
        on_grant(node, wire);
    else if (wire->kind == AGGREGATE_RESULT)
        aggregate_slots_result(node, wire, data, bytes);
    else
        aggregate_node_fail(node, &failure, NULL, false);
}
