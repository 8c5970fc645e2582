/*
 * Collectives in arenas of shared memory: every kind, sizes around the segments, roots, in place,
 * types with gaps, operators that do not commute, several in flight, 1, 2 or 4 slices; members
 * polled in random order by seed, and by threads at full speed. Members that disagree about the
 * size of one of them. How far members get ahead of one that does not look.
 *
 *     coll_shared [--seed N] [--rounds N]
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared_team.h"

enum {
    FLIGHT = 3, /* collectives started before the first one is waited for */
};

/* One collective of one member. */
struct operation {
    struct shared_machine machine;
    unsigned char *send, *recv;
    size_t room; /* bytes of recv that may be written */
    bool complete, may_fail, failed;
};

/* What all members do together. */
struct plan {
    struct shared_call call;
    bool typed, sums;
    uint64_t block_bytes[MEMBERS_MAX];
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

/* The members' memory is one; a copy fails now and then. */
static int copy_between(const struct arena *arena, uint32_t member, bool put, void *near,
                        uint64_t far, size_t bytes)
{
    uint64_t state = far + bytes + arena->reserved * 31 + member;

    if (bytes == 0)
        return seed_now % 8 == 7 && arena->rank == 1 ? -ENOSYS : 0;
    if (copies_fail() && next_random(&state) % 32 == 0)
        return -EFAULT;
    memcpy(put ? (void *)(uintptr_t)far : near, put ? near : (void *)(uintptr_t)far, bytes);
    return 0;
}

/* As the seed says: whether members reach each other's memory. */
static void team_reach(struct team *team)
{
    for (uint32_t i = 0; i < team->size; i++) {
        team->member[i].arena.copy = copy_between;
        team->member[i].arena.direct_bytes = seed_now % 4 == 0 ? 0 : 2048;
    }
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
    return kind == SHARED_SCATTER || kind == SHARED_ALLTOALL || kind == SHARED_REDUCE_SCATTER;
}

static bool takes_blocks(enum shared_kind kind)
{
    return kind == SHARED_GATHER || kind == SHARED_ALLGATHER || kind == SHARED_ALLTOALL;
}

static uint64_t block_bytes(const struct plan *plan, uint32_t block)
{
    return plan->call.block_bytes != NULL ? plan->block_bytes[block] : plan->call.bytes;
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
        uint64_t bytes =
            kind == SHARED_ALLGATHER ? block_bytes(plan, rank) : block_bytes(plan, block);

        for (uint64_t at = 0; at < bytes; at++)
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
        unsigned char byte;
        bool written = !plan->typed || at % 2 == 0;

        at = plan->typed ? at / 2 : at;
        written = written && expected(plan, rank, size, block, at, &byte);
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
    plan->typed = next_random(state) % 3 == 0;
    if (is_reduction(call->kind)) {
        call->op = compose;
        call->unit = 2;
    }
    if (call->kind == SHARED_ALLREDUCE && next_random(state) % 4 != 0) {
        plan->sums = true;
        call->op = PAMI_DATA_SUM;
        call->element = TYPE_KIND_UNSIGNED_CHAR;
        call->in_place = !plan->typed && !copies_fail() && next_random(state) % 2;
    }
    if ((call->kind == SHARED_ALLGATHER || call->kind == SHARED_REDUCE_SCATTER) &&
        next_random(state) % 2 && call->bytes != 0) {
        call->block_bytes = plan->block_bytes;
        for (uint32_t i = 0; i < size; i++)
            plan->block_bytes[i] = next_random(state) % (call->bytes + 1) & ~UINT64_C(1);
        plan->block_bytes[next_random(state) % size] = call->bytes;
    }
}

/* ---- by seed: one member after the other, in any order ---- */

static void play(struct team *team, uint64_t *state)
{
    static struct operation operation[FLIGHT][MEMBERS_MAX];
    struct plan plan[FLIGHT];
    uint32_t started[MEMBERS_MAX] = {0};
    size_t complete = 0, all = (size_t)FLIGHT * team->size;

    for (int i = 0; i < FLIGHT; i++) {
        plan_draw(&plan[i], team->size, state);
        for (uint32_t rank = 0; rank < team->size; rank++)
            operation_fill(&operation[i][rank], &plan[i], rank, team->size);
    }
    for (size_t steps = 0; complete < all; steps++) {
        uint32_t rank = (uint32_t)(next_random(state) % team->size);

        assert_true(steps < 10000000);
        if (started[rank] < FLIGHT && next_random(state) % 4 == 0) {
            operation_start(&operation[started[rank]][rank], &team->member[rank],
                            &plan[started[rank]]);
            started[rank]++;
        } else {
            pass(&team->member[rank]);
        }
        complete = 0;
        for (int i = 0; i < FLIGHT; i++)
            for (uint32_t k = 0; k < team->size; k++)
                complete += operation[i][k].complete;
    }
    for (int i = 0; i < FLIGHT; i++)
        for (uint32_t rank = 0; rank < team->size; rank++)
            operation_check(&operation[i][rank], &plan[i], rank, team->size);
}

static long rounds = 40;
static uint64_t first_seed = 1;

static uint32_t slices_of(uint64_t seed)
{
    return 1u << seed % 3;
}

static void by_seed(void **unused)
{
    (void)unused;
    for (long round = 0; round < rounds; round++) {
        static struct team team;
        uint64_t state = seed_now = first_seed + (uint64_t)round;

        team_open(&team, 1 + (uint32_t)(next_random(&state) % MEMBERS_MAX), slices_of(seed_now),
                  next_random(&state) % 2);
        team_reach(&team);
        for (int i = 0; i < 10; i++)
            play(&team, &state);
        team_close(&team);
    }
}

/* ---- one member does not look ---- */

static void pass_often(struct team *team, uint32_t from, uint32_t to)
{
    for (int i = 0; i < 10; i++)
        for (uint32_t rank = from; rank < to; rank++)
            pass(&team->member[rank]);
}

/* Broadcasts in a row: all but the last member are done with as many as there are slices before
 * that one has begun the first, and with one more for each that it ends. */
static void ahead_of_the_slowest(uint32_t slices, uint64_t bytes)
{
    enum {
        MEMBERS = 3,
        SLOWEST = MEMBERS - 1
    };
    static struct operation operation[2 * ARENA_SLICES][MEMBERS];
    static struct team team;
    struct plan plan = {.call = {.kind = SHARED_BROADCAST, .bytes = bytes, .unit = 1}};
    uint32_t runs = 2 * slices;

    team_open(&team, MEMBERS, slices, false);
    for (uint32_t i = 0; i < runs; i++)
        for (uint32_t rank = 0; rank < MEMBERS; rank++) {
            operation_fill(&operation[i][rank], &plan, rank, MEMBERS);
            if (rank != SLOWEST)
                operation_start_at(&operation[i][rank], &team.member[rank], &plan, i);
        }
    for (uint32_t ended = 0; ended <= runs; ended++) {
        pass_often(&team, 0, SLOWEST);
        for (uint32_t i = 0; i < runs; i++)
            for (uint32_t rank = 0; rank < SLOWEST; rank++)
                assert_int_equal(operation[i][rank].complete, i < ended + slices);
        if (ended == runs)
            break;
        operation_start_at(&operation[ended][SLOWEST], &team.member[SLOWEST], &plan, ended);
        pass_often(&team, SLOWEST, MEMBERS);
        assert_true(operation[ended][SLOWEST].complete);
    }
    for (uint32_t i = 0; i < runs; i++)
        for (uint32_t rank = 0; rank < MEMBERS; rank++)
            operation_check(&operation[i][rank], &plan, rank, MEMBERS);
    team_close(&team);
}

static void ahead(void **unused)
{
    (void)unused;
    for (uint32_t slices = 1; slices <= ARENA_SLICES; slices *= 2) {
        ahead_of_the_slowest(slices, 8);
        ahead_of_the_slowest(slices, BUFFER);
    }
}

/* ---- one member has another size for one collective ---- */

static struct operation doubtful[FLIGHT][MEMBERS_MAX];

static struct plan plan_other(const struct plan *plan, uint64_t *state)
{
    struct plan other = *plan;

