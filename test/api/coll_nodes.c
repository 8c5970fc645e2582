/*
 * Collectives of members on several nodes: the world, and geometries whose ranks go backwards,
 * interleave the nodes, or leave tasks out. Random collectives of all types, several in flight on
 * all of these geometries at once, each by an algorithm drawn from those over levels, those in
 * shared memory, those over messages and Auto; roots everywhere, users' operators, in place or not.
 * Then the same when there is no shared memory to be had, and geometries that come and go.
 *
 *     coll_nodes [--rounds N] [--geometries N]
 *
 * Run: tasks=2,3,4,5,8 nodes=1,2,3,4 timeout=120
 * Run: tasks=4,5 nodes=1,2 env="PAMI_COLL_SHARED_BYTES=0" timeout=120
 * Run: tasks=5 nodes=2 env="PAMI_HEAP_BYTES=256K" timeout=120
 * Run: tasks=5 nodes=2 env="PAMI_COLL_SHARED_BUFFER=4096" timeout=120
 * Run: tasks=4,5,8 nodes=2,3 env="PAMI_COLL_SEGMENT=256" timeout=120
 * Run: tasks=5,8 nodes=1,2 env="PAMI_COLL_LEVELS=node:2,package:2,core:2" timeout=120
 * Run: tasks=7 nodes=1,2 env="PAMI_COLL_LEVELS=package:2,cache:2" timeout=120
 * Run: tasks=4 nodes=1,2 env="PAMI_COLL_LEVELS=node,package,numa,cache,core" timeout=120
 * Run: tasks=5,8 nodes=3 env="PAMI_COLL_LEADERS=first" timeout=120
 * Run: tasks=5,8 nodes=1,2 env="PAMI_COLL_LEVELS=package:2,core:2 PAMI_COLL_GATHERV=Direct"
 * Run: tasks=5,8 nodes=1,2 env="PAMI_COLL_LEVELS=package:2,core:2 PAMI_COLL_SCATTERV=Direct"
 * Run: tasks=3,4 nodes=1,2 args="--rounds 2 --geometries 1000" timeout=120
 */
#include "coll.h"

enum {
    GEOMETRIES = 4,
    FLIGHTS = 6,
    MEMBERS_MAX = 16,
    NAMES = 10
};

#define WORDS_MAX ((size_t)1 << 18) /* of 4 bytes, in a message or in all blocks */

struct team {
    pami_geometry_t geometry;
    pami_task_t tasks[MEMBERS_MAX];
    size_t size, rank; /* rank: of this task */
    bool member;
};

struct op {
    const struct team *team;
    pami_xfer_type_t type;
    const char *name;
    size_t root, count;         /* words of the message, or of a block */
    size_t counts[MEMBERS_MAX]; /* of a reduce_scatter: elements of each block */
    bool in_place, user, twisted, exclusive;
    uint32_t key;
    uint32_t *send, *recv;
    struct told told;
};

static const pami_xfer_type_t types[] = {
    PAMI_XFER_BARRIER, PAMI_XFER_BROADCAST,      PAMI_XFER_REDUCE,    PAMI_XFER_ALLREDUCE,
    PAMI_XFER_GATHER,  PAMI_XFER_SCATTER,        PAMI_XFER_ALLGATHER, PAMI_XFER_ALLTOALL,
    PAMI_XFER_SCAN,    PAMI_XFER_REDUCE_SCATTER,
};

static const char *const names[NAMES] = {"Hierarchical",
                                         "PipelinedHierarchical",
                                         "HierarchicalAggregated",
                                         "Aggregated",
                                         "MultiLeader",
                                         "Direct",
                                         "LastSpeaks",
                                         "Shared",
                                         "SharedTree",
                                         "Auto"};

static struct job job;
static struct team teams[GEOMETRIES];
static uint64_t dice = 88172645463325252u; /* the same on all tasks */

static size_t below(size_t limit)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (size_t)(dice >> 11) % limit;
}

/* Word x of what member `from` has for member `to`. */
static uint32_t word(const struct op *o, size_t from, size_t to, size_t x)
{
    return (uint32_t)((o->key + from * 40503u + to * 9176u + x) * 2654435761u);
}

/* ---- operators ---- */

static void user_sum(void *target, void *source, size_t bytes, void *cookie)
{
    uint64_t *to = target, *from = source;

    CHECK(cookie == &dice && bytes % sizeof(*to) == 0);
    for (size_t i = 0; i < bytes / sizeof(*to); i++)
        to[i] += from[i];
}

/* x -> a x + b one after the other: does not commute. */
static uint64_t twist(uint64_t first, uint64_t second)
{
    uint32_t a = (uint32_t)first, b = (uint32_t)(first >> 32);
    uint32_t c = (uint32_t)second, d = (uint32_t)(second >> 32);

    return (uint64_t)(a * c) | (uint64_t)(c * b + d) << 32;
}

