/*
 * Both sides of a collective in one buffer: the same address, but other words of it. Words that are
 * sent are the even ones, words received the odd ones, or for alltoallv the first and the second
 * half; all algorithms of list 0. The source stays as it was. A send side of alltoallv that cannot
 * be one is none: the call is in place.
 *
 * Run: tasks=1,2,3,5 nodes=1,2 timeout=60
 * Run: tasks=3 env="PAMI_COLL_SHARED_BYTES=0" timeout=60
 */
#include "coll.h"

enum {
    COUNT = 5 /* words of a block */
};

static struct job job;
static pami_type_t even, odd;
static int *memory;
static size_t *counts, *near, *far; /* blocks of COUNT: displacements in the first half, second */
static int *narrow_counts, *narrow_near, *narrow_far;

/* An int of two: this one. */
static pami_type_t column(size_t number)
{
    const size_t word = sizeof(int);
    pami_type_t type;

    CHECK_OK(PAMI_Type_create(&type));
    CHECK_OK(
        PAMI_Type_add_typed(type, PAMI_TYPE_SIGNED_INT, number * word, 1, (2 - number) * word));
    CHECK_OK(PAMI_Type_complete(type, word));
    return type;
}

/* Word x of what `from` sends. */
static int word_of(size_t from, size_t x)
{
    return (int)(1000 * (from + 1) + x);
}

static int sum_of(size_t members, size_t x)
{
    int sum = 0;

    for (size_t from = 0; from < members; from++)
        sum += word_of(from, x);
    return sum;
}

static void arguments(pami_xfer_type_t type, size_t root, pami_collective_t *to)
{
    const pami_endpoint_t from = job_endpoint(&job, root, 0);
    char *base = (char *)memory, *own = (char *)(memory + 2 * COUNT * job.task);
    pami_type_t word = PAMI_TYPE_SIGNED_INT;

    switch (type) {
    case PAMI_XFER_ALLREDUCE:
        to->xfer_allreduce =
            (pami_allreduce_t){base, even, COUNT, base, odd, COUNT, PAMI_DATA_SUM, NULL, 1};
        break;
    case PAMI_XFER_REDUCE:
        to->xfer_reduce =
            (pami_reduce_t){from, base, even, COUNT, base, odd, COUNT, PAMI_DATA_SUM, NULL, 1};
        break;
    case PAMI_XFER_SCAN:
        to->xfer_scan = (pami_scan_t){base, even, COUNT, base, odd, COUNT, PAMI_DATA_SUM, NULL, 0};
        break;
    case PAMI_XFER_REDUCE_SCATTER:
        to->xfer_reduce_scatter = (pami_reduce_scatter_t){
            base, even, COUNT * job.tasks, base, odd, counts, PAMI_DATA_SUM, NULL, 1};
        break;
    case PAMI_XFER_ALLGATHER:
        to->xfer_allgather = (pami_allgather_t){own, even, COUNT, base, odd, COUNT};
        break;
    case PAMI_XFER_ALLGATHERV:
        to->xfer_allgatherv = (pami_allgatherv_t){own, even, COUNT, base, odd, counts, near};
        break;
    case PAMI_XFER_GATHER:
        to->xfer_gather = (pami_gather_t){from, own, even, COUNT, base, odd, COUNT};
        break;
    case PAMI_XFER_GATHERV:
        to->xfer_gatherv = (pami_gatherv_t){from, own, even, COUNT, base, odd, counts, near};
        break;
    case PAMI_XFER_SCATTER:
        to->xfer_scatter = (pami_scatter_t){from, base, even, COUNT, own, odd, COUNT};
        break;
    case PAMI_XFER_SCATTERV:
        to->xfer_scatterv = (pami_scatterv_t){from, base, even, counts, near, own, odd, COUNT};
        break;
    case PAMI_XFER_ALLTOALL:
        to->xfer_alltoall = (pami_alltoall_t){base, even, COUNT, base, odd, COUNT};
        break;
    case PAMI_XFER_ALLTOALLV:
        to->xfer_alltoallv = (pami_alltoallv_t){base, word, counts, near, base, word, counts, far};
        break;
    default:
        to->xfer_alltoallv_int = (pami_alltoallv_int_t){base, word, narrow_counts, narrow_near,
                                                        base, word, narrow_counts, narrow_far};
    }
}

/* Word x of block b of what arrives at this member. */
static int expected(pami_xfer_type_t type, size_t root, size_t b, size_t x)
{
    switch (type) {
    case PAMI_XFER_ALLREDUCE:
    case PAMI_XFER_REDUCE:
        return sum_of(job.tasks, x);
    case PAMI_XFER_SCAN:
        return sum_of(job.task + 1, x);
    case PAMI_XFER_REDUCE_SCATTER:
        return sum_of(job.tasks, COUNT * job.task + x);
    case PAMI_XFER_SCATTER:
    case PAMI_XFER_SCATTERV:
        return word_of(root, COUNT * b + x);
    case PAMI_XFER_ALLTOALL:
    case PAMI_XFER_ALLTOALLV:
    case PAMI_XFER_ALLTOALLV_INT:
        return word_of(b, COUNT * job.task + x);
    default:
        return word_of(b, COUNT * b + x);
    }
}

