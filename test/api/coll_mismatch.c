/*
 * One member calls with another size than the others, with every algorithm of every type: the
 * collective ends on all members, with an error on somebody; what comes before and after is right.
 * Also where the sizes make Auto take levels or not, an arena or messages, and where one of them is
 * nothing: then those with more may get all that they want.
 * Then the same with another type than the others, by what Auto chooses.
 *
 *     coll_mismatch [--type N]
 *
 * Run: tasks=2,3,5 env="PAMI_COLL_ASK=0.01" timeout=60
 * Run: tasks=3 env="PAMI_COLL_ASK=0.01 PAMI_COLL_SLICES=1" timeout=60
 * Run: tasks=3,5 env="PAMI_COLL_ASK=0.01 PAMI_COLL_SHARED_RELAY=64" timeout=60
 * Run: tasks=4,5 nodes=2 env="PAMI_COLL_ASK=0.01" timeout=60
 * Run: tasks=3,5 env="PAMI_COLL_ASK=0.01 PAMI_COLL_SHARED_BYTES=0" timeout=60
 */
#include "coll_run.h"

enum {
    WORDS = 20000, /* of a block at most */
    MANY = 262144, /* for two tasks */
    MOST = 8
};

static struct job job;
static bool commutative; /* as algorithms of list 1 want it */
static struct coll_blocks blocks;

static struct op *begin_right(pami_xfer_type_t type, pami_algorithm_t algorithm, uint64_t seed,
                              const char *name)
{
    struct op *o = op_make(type, job.tasks, job.task, 300, seed, commutative);

    o->name = name;
    op_start(o, job.context[0], algorithm, job_endpoint(&job, o->root, 0), NULL, 0);
    return o;
}

static void end_right(struct op *o)
{
    WAIT(&job, o->told.count != 0);
    op_check(o);
    op_free(o);
}

/* Of another type. Who waits for nobody in either may not learn of it. */
static void disagree_about_type(pami_xfer_type_t type, pami_xfer_type_t other, uint64_t seed)
{
    struct op *before, *after;
    struct told told;
    bool odd = job.task == seed % job.tasks;
    pami_xfer_type_t own = odd == (seed % 3 != 0) ? other : type;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), own), &told);

    before = begin_right(type, algorithm_of(world_of(&job), type), seed, "Auto");
    coll_arguments(&blocks, own, 1 + seed % 2 * 20, &xfer.cmd);
    coll_start(job.context[0], &xfer);
    after = begin_right(type, algorithm_of(world_of(&job), type), seed + 1, "Auto");
    WAIT_WITH(job_advance(&job); if (test_now() > until_ - test_limit() * 0.5)
                                     FAIL("type %d, others %d, seed %d: hangs: %u %u %u", (int)own,
                                          (int)(own == type ? other : type), (int)seed,
                                          before->told.count, told.count, after->told.count),
                                 told.count != 0);
    end_right(before);
    end_right(after);
    (void)coll_total(&job, world_of(&job), 0);
}

static void disagree(pami_xfer_type_t type, pami_algorithm_t algorithm, const char *name,
                     size_t few, size_t many, uint64_t seed)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm, &told);
    struct op *before, *after;
    size_t odd = seed % job.tasks;
    int errors;

    before = begin_right(type, algorithm, seed, name);
    coll_arguments(&blocks, type, (job.task == odd) == (seed % 2 != 0) ? few : many, &xfer.cmd);
    coll_start(job.context[0], &xfer);
    after = begin_right(type, algorithm, seed + 1, name);
    WAIT_WITH(job_advance(&job);
              if (getenv("TEST_VERBOSE") != NULL && test_now() > until_ - test_limit() * 0.8) FAIL(
                  "%s of type %d, %zu and %zu words, odd %zu, hangs: %u %u %u", name, (int)type,
                  few, many, odd, before->told.count, told.count, after->told.count),
              told.count != 0);
    end_right(before);
    end_right(after);
    errors = coll_total(&job, world_of(&job), told.result != PAMI_SUCCESS);
    if (errors == 0 && few != 0 && job.task == 0)
        FAIL("%s of type %d: %zu and %zu words, and nobody knows", name, (int)type, few, many);
}

int main(int argc, char **argv)
{
    long only = argc == 3 && strcmp(argv[1], "--type") == 0 ? strtol(argv[2], NULL, 10) : -1;
    size_t most;

    job_start(&job, "coll-mismatch", 1);
    CHECK(job.tasks <= MOST);
    op_begin();
    most = job.tasks * (job.tasks == 2 ? MANY : WORDS);
    blocks = (struct coll_blocks){
        .from = test_zalloc(most * sizeof(uint32_t)),
        .into = test_zalloc(most * sizeof(uint32_t)),
        .type = PAMI_TYPE_UNSIGNED_INT,
        .root = job_endpoint(&job, job.tasks - 1, 0),
        .members = job.tasks,
    };
    for (size_t i = 0; i < OP_TYPES; i++) {
        struct algorithms all;

        if (op_types[i] == PAMI_XFER_BARRIER || (only >= 0 && only != (long)op_types[i]))
            continue;
        all = algorithms_of(world_of(&job), op_types[i]);
        for (size_t a = 0; a < all.count[0] + all.count[1]; a++) {
            int list = a >= all.count[0];
            size_t place = list == 1 ? a - all.count[0] : a;
            pami_algorithm_t algorithm = all.handle[list][place];
            const char *name = all.metadata[list][place].name;

            commutative = list == 1;
            disagree(op_types[i], algorithm, name, 1, 2, a);
            disagree(op_types[i], algorithm, name, 0, 1, a + 1);
            disagree(op_types[i], algorithm, name, 0, 300, a + 2);
            disagree(op_types[i], algorithm, name, 100, 300, a + 1);
            disagree(op_types[i], algorithm, name, 7000, WORDS, a + 2);
            disagree(op_types[i], algorithm, name, 50, WORDS, a + 3);
            if (a == 0 && job.tasks == 2) {
                disagree(op_types[i], algorithm, name, MANY / 4, MANY, a);
                disagree(op_types[i], algorithm, name, MANY / 4, MANY, a + 1);
            }
        }
        algorithms_free(&all);
    }
    for (size_t i = 0; i < OP_TYPES && only < 0; i++)
        for (size_t step = 1; step < OP_TYPES; step += 4)
            disagree_about_type(op_types[i], op_types[(i + step) % OP_TYPES], i + step);
    job_barrier(&job);
    op_end();
    free(blocks.from);
    free(blocks.into);
    job_finish(&job);
    return 0;
}
