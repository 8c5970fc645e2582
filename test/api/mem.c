/*
 * The shared heap: blocks of all sizes that only their owner frees, castable by the neighbours
 * through PAMIX_Mem_local_address and through views, not castable to other nodes; data written
 * through a cast is there for the owner and the other way round; misuse is refused with a text.
 * Transfers to a block that its owner has freed do no more than overwrite what is there: nobody
 * crashes, and the heap goes on.
 *
 * Run: tasks=1,2,4,8
 * Run: tasks=4 nodes=2
 * Run: tasks=2 env="PAMI_HEAP_BYTES=4M"
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 */
#include "rma.h"

#include <pamix.h>
#include <pthread.h>

enum {
    ROUNDS = 3,
    TASKS_MAX = 16,
    THREADS = 3
};

struct told {
    uint64_t address, bytes;
};

static struct job job;
static struct told told[TASKS_MAX];

static void *alloc(size_t bytes, size_t alignment)
{
    void *address = NULL;

    CHECK_OK(PAMIX_Mem_alloc(job.client, bytes, alignment, PAMIX_MEM_LOCAL, &address));
    CHECK(address != NULL && (uintptr_t)address % (alignment != 0 ? alignment : 16) == 0);
    return address;
}

static bool is_neighbour(size_t task)
{
    size_t count = client_attribute(job.client, PAMI_CLIENT_NUM_LOCAL_TASKS);
    pami_configuration_t query = {.name = PAMI_CLIENT_LOCAL_TASKS};

    CHECK_OK(PAMI_Client_query(job.client, &query, 1));
    for (size_t i = 0; i < count; i++)
        if (query.value.intarray[i] == task)
            return true;
    return false;
}

/* Everybody writes its own stripe of everybody's block. */
static void write_stripes(size_t stripe, size_t round)
{
    for (size_t task = 0; task < job.tasks; task++) {
        const void *remote = (void *)(uintptr_t)told[task].address;
        pamix_heap_view_t view = {0};
        char *cast =
            PAMIX_Mem_local_address(job.client, (pami_task_t)task, remote, told[task].bytes);

        if (!is_neighbour(task)) {
            CHECK(cast == NULL);
            CHECK_REFUSED(PAMIX_Mem_view(job.client, (pami_task_t)task, &view), PAMI_ERROR, "task");
            CHECK(view.bytes == 0 && view.local == NULL);
            continue;
        }
        CHECK_OK(PAMIX_Mem_view(job.client, (pami_task_t)task, &view));
        CHECK(cast != NULL && PAMIX_Mem_cast(&view, remote, told[task].bytes) == cast);
        CHECK(task != job.task || cast == remote);
        CHECK(PAMIX_Mem_cast(&view, remote, view.bytes + 1) == NULL);
        CHECK(PAMIX_Mem_cast(&view, &view, 1) == NULL);
        CHECK(PAMIX_Mem_cast(&view, NULL, 1) == NULL);
        CHECK(PAMIX_Mem_cast(&view, (char *)(uintptr_t)(view.remote + view.bytes), 1) == NULL);
        CHECK(PAMIX_Mem_cast(&view, (char *)(uintptr_t)(view.remote - 1), 2) == NULL);
        CHECK(PAMIX_Mem_cast(&view, (char *)(uintptr_t)view.remote, view.bytes) == view.local);
        test_fill(cast + job.task * stripe, stripe, job.task + round, task * stripe);
    }
}

static void check_stripes(const char *block, size_t stripe, size_t round)
{
    for (size_t task = 0; task < job.tasks; task++)
        if (is_neighbour(task))
            CHECK_SIZE(test_differs(block + task * stripe, stripe, task + round, job.task * stripe),
                       stripe);
}

