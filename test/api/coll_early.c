/*
 * Contributions of up to 512 bytes are read at the call, by every algorithm of every type: what
 * they lay in is overwritten and given back while the collective runs, also where the message is
 * cut into more segments than are under way at once.
 *
 * Run: tasks=1,3,8 nodes=1,2 timeout=120
 * Run: tasks=2,5,8 nodes=1,2 env="PAMI_COLL_SEGMENT=64" timeout=120
 * Run: tasks=7 nodes=2 env="PAMI_COLL_SEGMENT=64 PAMI_COLL_LEVELS=node:2,core:2" timeout=120
 * Run: tasks=5 env="PAMI_COLL_SEGMENT=64 PAMI_COLL_SHARED_BYTES=0" timeout=120
 * Run: tasks=4,8 env="PAMI_YIELD=always PAMI_COLL_SHARED_RELAY=1" timeout=120
 */
#include "coll_run.h"

enum {
    WORDS = 100, /* more than three segments of 64 bytes, and no multiple of one */
    SEEDS = 6    /* an oracle overwrites in every other run only */
};

static struct job job;

static void run(pami_xfer_type_t type, const struct algorithms *all, int list, size_t position,
                uint64_t seed)
{
    struct op *o = op_make(type, job.tasks, job.task, WORDS, seed, list != 0);

    o->name = all->metadata[list][position].name;
    op_start(o, job.context[0], all->handle[list][position], job_endpoint(&job, o->root, 0),
             list != 0 ? all->metadata[1][position].check_fn : NULL, all->handle[0][0]);
    WAIT(&job, o->told.count != 0);
    op_check(o);
    op_free(o);
}

int main(void)
{
    job_start(&job, "coll-early", 1);
    op_begin();
    for (size_t i = 0; i < OP_TYPES; i++) {
        struct algorithms all = algorithms_of(world_of(&job), op_types[i]);

        for (int list = 0; list < 2; list++)
            for (size_t position = 0; position < all.count[list]; position++)
                for (uint64_t seed = 0; seed < SEEDS; seed++)
                    run(op_types[i], &all, list, position, 1 + seed * 7919 + i);
        algorithms_free(&all);
    }
    op_end();
    job_finish(&job);
    return 0;
}