static void user_twist(void *target, void *source, size_t bytes, void *cookie)
{
    uint64_t *to = target, *from = source;

    CHECK(cookie == &dice && bytes % sizeof(*to) == 0);
    for (size_t i = 0; i < bytes / sizeof(*to); i++)
        to[i] = twist(from[i], to[i]);
}

static uint64_t pair(const struct op *o, size_t from, size_t x)
{
    return (uint64_t)word(o, from, 0, 2 * x) | (uint64_t)word(o, from, 0, 2 * x + 1) << 32;
}

/* ---- what must be there ---- */

/* Words of an element. */
static size_t unit_of(const struct op *o)
{
    return o->user ? 2 : 1;
}

/* The first element of the result. */
static size_t first_of(const struct op *o)
{
    size_t first = 0;

    for (size_t i = 0; o->type == PAMI_XFER_REDUCE_SCATTER && i < o->team->rank; i++)
        first += o->counts[i];
    return first;
}

/* Whose operands: those of so many members. */
static size_t operands(const struct op *o)
{
    return o->type == PAMI_XFER_SCAN ? o->team->rank + !o->exclusive : o->team->size;
}

static void expect_reduction(const struct op *o, uint32_t *into, size_t words)
{
    size_t first = first_of(o), members = operands(o);

    for (size_t x = 0; x < words && !o->user; x++) {
        into[x] = 0;
        for (size_t i = 0; i < members; i++)
            into[x] += word(o, i, 0, first + x);
    }
    for (size_t x = 0; x < words / 2 && o->user; x++) {
        uint64_t value = pair(o, 0, first + x);

        for (size_t i = 1; i < members; i++)
            value =
                o->twisted ? twist(value, pair(o, i, first + x)) : value + pair(o, i, first + x);
        memcpy(into + 2 * x, &value, sizeof value);
    }
}

static bool reduces(const struct op *o)
{
    return o->type == PAMI_XFER_REDUCE || o->type == PAMI_XFER_ALLREDUCE ||
           o->type == PAMI_XFER_SCAN || o->type == PAMI_XFER_REDUCE_SCATTER;
}

static bool receives(const struct op *o)
{
    return o->type != PAMI_XFER_BARRIER &&
           (o->team->rank == o->root ||
            (o->type != PAMI_XFER_REDUCE && o->type != PAMI_XFER_GATHER));
}

static size_t words_received(const struct op *o)
{
    bool many = o->type == PAMI_XFER_GATHER || o->type == PAMI_XFER_ALLGATHER ||
                o->type == PAMI_XFER_ALLTOALL;

    if (o->type == PAMI_XFER_REDUCE_SCATTER)
        return o->counts[o->team->rank] * unit_of(o);
    if (o->type == PAMI_XFER_SCAN && operands(o) == 0)
        return 0;
    return !receives(o) ? 0 : many ? o->count * o->team->size : o->count;
}

static uint32_t expected_word(const struct op *o, size_t i)
{
    size_t block = o->count == 0 ? 0 : i / o->count, x = o->count == 0 ? 0 : i % o->count;

    switch (o->type) {
    case PAMI_XFER_BROADCAST:
        return word(o, o->root, 0, i);
    case PAMI_XFER_SCATTER:
        return word(o, o->root, o->team->rank, i);
    case PAMI_XFER_ALLTOALL:
        return word(o, block, o->team->rank, x);
    default:
        return word(o, block, 0, x);
    }
}

static void check(const struct op *o)
{
    static uint32_t reduction[WORDS_MAX];
    size_t words = words_received(o);

    if (o->told.result != PAMI_SUCCESS)
        FAIL("%s of type %d ended with %d", o->name, (int)o->type, (int)o->told.result);
    if (reduces(o) && words != 0)
        expect_reduction(o, reduction, words);
    for (size_t i = 0; i < words; i++) {
        uint32_t expected = reduces(o) ? reduction[i] : expected_word(o, i);

        if (o->recv[i] != expected)
            FAIL("%s of type %d, team %d, root %zu, count %zu%s: word %zu is %#x, expected %#x",
                 o->name, (int)o->type, (int)(o->team - teams), o->root, o->count,
                 o->in_place ? " in place" : "", i, o->recv[i], expected);
    }
    if (!o->in_place || !reduces(o) || o->count == words)
        CHECK(o->recv[words] == 0xabababab);
}

/* ---- starting ---- */

