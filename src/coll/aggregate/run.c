/*
 * The rows of aggregation as machines: a run sends its segments to the member's node as credits
 * allow, and puts the results where they belong.
 *
 * A run has its place among those of the member from when its number is reserved, which is in the
 * order of calls. As the leaders' part of a hierarchy it starts later, in any order: those behind
 * it wait until it has been started, or given up.
 *
 * A run has its number from then on, but takes it when the window of the group is known. Without a
 * window it falls back to a row over messages, under this number, as all members do.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/aggregate/internal.h"
#include "coll/coll.h"
#include "coll/engine.h"
#include "coll/flight.h"
#include "coll/gone.h"
#include "p2p/message.h"
#include "util/error.h"

static struct aggregate_run *run_of(struct machine *machine)
{
    return container_of(machine, struct aggregate_run, machine);
}

/* What all members must agree on. */
static uint32_t digest(const struct aggregate_run *run)
{
    const struct collective *collective = &run->collective;
    const uint64_t words[] = {(uint64_t)collective->type, collective->bytes, collective->root,
                              collective->agreed, run->piece};
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        sum = (sum ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15) + (sum >> 29);
    return (uint32_t)(sum >> 32);
}

/* ---- the end ---- */

static void displace(struct aggregate_run *run)
{
    list_remove(&run->link);
    if (run->member != NULL && unlikely(run->member->over))
        run->machine.group->context->coll->aggregate->unsettled = true;
    run->member = NULL;
}

static void finish(struct aggregate_run *run, pami_result_t result)
{
    struct machine *machine = &run->machine;
    struct aggregate_member *member = run->member;

    if (member != NULL)
        member->flying -= run->sent - run->received;
    displace(run);
    run->running = false;
    if (machine->numbers != 0)
        machine_number(machine);
    if (result != PAMI_SUCCESS)
        coll_failed(machine->group, (uint32_t)run->number, result);
    coll_ends(machine->group);
    machine->done(machine, result);
    if (member != NULL)
        aggregate_member_pump(member);
}

/* A node must hear of it before it gets anything of later runs. Who has not joined cannot tell it:
 * then nobody is to have slots in this term, and over messages all members can be told. */
static void tell_node(const struct aggregate_run *run, struct aggregate_member *member,
                      pami_result_t result)
{
    struct aggregate_wire wire = aggregate_wire_of(member, AGGREGATE_FAIL, run->number);

    wire.flags = AGGREGATE_UP | (result == PAMI_INVAL ? AGGREGATE_DISAGREES : 0);
    wire.check = result == PAMI_ERROR ? gone_mark(member->group->context, wire.identity) : 0;
    aggregate_member_up(member, &wire);
    if (member->state == AGGREGATE_EARLY)
        member->window = 0;
}

void aggregate_run_fail(struct aggregate_run *run, pami_result_t result, bool tell)
{
    if (tell && run->member != NULL)
        tell_node(run, run->member, result);
    finish(run, result);
}

/* It will not start. */
static void cancel(struct aggregate_run *run, pami_result_t result)
{
    struct machine *machine = &run->machine;
    struct aggregate_member *member = run->member;

    if (machine->numbers == 0)
        return;
    displace(run);
    machine_number(machine);
    coll_failed(machine->group, (uint32_t)run->number, result);
    if (member == NULL)
        return;
    if (member->state == AGGREGATE_REFUSED)
        flight_abort_all(machine->group, (uint32_t)run->number, result);
    else
        tell_node(run, member, result);
    aggregate_member_pump(member);
}

/* ---- without a window ---- */

static void fallback_done(struct fallback *fallback, pami_result_t result)
{
    finish(container_of(fallback, struct aggregate_run, fallback), result);
}

static void fall_back(struct aggregate_run *run)
{
    const struct area_map kept = {.base = run->copy, .extent = 1, .blocks = BLOCKS_ONE};

    displace(run);
    run->fell_back = true;
    fallback_start(&run->fallback, &run->machine, &run->collective, run->kept ? &kept : NULL);
}

/* ---- segments ---- */

static uint32_t piece_of(const struct aggregate_run *run, const struct aggregate_member *member)
{
    uint32_t element = run->collective.element != 0 ? run->collective.element : 1;

    return member->room - member->room % element;
}

