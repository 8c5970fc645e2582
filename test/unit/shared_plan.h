/*
 * Collectives in arenas of shared memory as coll_shared.c draws them: what each member has and must
 * get, and copies between members that may fail.
 */
#ifndef LIBPAMI_TEST_UNIT_SHARED_PLAN_H
#define LIBPAMI_TEST_UNIT_SHARED_PLAN_H

#include <errno.h>

#include "shared_team.h"

/* One collective of one member. */
struct operation {
    struct shared_machine machine;
    unsigned char *send, *recv;
    size_t room; /* bytes of recv that may be written */
    bool complete, may_fail, failed;
    uint64_t sent[MEMBERS_MAX], received[MEMBERS_MAX]; /* blocks of different sizes */
};

/* What all members do together. */
struct plan {
    struct shared_call call;
    bool typed, sums;
    uint64_t block_bytes[MEMBERS_MAX];
    uint64_t salt; /* of the sizes of blocks between pairs */
};

static uint64_t seed_now;

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* For those in place that is the end. */
static bool copies_fail(void)
{
    return seed_now % 3 == 0;
}

/* Member 1 cannot reach the others', but by what is in heaps: all have their buffers there, or all
 * but member 0. */
static bool needs_heaps(void)
{
    return seed_now % 8 == 7;
}

static bool has_heaps(void)
{
    return seed_now % 16 == 15;
}

static bool casts_by_seed(const struct arena *arena, const void *address, uint64_t bytes)
{
    (void)address;
    return bytes != 0 && (has_heaps() || (needs_heaps() && arena->rank != 0));
}

/* The members' memory is one; a copy fails now and then. */
static int copy_between(const struct arena *arena, uint32_t member, bool put, void *near,
                        uint64_t far, size_t bytes)
{
    uint64_t state = far + bytes + arena->reserved * 31 + member;

    if (bytes == 0)
        return needs_heaps() && arena->rank == 1 ? -ENOSYS : 0;
    assert_true(!needs_heaps() || has_heaps());
    if (copies_fail() && next_random(&state) % 32 == 0)
        return -EFAULT;
    memcpy(put ? (void *)(uintptr_t)far : near, put ? near : (void *)(uintptr_t)far, bytes);
    return 0;
}

/* ---- data: a word of member `from`, for member `to`, at place `at` ---- */

static unsigned char word(uint32_t from, uint32_t to, uint64_t at)
{
    return (unsigned char)(from * 37 + to * 11 + at * 5 + (at >> 8) * 3 + seed_now + 1);
}

/* x -> a x + b modulo 256, in pairs; does not commute. */
static void compose(void *target, void *source, size_t bytes, void *cookie)
{
    unsigned char *t = target;
    const unsigned char *s = source;

    (void)cookie;
    assert_int_equal(bytes % 2, 0);
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        unsigned char a = (unsigned char)(s[i] * t[i]);
        unsigned char b = (unsigned char)(s[i] * t[i + 1] + s[i + 1]);

        t[i] = a;
        t[i + 1] = b;
    }
}

/* Members 0..count-1 combined, of what they have for `to`, bytes at..at+1. */
static void combined(uint32_t count, uint32_t to, uint64_t at, unsigned char pair[2])
{
    pair[0] = word(count - 1, to, at);
    pair[1] = word(count - 1, to, at + 1);
    for (uint32_t i = count - 1; i-- > 0;) {
        unsigned char lower[2] = {word(i, to, at), word(i, to, at + 1)};

        compose(pair, lower, 2, NULL);
    }
}

static bool is_reduction(enum shared_kind kind)
{
    return kind == SHARED_REDUCE || kind == SHARED_ALLREDUCE || kind == SHARED_SCAN ||
           kind == SHARED_REDUCE_SCATTER;
}

static bool sends_blocks(enum shared_kind kind)
{
    return kind == SHARED_SCATTER || kind == SHARED_ALLTOALL || kind == SHARED_REDUCE_SCATTER ||
           kind == SHARED_SCATTERV || kind == SHARED_ALLTOALLV;
}

static bool takes_blocks(enum shared_kind kind)
{
    return kind == SHARED_GATHER || kind == SHARED_ALLGATHER || kind == SHARED_ALLTOALL ||
           kind == SHARED_GATHERV || kind == SHARED_ALLTOALLV;
}

static uint64_t block_bytes(const struct plan *plan, uint32_t block)
{
    return plan->call.block_bytes != NULL ? plan->block_bytes[block] : plan->call.bytes;
}

/* What member `from` has for `to`, where blocks differ. */
static uint64_t pair_bytes(const struct plan *plan, uint32_t from, uint32_t to)
{
    uint64_t state = plan->salt + from * MEMBERS_MAX + to;

    return next_random(&state) % (plan->call.bytes + 1);
}