/* The algorithm of this name, or the first one. */
static pami_algorithm_t handle_of(struct op *o, const char *name)
{
    pami_algorithm_t handle = algorithm_named(o->team->geometry, o->type, name);

    o->name = handle != PAMI_ALGORITHM_NULL ? name : "Auto";
    return handle != PAMI_ALGORITHM_NULL ? handle : algorithm_of(o->team->geometry, o->type);
}

/* Own data into the buffer that is read. */
static void fill(struct op *o)
{
    size_t size = o->team->size, rank = o->team->rank;
    bool many = o->type == PAMI_XFER_SCATTER || o->type == PAMI_XFER_ALLTOALL;
    bool gathers = o->type == PAMI_XFER_GATHER || o->type == PAMI_XFER_ALLGATHER;
    size_t words = o->count * (many || gathers ? size : 1) + 1;
    uint32_t *to;

    o->send = test_alloc(words * sizeof(uint32_t));
    o->recv = test_alloc(words * sizeof(uint32_t));
    memset(o->recv, 0xab, words * sizeof(uint32_t));
    to = o->type == PAMI_XFER_BROADCAST || o->in_place ? o->recv : o->send;
    if (o->type == PAMI_XFER_BROADCAST && rank != o->root)
        return;
    if (o->in_place && gathers)
        to += rank * o->count;
    for (size_t block = 0; block < (many ? size : 1); block++)
        for (size_t x = 0; x < o->count; x++)
            to[block * o->count + x] = word(o, rank, block, x);
}

static void set_arguments(struct op *o, pami_xfer_t *xfer)
{
    pami_endpoint_t root = job_endpoint(&job, o->team->tasks[o->root], 0);
    char *send = o->in_place ? PAMI_IN_PLACE : (char *)o->send, *recv = (char *)o->recv;
    pami_type_t type = o->user ? PAMI_TYPE_UNSIGNED_LONG : PAMI_TYPE_UNSIGNED_INT;
    size_t count = o->count / unit_of(o);
    pami_data_function op = !o->user ? PAMI_DATA_SUM : o->twisted ? user_twist : user_sum;
    int commutes = !o->twisted;

    switch (o->type) {
    case PAMI_XFER_BROADCAST:
        xfer->cmd.xfer_broadcast = (pami_broadcast_t){root, recv, type, count};
        break;
    case PAMI_XFER_REDUCE:
        xfer->cmd.xfer_reduce = (pami_reduce_t){root, send,  type, count, receives(o) ? recv : NULL,
                                                type, count, op,   &dice, commutes};
        break;
    case PAMI_XFER_ALLREDUCE:
        xfer->cmd.xfer_allreduce =
            (pami_allreduce_t){send, type, count, recv, type, count, op, &dice, commutes};
        break;
    case PAMI_XFER_SCAN:
        xfer->cmd.xfer_scan =
            (pami_scan_t){send, type, count, recv, type, count, op, &dice, o->exclusive};
        break;
    case PAMI_XFER_REDUCE_SCATTER:
        xfer->cmd.xfer_reduce_scatter =
            (pami_reduce_scatter_t){send, type, count, recv, type, o->counts, op, &dice, commutes};
        break;
    case PAMI_XFER_GATHER:
        xfer->cmd.xfer_gather =
            (pami_gather_t){root, send, type, count, receives(o) ? recv : NULL, type, count};
        break;
    case PAMI_XFER_SCATTER:
        xfer->cmd.xfer_scatter = (pami_scatter_t){
            root, o->team->rank == o->root ? (char *)o->send : NULL, type, count, recv, type,
            count};
        break;
    case PAMI_XFER_ALLGATHER:
    case PAMI_XFER_ALLTOALL:
        xfer->cmd.xfer_allgather = (pami_allgather_t){send, type, count, recv, type, count};
        break;
    default:
        break;
    }
}

/* Blocks of a reduce_scatter: equal ones, or some shorter and some longer. */
static void divide(struct op *o)
{
    size_t share = o->count / unit_of(o) / o->team->size, size = o->team->size;
    bool equal = below(2) == 0;

    o->count = 0;
    for (size_t i = 0; i < size; i++) {
        bool paired = !equal && (i ^ 1) < size;

        o->counts[i] = !paired ? share : i % 2 == 0 ? share / 3 : 2 * share - share / 3;
        o->count += o->counts[i] * unit_of(o);
    }
}

