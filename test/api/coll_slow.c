/*
 * One member looks seldom, each in turn, while those that wait ask again and again whether the
 * others still run it (PAMI_COLL_ASK): nobody takes slowness for an end. Every algorithm ends well,
 * with large messages that are under way for many looks.
 *
 * Run: tasks=2,5 env="PAMI_COLL_ASK=1ms" timeout=120
 * Run: tasks=4 nodes=2,3 env="PAMI_COLL_ASK=1ms" timeout=120
 * Run: tasks=4,6 nodes=2 env="PAMI_COLL_ASK=1ms PAMI_NETWORK=ofi" timeout=120
 */
#include "coll.h"

#include <unistd.h>

enum {
    INTS = 120000,
    SLOW_US = 20000 /* at most, between two looks */
};

static struct job job;
static int source[INTS], target[INTS];
static struct coll_blocks blocks = {.from = source, .into = target};
static uint64_t dice;

static void run_all(pami_xfer_type_t type)
{
    struct algorithms all = algorithms_of(world_of(&job), type);

    for (size_t i = 0; i < all.count[0]; i++) {
        struct told told;
        pami_xfer_t xfer = coll_xfer(all.handle[0][i], &told);
        double until = test_now() + test_limit();

        coll_arguments(&blocks, type, type == PAMI_XFER_BROADCAST ? INTS : INTS / job.tasks,
                       &xfer.cmd);
        coll_start(job.context[0], &xfer);
        while (told.count == 0) {
            job_advance(&job);
            if (i % job.tasks == job.task)
                usleep((useconds_t)(test_random(&dice) % SLOW_US));
            if (test_now() > until)
                FAIL("%s of type %d does not end", all.metadata[0][i].name, (int)type);
        }
        if (told.result != PAMI_SUCCESS)
            FAIL("%s of type %d ended with %d", all.metadata[0][i].name, (int)type,
                 (int)told.result);
    }
    algorithms_free(&all);
}

int main(void)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_BROADCAST, PAMI_XFER_ALLREDUCE,
                                             PAMI_XFER_SCATTER,   PAMI_XFER_GATHER,
                                             PAMI_XFER_ALLTOALL,  PAMI_XFER_ALLGATHER};

    job_start(&job, "coll slow", 1);
    dice = job.task + 1;
    blocks.type = PAMI_TYPE_SIGNED_INT;
    blocks.members = job.tasks;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        run_all(types[t]);
    job_finish(&job);
    return 0;
}
