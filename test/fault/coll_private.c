/*
 * Tasks that have copied large data straight between their memories give up the privilege, or
 * forbid the others to, while they run: all collectives go on, also those whose contributions are
 * in place.
 *
 * Run: tasks=2
 * Run: tasks=2 env="PAMI_COLL_SHARED_DIRECT=64K"
 */
#include "api/coll.h"

#include <sys/prctl.h>

enum {
    INTS = 100000,
    MEMBERS = 2,
    ROUNDS = 40,
    PRIVATE = 5, /* the round from which on they are */
    OTHER_USER = 65534
};

static struct job job;
static struct coll_blocks blocks;
static int from[MEMBERS * INTS], into[MEMBERS * INTS];

/* A process of root may reach for all others, until it is another user's, who may do so for none of
 * root's. */
static void become_private(void)
{
    if (geteuid() != 0 || seteuid(OTHER_USER) != 0)
        CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
}

static void become_public(void)
{
    if (getuid() == 0)
        CHECK(seteuid(0) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
}

static void check_words(const int *words, size_t count, int value, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (words[i] != value)
            FAIL("%s: word %zu is %d, not %d", what, i, words[i], value);
}

static void run(pami_xfer_type_t type, int round)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), type), &told);

    for (size_t i = 0; i < MEMBERS * INTS; i++) {
        from[i] = round + (int)job.task;
        into[i] = -1;
    }
    blocks.root = (pami_endpoint_t)(round % MEMBERS);
    coll_arguments(&blocks, type, INTS, &xfer.cmd);
    if (type == PAMI_XFER_ALLREDUCE)
        xfer.cmd.xfer_allreduce.rcvbuf = (char *)from;
    if (type == PAMI_XFER_BROADCAST)
        xfer.cmd.xfer_broadcast.buf = (char *)from;
    coll_run(&job, job.context[0], &xfer);
    if (type == PAMI_XFER_ALLREDUCE)
        check_words(from, INTS, 2 * round + 1, "allreduce");
    else if (type == PAMI_XFER_BROADCAST)
        check_words(from, INTS, round + (int)blocks.root, "broadcast");
    else if (type == PAMI_XFER_SCATTER)
        check_words(into, INTS, round + (int)blocks.root, "scatter");
    else
        for (size_t i = 0; i < MEMBERS; i++)
            if (type != PAMI_XFER_GATHER || job.task == blocks.root)
                check_words(into + i * INTS, INTS, round + (int)i, "blocks");
}

int main(void)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_ALLREDUCE, PAMI_XFER_ALLGATHER,
                                             PAMI_XFER_ALLTOALL,  PAMI_XFER_BROADCAST,
                                             PAMI_XFER_GATHER,    PAMI_XFER_SCATTER};

    job_start(&job, "coll-private", 1);
    CHECK_SIZE(job.tasks, MEMBERS);
    blocks = (struct coll_blocks){
        .from = from, .into = into, .type = PAMI_TYPE_SIGNED_INT, .members = MEMBERS};
    for (int round = 0; round < ROUNDS; round++) {
        if (round == PRIVATE)
            become_private();
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
            run(types[i], round);
    }
    become_public();
    job_finish(&job);
    return 0;
}
