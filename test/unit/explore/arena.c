/*
 * Scenarios of collectives in an arena of shared memory: what members combine or broadcast is
 * right, although some are a few collectives ahead of others, with two slices that are used again
 * and again; by slots, counters, trees and copies between the members' own memory. Where a member
 * dies the others come to an end all the same.
 */
#include <errno.h>

#include "coll/coll.h"
#include "unit/shared_team.h"

#include "explore.h"

enum {
    CALLS = 4, /* in a row, of each member, at most */
    WORDS = 64,
};

struct task {
    struct shared_machine machine;
    uint64_t from[WORDS], to[WORDS];
    unsigned mark[CALLS]; /* plain, and written before a call: others see it after that */
    bool complete, failed;
};

static struct team *team;
static struct task *tasks;
static enum shared_kind kind;
static uint64_t bytes;
static bool tree;
static unsigned calls;
static atomic_bool *dead; /* the last member is */
static bool mortal;       /* ... or may die */
static bool refuses;      /* a copy of member 1 may fail */

static void make(uint32_t members, bool crowded, enum shared_kind what, uint64_t size, bool by_tree)
{
    team = explore_alloc(sizeof(*team), CACHE_LINE);
    tasks = explore_alloc(members * sizeof(*tasks), CACHE_LINE);
    team_open(team, members, 2, crowded);
    kind = what;
    bytes = size;
    tree = by_tree;
    dead = explore_alloc(sizeof(*dead), 64);
    mortal = refuses = false;
    calls = CALLS;
}

static void make_mortal(void)
{
    for (uint32_t i = 0; i < team->size; i++) {
        struct member *member = &team->member[i];

        member->context->coll = explore_alloc(sizeof(struct coll), 64);
        member->arena.endpoints = explore_alloc(team->size * sizeof(uint32_t), 64);
        member->arena.left = explore_alloc(team->size, 64);
        for (uint32_t k = 0; k < team->size; k++)
            member->arena.endpoints[k] = k;
        list_push_back(&member->shared.arenas, &member->arena.link);
    }
    mortal = true;
    calls = 2;
}

/* The members' own memory: a word at a time, as another member may look. */
static int copy(const struct arena *arena, uint32_t member, bool put, void *near, uint64_t far,
                size_t size)
{
    uint64_t *to = put ? (uint64_t *)(uintptr_t)far : near;
    const uint64_t *from = put ? near : (uint64_t *)(uintptr_t)far;

    (void)arena;
    (void)member;
    if (explore_self() == 1 && refuses && size != 0 && explore_choose(2) == 1) {
        refuses = false;
        return -EFAULT;
    }
    for (size_t i = 0; i < size / 8; i += 8)
        to[i] = from[i];
    return 0;
}

static bool casts(const struct arena *arena, const void *address, uint64_t size)
{
    (void)arena;
    (void)address;
    (void)size;
    return false;
}

/* Whatever takes several segments goes that way. */
static void make_reach(void)
{
    for (uint32_t i = 0; i < team->size; i++) {
        team->member[i].shared.buffer_bytes = team->member[i].shared.wide_most = 192;
        team->member[i].arena.direct_bytes = 64;
        team->member[i].arena.copy = copy;
        team->member[i].arena.casts = casts;
    }
}

static uint64_t word(unsigned call, uint32_t rank, uint64_t at)
{
    return 1000 * (call + 1) + 100 * (rank + 1) + at;
}

static uint64_t expected(unsigned call, uint64_t at)
{
    uint64_t sum = 0;

    if (kind == SHARED_BROADCAST)
        return word(call, call % team->size, at);
    for (uint32_t i = 0; i < team->size; i++)
        sum += word(call, i, at);
    return sum;
}

static void on_done(struct shared_machine *machine, pami_result_t result)
{
    struct task *task = container_of(machine, struct task, machine);

    REQUIRE((result == PAMI_SUCCESS || mortal) && !task->complete);
    REQUIRE(result != PAMI_SUCCESS || !task->failed);
    task->complete = true;
    task->failed = result != PAMI_SUCCESS;
}

static void start(uint32_t rank, unsigned number)
{
    struct task *task = &tasks[rank];
    struct shared_call call = {
        .kind = kind,
        .root = kind == SHARED_BROADCAST ? number % team->size : 0,
        .bytes = bytes,
        .unit = 8,
        .tree = tree,
        .op = kind == SHARED_ALLREDUCE ? PAMI_DATA_SUM : NULL,
        .element = TYPE_KIND_UNSIGNED_LONG,
        .send = {.blocks = BLOCKS_EQUAL, .distance = bytes, .base = (char *)task->from},
        .recv = {.blocks = BLOCKS_EQUAL, .distance = bytes, .base = (char *)task->to},
    };

    for (uint64_t i = 0; i < bytes / 8; i++) {
        task->from[i] = word(number, rank, i);
        task->to[i] = kind == SHARED_BROADCAST && rank == call.root ? task->from[i] : 0;
    }
    task->complete = false;
    REQUIRE(shared_can(&team->member[rank].arena, &call));
    shared_reset(&task->machine, &team->member[rank].arena, &call,
                 team->member[rank].arena.reserved, on_done);
    shared_start(&task->machine);
}