static void check(pami_xfer_type_t type, size_t root, const char *name)
{
    bool halves = type == PAMI_XFER_ALLTOALLV || type == PAMI_XFER_ALLTOALLV_INT;
    bool only_root =
        type == PAMI_XFER_REDUCE || type == PAMI_XFER_GATHER || type == PAMI_XFER_GATHERV;
    bool scatters = type == PAMI_XFER_SCATTER || type == PAMI_XFER_SCATTERV;
    bool one = scatters || type == PAMI_XFER_ALLREDUCE || type == PAMI_XFER_REDUCE ||
               type == PAMI_XFER_SCAN || type == PAMI_XFER_REDUCE_SCATTER;
    size_t words = COUNT * job.tasks, first = scatters ? job.task : 0;

    for (size_t i = 0; i < words; i++) {
        int sent = memory[halves ? i : 2 * i];
        int got = memory[halves ? words + i : 2 * i + 1];
        size_t b = i / COUNT;
        int wanted = -1;

        if ((!one || b == first) && (!only_root || job.task == root))
            wanted = expected(type, root, b, i % COUNT);
        if (sent != word_of(job.task, i) || got != wanted)
            FAIL("%s, root %zu: word %zu: source %d, result %d instead of %d", name, root, i, sent,
                 got, wanted);
    }
}

static void run(pami_xfer_type_t type, pami_algorithm_t algorithm, const char *name)
{
    bool halves = type == PAMI_XFER_ALLTOALLV || type == PAMI_XFER_ALLTOALLV_INT;
    size_t words = COUNT * job.tasks;

    for (size_t root = 0; root < job.tasks; root++) {
        struct told told;
        pami_xfer_t xfer = coll_xfer(algorithm, &told);

        memset(memory, -1, 2 * words * sizeof *memory);
        for (size_t i = 0; i < words; i++)
            memory[halves ? i : 2 * i] = word_of(job.task, i);
        arguments(type, root, &xfer.cmd);
        coll_run(&job, job.context[0], &xfer);
        check(type, root, name);
    }
}

/* In place, with the send side of a program that thinks it is left alone. */
static void no_send_side(pami_algorithm_t algorithm, const char *name)
{
    size_t *none = test_zalloc(job.tasks * sizeof *none);
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm, &told);

    for (size_t i = 0; i < COUNT * job.tasks; i++)
        memory[i] = word_of(job.task, i);
    xfer.cmd.xfer_alltoallv =
        (pami_alltoallv_t){(char *)memory, PAMI_TYPE_SIGNED_INT, none,   none,
                           (char *)memory, PAMI_TYPE_SIGNED_INT, counts, near};
    coll_run(&job, job.context[0], &xfer);
    for (size_t i = 0; i < COUNT * job.tasks; i++)
        if (memory[i] != word_of(i / COUNT, COUNT * job.task + i % COUNT))
            FAIL("%s: word %zu is %d", name, i, memory[i]);
    free(none);
}

static void make_lists(void)
{
    counts = test_alloc(3 * job.tasks * sizeof *counts);
    near = counts + job.tasks;
    far = near + job.tasks;
    narrow_counts = test_alloc(3 * job.tasks * sizeof *narrow_counts);
    narrow_near = narrow_counts + job.tasks;
    narrow_far = narrow_near + job.tasks;
    for (size_t i = 0; i < job.tasks; i++) {
        counts[i] = COUNT;
        near[i] = COUNT * i;
        far[i] = COUNT * (job.tasks + i);
        narrow_counts[i] = (int)counts[i];
        narrow_near[i] = (int)near[i];
        narrow_far[i] = (int)far[i];
    }
}

int main(void)
{
    static const pami_xfer_type_t types[] = {
        PAMI_XFER_ALLREDUCE,     PAMI_XFER_REDUCE,     PAMI_XFER_SCAN,     PAMI_XFER_REDUCE_SCATTER,
        PAMI_XFER_ALLGATHER,     PAMI_XFER_ALLGATHERV, PAMI_XFER_GATHER,   PAMI_XFER_GATHERV,
        PAMI_XFER_SCATTER,       PAMI_XFER_SCATTERV,   PAMI_XFER_ALLTOALL, PAMI_XFER_ALLTOALLV,
        PAMI_XFER_ALLTOALLV_INT,
    };

    job_start(&job, "coll-columns", 1);
    even = column(0);
    odd = column(1);
    memory = test_alloc(2 * COUNT * job.tasks * sizeof *memory);
    make_lists();
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct algorithms all = algorithms_of(world_of(&job), types[i]);

        for (size_t a = 0; a < all.count[0]; a++)
            run(types[i], all.handle[0][a], all.metadata[0][a].name);
        for (size_t a = 0; a < all.count[0] && types[i] == PAMI_XFER_ALLTOALLV; a++)
            no_send_side(all.handle[0][a], all.metadata[0][a].name);
        algorithms_free(&all);
    }
    job_barrier(&job);
    free(memory);
    free(counts);
    free(narrow_counts);
    CHECK_OK(PAMI_Type_destroy(&even));
    CHECK_OK(PAMI_Type_destroy(&odd));
    job_finish(&job);
    return 0;
}
