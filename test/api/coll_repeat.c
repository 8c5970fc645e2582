/*
 * The same calls again and again, as programs make them, and as the library remembers them: with
 * other contents, other roots, other counts and displacements in the same arrays; after one that
 * failed because a member disagreed; by a geometry in the place of one that has gone; of a type
 * that has gone. Small contributions are overwritten as soon as the call returns.
 *
 * Run: tasks=1,2,3,5 timeout=60
 * Run: tasks=2,3 env="PAMI_COLL_SLICES=1" timeout=60
 * Run: tasks=3 env="PAMI_COLL_SHARED_BYTES=0" timeout=60
 * Run: tasks=4,5 nodes=2 timeout=60
 * Run: tasks=3 nodes=3 timeout=60
 * Run: tasks=6 env="PAMI_COLL_LEVELS=package:2,core:2" timeout=60
 */
#include "coll.h"

enum {
    MEMBERS_MAX = 8,
    WORDS_MAX = 5000,
    ROUNDS = 9, /* of each; the third is the first that is remembered */
    SMALL = 512
};

static const pami_xfer_type_t types[] = {
    PAMI_XFER_BARRIER, PAMI_XFER_BROADCAST,      PAMI_XFER_REDUCE,    PAMI_XFER_ALLREDUCE,
    PAMI_XFER_GATHER,  PAMI_XFER_SCATTER,        PAMI_XFER_ALLGATHER, PAMI_XFER_ALLTOALL,
    PAMI_XFER_SCAN,    PAMI_XFER_REDUCE_SCATTER,
};

static struct job job;
static uint64_t source[MEMBERS_MAX * WORDS_MAX], target[MEMBERS_MAX * WORDS_MAX];
static struct coll_blocks blocks = {.from = source};

static uint64_t value(size_t rank, size_t round, size_t block, size_t i)
{
    return rank * 1000003 + round * 7919 + block * 101 + i;
}

static uint64_t sum(size_t ranks, size_t round, size_t block, size_t i)
{
    uint64_t all = 0;

    for (size_t rank = 0; rank < ranks; rank++)
        all += value(rank, round, block, i);
    return all;
}

/* What is to be in word i of block `block` of the target. */
static uint64_t expected(pami_xfer_type_t type, size_t root, size_t round, size_t block, size_t i)
{
    switch (type) {
    case PAMI_XFER_BROADCAST:
        return value(root, round, 0, i);
    case PAMI_XFER_SCATTER:
        return value(root, round, job.task, i);
    case PAMI_XFER_GATHER:
    case PAMI_XFER_ALLGATHER:
        return value(block, round, 0, i);
    case PAMI_XFER_ALLTOALL:
        return value(block, round, job.task, i);
    case PAMI_XFER_SCAN:
        return sum(job.task + 1, round, 0, i);
    case PAMI_XFER_REDUCE_SCATTER:
        return sum(job.tasks, round, job.task, i);
    default:
        return sum(job.tasks, round, 0, i);
    }
}

static void arguments(pami_xfer_type_t type, size_t root, size_t n, pami_collective_t *to)
{
    bool sends = type == PAMI_XFER_BROADCAST && root == job.task;

    blocks.into = sends ? source : target;
    blocks.root = job_endpoint(&job, root, 0);
    coll_arguments(&blocks, type, n, to);
}

static bool receives(pami_xfer_type_t type, size_t root)
{
    if (type == PAMI_XFER_REDUCE || type == PAMI_XFER_GATHER)
        return root == job.task;
    return type != PAMI_XFER_BARRIER && (type != PAMI_XFER_BROADCAST || root != job.task);
}

static size_t send_blocks(pami_xfer_type_t type)
{
    return type == PAMI_XFER_SCATTER || type == PAMI_XFER_ALLTOALL ||
                   type == PAMI_XFER_REDUCE_SCATTER
               ? job.tasks
               : 1;
}

static size_t blocks_of(pami_xfer_type_t type)
{
    return type == PAMI_XFER_GATHER || type == PAMI_XFER_ALLGATHER || type == PAMI_XFER_ALLTOALL
               ? job.tasks
               : 1;
}

static void run(pami_geometry_t geometry, pami_xfer_type_t type, size_t root, size_t n,
                size_t round)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(geometry, type), &told);
    size_t bytes = send_blocks(type) * n * 8;

    for (size_t block = 0; block < job.tasks; block++)
        for (size_t i = 0; i < n; i++) {
            source[block * n + i] = value(job.task, round, block, i);
            target[block * n + i] = 0;
        }
    arguments(type, root, n, &xfer.cmd);
    coll_start(job.context[0], &xfer);
    if (bytes <= SMALL && type != PAMI_XFER_BROADCAST)
        memset(source, 0xee, bytes);
    WAIT(&job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
    for (size_t block = 0; receives(type, root) && block < blocks_of(type); block++)
        for (size_t i = 0; i < n; i++)
            if (target[block * n + i] != expected(type, root, round, block, i))
                FAIL("type %d, root %zu, %zu words, round %zu: word %zu of block %zu is wrong",
                     (int)type, root, n, round, i, block);
}