static size_t bytes_of(const struct aggregate_run *run, uint32_t segment)
{
    uint64_t left = run->collective.bytes - (uint64_t)segment * run->piece;

    return left < run->piece ? (size_t)left : run->piece;
}

/* One member: there is nobody to ask. */
static void copy_own(const struct aggregate_run *run)
{
    const struct collective *collective = &run->collective;
    struct message_place from = area_place(&collective->send, 0, 0);
    struct message_place to = area_place(&collective->recv, 0, 0);

    if (collective->receives && !collective->in_place && collective->bytes != 0)
        place_copy(&to, &from, (size_t)collective->bytes);
}

void aggregate_run_decide(struct aggregate_run *run, struct aggregate_member *member)
{
    struct context *context = member->group->context;

    run->decided = true;
    if (member->state == AGGREGATE_REFUSED) {
        fall_back(run);
        return;
    }
    if (member->state == AGGREGATE_BROKEN) {
        finish(run, engine_aborted(member->group, false));
        return;
    }
    machine_number(&run->machine);
    run->piece = piece_of(run, member);
    run->segments = run->collective.bytes == 0
                        ? 1
                        : (uint32_t)((run->collective.bytes + run->piece - 1) / run->piece);
    run->check = digest(run);
    if (member->parent.vertex == AGGREGATE_NONE) {
        copy_own(run);
        finish(run, PAMI_SUCCESS);
    } else if (unlikely(context->coll->gone != 0) &&
               message_has_gone(context, member->parent.endpoint)) {
        finish(run, gone_found(context, member->parent.endpoint));
    } else if (unlikely(context->coll->flights.waiting != 0)) {
        flight_look(&context->coll->flights, member->group, (uint32_t)run->number);
    }
}

/* Where the data of a segment lies in one piece; packed into *owned where it does not. NULL: there
 * is none, or no memory for it. */
static const void *source_of(const struct aggregate_run *run, uint32_t segment, size_t bytes,
                             void **owned)
{
    uint64_t offset = (uint64_t)segment * run->piece;
    struct message_place from = area_place(&run->collective.send, 0, offset);
    struct message_place to = {.address = NULL};

    *owned = NULL;
    if (run->kept)
        return run->copy + offset;
    if (from.type == NULL || bytes == 0)
        return from.address;
    to.address = *owned = malloc(bytes);
    if (to.address != NULL)
        place_copy(&to, &from, bytes);
    return to.address;
}

int aggregate_run_send(struct aggregate_run *run, struct aggregate_member *member)
{
    const struct collective *collective = &run->collective;
    size_t bytes = bytes_of(run, run->sent);
    struct aggregate_wire wire = aggregate_wire_of(member, AGGREGATE_DATA, run->number);
    void *owned;
    const void *data = source_of(run, run->sent, bytes, &owned);
    int error = -ENOMEM;

    wire.segment = run->sent++;
    wire.check = run->check;
    wire.flags =
        collective->type != PAMI_XFER_BARRIER && collective->receives ? AGGREGATE_WANTS : 0;
    if (run->sent == run->segments)
        wire.flags |= AGGREGATE_LAST;
    wire.op = (uint8_t)(uintptr_t)collective->op;
    wire.element = (uint8_t)collective->kind;
    member->flying++;
    if (data != NULL || bytes == 0)
        error = aggregate_send(member->group->context->coll->aggregate, member->parent.endpoint,
                               &wire, data, bytes);
    free(owned);
    return error;
}

void aggregate_run_take(struct aggregate_run *run, struct aggregate_member *member,
                        const struct aggregate_wire *wire, const void *data, size_t bytes)
{
    const struct collective *collective = &run->collective;
    bool wants = collective->type != PAMI_XFER_BARRIER && collective->receives;

    if (wire->segment != run->received || run->received >= run->sent ||
        bytes != (wants ? bytes_of(run, run->received) : 0)) {
        member->group->context->counters[COUNTER_FOREIGN]++;
        return;
    }
    if (bytes != 0) {
        struct message_place to =
            area_place(&collective->recv, 0, (uint64_t)run->received * run->piece);
        const struct message_place from = {.address = (void *)data};

        place_copy(&to, &from, bytes);
    }
    run->received++;
    member->flying--;
    if (run->received == run->segments)
        finish(run, PAMI_SUCCESS);
    else
        aggregate_member_pump(member);
}