/* Every task draws the same; members start it. */
static void start(struct op *o, const struct team *team)
{
    static const size_t most[] = {3, 14, 200, 3000, WORDS_MAX};
    size_t draw = below(14);
    const char *name = names[below(NAMES)];
    pami_algorithm_t handle;
    pami_xfer_t xfer;

    *o = (struct op){.team = team, .type = types[below(sizeof types / sizeof types[0])]};
    o->key = (uint32_t)below(1u << 30);
    o->root = below(team->size);
    o->count = below(most[draw < 12 ? draw / 3 : 4]);
    o->user = below(3) == 0 && reduces(o);
    o->twisted = o->user && below(2) == 0;
    if (!reduces(o))
        o->count /= team->size;
    if (o->user)
        o->count &= ~(size_t)1;
    o->in_place = below(3) == 0 && o->type != PAMI_XFER_BROADCAST && o->type != PAMI_XFER_SCATTER &&
                  o->type != PAMI_XFER_ALLTOALL;
    o->exclusive = below(2) == 0 && o->type == PAMI_XFER_SCAN;
    if (o->type == PAMI_XFER_REDUCE_SCATTER)
        divide(o);
    if (!team->member)
        return;
    o->in_place = o->in_place && receives(o);
    fill(o);
    if (o->twisted && o->type != PAMI_XFER_SCAN &&
        (strstr(name, "Hierarchical") != NULL || strcmp(name, "MultiLeader") == 0 ||
         strcmp(name, "LastSpeaks") == 0))
        name = "Auto";
    if ((o->user || o->twisted) && strstr(name, "Aggregated") != NULL)
        name = "Auto";
    handle = handle_of(o, name);
    xfer = coll_xfer(handle, &o->told);
    set_arguments(o, &xfer);
    coll_start(job.context[0], &xfer);
}

static void finish(struct op *o)
{
    if (!o->team->member)
        return;
    WAIT(&job, o->told.count != 0);
    check(o);
    free(o->send);
    free(o->recv);
}

/* Several in flight; who is late differs from round to round. */
static void round_of(size_t count)
{
    struct op flight[FLIGHTS];

    if (below(4) == 0)
        test_sleep(below(job.tasks) == job.task ? 0.002 : 0);
    for (size_t i = 0; i < FLIGHTS; i++)
        start(&flight[i], &teams[below(count)]);
    for (size_t i = 0; i < FLIGHTS; i++)
        finish(&flight[i]);
}

/* ---- geometries ---- */

static void add_task(struct team *team, size_t task)
{
    if (task == job.task) {
        team->member = true;
        team->rank = team->size;
    }
    team->tasks[team->size++] = (pami_task_t)task;
}

static void make_team(size_t index, unsigned id)
{
    struct team *team = &teams[index];
    size_t half = (job.tasks + 1) / 2;

    *team = (struct team){0};
    for (size_t i = 0; i < job.tasks; i++) {
        if (index == 0)
            add_task(team, i);
        else if (index == 1)
            add_task(team, job.tasks - 1 - i);
        else if (index == 2)
            add_task(team, i % 2 == 0 ? i / 2 : half + i / 2);
        else if ((i + 2) % job.tasks != 1 || job.tasks == 2)
            add_task(team, (i + 2) % job.tasks);
    }
    if (index == 0)
        team->geometry = world_of(&job);
    else if (team->member)
        create_list(&job, &team->geometry, NULL, id, team->tasks, team->size, 0);
}

static void drop_team(size_t index)
{
    if (teams[index].member)
        destroy_geometry(&job, &teams[index].geometry);
}

/* Pages of this task that are in memory. */
static long resident(void)
{
    long pages = 0, own = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    CHECK(file != NULL && fscanf(file, "%ld %ld", &pages, &own) == 2);
    fclose(file);
    return own;
}

/* Geometries with arenas come and go, and leave nothing. */
static void come_and_go(long count)
{
    long before = 0, after;

    for (long i = 0; i < count; i++) {
        size_t index = 1 + (size_t)i % 3;
        struct op op[2];

        make_team(index, (unsigned)(100 + i));
        start(&op[0], &teams[index]);
        start(&op[1], &teams[index]);
        finish(&op[0]);
        finish(&op[1]);
        drop_team(index);
        if (i == count / 4)
            before = resident();
    }
    after = resident();
#ifdef __SANITIZE_ADDRESS__
    before = after; /* it keeps what was freed */
#endif
    if (after > before + 4096)
        FAIL("%ld pages after %ld geometries, %ld after a quarter of them", after, count, before);
}

int main(int argc, char **argv)
{
    long rounds = 60, geometries = 8;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--geometries") == 0)
            geometries = strtol(argv[i + 1], NULL, 10);
    }
    job_start(&job, "coll-nodes", 1);
    for (size_t i = 0; i < GEOMETRIES; i++)
        make_team(i, (unsigned)(10 + i));
    for (long i = 0; i < rounds; i++)
        round_of(GEOMETRIES);
    for (size_t i = 1; i < GEOMETRIES; i++)
        drop_team(i);
    come_and_go(geometries);
    job_finish(&job);
    return 0;
}