static void repeat(pami_geometry_t geometry)
{
    static const size_t words[] = {1, 3, 40, WORDS_MAX};

    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
        for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
            for (size_t round = 0; round < ROUNDS; round++)
                run(geometry, types[k], round % 3 % job.tasks, words[w], round);
}

/* One member has another size in the middle of those that are remembered. */
static void disagree(void)
{
    pami_geometry_t world = world_of(&job);
    struct told told;

    for (size_t round = 0; round < 3 * ROUNDS; round++) {
        if (round % 5 == 4 && job.tasks > 1) {
            pami_xfer_t xfer = coll_xfer(algorithm_of(world, PAMI_XFER_ALLREDUCE), &told);

            arguments(PAMI_XFER_ALLREDUCE, 0, round % job.tasks == job.task ? 3 : 1, &xfer.cmd);
            coll_start(job.context[0], &xfer);
            WAIT(&job, told.count != 0);
            CHECK(told.result != PAMI_SUCCESS);
        }
        run(world, PAMI_XFER_ALLREDUCE, 0, 1, round);
        run(world, PAMI_XFER_BARRIER, 0, 0, round);
    }
}

/* The same array, with other counts in it. */
static void other_counts(void)
{
    pami_geometry_t world = world_of(&job);

    for (size_t round = 0; round < 2 * ROUNDS; round++) {
        struct told told;
        pami_xfer_t xfer = coll_xfer(algorithm_of(world, PAMI_XFER_REDUCE_SCATTER), &told);
        size_t total = 0, first = 0;

        arguments(PAMI_XFER_REDUCE_SCATTER, 0, 2, &xfer.cmd);
        blocks.counts[0] = round % 6 < 3 ? 2 : 1; /* that of stypecount is not looked at */
        blocks.counts[job.tasks - 1] += round % 6 < 3 ? 0 : 1;
        for (size_t i = 0; i < job.tasks; i++) {
            first = i == job.task ? total : first;
            total += blocks.counts[i];
        }
        for (size_t i = 0; i < total; i++)
            source[i] = value(job.task, round, 0, i);
        coll_start(job.context[0], &xfer);
        WAIT(&job, told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
        for (size_t i = 0; i < blocks.counts[job.task]; i++)
            CHECK(target[i] == sum(job.tasks, round, 0, first + i));
    }
}

/* Blocks of 1 and 2 words, in the order of ranks, the other way round or with gaps between them. */
static void lay_out(size_t round, size_t *counts, size_t *places)
{
    size_t gap = round % 9 / 3, at = 0;

    for (size_t k = 0; k < job.tasks; k++) {
        size_t rank = gap == 1 ? job.tasks - 1 - k : k;

        counts[rank] = 1 + (rank + round / 9) % 2;
        places[rank] = at;
        at += counts[rank] + gap / 2;
    }
}

/* The same arrays, with other counts and displacements in them; the last rounds have no data. */
static void other_places(void)
{
    static size_t counts[MEMBERS_MAX], places[MEMBERS_MAX];
    const pami_type_t type = PAMI_TYPE_UNSIGNED_LONG_LONG;
    pami_algorithm_t algorithm = algorithm_of(world_of(&job), PAMI_XFER_ALLGATHERV);

    for (size_t round = 0; round < 4 * ROUNDS; round++) {
        bool empty = round >= 3 * ROUNDS;
        struct told told;
        pami_xfer_t xfer = coll_xfer(algorithm, &told);

        lay_out(round, counts, places);
        memset(counts, 0, empty ? sizeof counts : 0);
        xfer.cmd.xfer_allgatherv = (pami_allgatherv_t){
            (char *)source, type, counts[job.task], (char *)target, type, counts, places};
        for (size_t i = 0; i < counts[job.task]; i++)
            source[i] = value(job.task, round, 0, i);
        memset(target, 0, 4 * MEMBERS_MAX * sizeof target[0]);
        coll_start(job.context[0], &xfer);
        memset(source, 0xee, 2 * sizeof source[0]);
        WAIT(&job, told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
        for (size_t rank = 0; rank < job.tasks; rank++)
            for (size_t i = 0; i < counts[rank]; i++)
                CHECK(target[places[rank] + i] == value(rank, round, 0, i));
    }
}

/* All to the first, which sends nothing, by each algorithm; only where blocks go is another. */
static void other_places_of_one(void)
{
    static size_t send_counts[MEMBERS_MAX], recv_counts[MEMBERS_MAX], places[MEMBERS_MAX];
    static const size_t none[MEMBERS_MAX];
    const pami_type_t type = PAMI_TYPE_UNSIGNED_LONG_LONG;
    struct algorithms all = algorithms_of(world_of(&job), PAMI_XFER_ALLTOALLV);

    send_counts[0] = job.task != 0;
    for (size_t rank = 1; rank < job.tasks; rank++)
        recv_counts[rank] = job.task == 0;
    for (size_t n = 0; n < (all.count[0] + all.count[1]) * ROUNDS; n++) {
        size_t which = n / ROUNDS;
        int list = which >= all.count[0];
        struct told told;
        pami_xfer_t xfer = coll_xfer(all.handle[list][which - (list ? all.count[0] : 0)], &told);

        xfer.cmd.xfer_alltoallv =
            (pami_alltoallv_t){(char *)source, type, send_counts, (size_t *)none,
                               (char *)target, type, recv_counts, places};
        source[0] = value(job.task, n, 0, 0);
        for (size_t rank = 0; rank < job.tasks; rank++)
            places[rank] = (rank + n) % job.tasks;
        memset(target, 0, job.tasks * sizeof target[0]);
        coll_run(&job, job.context[0], &xfer);
        for (size_t rank = 1; rank < job.tasks && job.task == 0; rank++)
            CHECK(target[places[rank]] == value(rank, n, 0, 0));
    }
    algorithms_free(&all);
}

static void two_at_once(void)
{
    for (size_t round = 0; round < ROUNDS; round++) {
        struct told told[2];

        for (int i = 0; i < 2; i++) {
            pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_BARRIER), &told[i]);

            coll_start(job.context[0], &xfer);
        }
        WAIT(&job, told[0].count + told[1].count == 2);
        CHECK(told[0].result == PAMI_SUCCESS && told[1].result == PAMI_SUCCESS);
    }
}