static uint64_t filled_bytes(const struct plan *plan, uint32_t rank, uint32_t block)
{
    if (plan->call.kind == SHARED_ALLGATHER)
        return block_bytes(plan, rank);
    if (plan->call.kind == SHARED_GATHERV)
        return pair_bytes(plan, rank, plan->call.root);
    if (shared_is_vector(plan->call.kind))
        return pair_bytes(plan, rank, block);
    return block_bytes(plan, block);
}

/* Every second byte of memory is a gap of a typed side. */
static size_t place(const struct plan *plan, uint64_t at)
{
    return plan->typed ? 2 * at : at;
}

static pami_type_t with_gaps(void)
{
    static pami_type_t type;

    if (type == NULL) {
        PAMI_Type_create(&type);
        PAMI_Type_add_simple(type, 1, 0, 1, 2);
        PAMI_Type_complete(type, 1);
    }
    return type;
}

static void operation_fill(struct operation *operation, const struct plan *plan, uint32_t rank,
                           uint32_t size)
{
    enum shared_kind kind = plan->call.kind;
    size_t step = place(plan, plan->call.bytes);

    operation->room = step * (takes_blocks(kind) ? size : 1);
    operation->send = malloc(step * size + 1);
    operation->recv = malloc(operation->room + 1);
    memset(operation->recv, 0xee, operation->room + 1);
    memset(operation->send, 0x77, step * size + 1);
    for (uint32_t block = 0; block < (sends_blocks(kind) ? size : 1); block++) {
        for (uint64_t at = 0; at < filled_bytes(plan, rank, block); at++)
            operation->send[block * step + place(plan, at)] = word(rank, block, at);
    }
    if (plan->call.in_place)
        memcpy(operation->recv, operation->send, operation->room);
    operation->complete = operation->may_fail = operation->failed = false;
}

static void on_done(struct shared_machine *machine, pami_result_t result)
{
    struct operation *operation = container_of(machine, struct operation, machine);

    operation->failed = operation->may_fail && result == PAMI_INVAL;
    assert_int_equal(result, operation->failed ? PAMI_INVAL : PAMI_SUCCESS);
    assert_false(operation->complete);
    operation->complete = true;
}

/* A member knows the sizes of its own blocks, the root of all. */
static void operation_size(struct operation *operation, const struct plan *plan,
                           const struct arena *arena, struct shared_call *call)
{
    uint32_t rank = arena->rank, root = call->root;
    bool exchange = call->kind == SHARED_ALLTOALLV;

    for (uint32_t i = 0; i < arena->size; i++) {
        operation->sent[i] = pair_bytes(plan, rank, i);
        operation->received[i] = pair_bytes(plan, i, rank);
    }
    if (exchange || (call->kind == SHARED_SCATTERV && rank == root))
        call->sent_bytes = operation->sent;
    if (exchange || (call->kind == SHARED_GATHERV && rank == root))
        call->received_bytes = operation->received;
    call->own_bytes = exchange                        ? operation->sent[rank]
                      : call->kind == SHARED_SCATTERV ? operation->received[root]
                                                      : operation->sent[root];
}

static void operation_start_at(struct operation *operation, struct member *member,
                               const struct plan *plan, uint64_t tick)
{
    struct shared_call call = plan->call;
    size_t step = place(plan, call.bytes);
    struct area_map map = {.type = plan->typed ? type_complete_from_handle(with_gaps()) : NULL,
                           .blocks = BLOCKS_EQUAL,
                           .distance = step};

    call.send = call.recv = map;
    call.send.base = (char *)(call.in_place ? operation->recv : operation->send);
    call.recv.base = (char *)operation->recv;
    if (shared_is_vector(call.kind))
        operation_size(operation, plan, &member->arena, &call);
    assert_true(shared_can(&member->arena, &call));
    shared_reset(&operation->machine, &member->arena, &call, tick, on_done);
    shared_start(&operation->machine);
}

/* Some ticks are left out, the same on all members. */
static void operation_start(struct operation *operation, struct member *member,
                            const struct plan *plan)
{
    uint64_t next = member->arena.reserved;

    operation_start_at(operation, member, plan, next + (next % 5 == 3 ? next % 7 : 0));
}

/* The same of a block between two members; a large one goes by a message, which is not here. */
static bool expected_vector(const struct operation *operation, const struct plan *plan,
                            uint32_t rank, uint32_t block, uint64_t at, unsigned char *byte)
{
    const struct shared_call *call = &plan->call;
    uint32_t from = call->kind == SHARED_SCATTERV ? call->root : block;
    uint64_t bytes = pair_bytes(plan, from, rank);

    *byte = word(from, call->kind == SHARED_GATHERV ? 0 : rank, at);
    return at < bytes && (call->kind != SHARED_GATHERV || rank == call->root) &&
           (from == rank || shared_takes_block(&operation->machine, bytes));
}

