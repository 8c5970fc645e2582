/*
 * Collectives through shared memory do not take what earlier ones have left there for their own:
 * user data lies where others look whether a member has given up. Members that have buffers of
 * another size use messages, all of them.
 *
 *     coll_arena [unequal]
 *
 * Run: tasks=3 env="PAMI_YIELD=never PAMI_COLL_SHARED_DIRECT=128K"
 * Run: tasks=2,4 args="unequal" env="PAMI_YIELD=never"
 * Run: tasks=4 args="unequal" env="PAMI_YIELD=always"
 */
#include "coll.h"

enum {
    SHORT = 6,        /* words that lie beside a counter */
    LONG = 128 << 10, /* ... that go between the members' own memory */
    APART = 4,        /* collectives that use the same place */
    NUMBERS = 257,    /* of one collective */
    BYTES = 100000,
    MEMBERS_MAX = 8
};

static struct job job;
static uint64_t words[LONG];
static unsigned char mine[BYTES], all[MEMBERS_MAX * BYTES];

static void run(pami_xfer_type_t type, const char *name, const pami_collective_t *cmd)
{
    pami_algorithm_t algorithm = algorithm_named(world_of(&job), type, name);
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm, &told);

    CHECK(algorithm != PAMI_ALGORITHM_NULL);
    if (cmd != NULL)
        xfer.cmd = *cmd;
    coll_run(&job, job.context[0], &xfer);
}

/* The values are those that say that a member has given up one of the next collectives. */
static void traces(void)
{
    const pami_type_t type = PAMI_TYPE_UNSIGNED_LONG;

    for (uint64_t number = 0; number < 40; number += APART) {
        uint64_t said[SHORT], most[SHORT];
        pami_collective_t cmd;

        for (size_t i = 0; i < SHORT; i++)
            said[i] = (number + APART) * NUMBERS + 1;
        cmd.xfer_allreduce = coll_sum(said, most, type, SHORT);
        cmd.xfer_allreduce.op = PAMI_DATA_MAX;
        run(PAMI_XFER_ALLREDUCE, "SharedTree", &cmd);
        CHECK(memcmp(said, most, sizeof said) == 0);
        for (size_t i = 1; i < APART; i++)
            run(PAMI_XFER_BARRIER, "Shared", NULL);
        for (size_t i = 0; i < LONG; i++)
            words[i] = job.task + i;
        cmd.xfer_allreduce = coll_sum(PAMI_IN_PLACE, words, type, LONG);
        run(PAMI_XFER_ALLREDUCE, "Shared", &cmd);
        for (size_t i = 0; i < LONG; i++)
            CHECK(words[i] == job.tasks * (job.tasks - 1) / 2 + job.tasks * i);
        for (size_t i = 1; i < APART; i++)
            run(PAMI_XFER_BARRIER, "Shared", NULL);
    }
}

static void gather(size_t root)
{
    pami_collective_t cmd = {.xfer_gather = {root, (char *)mine, PAMI_TYPE_BYTE, BYTES, (char *)all,
                                             PAMI_TYPE_BYTE, BYTES}};

    test_fill(mine, BYTES, (unsigned)job.task, 0);
    memset(all, 0, sizeof all);
    run(PAMI_XFER_GATHER, "Shared", &cmd);
    for (size_t i = 0; i < job.tasks && root == job.task; i++)
        CHECK_SIZE(test_differs(all + i * BYTES, BYTES, (unsigned)i, 0), BYTES);
}

static void unequal(void)
{
    for (size_t root = 0; root < job.tasks; root++) {
        pami_collective_t cmd = {.xfer_broadcast = {root, (char *)mine, PAMI_TYPE_BYTE, BYTES}};

        gather(root);
        test_fill(mine, BYTES, 100 + (unsigned)job.task, 0);
        run(PAMI_XFER_BROADCAST, "Shared", &cmd);
        CHECK_SIZE(test_differs(mine, BYTES, 100 + (unsigned)root, 0), BYTES);
    }
}

int main(int argc, char **argv)
{
    bool is_unequal = argc == 2 && strcmp(argv[1], "unequal") == 0;
    const char *rank = getenv("PMI_RANK");

    if (is_unequal && rank != NULL && strcmp(rank, "1") == 0)
        setenv("PAMI_COLL_SHARED_BUFFER", "4K", 1);
    job_start(&job, "coll-arena", 1);
    CHECK(job.tasks <= MEMBERS_MAX);
    if (is_unequal)
        unequal();
    else
        traces();
    job_barrier(&job);
    job_finish(&job);
    return 0;
}
