/*
 * What a member knows of a term of its group: its runs in their order, and what arrives for them.
 */

#include "coll/aggregate/internal.h"
#include "coll/coll.h"
#include "coll/engine.h"
#include "coll/gone.h"
#include "util/error.h"

struct aggregate_wire aggregate_wire_of(const struct aggregate_member *member,
                                        enum aggregate_kind kind, uint64_t number)
{
    return (struct aggregate_wire){.identity = member->group->identity,
                                   .number = number,
                                   .channel = member->group->channel,
                                   .term = member->term,
                                   .vertex = member->parent.vertex,
                                   .place = (uint8_t)member->parent.place,
                                   .from = AGGREGATE_NONE,
                                   .kind = (uint8_t)kind};
}

void aggregate_member_up(const struct aggregate_member *member, const struct aggregate_wire *wire)
{
    if (member->parent.vertex != AGGREGATE_NONE)
        aggregate_send(member->group->context->coll->aggregate, member->parent.endpoint, wire, NULL,
                       0);
}

void aggregate_member_join(const struct aggregate_member *member)
{
    struct aggregate_wire wire = aggregate_wire_of(member, AGGREGATE_JOIN, member->window);

    wire.segment = member->room;
    aggregate_member_up(member, &wire);
}

/* ---- runs ---- */

/* The first that runs, and of which it has not been decided if `undecided`; NULL: none. What ends
 * one may start others, which stay in their places. */
static struct aggregate_run *first_running(const struct aggregate_member *member, bool undecided)
{
    struct list *item;

    list_for_each (item, &member->runs) {
        struct aggregate_run *run = list_entry(item, struct aggregate_run, link);

        if (run->running && !(undecided && run->decided))
            return run;
    }
    return NULL;
}

void aggregate_member_decide(struct aggregate_member *member, enum aggregate_state state)
{
    struct aggregate_counts *counts = &member->group->context->coll->aggregate->counts;
    struct aggregate_run *run;

    member->state = state;
    if (state == AGGREGATE_GRANTED)
        counts->granted++;
    else if (state == AGGREGATE_REFUSED)
        counts->refused++;
    while ((run = first_running(member, true)) != NULL)
        aggregate_run_decide(run, member);
    aggregate_member_pump(member);
}

