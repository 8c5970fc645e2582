/*
 * Scenarios of collectives in an arena of shared memory: what members combine or broadcast is
 * right, although some are a few collectives ahead of others, with two slices that are used again
 * and again; by slots, counters and trees.
 */
#include "unit/shared_team.h"

#include "explore.h"

enum {
    CALLS = 4, /* in a row, of each member */
    WORDS = 64,
};

struct task {
    struct shared_machine machine;
    uint64_t from[WORDS], to[WORDS];
    unsigned mark[CALLS]; /* plain, and written before a call: others see it after that */
    bool complete;
    unsigned call;
};

static struct team *team;
static struct task *tasks;
static enum shared_kind kind;
static uint64_t bytes;
static bool tree;

static void make(uint32_t members, bool crowded, enum shared_kind what, uint64_t size, bool by_tree)
{
    team = explore_alloc(sizeof(*team), CACHE_LINE);
    tasks = explore_alloc(members * sizeof(*tasks), CACHE_LINE);
    team_open(team, members, 2, crowded);
    kind = what;
    bytes = size;
    tree = by_tree;
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

    REQUIRE(result == PAMI_SUCCESS && !task->complete);
    task->complete = true;
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

static void take_part(void)
{
    uint32_t rank = (uint32_t)explore_self();
    struct task *task = &tasks[rank];

    for (unsigned i = 0; i < CALLS; i++) {
        task->mark[i] = i + 1;
        start(rank, i);
        while (!task->complete) {
            pass(&team->member[rank]);
            if (!task->complete)
                explore_yield();
        }
        for (uint32_t k = 0; k < team->size && kind == SHARED_BARRIER; k++)
            REQUIRE(tasks[k].mark[i] == i + 1);
        for (uint64_t k = 0; k < bytes / 8; k++)
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
    {.name = NULL},
};