/* ---- the machine ---- */

/* Programs pass memory that is gone when the call returns. */
static void keep_contribution(struct aggregate_run *run)
{
    const struct collective *collective = &run->collective;
    struct message_place from = area_place(&collective->send, 0, 0);
    const struct message_place to = {.address = run->copy};

    run->kept = collective->type != PAMI_XFER_BARRIER && !collective->in_place &&
                collective->bytes != 0 && collective->bytes <= COLLECTIVE_KEEP_BYTES;
    if (run->kept)
        place_copy(&to, &from, (size_t)collective->bytes);
}

/* Once: the number and its place. */
static void reserve(struct machine *machine, uint32_t runs)
{
    struct aggregate *aggregate = machine->group->context->coll->aggregate;
    struct aggregate_run *run = run_of(machine);

    aggregate_enter(aggregate);
    machine_reserve(machine, runs);
    run->running = run->decided = false;
    run->segments = run->sent = run->received = 0;
    run->doubt = (struct doubt){0, 0};
    run->number = machine->sequence;
    run->member = aggregate_member_of(machine->group);
    if (run->member != NULL)
        list_push_back(&run->member->runs, &run->link);
    aggregate_exit(aggregate);
}

static void begin(struct aggregate_run *run)
{
    struct machine *machine = &run->machine;
    struct aggregate_member *member;

    if (machine->numbers == 0)
        machine->ops->reserve(machine, 1);
    member = run->member;
    run->running = true;
    coll_runs(machine->group);
    if (member == NULL) {
        finish(run, error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory"));
        return;
    }
    keep_contribution(run);
    if (member->state == AGGREGATE_JOINING || member->state == AGGREGATE_EARLY)
        return;
    aggregate_run_decide(run, member);
    aggregate_member_pump(member);
}

static void start(struct machine *machine)
{
    struct aggregate *aggregate = machine->group->context->coll->aggregate;

    aggregate_enter(aggregate);
    begin(run_of(machine));
    aggregate_exit(aggregate);
}

static void release(struct machine *machine)
{
    struct aggregate_run *run = run_of(machine);

    fallback_release(&run->fallback);
    list_remove(&run->link);
    machine_release_numbers(machine);
    collective_release(&run->collective);
    free(run);
}

static void give_up(struct machine *machine, pami_result_t result)
{
    struct aggregate *aggregate = machine->group->context->coll->aggregate;
    struct aggregate_run *run = run_of(machine);

    aggregate_enter(aggregate);
    if (run->fallback.machine != NULL)
        fallback_give_up(&run->fallback, result);
    else if (run->running)
        aggregate_run_fail(run, result, true);
    else
        cancel(run, result);
    aggregate_exit(aggregate);
}

static const struct machine_ops aggregate_ops = {
    .reserve = reserve,
    .start = start,
    .release = release,
    .give_up = give_up,
};

bool aggregate_run_fell_back(const struct machine *machine)
{
    return machine->ops == &aggregate_ops &&
           ((const struct aggregate_run *)((const char *)machine -
                                           offsetof(struct aggregate_run, machine)))
               ->fell_back;
}

/* Joins already: a call that is refused for want of memory has no number, so others do not wait for
 * it. */
int aggregate_make(struct group *group, const struct algorithm *row, struct collective *collective,
                   struct machine **machine)
{
    struct aggregate_run *run = NULL;

    (void)row;
    if (aggregate_prepare(group) == 0)
        run = aligned_alloc(_Alignof(struct aggregate_run), sizeof(*run));
    if (run == NULL) {
        collective_release(collective);
        return -ENOMEM;
    }
    machine_init(&run->machine, &aggregate_ops, group);
    list_init(&run->link);
    run->fallback = (struct fallback){.done = fallback_done};
    run->member = NULL;
    run->running = run->decided = run->kept = run->fell_back = false;
    run->collective = *collective;
    *machine = &run->machine;
    return 0;
}