void aggregate_member_pump(struct aggregate_member *member)
{
    struct list *item;

    if (member->state != AGGREGATE_GRANTED)
        return;
    list_for_each (item, &member->runs) {
        struct aggregate_run *run = list_entry(item, struct aggregate_run, link);

        if (!run->decided)
            return; /* nothing overtakes it */
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

/* Runs that are still to start find it out then. */
void aggregate_member_gone(struct aggregate_member *member, uint32_t endpoint)
{
    struct aggregate_run *run;

    if (member->parent.vertex == AGGREGATE_NONE || member->parent.endpoint != endpoint)
        return;
    if (member->state == AGGREGATE_JOINING)
        aggregate_member_decide(member, AGGREGATE_BROKEN);
    while ((run = first_running(member, false)) != NULL)
        aggregate_run_fail(run, gone_found(member->group->context, endpoint), false);
}

size_t aggregate_ask(struct aggregate *aggregate, bool now)
{
    struct list *item;
    size_t asked = 0;

    list_for_each (item, &aggregate->members) {
        struct aggregate_member *member = list_entry(item, struct aggregate_member, link);
        struct aggregate_run *run = list_entry(member->runs.next, struct aggregate_run, link);
        struct aggregate_wire wire;

        if (list_empty(&member->runs) || !run->running || member->state == AGGREGATE_EARLY ||
            !doubt_grows(&run->doubt, (uint64_t)run->sent + run->received + 1, now))
            continue;
        if (member->state == AGGREGATE_JOINING)
            aggregate_member_join(member);
        wire = aggregate_wire_of(member, AGGREGATE_WAITING, run->number);
        aggregate_member_up(member, &wire);
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
    wire.check = disagrees ? 0 : gone_mark(aggregate->context, wire.identity);
    aggregate_send(aggregate, origin, &wire, NULL, 0);
}

/* Whoever has left the term has said so already; who never came to it does now. */
static void answer_past(struct aggregate *aggregate, const struct aggregate_wire *question,
                        uint32_t origin)
{
    struct aggregate_wire wire = *question;

    wire.kind = AGGREGATE_LEAVE;
    wire.from = AGGREGATE_NONE;
    aggregate_send(aggregate, origin, &wire, NULL, 0);
}

/* Is a node that asks no part of this member's tree, in which it has described all of its own? */
static bool is_stranger(const struct aggregate *aggregate, const struct aggregate_member *member,
                        const struct aggregate_wire *wire, uint32_t origin)
{
    const struct aggregate_address *parent = &member->parent;
    const struct aggregate_node *node;

    if (wire->place == AGGREGATE_RADIX_MAX) {
        node = aggregate_nodes_find(aggregate, wire);
        return node != NULL && !node->described;
    }
    return (parent->endpoint != origin || parent->vertex != wire->vertex ||
            parent->place != wire->place) &&
           !aggregate_nodes_know(aggregate, wire, origin);
}

/* Then options differ between tasks: that node hears that nobody comes, and nobody gets slots. */
static bool is_elsewhere(struct aggregate *aggregate, struct aggregate_member *member,
                         const struct aggregate_wire *wire, uint32_t origin)
{
    if ((member->state != AGGREGATE_JOINING && member->state != AGGREGATE_REFUSED) ||
        !is_stranger(aggregate, member, wire, origin))
        return false;
    aggregate_nodes_refuse(aggregate, wire);
    if (wire->place != AGGREGATE_RADIX_MAX)
        answer_past(aggregate, wire, origin);
    if (member->state == AGGREGATE_JOINING)
        aggregate_member_decide(member, AGGREGATE_REFUSED);
    return true;
}

/* A node waits for this member in a run. Whoever waits there too, or has not begun it, says nothing
 * but that a member has gone; see ask.h. */
static void on_ask(struct aggregate *aggregate, struct group *top,
                   const struct aggregate_wire *wire, uint32_t origin)
{
    struct context *context = aggregate->context;
    uint32_t number = (uint32_t)wire->number;
    struct aggregate_member *member;
    const struct group *group;
    bool failed, gave_up;

    if (top == NULL) {
        if (gone_any_of(context, wire->identity) || geometry_is_over(context, wire->identity))
            answer(aggregate, wire, origin, false);
        return;
    }
    if (aggregate_is_past(top, wire->channel, wire->term)) {
        answer_past(aggregate, wire, origin);
        return;
    }
    member = aggregate_find_term(top, wire->channel, wire->term);
    if (member != NULL && is_elsewhere(aggregate, member, wire, origin))
        return;
    aggregate_nodes_repeat(aggregate, wire);
    if (member != NULL && member->state == AGGREGATE_JOINING)
        aggregate_member_join(member);
    if (member != NULL &&
        (member->state == AGGREGATE_REFUSED || find(member, wire->number) != NULL))
        return;
    group = coll_group_at(context, wire->identity, wire->channel, number);
    if (group == NULL) {
        if (gone_any(top))
            answer(aggregate, wire, origin, false);
        return;
    }
    failed = coll_why_over(group, number) == PAMI_ERROR;
    /* What a leader's run was a part of may go on when that has failed. */
    gave_up = !(failed && wire->channel != 0) && coll_give_up(top, number, PAMI_INVAL);
    answer(aggregate, wire, origin, gave_up || !failed);
}

static void on_grant(struct aggregate_member *member, const struct aggregate_wire *wire)
{
    if (member->state != AGGREGATE_JOINING)
        return;
    if (wire->number == 0 || wire->segment == 0) {
        gone_note(member->group->context, wire->check != AGGREGATE_LEFT ? wire->check : 0);
        aggregate_member_decide(member, wire->check != 0 ? AGGREGATE_BROKEN : AGGREGATE_REFUSED);
        return;
    }
    member->window = wire->number < member->window ? (uint32_t)wire->number : member->window;
    member->room = wire->segment;
    aggregate_member_decide(member, AGGREGATE_GRANTED);
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
    struct group *top = geometry_find(aggregate->context, wire->identity);
    struct aggregate_member *member = NULL;
    struct aggregate_run *run;

    if (wire->kind == AGGREGATE_ASK) {
        on_ask(aggregate, top, wire, origin);
        return;
    }
    if (top != NULL)
        member = aggregate_find_term(top, wire->channel, wire->term);
    if (member == NULL || member->parent.vertex == AGGREGATE_NONE ||
        member->parent.endpoint != origin)
        return;
    run = find(member, wire->number);
    if (wire->kind == AGGREGATE_GRANT)
        on_grant(member, wire);
    else if (run == NULL || !run->running)
        return; /* the node keeps the failure of what is still to start */
    else if (wire->kind == AGGREGATE_FAIL)
        on_failure(member, run, wire);
    else
        aggregate_run_take(run, member, wire, data, bytes);
}
