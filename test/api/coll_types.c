/*
 * Every algorithm of both lists of every type on the world: sizes from nothing up, any mix of
 * layouts, in place both ways, rotating roots, operators that do not commute, insignificant
 * arguments that hold garbage, small contributions that are gone when the call returns. A dozen of
 * them are in flight at a time and no barrier separates them; now and then a member is late.
 *
 *     coll_types [--seed N] [--type N]
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2,4 timeout=60
 * Run: tasks=2,3,7 env="PAMI_COLL_SHARED_BYTES=0" timeout=60
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8" timeout=60
 * Run: tasks=4 nodes=2 env="PAMI_RNDV_BYTES=0" timeout=60
 * Run: tasks=5 env="PAMI_COLL_SEGMENT=1000" timeout=60
 * Run: tasks=3,8 args="--seed 3" env="PAMI_COLL_SHARED_RELAY=64" timeout=60
 * Run: tasks=6 nodes=2 args="--seed 2" env="PAMI_COLL_SHARED_BUFFER=4096" timeout=60
 */
#include "coll_run.h"

enum {
    FLIGHTS = 14
};

static struct job job;
static uint64_t seed = 1;

/* Words of an operation in all; every second list gets the long ones for some of the operations. */
static size_t words_of(size_t i, bool best)
{
    static const size_t words[FLIGHTS] = {0,  1,   7,    128,  1000, 1024,  16384,
                                          33, 129, 4096, 8191, 3,    12000, 2};

    return i == 6 && best ? 262144 : words[i];
}

static void run(pami_xfer_type_t type, int list, size_t position, pami_algorithm_t algorithm,
                const pami_metadata_t *metadata)
{
    struct op *flight[FLIGHTS];

    for (size_t i = 0; i < FLIGHTS; i++) {
        uint64_t state =
            seed * 1000003 + (uint64_t)type * 70001 + (uint64_t)list * 9001 + position * 101 + i;
        struct op *o;

        test_random(&state);
        o = op_make(type, job.tasks, job.task, words_of(i, list == 0 && position < 2), state,
                    list == 1);
        o->name = metadata->name;
        flight[i] = o;
        if (i == FLIGHTS / 2 && position % 4 == 0 && job.task == state % job.tasks)
            test_sleep(position == 0 && type == PAMI_XFER_REDUCE ? 1.0 : 0.02);
        op_start(o, job.context[0], algorithm, job_endpoint(&job, o->root, 0),
                 list == 1 ? metadata->check_fn : NULL, algorithm_of(world_of(&job), type));
        if (op_below(&o->own, 4) == 0)
            job_advance(&job);
    }
    for (size_t i = 0; i < FLIGHTS; i++) {
        WAIT(&job, flight[i]->told.count != 0);
        op_check(flight[i]);
        op_free(flight[i]);
    }
}

static void run_type(pami_xfer_type_t type)
{
    struct algorithms all = algorithms_of(world_of(&job), type);

    for (int list = 0; list < 2; list++)
        for (size_t i = 0; i < all.count[list]; i++) {
            double start = test_now();

            run(type, list, i, all.handle[list][i], &all.metadata[list][i]);
            if (job.task == 0 && getenv("TEST_VERBOSE") != NULL)
                printf("type %d, list %d: %s: %.3f s\n", (int)type, list,
                       all.metadata[list][i].name, test_now() - start);
        }
    algorithms_free(&all);
}

int main(int argc, char **argv)
{
    long only = -1;

    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--type") == 0)
            only = strtol(argv[i + 1], NULL, 10);
    job_start(&job, "coll-types", 1);
    op_begin();
    for (size_t i = 0; i < OP_TYPES; i++)
        if (only < 0 || only == (long)op_types[i])
            run_type(op_types[i]);
    job_barrier(&job);
    op_end();
    job_finish(&job);
    return 0;
}