static void cast_and_write(size_t round)
{
    static const size_t stripes[ROUNDS] = {8, 3000, 200000};
    size_t stripe = stripes[round];
    struct told mine = {.bytes = stripe * job.tasks};
    char *block = alloc(mine.bytes, round == 1 ? 65536 : 0);

    mine.address = (uint64_t)(uintptr_t)block;
    memset(block, 0, mine.bytes);
    rma_share(&job, &mine, sizeof mine, told);
    if (round == 1)
        for (size_t task = 0; task < job.tasks; task++)
            if (is_neighbour(task))
                CHECK((uintptr_t)PAMIX_Mem_local_address(job.client, (pami_task_t)task,
                                                         (void *)(uintptr_t)told[task].address, 1) %
                          65536 ==
                      0);
    write_stripes(stripe, round);
    job_barrier(&job);
    check_stripes(block, stripe, round);
    job_barrier(&job);
    CHECK_OK(PAMIX_Mem_free(job.client, block));
    CHECK_REFUSED(PAMIX_Mem_free(job.client, block), PAMI_INVAL, "address");
}

/* One word that all neighbours count with the inline functions, one they hand round. */
static void inline_functions(void)
{
    enum {
        TURNS = 1000
    };
    struct told mine = {.bytes = 64};
    uint64_t *block = alloc(64, 64);
    uint64_t neighbours = client_attribute(job.client, PAMI_CLIENT_NUM_LOCAL_TASKS);

    mine.address = (uint64_t)(uintptr_t)block;
    memset(block, 0, 64);
    rma_share(&job, &mine, sizeof mine, told);
    for (size_t task = 0; task < job.tasks; task++) {
        uint64_t *cast = PAMIX_Mem_local_address(job.client, (pami_task_t)task,
                                                 (void *)(uintptr_t)told[task].address, 64);
        uint64_t seen;

        if (cast == NULL)
            continue;
        for (int i = 0; i < TURNS; i++) {
            PAMIX_Mem_fetch_add8(&cast[0], 3);
            PAMIX_Mem_fetch_add4(&cast[1], 5);
            do
                seen = PAMIX_Mem_get8(&cast[2]);
            while (PAMIX_Mem_compare_swap8(&cast[2], seen, seen + 7) != seen);
            do
                seen = PAMIX_Mem_get4(&cast[3]);
            while (PAMIX_Mem_compare_swap4(&cast[3], (uint32_t)seen, (uint32_t)seen + 9) != seen);
        }
    }
    job_barrier(&job);
    CHECK_SIZE(block[0], 3 * TURNS * neighbours);
    CHECK_SIZE(block[1], 5 * TURNS * neighbours);
    CHECK_SIZE(block[2], 7 * TURNS * neighbours);
    CHECK_SIZE(block[3], 9 * TURNS * neighbours);
    PAMIX_Mem_put8(&block[0], 42);
    PAMIX_Mem_put4(&block[1], 43);
    CHECK(PAMIX_Mem_get8(&block[0]) == 42 && PAMIX_Mem_get4(&block[1]) == 43);
    PAMIX_Mem_put(&block[4], "1234567", 8);
    PAMIX_Mem_get(&block[5], &block[4], 8);
    CHECK(memcmp(&block[5], "1234567", 8) == 0);
    job_barrier(&job);
    CHECK_OK(PAMIX_Mem_free(job.client, block));
}

/* ---- misuse and limits ---- */

