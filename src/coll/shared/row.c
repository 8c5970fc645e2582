/*
 * Rows of the table of algorithms for groups whose members share a node's memory, as machines.
 *
 * Whether there is an arena is known when its leader has made it, and is the same on all members.
 * When there is none, each run falls back to an algorithm over messages, under the number that it
 * took when it started.
 */
#include <errno.h>
#include <stdlib.h>

#include "coll/algorithm.h"
#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/fallback.h"
#include "coll/flight.h"
#include "coll/gone.h"
#include "coll/machine.h"
#include "coll/shared/shared.h"
#include "util/error.h"
#include "util/option.h"

struct shared_run {
    struct machine machine;
    struct shared *owner; /* its geometry may have gone when it is released */
    struct shared_machine shared;
    struct collective collective;
    struct fallback fallback;
    bool running, fell_back, has_ticks;
    bool abandoned; /* given up: ends when its turn comes, also after its release */
    bool released;
    bool again;     /* it has ended well in its arena, with these arguments */
    bool tree;      /* as the row says */
    bool in_rest;   /* its ticks are over, and large blocks still go by messages */
    bool keeps;     /* `kept` has a copy of the source */
    uint64_t *rest; /* sizes of blocks that go by messages, 0 of others: sent, received */
    char kept[SHARED_KEEP_BYTES];
};

static struct shared_run *run_of(struct machine *machine)
{
    return container_of(machine, struct shared_run, machine);
}

static enum shared_kind kind_of(pami_xfer_type_t type)
{
    switch (type) {
    case PAMI_XFER_BROADCAST:
        return SHARED_BROADCAST;
    case PAMI_XFER_REDUCE:
        return SHARED_REDUCE;
    case PAMI_XFER_ALLREDUCE:
        return SHARED_ALLREDUCE;
    case PAMI_XFER_GATHER:
        return SHARED_GATHER;
    case PAMI_XFER_SCATTER:
        return SHARED_SCATTER;
    case PAMI_XFER_ALLGATHER:
    case PAMI_XFER_ALLGATHERV:
        return SHARED_ALLGATHER;
    case PAMI_XFER_ALLTOALL:
        return SHARED_ALLTOALL;
    case PAMI_XFER_SCAN:
        return SHARED_SCAN;
    case PAMI_XFER_REDUCE_SCATTER:
        return SHARED_REDUCE_SCATTER;
    case PAMI_XFER_GATHERV:
        return SHARED_GATHERV;
    case PAMI_XFER_SCATTERV:
        return SHARED_SCATTERV;
    case PAMI_XFER_ALLTOALLV:
        return SHARED_ALLTOALLV;
    default:
        return SHARED_BARRIER;
    }
}

bool shared_runs_in_tree(pami_xfer_type_t type, uint64_t bytes, uint32_t members)
{
    uint32_t from = (uint32_t)option_int(OPT_COLL_SHARED_TREE);

    return from != 0 && members >= from && members > 2 &&
           shared_suits_tree(kind_of(type), bytes, members);
}

static uint64_t largest(const uint64_t *sizes, uint32_t count)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < count; i++)
        most = sizes[i] > most ? sizes[i] : most;
    return most;
}

static void fill_call(struct shared_run *run)
{
    struct shared_call *call = &run->shared.call; /* in place: it is large */
    const struct group *group = run->machine.group;
    const struct collective *from = &run->collective;

    /* One by one: compilers clear a whole structure of this size by a slow instruction. */
    call->kind = kind_of(from->type);
    call->root = from->root;
    call->bytes = from->bytes;
    call->block_bytes = NULL;
    call->sent_bytes = from->send_bytes;
    call->received_bytes = from->recv_bytes;
    call->own_bytes = from->own_bytes;
    call->send = from->send;
    call->recv = from->recv;
    call->in_place = from->in_place;
    call->exclusive = from->exclusive;
    call->tree = run->tree;
    call->agreed = from->agreed;
    call->op = from->op;
    call->op_cookie = from->op_cookie;
    call->element = from->kind;
    call->unit = from->element != 0 ? from->element : 1;
    if (call->kind == SHARED_ALLGATHER || call->kind == SHARED_REDUCE_SCATTER)
        call->block_bytes = from->recv_bytes;
    if (call->block_bytes != NULL)
        call->bytes = largest(call->block_bytes, group->size);
}