static void other_geometries(void)
{
    pami_task_t tasks[MEMBERS_MAX];

    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)i;
    for (unsigned id = 1; id <= 20; id++) {
        pami_geometry_t geometry;

        create_list(&job, &geometry, PAMI_GEOMETRY_NULL, id, tasks, job.tasks, 0);
        for (size_t round = 0; round < ROUNDS; round++)
            run(geometry, PAMI_XFER_ALLREDUCE, 0, 1, round);
        destroy_geometry(&job, &geometry);
    }
}

/* A type of the program's own is looked up at every call. */
static void other_types(void)
{
    pami_algorithm_t algorithm = algorithm_of(world_of(&job), PAMI_XFER_ALLGATHER);
    struct told told;
    pami_xfer_t xfer;
    pami_type_t pair, gone;

    CHECK_OK(PAMI_Type_create(&pair));
    CHECK_OK(PAMI_Type_add_simple(pair, 8, 0, 1, 8));
    CHECK_OK(PAMI_Type_complete(pair, 8));
    gone = pair;
    for (size_t round = 0; round < ROUNDS; round++) {
        xfer = coll_xfer(algorithm, &told);
        xfer.cmd.xfer_allgather =
            (pami_allgather_t){(char *)source, pair, 1, (char *)target, pair, 1};
        source[0] = value(job.task, round, 0, 0);
        coll_run(&job, job.context[0], &xfer);
        for (size_t rank = 0; rank < job.tasks; rank++)
            CHECK(target[rank] == value(rank, round, 0, 0));
    }
    CHECK_OK(PAMI_Type_destroy(&pair));
    xfer = coll_xfer(algorithm, &told);
    xfer.cmd.xfer_allgather = (pami_allgather_t){(char *)source, gone, 1, (char *)target, gone, 1};
    CHECK(PAMI_Collective(job.context[0], &xfer) == PAMI_INVAL);
}

/* Domains may divide again, and long blocks may not fit where those are: also what is made for the
 * inner ones starts again as it was made, or not at all. */
static void by_levels(pami_xfer_type_t type, const char *name)
{
    pami_algorithm_t algorithm = algorithm_named(world_of(&job), type, name);
    size_t words = WORDS_MAX / MEMBERS_MAX * MEMBERS_MAX;

    for (size_t round = 0; round < ROUNDS && algorithm != PAMI_ALGORITHM_NULL; round++) {
        struct told told;
        pami_xfer_t xfer = coll_xfer(algorithm, &told);

        for (size_t i = 0; i < words * job.tasks; i++)
            source[i] = job.task * 100 + round;
        xfer.cmd.xfer_allgather =
            (pami_allgather_t){(char *)source, PAMI_TYPE_UNSIGNED_LONG, words,
                               (char *)target, PAMI_TYPE_UNSIGNED_LONG, words};
        coll_run(&job, job.context[0], &xfer);
        for (size_t i = 0; i < words * job.tasks; i++)
            CHECK(target[i] == i / words * 100 + round);
    }
}

int main(void)
{
    job_start(&job, "coll-repeat", 1);
    CHECK(job.tasks <= MEMBERS_MAX);
    blocks.type = PAMI_TYPE_UNSIGNED_LONG_LONG;
    blocks.members = job.tasks;
    repeat(world_of(&job));
    disagree();
    other_counts();
    other_places();
    other_places_of_one();
    two_at_once();
    other_geometries();
    other_types();
    repeat(world_of(&job));
    job_barrier(&job);
    for (size_t i = 0; i < 4; i++)
        by_levels(i % 2 == 0 ? PAMI_XFER_ALLGATHER : PAMI_XFER_ALLTOALL,
                  i < 2 ? "Hierarchical" : "LastSpeaks");
    job_finish(&job);
    return 0;
}