static void misuse(void)
{
    char local[64];
    void *address = local;
    char *block = alloc(1000, 0);
    pamix_heap_view_t view;

    CHECK_REFUSED(PAMIX_Mem_alloc(NULL, 8, 0, PAMIX_MEM_LOCAL, &address), PAMI_INVAL, "client");
    CHECK_REFUSED(PAMIX_Mem_alloc(job.client, 0, 0, PAMIX_MEM_LOCAL, &address), PAMI_INVAL,
                  "bytes");
    CHECK_REFUSED(PAMIX_Mem_alloc(job.client, 8, 3, PAMIX_MEM_LOCAL, &address), PAMI_INVAL,
                  "alignment");
    CHECK_REFUSED(PAMIX_Mem_alloc(job.client, 8, 2 * PAMIX_MEM_ALIGNMENT_MOST, 0, &address),
                  PAMI_INVAL, "alignment");
    CHECK_REFUSED(PAMIX_Mem_alloc(job.client, 8, 0, -3, &address), PAMI_INVAL, "node");
    CHECK_REFUSED(PAMIX_Mem_alloc(job.client, 8, 0, 100000, &address), PAMI_INVAL, "node");
    CHECK_REFUSED(PAMIX_Mem_alloc(job.client, 8, 0, 0, NULL), PAMI_INVAL, "address");
    CHECK_REFUSED(PAMIX_Mem_alloc(job.client, SIZE_MAX, 0, PAMIX_MEM_LOCAL, &address), PAMI_ENOMEM,
                  "PAMI_HEAP_BYTES");
    CHECK(address == local);
    CHECK_REFUSED(PAMIX_Mem_free(NULL, block), PAMI_INVAL, "client");
    CHECK_REFUSED(PAMIX_Mem_free(job.client, local), PAMI_INVAL, "address");
    CHECK_REFUSED(PAMIX_Mem_free(job.client, block + 16), PAMI_INVAL, "address");
    CHECK_REFUSED(PAMIX_Mem_free(job.client, block + 1), PAMI_INVAL, "address");
    CHECK_OK(PAMIX_Mem_free(job.client, NULL));
    CHECK_REFUSED(PAMIX_Mem_view(NULL, 0, &view), PAMI_INVAL, "client");
    CHECK_REFUSED(PAMIX_Mem_view(job.client, 0, NULL), PAMI_INVAL, "view");
    CHECK_REFUSED(PAMIX_Mem_view(job.client, (pami_task_t)job.tasks, &view), PAMI_INVAL, "task");
    CHECK(PAMIX_Mem_local_address(NULL, 0, block, 1) == NULL);
    CHECK(PAMIX_Mem_local_address(job.client, (pami_task_t)job.tasks, block, 1) == NULL);
    CHECK(PAMIX_Mem_local_address(job.client, (pami_task_t)job.task, local, 1) == NULL);
    CHECK(PAMIX_Mem_local_address(job.client, (pami_task_t)job.task, block, 1000) == block);
    CHECK_OK(PAMIX_Mem_free(job.client, block));
    /* Each of the nodes that there is for sure. */
    CHECK_OK(PAMIX_Mem_alloc(job.client, 100000, 0, 0, (void **)&block));
    memset(block, 1, 100000);
    CHECK_OK(PAMIX_Mem_free(job.client, block));
    CHECK_OK(PAMIX_Mem_alloc(job.client, 100000, 0, PAMIX_MEM_ANY, (void **)&block));
    CHECK_OK(PAMIX_Mem_free(job.client, block));
}

/* A small heap is used up, says so, and is whole again. */
static void use_up(void)
{
    const char *limit = getenv("PAMI_HEAP_BYTES");
    size_t count = 0;
    void *block[256];
    void *whole;

    if (limit == NULL || strcmp(limit, "4M") != 0)
        return;
    for (int round = 0; round < 20; round++) {
        for (count = 0;
             PAMIX_Mem_alloc(job.client, 65536, 0, PAMIX_MEM_LOCAL, &block[count]) == PAMI_SUCCESS;
             count++) {
            CHECK(count < 255);
            memset(block[count], 1, 65536);
        }
        CHECK(strstr(test_text(), "PAMI_HEAP_BYTES") != NULL);
        CHECK(count >= 63); /* what is kept of earlier small ones may be in the way */
        while (count-- > 0)
            CHECK_OK(PAMIX_Mem_free(job.client, block[count]));
        CHECK_OK(PAMIX_Mem_alloc(job.client, 4 << 20, 0, PAMIX_MEM_LOCAL, &whole));
        CHECK_OK(PAMIX_Mem_free(job.client, whole));
    }
}

/* Resident memory of this process that is shared, KiB; 0: not known. */
static size_t resident_shared(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "RssShmem: %zu", &kib);
    if (file != NULL)
        fclose(file);
    return kib;
}