/* ---- the end ---- */

static void run_free(struct shared_run *run)
{
    pool_put(&run->owner->runs, run);
}

static void free_rest(struct shared_run *run)
{
    free(run->rest);
    run->rest = NULL;
}

static void finish(struct shared_run *run, pami_result_t result)
{
    struct machine *machine = &run->machine;
    bool tells = run->running;

    run->running = run->has_ticks = run->abandoned = run->in_rest = false;
    if (unlikely(run->rest != NULL))
        free_rest(run);
    if (!run->fell_back)
        machine_number(machine);
    coll_ends(machine->group);
    if (tells)
        machine->done(machine, result);
    else if (run->released)
        run_free(run);
}

static void fallback_done(struct fallback *fallback, pami_result_t result)
{
    finish(container_of(fallback, struct shared_run, fallback), result);
}

static void fall_back(struct shared_run *run)
{
    run->fell_back = true;
    run->again = false;
    fallback_start(&run->fallback, &run->machine, &run->collective,
                   run->keeps && !run->collective.in_place ? &run->shared.call.send : NULL);
}

/* There is no arena to say it in. */
static void abandon_by_messages(struct shared_run *run, pami_result_t result)
{
    coll_failed(run->machine.group, (uint32_t)run->machine.sequence, result);
    flight_abort_all(run->machine.group, (uint32_t)run->machine.sequence, result);
    finish(run, result);
}

/* Another member may have said in the arena who has gone. A run that was given up is over for the
 * program, which has a text already. */
static pami_result_t failed(const struct shared_run *run)
{
    const struct arena *arena = run->shared.arena;

    coll_failed(run->machine.group, (uint32_t)run->machine.sequence, PAMI_ERROR);
    if (arena->state == ARENA_READY)
        gone_note(run->machine.group->context, arena_gone(arena));
    return run->running ? gone_error(run->machine.group, "a member has given it up") : PAMI_ERROR;
}

static pami_result_t differ(const struct shared_run *run)
{
    if (!run->running)
        return PAMI_INVAL;
    return error_set(PAMI_INVAL, "PAMI_Collective: members called it with different arguments or "
                                 "algorithms");
}

/* Sizes of those of `size` blocks that do not go through the arena. Returns how many. */
static uint32_t sizes_of_rest(const struct shared_run *run, const uint64_t *sizes, uint64_t *rest)
{
    uint32_t count = 0;

    for (uint32_t i = 0; sizes != NULL && i < run->machine.group->size; i++) {
        bool goes = i != run->machine.group->rank && !shared_takes_block(&run->shared, sizes[i]);

        if (rest != NULL)
            rest[i] = goes ? sizes[i] : 0;
        count += goes;
    }
    return count;
}

