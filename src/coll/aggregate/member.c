/*
 * What a member knows of the aggregation of its group: how it joins, and its runs in their order.
 */
#include <stdlib.h>

#include "coll/aggregate/internal.h"
#include "coll/coll.h"
#include "coll/engine.h"
#include "coll/gone.h"
#include "geometry/state.h"
#include "p2p/message.h"
#include "util/error.h"
#include "util/option.h"

struct aggregate_wire aggregate_wire_of(const struct aggregate_member *member,
                                        enum aggregate_kind kind, uint64_t number)
{
    return (struct aggregate_wire){.identity = member->group->identity,
                                   .number = number,
                                   .vertex = member->parent.vertex,
                                   .place = (uint16_t)member->parent.place,
                                   .from = AGGREGATE_NONE,
                                   .kind = (uint8_t)kind};
}

static struct aggregate *aggregate_of(const struct aggregate_member *member)
{
    return member->group->context->coll->aggregate;
}

static void send_up(const struct aggregate_member *member, const struct aggregate_wire *wire)
{
    if (member->parent.vertex != AGGREGATE_NONE)
        aggregate_send(aggregate_of(member), member->parent.endpoint, wire, NULL, 0);
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

static void decide(struct aggregate_member *member, enum aggregate_state state)
{
    struct list *item, *following;

    member->state = state;
    if (state == AGGREGATE_GRANTED)
        aggregate_of(member)->counts.granted++;
    else if (state == AGGREGATE_REFUSED)
        aggregate_of(member)->counts.refused++;
    list_for_each_safe (item, following, &member->runs)
        aggregate_run_decide(list_entry(item, struct aggregate_run, link), member);
    aggregate_member_pump(member);
}

/* The nodes for which this member acts, and its own place. */
static int join(struct aggregate_member *member, const struct aggregate_tree *tree)
{
    const struct group *group = member->group;
    const struct aggregate_place at = tree->leaf[group->rank];
    struct aggregate_wire wire;
    int error = 0;

    if (at.parent == AGGREGATE_NONE) {
        member->parent.vertex = AGGREGATE_NONE;
        decide(member, AGGREGATE_GRANTED);
        return 0;
    }
    member->parent = (struct aggregate_address){
        topology_endpoint(group->topology, tree->vertex[at.parent].host), at.parent, at.place};
    for (uint32_t i = 0; i < tree->vertices && error == 0; i++)
        if (tree->vertex[i].host == group->rank)
            error = aggregate_node_describe(aggregate_of(member), group, tree, i);
    wire = aggregate_wire_of(member, AGGREGATE_JOIN, AGGREGATE_WINDOW_MAX);
    wire.segment = member->room;
    if (error == 0)
        send_up(member, &wire);
    if (error == 0 && member->parent.endpoint != group->context->endpoint &&
        message_expect(group->context, member->parent.endpoint) != 0)
        decide(member, AGGREGATE_BROKEN);
    return error;
}

struct aggregate_member *aggregate_member_of(struct group *group)
{
    struct aggregate_member *member = group->state->aggregate;
    struct aggregate_tree tree;

    if (member != NULL)
        return member;
    member = calloc(1, sizeof(*member));
    if (member == NULL || make_tree(&tree, group) != 0) {
        free(member);
        return NULL;
    }
    member->group = group;
    member->window = AGGREGATE_WINDOW_MAX;
    member->room = (uint32_t)option_bytes(OPT_COLL_AGGREGATE_SEGMENT);
    list_init(&member->runs);
    list_push_back(&group->context->coll->aggregate->members, &member->link);
    group->state->aggregate = member;
    if (join(member, &tree) != 0) {
        list_remove(&member->link);
        group->state->aggregate = NULL;
        free(member);
        member = NULL;
    }
    aggregate_tree_free(&tree);
    return member;
}

void aggregate_group_form(struct group *group)
{
    aggregate_member_of(group);
}

void aggregate_group_closed(struct group *group)
{
    struct aggregate_member *member = group->state->aggregate;
    struct aggregate_wire wire;

    if (member == NULL)
        return;
    wire = aggregate_wire_of(member, AGGREGATE_LEAVE, 0);
    send_up(member, &wire);
    list_remove(&member->link);
    group->state->aggregate = NULL;
    free(member);
}

/* ---- runs ---- */

void aggregate_member_pump(struct aggregate_member *member)
{
    struct list *item;

    if (member->state != AGGREGATE_GRANTED)
        return;
    list_for_each (item, &member->runs) {
        struct aggregate_run *run = list_entry(item, struct aggregate_run, link);

        while (run->sent < run->segments && member->flying < member->window)
            if (aggregate_run_send(run, member) != 0) {
                aggregate_run_fail(run, error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory"),
                                   true); /* the others go on */
                return;
            }
        if (run->sent < run->segments)
            return;
    }
}

static struct aggregate_run *find(const struct aggregate_member *member, uint64_t number)
{
    struct list *item;

    list_for_each (item, &member->runs) {
        struct aggregate_run *run = list_entry(item, struct aggregate_run, link);

        if (run->number == number)
            return run;
    }
    return NULL;
}

void aggregate_member_gone(struct aggregate_member *member, uint32_t endpoint)
{
    if (member->parent.vertex == AGGREGATE_NONE || member->parent.endpoint != endpoint)
        return;
    if (member->state == AGGREGATE_JOINING)
        decide(member, AGGREGATE_BROKEN);
    while (!list_empty(&member->runs))
        aggregate_run_fail(list_entry(member->runs.next, struct aggregate_run, link),
                           gone_found(member->group->context, endpoint), false);
}

size_t aggregate_ask(struct aggregate *aggregate, bool now)
{
    struct list *item;
    size_t asked = 0;
    list_for_each (item, &aggregate->members) {
        struct aggregate_member *member = list_entry(item, struct aggregate_member, link);
        struct aggregate_run *run = list_entry(member->runs.next, struct aggregate_run, link);
        struct aggregate_wire wire;

        if (list_empty(&member->runs) ||
            !doubt_grows(&run->doubt, (uint64_t)run->sent + run->received + 1, now))
            continue;
        wire = aggregate_wire_of(member, AGGREGATE_WAITING, run->number);
        send_up(member, &wire);
        asked++;
    }
    return asked;
}

/* ---- arriving ---- */

static void answer(struct aggregate *aggregate, const struct aggregate_wire *question,
                   uint32_t origin, bool disagrees)
{
    struct aggregate_wire wire = *question;

    wire.kind = AGGREGATE_FAIL;
    wire.from = AGGREGATE_NONE;
    wire.flags = (uint8_t)(AGGREGATE_UP | (disagrees ? AGGREGATE_DISAGREES : 0));
    wire.check = disagrees ? 0 : aggregate->context->coll->gone;
    aggregate_send(aggregate, origin, &wire, NULL, 0);
}

/* A node waits for this member in a run. Whoever waits there too, or has not begun it, says nothing
 * but that a member has gone; see ask.h. */
static void on_ask(struct aggregate *aggregate, struct group *group,
                   const struct aggregate_wire *wire, uint32_t origin)
{
    struct context *context = aggregate->context;
    uint32_t number = (uint32_t)wire->number;
    const struct aggregate_member *member;
    bool gave_up;

    if (group == NULL) {
        if (gone_any_of(context, wire->identity) || geometry_is_over(context, wire->identity))
            answer(aggregate, wire, origin, false);
        return;
    }
    member = group->state->aggregate;
    if (member != NULL &&
        (member->state == AGGREGATE_REFUSED || find(member, wire->number) != NULL))
        return;
    if (coll_group_at(context, wire->identity, 0, number) == NULL) {
        if (gone_any(group))
            answer(aggregate, wire, origin, false);
        return;
    }
    gave_up = coll_give_up(group, number, PAMI_INVAL);
    answer(aggregate, wire, origin, gave_up || coll_why_over(group, number) != PAMI_ERROR);
}

static void on_grant(struct aggregate_member *member, const struct aggregate_wire *wire)
{
    if (member->state != AGGREGATE_JOINING)
        return;
    if (wire->number == 0 || wire->segment == 0) {
        gone_note(member->group->context, wire->check);
        decide(member, wire->check != 0 ? AGGREGATE_BROKEN : AGGREGATE_REFUSED);
        return;
    }
    member->window = wire->number < member->window ? (uint32_t)wire->number : member->window;
    member->room = wire->segment;
    decide(member, AGGREGATE_GRANTED);
}

static void on_failure(struct aggregate_member *member, struct aggregate_run *run,
                       const struct aggregate_wire *wire)
{
    bool disagrees = (wire->flags & AGGREGATE_DISAGREES) != 0;

    gone_note(member->group->context, wire->check);
    aggregate_run_fail(run, engine_aborted(member->group, disagrees), false);
}

void aggregate_member_down(struct aggregate *aggregate, const struct aggregate_wire *wire,
                           uint32_t origin, const void *data, size_t bytes)
{
    struct group *group = geometry_find(aggregate->context, wire->identity);
    struct aggregate_member *member;
    struct aggregate_run *run;

    if (wire->kind == AGGREGATE_ASK) {
        on_ask(aggregate, group, wire, origin);
        return;
    }
    member = group != NULL ? group->state->aggregate : NULL;
    if (member == NULL || member->parent.vertex == AGGREGATE_NONE ||
        member->parent.endpoint != origin)
        return;
    run = find(member, wire->number);
    if (wire->kind == AGGREGATE_GRANT)
        on_grant(member, wire);
    else if (run != NULL && wire->kind == AGGREGATE_FAIL)
        on_failure(member, run, wire);
    else if (run != NULL)
        aggregate_run_take(run, member, wire, data, bytes);
}