/* The byte that member `rank` must have at `at` of block `block`; false: untouched. */
static bool expected(const struct plan *plan, uint32_t rank, uint32_t size, uint32_t block,
                     uint64_t at, unsigned char *byte)
{
    const struct shared_call *call = &plan->call;
    unsigned char pair[2];
    uint32_t count = size;

    switch (call->kind) {
    case SHARED_BARRIER:
        return false;
    case SHARED_BROADCAST:
        *byte = word(call->root, 0, at);
        return rank != call->root;
    case SHARED_GATHER:
        *byte = word(block, 0, at);
        return rank == call->root;
    case SHARED_ALLGATHER:
        *byte = word(block, 0, at);
        return at < block_bytes(plan, block);
    case SHARED_SCATTER:
        *byte = word(call->root, rank, at);
        return true;
    case SHARED_ALLTOALL:
        *byte = word(block, rank, at);
        return true;
    case SHARED_SCAN:
        count = rank + !call->exclusive;
        break;
    default:
        break;
    }
    if (count == 0 || (call->kind == SHARED_REDUCE && rank != call->root) ||
        (call->kind == SHARED_REDUCE_SCATTER && at >= block_bytes(plan, rank)))
        return false;
    if (plan->sums) {
        *byte = 0;
        for (uint32_t i = 0; i < count; i++)
            *byte = (unsigned char)(*byte + word(i, 0, at));
        return true;
    }
    combined(count, call->kind == SHARED_REDUCE_SCATTER ? rank : 0, at & ~UINT64_C(1), pair);
    *byte = pair[at & 1];
    return true;
}

static void operation_check(struct operation *operation, const struct plan *plan, uint32_t rank,
                            uint32_t size)
{
    size_t step = place(plan, plan->call.bytes);

    for (size_t i = 0; i < operation->room; i++) {
        uint32_t block = (uint32_t)(i / step);
        uint64_t at = i % step;
        unsigned char byte = 0;
        bool written = !plan->typed || at % 2 == 0;

        at = plan->typed ? at / 2 : at;
        written = written && (shared_is_vector(plan->call.kind)
                                  ? expected_vector(operation, plan, rank, block, at, &byte)
                                  : expected(plan, rank, size, block, at, &byte));
        if (operation->recv[i] != (written ? byte : 0xee))
            fail_msg("%s: member %u of %u, block %u, byte %zu: %u instead of %u",
                     operation->machine.row->name, rank, size, block, (size_t)at,
                     operation->recv[i], written ? byte : 0xee);
    }
    assert_int_equal(operation->recv[operation->room], 0xee);
    free(operation->send);
    free(operation->recv);
}

static void plan_draw(struct plan *plan, uint32_t size, uint64_t *state)
{
    static const uint64_t sizes[] = {0,    2,    8,    56,   58,    512,   2048,
                                     2050, 4096, 4098, 9000, 16384, 20002, 50000};
    struct shared_call *call = &plan->call;

    memset(plan, 0, sizeof(*plan));
    call->kind = (enum shared_kind)(next_random(state) % SHARED_KINDS);
    call->root = (uint32_t)(next_random(state) % size);
    call->bytes = call->kind == SHARED_BARRIER ? 0 : sizes[next_random(state) % 14];
    call->exclusive = next_random(state) % 2;
    call->unit = 1;
    call->tree = next_random(state) % 2;
    plan->typed = next_random(state) % 3 == 0;
    plan->salt = next_random(state);
    if (is_reduction(call->kind)) {
        call->op = compose;
        call->unit = 2;
    }
    if ((call->kind == SHARED_ALLREDUCE || call->kind == SHARED_REDUCE) &&
        next_random(state) % 4 != 0) {
        plan->sums = true;
        call->op = PAMI_DATA_SUM;
        call->element = TYPE_KIND_UNSIGNED_CHAR;
        call->in_place = call->kind == SHARED_ALLREDUCE && !plan->typed && !copies_fail() &&
                         next_random(state) % 2;
    }
    if ((call->kind == SHARED_ALLGATHER || call->kind == SHARED_REDUCE_SCATTER) &&
        next_random(state) % 2 && call->bytes != 0) {
        call->block_bytes = plan->block_bytes;
        for (uint32_t i = 0; i < size; i++)
            plan->block_bytes[i] = next_random(state) % (call->bytes + 1) & ~UINT64_C(1);
        plan->block_bytes[next_random(state) % size] = call->bytes;
    }
}

#endif