/* What is freed goes back to the system. */
static void gives_back(void)
{
    size_t before = resident_shared();
    size_t bytes = (size_t)64 << 20;
    char *block;

    if (before == 0 || getenv("PAMI_HEAP_BYTES") != NULL)
        return;
    block = alloc(bytes, 0);
    CHECK(resident_shared() < before + 8192); /* nothing is touched */
    for (size_t i = 0; i < bytes; i += 4096)
        block[i] = 1;
    CHECK(resident_shared() + 8192 >= before + bytes / 1024);
    CHECK_OK(PAMIX_Mem_free(job.client, block));
    CHECK(resident_shared() < before + 8192);
}

/* ---- freed blocks ---- */

static size_t ends;

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)cookie;
    CHECK(context == job.context[0] && (result == PAMI_SUCCESS || result == PAMI_ERROR));
    ends++;
}

/* All three kinds of transfers; what they find there is not told. */
static void use_freed(size_t task)
{
    static uint64_t word = 1, old, data[8];
    const pami_rma_t head = {.dest = job_endpoint(&job, task, 0), .bytes = sizeof data};
    char *remote = (char *)(uintptr_t)told[task].address;
    pami_put_simple_t put = {.rma = head, .addr = {data, remote}, .put = {.rdone_fn = on_end}};
    pami_get_simple_t get = {.rma = head, .addr = {data, remote}};
    pami_rmw_t add = {.dest = head.dest,
                      .done_fn = on_end,
                      .local = &old,
                      .remote = remote + 64,
                      .value = &word,
                      .operation = PAMI_ATOMIC_FETCH_ADD,
                      .type = PAMI_TYPE_UNSIGNED_LONG};

    ends = 0;
    get.rma.done_fn = on_end;
    CHECK_OK(PAMI_Put(job.context[0], &put));
    CHECK_OK(PAMI_Get(job.context[0], &get));
    CHECK_OK(PAMI_Rmw(job.context[0], &add));
    WAIT(&job, ends == 3);
}

static void *churn(void *argument);

static void freed(size_t bytes)
{
    struct told mine = {.bytes = bytes};
    char *block = alloc(bytes, 0);

    mine.address = (uint64_t)(uintptr_t)block;
    job_barrier(&job);
    rma_share(&job, &mine, sizeof mine, told);
    CHECK_OK(PAMIX_Mem_free(job.client, block));
    job_barrier(&job);
    for (size_t task = 0; task < job.tasks; task++)
        use_freed(task);
    job_barrier(&job);
    block = alloc(bytes, 0);
    test_fill(block, bytes, job.task, 0);
    churn(NULL);
    CHECK_SIZE(test_differs(block, bytes, job.task, 0), bytes);
    CHECK_OK(PAMIX_Mem_free(job.client, block));
}

/* ---- threads ---- */

static void *churn(void *argument)
{
    uint64_t state = 1 + (size_t)argument + job.task * 100;
    struct {
        unsigned char *address;
        size_t bytes;
    } block[32] = {{NULL, 0}};

    for (int i = 0; i < 4000; i++) {
        size_t slot = test_random(&state) % 32;

        if (block[slot].address == NULL) {
            block[slot].bytes = 1 + test_random(&state) % (i % 16 ? 700 : 30000);
            block[slot].address = alloc(block[slot].bytes, 0);
            memset(block[slot].address, (int)slot + 1, block[slot].bytes);
        } else {
            CHECK(test_all(block[slot].address, block[slot].bytes, (unsigned char)(slot + 1)));
            CHECK_OK(PAMIX_Mem_free(job.client, block[slot].address));
            block[slot].address = NULL;
        }
    }
    return NULL; /* what is left goes with the client */
}

static void threads(void)
{
    pthread_t thread[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, churn, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    job_start(&job, "mem", 1);
    rma_open(&job);
    job_barrier(&job);
    for (size_t round = 0; round < ROUNDS; round++)
        cast_and_write(round);
    inline_functions();
    misuse();
    use_up();
    job_barrier(&job);
    gives_back();
    freed(200);
    freed(300000);
    threads();
    job_barrier(&job);
    rma_close(&job);
    return 0;
}
