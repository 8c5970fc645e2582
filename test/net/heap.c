/*
 * Gets from the shared heap of a task on another node, which the network may read without asking:
 * the heap is used for the first time after the two have talked, the data is right whatever its
 * size and however many gets are under way, and what ends behind the heap is refused and disturbs
 * no later get.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_HEAP_BYTES=16M"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_HEAP_BYTES=16M PAMI_OFI_RAILS=3"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_HEAP_BYTES=16M PAMI_OFI_RMA=regions"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_HEAP_BYTES=16M PAMI_OFI_RMA=no"
 */
#include <pami/pamix.h>
#include <sys/mman.h>

#include "api/rma.h"
#include "net/net.h"

enum {
    HEAP = 16 << 20,
    WINDOW = 3 << 20,
    ROUNDS = 20,
    GETS = 24,
    PAGE = 4096
};

static struct job job;

/* Where a task's window is, and its heap. */
struct place {
    unsigned char *window;
    uintptr_t heap;
    bool guarded; /* behind it is nothing */
};

static unsigned char pattern(size_t task, size_t i)
{
    return (unsigned char)(task * 101 + i * 7 + (i >> 11));
}

static size_t size_of(size_t number)
{
    static const size_t sizes[] = {1, 8, 100, 4095, 4096, 4097, 32768, 70001, 200000, 1 << 20};

    return sizes[number % (sizeof sizes / sizeof sizes[0])];
}

/* Many at a time, each to a place of its own. */
static void gets(const struct place *there, size_t other, size_t round)
{
    static struct rma op[GETS];
    static unsigned char *to[GETS];

    for (size_t i = 0; i < GETS; i++) {
        size_t bytes = size_of(round + i), at = (round * 4099 + i * 70001) % (WINDOW - bytes);

        op[i] = (struct rma){0};
        to[i] = test_zalloc(bytes);
        rma_get(&op[i], job.context[0], job_endpoint(&job, other, 0), to[i], there->window + at,
                bytes);
        if (round % 2 == 0)
            rma_wait(&job);
    }
    rma_wait(&job);
    for (size_t i = 0; i < GETS; i++) {
        size_t bytes = size_of(round + i), at = (round * 4099 + i * 70001) % (WINDOW - bytes);

        for (size_t k = 0; k < bytes; k++)
            if (to[i][k] != pattern(other, at + k))
                FAIL("byte %zu of %zu got from %zu is wrong", k, bytes, at);
        free(to[i]);
    }
}

/* From the heap's last page and what is behind it. */
static void beyond(const struct place *there, size_t other)
{
    static struct rma op;
    unsigned char *to = test_zalloc(3 * PAGE);

    op = (struct rma){.expect = there->guarded ? RMA_BAD : RMA_ANY};
    rma_get(&op, job.context[0], job_endpoint(&job, other, 0), to,
            (void *)(there->heap + HEAP - PAGE), 3 * PAGE);
    rma_wait(&job);
    free(to);
}

int main(void)
{
    struct place mine, all[2];
    pamix_heap_view_t view;
    void *window = NULL;

    job_start(&job, "heap", 1);
    need_module();
    CHECK_SIZE(job.tasks, 2);
    rma_open(&job);
    job_barrier(&job);
    CHECK_OK(TEST_CALL(PAMIX_Mem_alloc(job.client, WINDOW, 64, PAMIX_MEM_ANY, &window)));
    CHECK_OK(TEST_CALL(PAMIX_Mem_view(job.client, job.task, &view)));
    CHECK_SIZE(view.bytes, HEAP);
    mine = (struct place){.window = window, .heap = (uintptr_t)view.remote};
    mine.guarded = mmap((void *)(mine.heap + HEAP), 2 * PAGE, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED;
    for (size_t i = 0; i < WINDOW; i++)
        mine.window[i] = pattern(job.task, i);
    rma_share(&job, &mine, sizeof mine, all);
    for (size_t round = 0; round < ROUNDS; round++) {
        gets(&all[1 - job.task], 1 - job.task, round);
        if (round % 8 == 0)
            beyond(&all[1 - job.task], 1 - job.task);
    }
    job_barrier(&job);
    CHECK_OK(TEST_CALL(PAMIX_Mem_free(job.client, window)));
    rma_close(&job);
    return 0;
}
