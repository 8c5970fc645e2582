/*
 * Terms of a group at a member: which one a run is in, and how the member joins, leaves, and moves
 * on.
 *
 * The terms of a group that are here are in a list in their order, together with those of other
 * groups of the geometry, however many geometries there are. Of a group only the first one has been
 * joined: others wait until its runs have ended, and it has been left, so that what it has is free
 * for them. A term is freed when nobody is inside: everything that uses terms enters before.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/aggregate/internal.h"
#include "coll/coll.h"
#include "geometry/state.h"
#include "p2p/message.h"
#include "util/option.h"

/* Of a group that is closed: behind all others. */
#define TERM_LAST UINT32_MAX

static struct aggregate *aggregate_of(const struct aggregate_member *member)
{
    return member->group->context->coll->aggregate;
}

/* ---- joining ---- */

static int make_tree(struct aggregate_tree *tree, const struct group *group)
{
    uint32_t *domain = malloc(group->size * sizeof(*domain));
    struct locality locality;
    int error;

    if (domain == NULL)
        return -1;
    locality_read(&locality, group->geometry->client->core);
    for (uint32_t i = 0; i < group->size; i++)
        domain[i] = locality_domain(&locality, LEVEL_NODE,
                                    endpoint_task(topology_endpoint(group->topology, i)));
    error = aggregate_tree_make(tree, domain, group->size,
                                (uint32_t)option_int(OPT_COLL_AGGREGATE_RADIX));
    free(domain);
    return error;
}

/* The nodes for which this member acts, and its own place. */
static int join_tree(struct aggregate_member *member, const struct aggregate_tree *tree)
{
    const struct group *group = member->group;
    const struct aggregate_place at = tree->leaf[group->rank];
    int error = 0;

    member->state = AGGREGATE_JOINING;
    if (at.parent == AGGREGATE_NONE) {
        aggregate_member_decide(member, AGGREGATE_GRANTED);
        return 0;
    }
    member->parent = (struct aggregate_address){
        topology_endpoint(group->topology, tree->vertex[at.parent].host), at.parent, at.place};
    for (uint32_t i = 0; i < tree->vertices && error == 0; i++)
        if (tree->vertex[i].host == group->rank)
            error = aggregate_node_describe(member, tree, i);
    if (error == 0 && member->parent.endpoint != group->context->endpoint)
        error = message_expect(group->context, member->parent.endpoint);
    if (error == -ENOMEM)
        return error;
    if (error != 0)
        aggregate_member_decide(member, AGGREGATE_BROKEN);
    else
        aggregate_member_join(member);
    return 0;
}

static int join(struct aggregate_member *member)
{
    struct aggregate_tree tree;
    int error = make_tree(&tree, member->group);

    if (error == 0) {
        error = join_tree(member, &tree);
        aggregate_tree_free(&tree);
    }
    return error;
}

/* ---- terms ---- */

static struct aggregate_member *member_at(struct list *item)
{
    return list_entry(item, struct aggregate_member, together);
}

struct aggregate_member *aggregate_find_term(const struct group *top, uint32_t channel,
                                             uint32_t term)
{
    const struct group *group = channel == 0 ? top : top->state->subs[channel];
    struct aggregate_member *current;
    struct list *item;

    if (group == NULL)
        return NULL;
    current = group->state->aggregate;
    if (likely(current != NULL && current->term == term))
        return current;
    list_for_each (item, &top->state->terms)
        if (member_at(item)->group == group && member_at(item)->term == term)
            return member_at(item);
    return NULL;
}

/* Sub-groups, made or not, are in the term of the geometry. */
bool aggregate_is_past(const struct group *top, uint32_t channel, uint32_t term)
{
    return term < top->state->term && aggregate_find_term(top, channel, term) == NULL;
}

static struct aggregate_member *first_of(const struct group *group)
{
    struct list *item;

    list_for_each (item, &group->state->top->state->terms)
        if (member_at(item)->group == group)
            return member_at(item);
    return NULL;
}

static void remove_member(struct aggregate_member *member)
{
    struct coll_state *state = member->group->state;

    if (state->aggregate == member)
        state->aggregate = NULL;
    list_remove(&member->link);
    list_remove(&member->together);
    free(member);
}