    while (other.call.bytes == plan->call.bytes) {
        uint64_t unit = plan->call.unit;

        plan_draw(&other, 1, state);
        other.call.bytes -= other.call.bytes % unit;
    }
    other.typed = plan->typed;
    other.sums = plan->sums;
    other.call.in_place = plan->call.in_place;
    other.call.element = plan->call.element;
    other.call.kind = plan->call.kind;
    other.call.root = plan->call.root;
    other.call.exclusive = plan->call.exclusive;
    other.call.op = plan->call.op;
    other.call.unit = plan->call.unit;
    other.call.block_bytes = NULL;
    return other;
}

/* Plans as each member has them: the odd one differs in the middle. */
static size_t start_doubtful(struct team *team, struct plan plan[FLIGHT], uint32_t odd,
                             uint64_t *state)
{
    struct plan other;

    for (int i = 0; i < FLIGHT; i++)
        do
            plan_draw(&plan[i], team->size, state);
        while (i == FLIGHT / 2 && plan[i].call.kind == SHARED_BARRIER);
    other = plan_other(&plan[FLIGHT / 2], state);
    for (int i = 0; i < FLIGHT; i++)
        for (uint32_t rank = 0; rank < team->size; rank++) {
            const struct plan *own = i == FLIGHT / 2 && rank == odd ? &other : &plan[i];

            operation_fill(&doubtful[i][rank], own, rank, team->size);
            doubtful[i][rank].may_fail = i == FLIGHT / 2;
            operation_start(&doubtful[i][rank], &team->member[rank], own);
        }
    return (size_t)FLIGHT * team->size;
}

static void end_doubtful(const struct team *team, const struct plan plan[FLIGHT])
{
    uint32_t failed = 0;

    for (int i = 0; i < FLIGHT; i++)
        for (uint32_t rank = 0; rank < team->size; rank++) {
            struct operation *operation = &doubtful[i][rank];

            failed += operation->failed;
            if (!operation->may_fail) {
                operation_check(operation, &plan[i], rank, team->size);
                continue;
            }
            assert_int_equal(operation->recv[operation->room], 0xee);
            free(operation->send);
            free(operation->recv);
        }
    assert_true(failed > 0);
}

static void disagreeing(void **unused)
{
    (void)unused;
    for (long round = 0; round < rounds; round++) {
        static struct team team;
        uint64_t state = seed_now = first_seed + 5000 + (uint64_t)round;

        team_open(&team, 2 + (uint32_t)(next_random(&state) % (MEMBERS_MAX - 1)),
                  slices_of(seed_now), next_random(&state) % 2);
        team_reach(&team);
        for (int i = 0; i < 10; i++) {
            struct plan plan[FLIGHT];
            uint32_t odd = (uint32_t)(next_random(&state) % team.size);
            size_t complete = 0, all = start_doubtful(&team, plan, odd, &state);

            for (size_t steps = 0; complete < all; steps++) {
                assert_true(steps < 1000000);
                pass(&team.member[next_random(&state) % team.size]);
                complete = 0;
                for (int k = 0; k < FLIGHT; k++)
                    for (uint32_t rank = 0; rank < team.size; rank++)
                        complete += doubtful[k][rank].complete;
            }
            end_doubtful(&team, plan);
        }
        team_close(&team);
    }
}

/* ---- by threads ---- */

struct thread {
    struct team *team;
    uint32_t rank;
    int count;
    uint64_t state; /* the same for all */
};

static void *member_main(void *argument)
{
    struct thread *thread = argument;
    struct member *member = &thread->team->member[thread->rank];

    for (int i = 0; i < thread->count; i++) {
        struct operation operation;
        struct plan plan;

        plan_draw(&plan, thread->team->size, &thread->state);
        operation_fill(&operation, &plan, thread->rank, thread->team->size);
        operation_start(&operation, member, &plan);
        for (int idle = 0; !operation.complete; idle++) {
            pass(member);
            if (idle > 2)
                sched_yield();
        }
        operation_check(&operation, &plan, thread->rank, thread->team->size);
    }
    return NULL;
}

static void by_threads(void **unused)
{
    (void)unused;
    for (uint32_t size = 2; size <= 5; size++) {
        static struct team team;
        pthread_t id[MEMBERS_MAX];
        struct thread thread[MEMBERS_MAX];

        seed_now = first_seed + size;
        team_open(&team, size, slices_of(seed_now), size % 2);
        team_reach(&team);
        (void)with_gaps();
        for (uint32_t i = 0; i < size; i++) {
            thread[i] = (struct thread){&team, i, (int)rounds * 10, first_seed};
            assert_int_equal(pthread_create(&id[i], NULL, member_main, &thread[i]), 0);
        }
        for (uint32_t i = 0; i < size; i++)
            pthread_join(id[i], NULL);
        team_close(&team);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_seed),
        cmocka_unit_test(ahead),
        cmocka_unit_test(disagreeing),
        cmocka_unit_test(by_threads),
    };

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            first_seed = strtoull(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = strtol(argv[i + 1], NULL, 0);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