/* Blocks of different sizes: the large ones go by messages now. False: there are none here. */
static bool send_rest(struct shared_run *run)
{
    struct collective *rest = &run->collective;
    uint32_t size = run->machine.group->size;

    if (run->shared.call.kind != SHARED_ALLTOALLV && rest->root != run->machine.group->rank) {
        if (shared_takes_block(&run->shared, rest->own_bytes))
            return false;
    } else {
        if (sizes_of_rest(run, rest->send_bytes, NULL) == 0 &&
            sizes_of_rest(run, rest->recv_bytes, NULL) == 0)
            return false;
        run->rest = calloc(2 * (size_t)size, sizeof(*run->rest));
        if (run->rest == NULL) {
            abandon_by_messages(run, error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory"));
            return true;
        }
        sizes_of_rest(run, rest->send_bytes, run->rest);
        sizes_of_rest(run, rest->recv_bytes, run->rest + size);
        rest->send_bytes = rest->send_bytes != NULL ? run->rest : NULL;
        rest->recv_bytes = rest->recv_bytes != NULL ? run->rest + size : NULL;
        rest->own_bytes = 0;
    }
    run->has_ticks = false;
    run->in_rest = true;
    fall_back(run);
    return true;
}

static void succeed(struct shared_run *run)
{
    if (unlikely(run->collective.first != NULL))
        *run->collective.first = arena_claim(run->shared.arena, run->shared.tick);
    if (shared_is_vector(run->shared.call.kind) && send_rest(run))
        return;
    run->again = true;
    finish(run, PAMI_SUCCESS);
}

HOT static void on_done(struct shared_machine *shared, pami_result_t result)
{
    struct shared_run *run = container_of(shared, struct shared_run, shared);

    if (unlikely(result == PAMI_INVAL) && !run->abandoned)
        coll_tells(run->machine.group, (uint32_t)run->machine.sequence);
    if (result == PAMI_EAGAIN && run->abandoned)
        abandon_by_messages(run, shared->failure);
    else if (result == PAMI_EAGAIN && shared->arena->state == ARENA_LOST)
        abandon_by_messages(run, gone_error(run->machine.group, "a member has gone"));
    else if (result == PAMI_EAGAIN)
        fall_back(run);
    else if (likely(result == PAMI_SUCCESS))
        succeed(run);
    else if (result == PAMI_INVAL)
        finish(run, differ(run));
    else
        finish(run, failed(run));
}

/* ---- the beginning ---- */

static bool is_scatter(enum shared_kind kind)
{
    return kind == SHARED_SCATTER || kind == SHARED_SCATTERV;
}

/* Not known but to the root of a scatter. */
static uint64_t largest_sent(const struct shared_call *call, uint32_t blocks)
{
    return call->sent_bytes != NULL ? largest(call->sent_bytes, blocks) : 0;
}

/* One operand of each member. */
static bool combines_whole(enum shared_kind kind)
{
    return kind == SHARED_REDUCE || kind == SHARED_ALLREDUCE || kind == SHARED_SCAN;
}

/*
 * What is contributed is read at the call. What goes into the own slot there and then is; what is
 * read later, because it is for oneself or the slot is not free, is copied. From the own slot it
 * would come back out of the others' caches: two tasks, 8 bytes, allreduce 0.25 us instead of 0.17.
 */
static void keep_contribution(struct shared_run *run)
{
    struct shared_call *call = &run->shared.call;
    uint32_t rank = run->machine.group->rank;
    uint32_t blocks = shared_sends_blocks(call->kind) ? run->machine.group->size : 1;
    bool packed = blocks != 1 && call->block_bytes != NULL;
    bool vector = shared_is_vector(call->kind);
    uint64_t most = blocks == 1 ? shared_block_bytes(call, rank) : call->bytes;
    uint64_t room = SHARED_KEEP_BYTES / (packed ? 1 : blocks);
    char *at = run->kept;

    if (packed)
        most = run->collective.bytes;
    if (vector)
        most = blocks != 1 ? largest_sent(call, blocks) : call->own_bytes;
    if (call->kind == SHARED_BROADCAST || most == 0 || most > room ||
        (is_scatter(call->kind) && call->root != rank) ||
        (call->in_place && !combines_whole(call->kind)))
        return;
    for (uint32_t i = 0; i < blocks; i++) {
        struct message_place source = area_place(&call->send, i, 0);
        struct message_place target = {.address = at};
        uint64_t bytes = shared_block_bytes(call, blocks == 1 ? rank : i);

        if (vector)
            bytes = blocks != 1 ? call->sent_bytes[i] : call->own_bytes;
        if (bytes != 0)
            place_copy(&target, &source, bytes);
        at += packed ? bytes : most;
    }
    call->send = (struct area_map){.base = run->kept,
                                   .blocks = packed ? BLOCKS_PACKED : BLOCKS_EQUAL,
                                   .distance = most,
                                   .starts = packed ? call->send.starts : NULL};
    call->in_place = false;
    run->keeps = true;
}

/* A member that only sends, and the root of a scatter, read all of it when they post. */
static bool reads_later(const struct shared_run *run)
{
    const struct shared_call *call = &run->shared.call;
    bool sends =
        call->kind == SHARED_REDUCE || call->kind == SHARED_GATHER || call->kind == SHARED_GATHERV;
    bool at_once = sends ? call->root != run->machine.group->rank : call->kind == SHARED_SCATTER;

    return !at_once || !shared_is_next(&run->shared) || run->shared.way == TREE ||
           run->shared.relayed;
}

/* The first run that has the arena may be behind others that have failed for want of it, and that
 * other members have there: they wait for this one in ticks that it has never had. */
static struct arena *make_arena(struct group *group, uint64_t number)
{
    struct coll_state *state = group->state;

    state->arena = arena_get(group);
    if (state->arena != NULL && state->missed_arena)
        shared_skip_missed(state->arena, number);
    state->missed_arena = state->arena == NULL;
    return state->arena;
}

struct arena *shared_arena(struct group *group, uint64_t number)
{
    struct arena *arena = group->state->arena;

    return likely(arena != NULL) ? arena : make_arena(group, number);
}

/* The contribution is where the program has it, again. */
static void give_back(struct shared_run *run)
{
    if (run->keeps) {
        run->shared.call.send = run->collective.send;
        run->shared.call.in_place = run->collective.in_place;
    }
    run->keeps = false;
}

/* Take the tick of the arena, if it can do this at all. */
HOT static void take_ticks(struct shared_run *run)
{
    struct arena *arena = shared_arena(run->machine.group, run->machine.sequence);
    struct shared_call *call = &run->shared.call;

    if (run->again && shared_again(&run->shared, arena_tick(run->machine.sequence))) {
        give_back(run);
        run->has_ticks = true;
        return;
    }
    run->keeps = false;
    fill_call(run);
    run->has_ticks = arena != NULL && shared_can(arena, call);
    if (run->has_ticks)
        shared_reset(&run->shared, arena, call, arena_tick(run->machine.sequence), on_done);
}

/*
 * Collectives of an arena run in the order of their ticks, on all members the same. One that is
 * part of a composition takes its tick when the composition starts, as it takes its number. In one
 * of a program, where it may run several times, it takes them one by one, and the arena is held for
 * the next (ticket.h).
 */
static void reserve(struct machine *machine, uint32_t runs)
{
    machine_reserve(machine, runs);
    if (runs == 1)
        take_ticks(run_of(machine));
}

static int reset(struct machine *machine, struct collective *given)
{
    struct shared_run *run = run_of(machine);

    if (run->running || run->abandoned) {
        collective_release(given);
        return -EBUSY;
    }
    collective_release(&run->collective);
    run->collective = *given;
    run->again = run->keeps = false;
    return 0;
}

/* A run begins: it has its place in the order of the geometry's collectives. */
static void begin(struct machine *machine)
{
    struct shared_run *run = run_of(machine);

    run->fell_back = false;
    coll_runs(machine->group);
    if (machine->numbers == 0)
        machine_reserve(machine, 1);
    if (!run->has_ticks)
        take_ticks(run);
}

HOT static void start(struct machine *machine)
{
    struct shared_run *run = run_of(machine);

    run->running = true;
    begin(machine);
    if (!run->has_ticks && machine->group->state->arena == NULL) {
        coll_failed(machine->group, (uint32_t)machine->sequence, PAMI_ENOMEM);
        finish(run, error_set(PAMI_ENOMEM, "PAMI_Collective: out of memory"));
        return;
    }
    if (!run->has_ticks) {
        fall_back(run);
        return;
    }
    if (run->shared.call.kind != SHARED_BARRIER && reads_later(run))
        keep_contribution(run);
    shared_start(&run->shared);
}

static void release(struct machine *machine)
{
    struct shared_run *run = run_of(machine);

    fallback_release(&run->fallback);
    collective_release(&run->collective);
    free_rest(run);
    run->released = true;
    if (run->abandoned && !run->running)
        return;
    machine_release_numbers(machine);
    if (run->has_ticks)
        shared_give_up(&run->shared);
    run_free(run);
}

/* This run fails in its turn, and only this one. */
static void give_up(struct machine *machine, pami_result_t result)
{
    struct shared_run *run = run_of(machine);

    if (run->running && run->fallback.machine != NULL) {
        fallback_give_up(&run->fallback, result);
        return;
    }
    if (run->abandoned)
        return;
    if (!run->running)
        begin(machine);
    run->abandoned = true;
    if (run->has_ticks)
        shared_abandon(&run->shared, result);
    else
        abandon_by_messages(run, result);
}

void shared_runs_init(struct shared *shared)
{
    pool_init(&shared->runs, sizeof(struct shared_run), CACHE_LINE);
}

static const struct shared_run *run_of_const(const struct machine *machine)
{
    return (const struct shared_run *)((const char *)machine -
                                       offsetof(struct shared_run, machine));
}

HOT static bool repeats(const struct machine *machine)
{
    return run_of_const(machine)->again;
}

/* The start comes next, so the number that it will take is that of the group now. */
HOT static void hurry(struct machine *machine)
{
    struct shared_run *run = run_of(machine);

    give_back(run);
    shared_post_ahead(&run->shared, arena_tick(machine->group->sequence));
}

static const struct machine_ops shared_machine_ops = {
    .reset = reset,
    .reserve = reserve,
    .start = start,
    .release = release,
    .give_up = give_up,
    .repeats = repeats,
    .hurry = hurry,
};

bool shared_run_is(const struct machine *machine)
{
    return machine->ops == &shared_machine_ops;
}

bool shared_run_fell_back(const struct machine *machine)
{
    return shared_run_is(machine) && run_of_const(machine)->fell_back;
}

static bool is_in_arena(const struct shared_run *run)
{
    return run->has_ticks && run->shared.arena->state == ARENA_READY;
}

bool shared_run_is_there(const struct machine *machine)
{
    return shared_run_is(machine) && is_in_arena(run_of_const(machine)) &&
           !shared_is_vector(run_of_const(machine)->shared.call.kind);
}

bool shared_run_misses(const struct machine *machine, uint32_t endpoint)
{
    return shared_run_is(machine) && run_of_const(machine)->has_ticks &&
           shared_misses(&run_of_const(machine)->shared, endpoint);
}

bool shared_run_disagrees(const struct machine *machine, uint32_t word)
{
    const struct shared_machine *shared = &run_of_const(machine)->shared;

    return shared_run_is(machine) && is_in_arena(run_of_const(machine)) && !shared->abandoned &&
           ((shared->stamp ^ word >> SHARED_CHECK_SHIFT) & ARENA_CHECK_MASK) != 0;
}

bool shared_rest_agrees(const struct machine *machine, uint32_t word)
{
    const struct fallback *fallback = fallback_of(machine);
    const struct shared_run *run;

    if (fallback == NULL || fallback->done != fallback_done)
        return false;
    run =
        (const struct shared_run *)((const char *)fallback - offsetof(struct shared_run, fallback));
    return run->in_rest &&
           ((run->shared.stamp ^ word >> SHARED_CHECK_SHIFT) & ARENA_CHECK_MASK) == 0;
}

int shared_make(struct group *group, const struct algorithm *row, struct collective *collective,
                struct machine **machine)
{
    struct shared_run *run = pool_get(&group->context->shared->runs);

    if (run == NULL) {
        collective_release(collective);
        return -ENOMEM;
    }
    machine_init(&run->machine, &shared_machine_ops, group);
    run->owner = group->context->shared;
    run->fallback = (struct fallback){.done = fallback_done};
    run->running = run->has_ticks = run->keeps = run->in_rest = false;
    run->rest = NULL;
    run->abandoned = run->released = run->again = false;
    run->tree = row->tree;
    run->collective = *collective;
    *machine = &run->machine;
    return 0;
}