/* Without runs. */
static void leave(struct aggregate_member *member)
{
    struct aggregate *aggregate = aggregate_of(member);
    struct group *group = member->group;
    const struct aggregate_wire wire = aggregate_wire_of(member, AGGREGATE_LEAVE, 0);

    aggregate_nodes_leave(aggregate, member);
    aggregate_member_up(member, &wire);
    remove_member(member);
    aggregate_nodes_pass(aggregate, group->state->top);
}

/* Without memory it is early still, and what it waits for is a later pass. */
static bool join_late(struct aggregate_member *member)
{
    if (join(member) == 0)
        return true;
    member->state = AGGREGATE_EARLY;
    member->parent.vertex = AGGREGATE_NONE;
    aggregate_retry_later(aggregate_of(member));
    return false;
}

/* True: something has changed, so there may be more. */
static bool settle_one(struct aggregate *aggregate)
{
    struct list *item;

    list_for_each (item, &aggregate->members) {
        struct aggregate_member *member = list_entry(item, struct aggregate_member, link);

        if (member->over && list_empty(&member->runs)) {
            leave(member);
            return true;
        }
        if (member->state == AGGREGATE_EARLY && first_of(member->group) == member &&
            join_late(member))
            return true;
    }
    return false;
}

void aggregate_enter(struct aggregate *aggregate)
{
    aggregate->inside++;
}

void aggregate_exit(struct aggregate *aggregate)
{
    while (unlikely(aggregate->unsettled) && aggregate->inside == 1) {
        aggregate->unsettled = false;
        while (settle_one(aggregate))
            continue;
    }
    aggregate->inside--;
}

/* The latest terms of the geometry's group and its sub-groups are over. */
static void end_terms(struct aggregate *aggregate, const struct group *top)
{
    struct list *item;

    list_for_each (item, &top->state->terms) {
        member_at(item)->over = aggregate->unsettled = true;
        member_at(item)->group->state->aggregate = NULL;
    }
}

/* To the term that the geometry's updates have come to. Returns what they wish. */
static bool move_on(const struct group *top)
{
    struct aggregate *aggregate = top->context->coll->aggregate;
    unsigned word = atomic_load_explicit(&top->optimise, memory_order_relaxed);
    uint32_t term = word >> GROUP_UPDATES_SHIFT;

    if (unlikely(top->state->term != term)) {
        end_terms(aggregate, top);
        top->state->term = term;
        aggregate_nodes_pass(aggregate, top);
    }
    return term == 0 || (word & GROUP_OPTIMISED) != 0;
}

struct aggregate_member *aggregate_member_of(struct group *group)
{
    struct aggregate *aggregate = group->context->coll->aggregate;
    bool wished = move_on(group->state->top);
    struct aggregate_member *member = group->state->aggregate;

    if (likely(member != NULL))
        return member;
    member = aggregate_may_owe(aggregate) == 0 ? calloc(1, sizeof(*member)) : NULL;
    if (member == NULL)
        return NULL;
    member->group = group;
    member->term = group->state->top->state->term;
    member->parent.vertex = AGGREGATE_NONE;
    member->window = wished ? AGGREGATE_WINDOW_MAX : 0;
    member->room = (uint32_t)option_bytes(OPT_COLL_AGGREGATE_SEGMENT);
    list_init(&member->runs);
    if (first_of(group) != NULL)
        member->state = AGGREGATE_EARLY;
    list_push_back(&aggregate->members, &member->link);
    list_push_back(&group->state->top->state->terms, &member->together);
    group->state->aggregate = member;
    if (member->state == AGGREGATE_EARLY || join(member) == 0)
        return member;
    remove_member(member);
    return NULL;
}

void aggregate_group_optimise(struct group *group, bool ahead)
{
    struct aggregate *aggregate = group->context->coll->aggregate;

    aggregate_enter(aggregate);
    move_on(group);
    if (ahead)
        aggregate_member_of(group);
    aggregate_exit(aggregate);
}

int aggregate_prepare(struct group *group)
{
    struct aggregate *aggregate = group->context->coll->aggregate;
    bool ready;

    aggregate_enter(aggregate);
    ready = aggregate_member_of(group) != NULL;
    aggregate_exit(aggregate);
    return ready ? 0 : -ENOMEM;
}

void aggregate_group_closed(struct group *group)
{
    struct list *item;

    group->state->term = TERM_LAST;
    while ((item = list_first(&group->state->terms)) != NULL)
        leave(member_at(item));
    aggregate_nodes_pass(group->context->coll->aggregate, group);
}