/* As p2p would tell, once. */
static bool hear_of_death(struct member *member)
{
    if (!mortal || member->arena.lost || !atomic_load_explicit(dead, memory_order_acquire))
        return false;
    shared_gone(&member->shared, team->size - 1);
    return true;
}

static void member_dies(void)
{
    atomic_store_explicit(dead, true, memory_order_release);
}

static void take_part(void)
{
    uint32_t rank = (uint32_t)explore_self();
    struct task *task = &tasks[rank];

    for (unsigned i = 0; i < calls; i++) {
        task->mark[i] = i + 1;
        start(rank, i);
        while (!task->complete) {
            pass(&team->member[rank]);
            if (!task->complete && !hear_of_death(&team->member[rank]))
                explore_yield();
        }
        for (uint32_t k = 0; !task->failed && k < team->size && kind == SHARED_BARRIER; k++)
            REQUIRE(tasks[k].mark[i] == i + 1);
        for (uint64_t k = 0; !task->failed && k<bytes / 8; k += bytes> 64 ? 8 : 1)
            REQUIRE(task->to[k] == expected(i, k));
    }
}

static void make_barrier(void)
{
    make(2, false, SHARED_BARRIER, 0, false);
}

static void make_sum(void)
{
    make(2, false, SHARED_ALLREDUCE, 16, false);
}

static void make_long_sum(void)
{
    make(2, false, SHARED_ALLREDUCE, 8 * WORDS, false);
}

static void make_counted(void)
{
    make(3, true, SHARED_ALLREDUCE, 16, false);
}

static void make_broadcast(void)
{
    make(3, false, SHARED_BROADCAST, 16, false);
}

static void make_tree(void)
{
    make(3, false, SHARED_ALLREDUCE, 16, true);
}

static void make_direct(void)
{
    make(2, false, SHARED_ALLREDUCE, 8 * WORDS, false);
    make_reach();
    calls = 3;
}

static void make_refused(void)
{
    make_direct();
    refuses = true;
    calls = 2;
}

static void make_mortal_barrier(void)
{
    make(3, false, SHARED_BARRIER, 0, false);
    make_mortal();
}

static void make_mortal_sum(void)
{
    make(3, false, SHARED_ALLREDUCE, 16, false);
    make_mortal();
}

static void make_mortal_counted(void)
{
    make_counted();
    make_mortal();
}

static void make_mortal_tree(void)
{
    make_tree();
    make_mortal();
}

#define TWO                                                                                        \
    {                                                                                              \
        take_part, take_part                                                                       \
    }
#define THREE                                                                                      \
    {                                                                                              \
        take_part, take_part, take_part                                                            \
    }

const struct explore_scenario explore_arena[] = {
    {.name = "arena: barriers",
     .setup = make_barrier,
     .threads = TWO,
     .bounds = {2, 2, 2},
     .orders = 2},
    {.name = "arena: sums", .setup = make_sum, .threads = TWO, .bounds = {2, 2, 2}},
    {.name = "arena: long sums", .setup = make_long_sum, .threads = TWO, .bounds = {2, 2, 2}},
    {.name = "arena: counted sums", .setup = make_counted, .threads = THREE, .bounds = {1, 1, 1}},
    {.name = "arena: broadcasts", .setup = make_broadcast, .threads = THREE, .bounds = {1, 1, 1}},
    {.name = "arena: sums along a tree", .setup = make_tree, .threads = THREE, .bounds = {1, 1, 1}},
    {.name = "arena: direct sums", .setup = make_direct, .threads = TWO, .bounds = {2, 1, 1}},
    {.name = "arena: copies that fail", .setup = make_refused, .threads = TWO, .bounds = {1, 1, 1}},
    {.name = "arena: death in barriers",
     .setup = make_mortal_barrier,
     .threads = THREE,
     .mortal = 3,
     .died = member_dies,
     .bounds = {1, 1, 1}},
    {.name = "arena: death in sums",
     .setup = make_mortal_sum,
     .threads = THREE,
     .mortal = 3,
     .died = member_dies,
     .bounds = {1, 1, 1}},
    {.name = "arena: death in counted sums",
     .setup = make_mortal_counted,
     .threads = THREE,
     .mortal = 3,
     .died = member_dies,
     .bounds = {1, 1, 1}},
    {.name = "arena: death in sums along a tree",
     .setup = make_mortal_tree,
     .threads = THREE,
     .mortal = 3,
     .died = member_dies,
     .bounds = {1, 1, 1}},
    {.name = NULL},
};
