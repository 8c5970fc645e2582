/*
 * Collectives in arenas of shared memory: every kind, sizes around the segments, roots, in place,
 * types with gaps, operators that do not commute, flat, along trees and by relays, several in
 * flight, 1, 2 or 4 slices; members polled in random order by seed, and by threads at full speed.
 * Members that disagree about the size of one of them, or skip one. How far members get ahead of
 * one that does not look.
 *
 *     coll_shared [--seed N] [--rounds N]
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/coll.h"
#include "shared_plan.h"

enum {
    FLIGHT = 3, /* collectives started before the first one is waited for */
};

/* As the seed says: whether members reach each other's memory, unless slots are faster. */
static void team_reach(struct team *team)
{
    for (uint32_t i = 0; i < team->size; i++) {
        team->member[i].arena.copy = copy_between;
        team->member[i].arena.casts = casts_by_seed;
        team->member[i].arena.direct_bytes = seed_now % 4 == 0 ? 0 : 2048;
        team->member[i].shared.races = seed_now % 2 == 1;
    }
}

/* Relays of any length, from little data on. */
static void team_relays(struct team *team)
{
    for (uint32_t i = 0; team->member[0].arena.crowded && i < team->size; i++) {
        team->member[i].arena.relays = (uint16_t)(1 + seed_now / 2 % team->size);
        team->member[i].arena.relay_bytes = seed_now % 4 == 1 ? 0 : seed_now % 4 == 2 ? 2050 : 1;
    }
}

