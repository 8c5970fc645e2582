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
 * Run: tasks=4,5 nodes=2 env="PAMI_COLL_ASK=0.01" timeout=60
 * Run: tasks=3,5 env="PAMI_COLL_ASK=0.01 PAMI_COLL_SHARED_BYTES=0" timeout=60
 */
#include "coll_oracle.h"

enum {
    WORDS = 20000, /* of a block at most */
    MANY = 262144, /* for two tasks */
    MOST = 8
};

static struct job job;
static bool commutative; /* as algorithms of list 1 want it */
static uint32_t *source, *target;
static size_t counts[MOST], displs[MOST];
static int narrow_counts[MOST], narrow_displs[MOST];

/* Blocks of so many words. */
static void arguments(pami_xfer_type_t type, size_t n, pami_collective_t *to)
{
    char *s = (char *)source, *r = (char *)target;
    const pami_type_t t = PAMI_TYPE_UNSIGNED_INT;
    const pami_endpoint_t root = job_endpoint(&job, job.tasks - 1, 0);

    for (size_t i = 0; i < job.tasks; i++) {
        counts[i] = n;
        displs[i] = i * n;
        narrow_counts[i] = (int)n;
        narrow_displs[i] = (int)(i * n);
    }
    switch (type) {
    case PAMI_XFER_BROADCAST:
        to->xfer_broadcast = (pami_broadcast_t){root, r, t, n};
        break;
    case PAMI_XFER_ALLREDUCE:
        to->xfer_allreduce = (pami_allreduce_t){s, t, n, r, t, n, PAMI_DATA_SUM, NULL, 1};
        break;
    case PAMI_XFER_SCAN:
        to->xfer_scan = (pami_scan_t){s, t, n, r, t, n, PAMI_DATA_SUM, NULL, 0};
        break;
    case PAMI_XFER_REDUCE:
        to->xfer_reduce = (pami_reduce_t){root, s, t, n, r, t, n, PAMI_DATA_SUM, NULL, 1};
        break;
    case PAMI_XFER_REDUCE_SCATTER:
        to->xfer_reduce_scatter =
            (pami_reduce_scatter_t){s, t, n * job.tasks, r, t, counts, PAMI_DATA_SUM, NULL, 1};
        break;
    case PAMI_XFER_ALLGATHER:
    case PAMI_XFER_ALLTOALL:
        to->xfer_allgather = (pami_allgather_t){s, t, n, r, t, n};
        break;
    case PAMI_XFER_GATHER:
    case PAMI_XFER_SCATTER:
        to->xfer_gather = (pami_gather_t){root, s, t, n, r, t, n};
        break;
    case PAMI_XFER_ALLGATHERV:
        to->xfer_allgatherv = (pami_allgatherv_t){s, t, n, r, t, counts, displs};
        break;
    case PAMI_XFER_GATHERV:
        to->xfer_gatherv = (pami_gatherv_t){root, s, t, n, r, t, counts, displs};
        break;
    case PAMI_XFER_SCATTERV:
        to->xfer_scatterv = (pami_scatterv_t){root, s, t, counts, displs, r, t, n};
        break;
    case PAMI_XFER_ALLTOALLV:
        to->xfer_alltoallv = (pami_alltoallv_t){s, t, counts, displs, r, t, counts, displs};
        break;
    case PAMI_XFER_ALLGATHERV_INT:
        to->xfer_allgatherv_int =
            (pami_allgatherv_int_t){s, t, (int)n, r, t, narrow_counts, narrow_displs};
        break;
    case PAMI_XFER_GATHERV_INT:
        to->xfer_gatherv_int =
            (pami_gatherv_int_t){root, s, t, (int)n, r, t, narrow_counts, narrow_displs};
        break;
    case PAMI_XFER_SCATTERV_INT:
        to->xfer_scatterv_int =
            (pami_scatterv_int_t){root, s, t, narrow_counts, narrow_displs, r, t, (int)n};
        break;
    default:
        to->xfer_alltoallv_int = (pami_alltoallv_int_t){s, t, narrow_counts, narrow_displs,
                                                        r, t, narrow_counts, narrow_displs};
    }
}

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

/* Whether anybody has seen an error. */
static int errors(bool mine)
{
    struct told told;
    int one = mine, sum = 0;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_ALLREDUCE), &told);

    xfer.cmd.xfer_allreduce = (pami_allreduce_t){(char *)&one,
                                                 PAMI_TYPE_SIGNED_INT,
                                                 1,
                                                 (char *)&sum,
                                                 PAMI_TYPE_SIGNED_INT,
                                                 1,
                                                 PAMI_DATA_SUM,
                                                 NULL,
                                                 1};
    coll_run(&job, job.context[0], &xfer);
    return sum;
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
    arguments(own, 1 + seed % 2 * 20, &xfer.cmd);
    coll_start(job.context[0], &xfer);
    after = begin_right(type, algorithm_of(world_of(&job), type), seed + 1, "Auto");
    WAIT_WITH(job_advance(&job); if (test_now() > until_ - test_limit() * 0.5)
                                     FAIL("type %d, others %d, seed %d: hangs: %u %u %u", (int)own,
                                          (int)(own == type ? other : type), (int)seed,
                                          before->told.count, told.count, after->told.count),
                                 told.count != 0);
    end_right(before);
    end_right(after);
    (void)errors(false);
}

static void disagree(pami_xfer_type_t type, pami_algorithm_t algorithm, const char *name,
                     size_t few, size_t many, uint64_t seed)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm, &told);
    struct op *before, *after;
    size_t odd = seed % job.tasks;

    before = begin_right(type, algorithm, seed, name);
    arguments(type, (job.task == odd) == (seed % 2 != 0) ? few : many, &xfer.cmd);
    coll_start(job.context[0], &xfer);
    after = begin_right(type, algorithm, seed + 1, name);
    WAIT_WITH(job_advance(&job);
              if (getenv("TEST_VERBOSE") != NULL && test_now() > until_ - test_limit() * 0.8) FAIL(
                  "%s of type %d, %zu and %zu words, odd %zu, hangs: %u %u %u", name, (int)type,
                  few, many, odd, before->told.count, told.count, after->told.count),
              told.count != 0);
    end_right(before);
    end_right(after);
    if (errors(told.result != PAMI_SUCCESS) == 0 && few != 0 && job.task == 0)
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
    source = test_zalloc(most * sizeof *source);
    target = test_zalloc(most * sizeof *target);
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
    free(source);
    free(target);
    job_finish(&job);
    return 0;
}
