/*
 * Large plain puts and gets between two tasks on two nodes, of memory that nobody has announced:
 * the network moves them after the target has been asked, or packets do. Puts become visible in the
 * order of the calls, whichever way each goes; wrong addresses are errors of one transfer; a fence
 * covers them; what the target has not touched yet is no problem.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_RAILS=3"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_RMA=regions"
 */
#include "api/rma.h"
#include "net/net.h"

#include <sys/mman.h>

enum {
    CONTEXTS = 2,
    WINDOW = 6 << 20,
    HUGE_BYTES = (20 << 20) + 4099,
    ROUNDS = 20,
    PUTS = 24,
    PAGE = 4096
};

static struct job job;
static unsigned char *window, *source;
static struct {
    unsigned char *window, *fresh, *hole, *closed;
} mine, all[2];
static size_t other, fenced;

static unsigned char pattern(size_t seed, size_t i)
{
    return (unsigned char)(seed * 29 + i * 7 + (i >> 11));
}

static void fill(unsigned char *to, size_t bytes, size_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = pattern(seed, i);
}

static void check(const unsigned char *at, size_t bytes, size_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern(seed, i))
            FAIL("byte %zu of %zu is wrong", i, bytes);
}

static pami_endpoint_t target(size_t context)
{
    return job_endpoint(&job, other, context);
}

static void on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    fenced++;
}

static size_t size_of(size_t i)
{
    static const size_t sizes[] = {300001, 100, 1 << 20, 140000, 40000, 5000003, 8, 200000};

    return sizes[i % (sizeof sizes / sizeof sizes[0])];
}

/* All to one place, one after the other: the last one is on top of those before it. */
static void in_order(size_t round)
{
    static struct rma ops[PUTS];
    unsigned char *expected = test_zalloc(WINDOW);
    size_t place = 0;

    memset(ops, 0, sizeof ops);
    for (size_t i = 0; i < PUTS; i++) {
        size_t bytes = size_of(i * 5 + round);
        unsigned char *from = source + place;

        fill(from, bytes, i + round * PUTS + job.task);
        memcpy(expected + i * 17, from, bytes);
        rma_put(&ops[i], job.context[0], target(0), from, all[other].window + i * 17, bytes);
        place += bytes;
    }
    fenced = 0;
    CHECK_OK(PAMI_Fence_endpoint(job.context[0], on_fence, NULL, target(0)));
    WAIT(&job, fenced == 1);
    for (size_t i = 0; i < PUTS; i++)
        CHECK(rma_has_ended(&ops[i]));
    job_barrier(&job);
    /* What the other one has made of this task's window it sees by reading it. */
    memset(source, 0, WINDOW);
    memset(ops, 0, sizeof ops);
    rma_get(&ops[0], job.context[1], target(1), source, all[other].window, 300000);
    rma_get(&ops[1], job.context[0], target(0), source + 300000, all[other].window + 300000,
            WINDOW - 300000);
    rma_wait(&job);
    CHECK(memcmp(source, expected, WINDOW) == 0);
    free(expected);
    job_barrier(&job);
    memset(window, 0, WINDOW);
    job_barrier(&job);
}

/* More than is asked about at once, into pages that are not there yet. */
static void huge(void)
{
    struct rma put = {0}, get = {0};
    unsigned char *back = test_zalloc(HUGE_BYTES);

    fill(source, HUGE_BYTES, 3 + job.task);
    rma_put(&put, job.context[0], target(1), source, all[other].fresh, HUGE_BYTES);
    rma_wait(&job);
    job_barrier(&job);
    check(mine.fresh, HUGE_BYTES, 3 + other);
    rma_get(&get, job.context[1], target(0), back, all[other].fresh, HUGE_BYTES);
    rma_wait(&job);
    check(back, HUGE_BYTES, 3 + job.task);
    job_barrier(&job);
    free(back);
}

/* Between good ones, which nothing happens to. */
static void wrong(void)
{
    struct rma ops[8] = {{0}};

    fill(source, 1 << 20, 77 + job.task);
    ops[1].expect = ops[2].expect = ops[3].expect = ops[5].expect = ops[6].expect = RMA_BAD;
    rma_put(&ops[0], job.context[0], target(0), source, all[other].window, 1 << 20);
    rma_put(&ops[1], job.context[0], target(0), source, all[other].hole, 1 << 20);
    rma_put(&ops[2], job.context[0], target(0), source, all[other].closed, 1 << 20);
    rma_get(&ops[3], job.context[0], target(0), source + (2 << 20), all[other].hole, 1 << 20);
    rma_put(&ops[4], job.context[0], target(0), source, all[other].window + (1 << 20), 1 << 20);
    rma_put(&ops[5], job.context[0], target(0), source, (void *)(uintptr_t)4096, 1 << 20);
    rma_get(&ops[6], job.context[0], target(0), source + (2 << 20),
            (void *)(uintptr_t)0xffffffff80000000u, 1 << 20);
    rma_get(&ops[7], job.context[0], target(0), source + (3 << 20), all[other].closed, 1 << 20);
    rma_wait(&job);
    job_barrier(&job);
    check(window, 1 << 20, 77 + other);
    check(window + (1 << 20), 1 << 20, 77 + other);
    CHECK(test_all(source + (3 << 20), 1 << 20, 9));
    job_barrier(&job);
}

static unsigned char *map(size_t bytes)
{
    unsigned char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    return memory;
}

int main(void)
{
    job_start(&job, "unannounced", CONTEXTS);
    need_module();
    CHECK_SIZE(job.tasks, 2);
    other = 1 - job.task;
    rma_open(&job);
    window = test_zalloc(WINDOW);
    source = test_zalloc(4 * HUGE_BYTES);
    mine.window = window;
    mine.fresh = map(HUGE_BYTES);
    mine.hole = map(1 << 20);
    CHECK(mprotect(mine.hole + (1 << 19), PAGE, PROT_NONE) == 0);
    mine.closed = map(1 << 20);
    memset(mine.closed, 9, 1 << 20);
    CHECK(mprotect(mine.closed, 1 << 20, PROT_READ) == 0);
    rma_share(&job, &mine, sizeof mine, all);
    for (size_t round = 0; round < ROUNDS; round++)
        in_order(round);
    huge();
    wrong();
    in_order(ROUNDS);
    munmap(mine.fresh, HUGE_BYTES), munmap(mine.hole, 1 << 20), munmap(mine.closed, 1 << 20);
    free(window), free(source);
    rma_close(&job);
    return 0;
}