/* Trees are used without being asked for as well. */
static void team_grow_trees(struct team *team)
{
    for (uint32_t i = 0; i < team->size; i++)
        team->member[i].arena.tree.members = 3;
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
    return 1u << seed % 5;
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
        team_relays(&team);
        if (seed_now % 5 < 2)
            team_grow_trees(&team);
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

/* Of the lines, or of the buffers. */
static uint32_t slices_for(uint32_t slices, uint64_t bytes)
{
    return bytes > ARENA_INLINE && slices > ARENA_BUFFERS ? ARENA_BUFFERS : slices;
}

/* Broadcasts in a row: all but the last member are done with as many as there are slices before
 * that one has begun the first, and with one more for each that it ends. */
static void ahead_of_the_slowest(uint32_t slices, uint64_t bytes, bool tree)
{
    enum {
        MEMBERS = 3,
        SLOWEST = MEMBERS - 1
    };
    static struct operation operation[2 * ARENA_SLICES][MEMBERS];
    static struct team team;
    struct plan plan = {
        .call = {.kind = SHARED_BROADCAST, .bytes = bytes, .unit = 1, .tree = tree}};
    uint32_t most = slices_for(slices, bytes), runs = 2 * most;

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
                assert_int_equal(operation[i][rank].complete, i < ended + most);
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

/* In a tree 0 -> 2 -> 3 members look at their neighbours only: each is ahead of the next by as many
 * broadcasts. Member 1 is of no account. */
static void ahead_in_a_tree(uint32_t slices, uint64_t bytes)
{
    enum {
        MEMBERS = 4,
        SLOWEST = MEMBERS - 1
    };
    static struct operation operation[2 * ARENA_SLICES][MEMBERS];
    static struct team team;
    struct plan plan = {
        .call = {.kind = SHARED_BROADCAST, .bytes = bytes, .unit = 1, .tree = true}};
    uint32_t most = slices_for(slices, bytes), runs = 2 * most;

    team_open(&team, MEMBERS, slices, false);
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        team.member[rank].arena.tree.radix = 2;
        arena_make_tree(&team.member[rank].arena);
    }
    for (uint32_t i = 0; i < runs; i++)
        for (uint32_t rank = 0; rank < MEMBERS; rank++) {
            operation_fill(&operation[i][rank], &plan, rank, MEMBERS);
            if (rank != SLOWEST)
                operation_start_at(&operation[i][rank], &team.member[rank], &plan, i);
        }
    pass_often(&team, 0, SLOWEST);
    for (uint32_t i = 0; i < runs; i++) {
        assert_true(operation[i][0].complete && operation[i][1].complete);
        assert_int_equal(operation[i][2].complete, i < most);
        operation_start_at(&operation[i][SLOWEST], &team.member[SLOWEST], &plan, i);
    }
    pass_often(&team, 0, MEMBERS);
    for (uint32_t i = 0; i < runs; i++)
        for (uint32_t rank = 0; rank < MEMBERS; rank++) {
            assert_true(operation[i][rank].complete);
            operation_check(&operation[i][rank], &plan, rank, MEMBERS);
        }
    team_close(&team);
}

static void ahead(void **unused)
{
    (void)unused;
    for (uint32_t slices = 1; slices <= ARENA_SLICES; slices *= 2) {
        for (int tree = 0; tree < 2; tree++) {
            ahead_of_the_slowest(slices, 8, tree);
            ahead_of_the_slowest(slices, BUFFER, tree);
        }
        ahead_in_a_tree(slices, 8);
        ahead_in_a_tree(slices, BUFFER);
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
    other.call.tree = plan->call.tree;
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
        team_relays(&team);
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

/* ---- one member's collective has failed elsewhere ---- */

static bool no_memory;

static bool is_refused(size_t bytes)
{
    (void)bytes;
    return no_memory;
}

#include "refusing.h"

struct barrier {
    struct shared_machine machine;
    size_t ended;
    pami_result_t result;
};

static void on_ended(struct shared_machine *machine, pami_result_t result)
{
    struct barrier *barrier = container_of(machine, struct barrier, machine);

    barrier->ended++;
    barrier->result = result;
}

static void barrier_start(struct barrier *barrier, struct member *member, uint64_t tick)
{
    const struct shared_call call = {.kind = SHARED_BARRIER, .unit = 1};

    *barrier = (struct barrier){.ended = 0};
    shared_reset(&barrier->machine, &member->arena, &call, tick, on_ended);
    shared_start(&barrier->machine);
}

/* Member 0 skips a barrier that the others have begun. It says so, and all meet in the next one.
 * Without memory it has one to spare for that; without that the arena is of no use any more, and
 * the others do not wait for ever. */
static void skip_one(bool memory, bool spare)
{
    enum {
        MEMBERS = 3
    };
    static struct team team;
    static struct coll coll;
    struct barrier barrier[MEMBERS];

    team_open(&team, MEMBERS, 2, false);
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        struct member *member = &team.member[rank];

        member->context->coll = &coll;
        member->arena.identity = 7;
        member->arena.channel = 1;
        list_push_back(&member->shared.arenas, &member->arena.link);
        if (rank != 0)
            barrier_start(&barrier[rank], member, 0);
    }
    pass_often(&team, 0, MEMBERS);
    assert_true(barrier[1].ended == 0 && barrier[2].ended == 0);
    if (spare)
        team.member[0].arena.spare = malloc(sizeof(struct shared_machine));
    no_memory = !memory;
    shared_skip(&team.member[0].shared, 7, 1, PAMI_INVAL, false);
    no_memory = false;
    pass_often(&team, 0, MEMBERS);
    for (uint32_t rank = 1; rank < MEMBERS; rank++) {
        assert_int_equal(barrier[rank].ended, 1);
        assert_int_equal(barrier[rank].result, memory || spare ? PAMI_INVAL : PAMI_ERROR);
    }
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        barrier_start(&barrier[rank], &team.member[rank], 1);
    pass_often(&team, 0, MEMBERS);
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        assert_int_equal(barrier[rank].ended, 1);
        assert_int_equal(barrier[rank].result, memory || spare ? PAMI_SUCCESS : PAMI_ERROR);
    }
    team_close(&team);
}

static void skipping(void **unused)
{
    (void)unused;
    skip_one(true, false);
    if (CAN_REFUSE) {
        skip_one(false, true);
        skip_one(false, false);
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
        team_relays(&team);
        if (size == 4)
            team_grow_trees(&team);
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

/* ---- slots are tried, where all could reach each other ---- */

static unsigned copies;

static int copy_counted(const struct arena *arena, uint32_t member, bool put, void *near,
                        uint64_t far, size_t bytes)
{
    copies += bytes != 0;
    return copy_between(arena, member, put, near, far, bytes);
}

/* `seed`: decides where the members' buffers are. */
static void races_of(enum shared_kind kind, uint32_t size, uint64_t seed)
{
    enum {
        RUNS = 30
    };
    static struct operation operation[MEMBERS_MAX];
    static struct team team;
    struct plan plan = {.call = {.kind = kind, .bytes = 3 * (uint64_t)BUFFER, .unit = 1}};
    unsigned direct = 0;

    plan.sums = kind == SHARED_ALLREDUCE;
    plan.call.op = plan.sums ? PAMI_DATA_SUM : NULL;
    plan.call.element = TYPE_KIND_UNSIGNED_CHAR;
    seed_now = seed;
    team_open(&team, size, 4, false);
    team_reach(&team);
    for (uint32_t rank = 0; rank < size; rank++)
        team.member[rank].arena.copy = copy_counted;
    for (int i = 0; i < RUNS; i++) {
        copies = 0;
        for (uint32_t rank = 0; rank < size; rank++) {
            operation_fill(&operation[rank], &plan, rank, size);
            operation_start_at(&operation[rank], &team.member[rank], &plan, (uint64_t)i);
        }
        pass_often(&team, 0, size);
        for (uint32_t rank = 0; rank < size; rank++) {
            assert_true(operation[rank].complete);
            operation_check(&operation[rank], &plan, rank, size);
        }
        direct += copies != 0;
    }
    if (has_heaps())
        assert_int_equal(direct, RUNS); /* slots are tried later */
    else if (needs_heaps())
        assert_int_equal(direct, 0);
    else
        assert_in_range(direct, 1, RUNS - 1);
    assert_null(team.member[0].arena.race);
    team_close(&team);
}

static void racing(void **unused)
{
    static const uint64_t seeds[] = {1, 7, 31};

    (void)unused;
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        races_of(SHARED_ALLREDUCE, 3, seeds[i]);
        races_of(SHARED_ALLGATHER, 3, seeds[i]);
        races_of(SHARED_ALLTOALL, 3, seeds[i]);
        races_of(SHARED_BROADCAST, 2, seeds[i]);
        races_of(SHARED_GATHER, 2, seeds[i]);
        races_of(SHARED_SCATTER, 2, seeds[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_seed),  cmocka_unit_test(ahead),      cmocka_unit_test(disagreeing),
        cmocka_unit_test(skipping), cmocka_unit_test(by_threads), cmocka_unit_test(racing),
    };

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            first_seed = strtoull(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = strtol(argv[i + 1], NULL, 0);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
