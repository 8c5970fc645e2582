/*
 * Remote addresses that are not there any more, may not be written to, or never were: the operation
 * ends with an error, the target lives on and is not touched elsewhere, and everything works as
 * before afterwards. With the argument "heap" the origin's own memory is in its shared heap, where
 * the target, when it helps with a large transfer, needs no kernel to reach it.
 *
 * Run: tasks=2,3
 * Run: tasks=2,4 nodes=2
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=on"
 * Run: tasks=5 env="PAMI_YIELD=always"
 * Run: tasks=2,3 args="heap" env="PAMI_SHM_JOINT_COPY=on"
 * Run: tasks=2 args="heap" env="PAMI_SHM_SINGLE_COPY=off"
 */
#include <pami/pamix.h>

#include "rma.h"

#include <sys/mman.h>

enum {
    PAGE = 4096,
    PAGES = 512,
    HALF = PAGES / 2,
    CONTENT = 7
};

enum hole {
    HOLE_UNMAPPED,
    HOLE_SECOND_HALF, /* the first half is there */
    HOLE_NONE,        /* PROT_NONE */
    HOLE_READ_ONLY,
    HOLE_NULL,
    HOLE_KERNEL, /* an address that no process has */
    HOLES
};

static struct job job;
static size_t next;
static pami_type_t stripes;
static unsigned char *local; /* PAGES pages */

/* Far from where the system places what somebody maps meanwhile: a hole has to stay one. */
static void *const place = (void *)(uintptr_t)0x100000000000u;

static unsigned char *make(enum hole hole)
{
    unsigned char *memory =
        mmap(place, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    memset(memory, CONTENT, PAGES * PAGE);
    switch (hole) {
    case HOLE_UNMAPPED:
        CHECK(munmap(memory, PAGES * PAGE) == 0);
        break;
    case HOLE_SECOND_HALF:
        CHECK(munmap(memory + HALF * PAGE, HALF * PAGE) == 0);
        break;
    case HOLE_NONE:
        CHECK(mprotect(memory, PAGES * PAGE, PROT_NONE) == 0);
        break;
    case HOLE_READ_ONLY:
        CHECK(mprotect(memory, PAGES * PAGE, PROT_READ) == 0);
        break;
    case HOLE_NULL:
        CHECK(munmap(memory, PAGES * PAGE) == 0);
        return NULL;
    default:
        CHECK(munmap(memory, PAGES * PAGE) == 0);
        return (unsigned char *)(uintptr_t)0xffff800000000000u;
    }
    return memory;
}

static void unmake(enum hole hole, unsigned char *memory)
{
    if (hole == HOLE_READ_ONLY)
        CHECK(test_all(memory, PAGES * PAGE, CONTENT));
    if (hole == HOLE_SECOND_HALF)
        CHECK(munmap(memory, HALF * PAGE) == 0);
    else if (hole == HOLE_NONE || hole == HOLE_READ_ONLY)
        CHECK(munmap(memory, PAGES * PAGE) == 0);
}

/* May be refused, if the library can tell; or ends with an error. */
static void must_fail(bool is_put, bool is_typed, unsigned char *remote, size_t bytes)
{
    struct rma op = {.expect = RMA_BAD};
    pami_context_t context = job.context[0];
    pami_endpoint_t to = job_endpoint(&job, next, 0);
    pami_put_typed_t put = {
        .rma = rma_head(&op, is_put, context, to, is_typed ? bytes / 2 : bytes),
        .addr = {local, remote},
        .type = {PAMI_TYPE_BYTE, stripes},
        .put = rma_tail(&op),
    };
    pami_put_simple_t plain_put = {put.rma, put.addr, put.put};
    pami_get_typed_t get = {put.rma, put.addr, put.type};
    pami_get_simple_t plain_get = {put.rma, put.addr};
    pami_result_t result;

    if (is_put)
        result = is_typed ? TEST_CALL(PAMI_Put_typed(context, &put))
                          : TEST_CALL(PAMI_Put(context, &plain_put));
    else
        result = is_typed ? TEST_CALL(PAMI_Get_typed(context, &get))
                          : TEST_CALL(PAMI_Get(context, &plain_get));
    if (result != PAMI_SUCCESS) {
        CHECK(result == PAMI_INVAL);
        rma_pending--;
    }
    rma_wait(&job);
}

/* It may tell that something before it has failed; the next one is as good as ever. */
static void on_first_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    *(bool *)cookie = true;
}

/* The task that was hit answers as before. */
static void still_there(void)
{
    static uint64_t word, got;
    uint64_t *mine = &word, **all = test_alloc(job.tasks * sizeof *all), value = job.task + 5;
    struct rma put = {0}, get = {0};
    bool fenced = false;

    word = 0;
    rma_share(&job, &mine, sizeof mine, all);
    rma_put(&put, job.context[0], job_endpoint(&job, next, 0), &value, all[next], sizeof value);
    rma_wait(&job);
    rma_get(&get, job.context[0], job_endpoint(&job, next, 0), &got, all[next], sizeof got);
    rma_wait(&job);
    CHECK(got == value);
    CHECK_OK(TEST_CALL(PAMI_Fence_all(job.context[0], on_first_fence, &fenced)));
    WAIT(&job, fenced);
    rma_fence(&job, 0);
    job_barrier(&job);
    free(all);
}

static void fall_once(enum hole hole, unsigned char *hit)
{
    static const size_t sizes[] = {1, 8, 200, PAGE, 10000, (HALF - 1) * PAGE};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *remote = hit;

        if (hole == HOLE_SECOND_HALF) /* begins in the good half */
            remote += HALF * PAGE - sizes[i] / 2;
        for (int typed = 0; typed < 2; typed++) {
            if (typed && sizes[i] < 64)
                continue;
            must_fail(true, typed, remote, sizes[i]);
            if (hole != HOLE_READ_ONLY)
                must_fail(false, typed, remote, sizes[i]);
        }
    }
}

/* All at once, and by turns: who waits helps, if it is quick. */
static void fall_into(enum hole hole)
{
    unsigned char *mine = make(hole), **all = test_alloc(job.tasks * sizeof *all);

    rma_share(&job, &mine, sizeof mine, all);
    fall_once(hole, all[next]);
    for (size_t turn = 0; turn < 4 * job.tasks; turn++) {
        job_barrier(&job);
        if (turn % job.tasks == job.task)
            fall_once(hole, all[next]);
    }
    job_barrier(&job);
    unmake(hole, mine);
    still_there();
    free(all);
}

int main(int argc, char **argv)
{
    static unsigned char plain[PAGES * PAGE];
    void *memory = plain;
    bool heap = argc > 1 && strcmp(argv[1], "heap") == 0;

    job_start(&job, "rma_faults", 2);
    rma_open(&job);
    next = (job.task + 1) % job.tasks;
    if (heap)
        CHECK_OK(PAMIX_Mem_alloc(job.client, PAGES * PAGE, 0, PAMIX_MEM_LOCAL, &memory));
    local = memory;
    CHECK_OK(PAMI_Type_create(&stripes));
    CHECK_OK(PAMI_Type_add_simple(stripes, 8, 0, 1, 16));
    CHECK_OK(PAMI_Type_complete(stripes, 8));
    for (int hole = 0; hole < HOLES; hole++)
        fall_into((enum hole)hole);
    CHECK_OK(PAMI_Type_destroy(&stripes));
    if (heap)
        CHECK_OK(PAMIX_Mem_free(job.client, memory));
    rma_close(&job);
    return 0;
}
