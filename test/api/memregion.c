/*
 * PAMI_Memregion_create and _destroy: any memory, any number of regions, overlapping ones too, each
 * independent of the others, usable as plain bytes on any context and in another task. To make one
 * takes no longer where many live.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=3 nodes=3
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_YIELD=always PAMI_SHM_RING_SLOTS=8"
 */
#include "rma.h"

#include <malloc.h>

enum {
    CONTEXTS = 4,
    MANY = 3000,
    SOME = 3,
    ROUNDS = 40000,
    LIVING = 300000,
    CHANGES = 50000,
    BYTES = 8192,
    ID = 1
};

struct region {
    pami_memregion_t bytes;
};

static struct job job;
static size_t next, previous;

static bool is_zero(const struct region *region)
{
    return test_all(region, sizeof *region, 0);
}

static void arguments(void)
{
    static char memory[64];
    struct region region;
    size_t bytes = 77;

    CHECK(client_attribute(job.client, PAMI_CLIENT_MEMREGION_SIZE) <= sizeof region);
    CHECK(client_attribute(job.client, PAMI_CLIENT_MEMREGION_SIZE) > 0);
    memset(&region, 0x33, sizeof region);
    CHECK_REFUSED(PAMI_Memregion_create(job.context[0], NULL, 64, &bytes, &region.bytes),
                  PAMI_INVAL, "address");
    CHECK_REFUSED(PAMI_Memregion_create(job.context[0], memory, 0, &bytes, &region.bytes),
                  PAMI_INVAL, "bytes");
    CHECK_RESULT(PAMI_Memregion_create(PAMI_CONTEXT_NULL, memory, 64, &bytes, &region.bytes),
                 PAMI_INVAL);
    CHECK_RESULT(PAMI_Memregion_create(job.context[0], memory, 64, NULL, &region.bytes),
                 PAMI_INVAL);
    CHECK_RESULT(PAMI_Memregion_create(job.context[0], memory, 64, &bytes, NULL), PAMI_INVAL);
    /* It would not end where addresses do. */
    CHECK_RESULT(PAMI_Memregion_create(job.context[0], memory, (size_t)-1, &bytes, &region.bytes),
                 PAMI_INVAL);
    CHECK(bytes == 77 && test_all(&region, sizeof region, 0x33));

    rma_region(job.context[0], memory, sizeof memory, &region.bytes);
    CHECK_OK(PAMI_Memregion_destroy(job.context[1], &region.bytes));
    CHECK(is_zero(&region));
    CHECK_RESULT(PAMI_Memregion_destroy(job.context[0], &region.bytes), PAMI_INVAL);
    CHECK_RESULT(PAMI_Memregion_destroy(job.context[0], NULL), PAMI_INVAL);
}

/* Regions of one buffer that overlap: one goes, the others stay as they are. */
static void overlapping(void)
{
    static unsigned char window[BYTES];
    enum {
        REGIONS = 8
    };
    struct region mine[REGIONS], *all = test_alloc(job.tasks * sizeof mine), near;
    unsigned char source[REGIONS];

    memset(window, 0, sizeof window);
    for (size_t i = 0; i < REGIONS; i++)
        rma_region(job.context[i % CONTEXTS], window + i, BYTES - 2 * i, &mine[i].bytes);
    rma_share(&job, mine, sizeof mine, all);
    rma_region(job.context[0], source, sizeof source, &near.bytes);
    for (size_t round = 0; round < REGIONS; round++) {
        struct rma op[REGIONS] = {0};

        for (size_t i = round; i < REGIONS; i++) {
            source[i] = (unsigned char)(1 + job.task + round * 20 + i);
            rma_rput(&op[i], job.context[round % CONTEXTS], job_endpoint(&job, next, 0),
                     (pami_rma_mr_t){&near.bytes, i},
                     (pami_rma_mr_t){&all[next * REGIONS + i].bytes, 100 * round}, 1);
        }
        rma_wait(&job);
        job_barrier(&job);
        for (size_t i = round; i < REGIONS; i++)
            CHECK(window[i + 100 * round] == (unsigned char)(1 + previous + round * 20 + i));
        CHECK_OK(PAMI_Memregion_destroy(job.context[0], &mine[round].bytes));
        job_barrier(&job);
    }
    CHECK_OK(PAMI_Memregion_destroy(job.context[3], &near.bytes));
    free(all);
}

/* Thousands at a time, used in another order than they were made in. */
static void many(void)
{
    static uint64_t window[MANY], got[MANY];
    static struct region region[MANY];
    struct region near;
    struct rma *op = test_zalloc(MANY * sizeof *op);

    rma_region(job.context[0], got, sizeof got, &near.bytes);
    for (size_t i = 0; i < MANY; i++) {
        window[i] = i * 7 + job.task;
        rma_region(job.context[i % CONTEXTS], &window[i], sizeof window[i], &region[i].bytes);
    }
    for (size_t i = 0; i < MANY; i++) {
        size_t x = (i * 701) % MANY;

        rma_rget(&op[i], job.context[0], job_endpoint(&job, job.task, 0),
                 (pami_rma_mr_t){&near.bytes, x * 8}, (pami_rma_mr_t){&region[x].bytes, 0}, 8);
    }
    rma_wait(&job);
    CHECK(memcmp(window, got, sizeof got) == 0);
    for (size_t i = 0; i < MANY; i++)
        CHECK_OK(PAMI_Memregion_destroy(job.context[0], &region[i].bytes));
    CHECK_OK(PAMI_Memregion_destroy(job.context[0], &near.bytes));
    free(op);
}

/* Some at a time, again and again: what they take is given to the next ones. */
static void again(void)
{
    static char memory[SOME];
    struct region region[SOME];
    size_t before = 0;

    for (size_t i = 0; i < ROUNDS; i++) {
        for (size_t k = 0; k < SOME; k++)
            rma_region(job.context[k], &memory[k], 1, &region[k].bytes);
        for (size_t k = 0; k < SOME; k++)
            CHECK_OK(PAMI_Memregion_destroy(job.context[0], &region[k].bytes));
        if (i == ROUNDS / 10)
            before = mallinfo2().uordblks;
    }
    if (mallinfo2().uordblks > before + ROUNDS)
        FAIL("%zu bytes of memory became %zu", before, mallinfo2().uordblks);
}

/* While so many live that to look at each of them would take minutes. */
static void among_many(void)
{
    static char memory[2];
    struct region *region = test_alloc(LIVING * sizeof *region), other;

    for (size_t i = 0; i < LIVING; i++)
        rma_region(job.context[0], memory, 1, &region[i].bytes);
    for (size_t i = 0; i < CHANGES; i++) {
        CHECK_OK(PAMI_Memregion_destroy(job.context[0], &region[0].bytes));
        rma_region(job.context[0], memory, 2, &region[0].bytes);
        rma_region(job.context[0], memory, 1, &other.bytes);
        CHECK_OK(PAMI_Memregion_destroy(job.context[0], &other.bytes));
    }
    for (size_t i = 0; i < LIVING; i++)
        CHECK_OK(PAMI_Memregion_destroy(job.context[0], &region[i].bytes));
    free(region);
}

/* Memory that cannot be written to makes a region to read from. */
static void read_only(void)
{
    static const char constant[] = "text of the program";
    struct region mine, near, *all = test_alloc(job.tasks * sizeof *all);
    char got[sizeof constant];
    struct rma op = {0};

    rma_region(job.context[0], (void *)constant, sizeof constant, &mine.bytes);
    rma_region(job.context[0], got, sizeof got, &near.bytes);
    rma_share(&job, &mine, sizeof mine, all);
    rma_rget(&op, job.context[2], job_endpoint(&job, next, 0), (pami_rma_mr_t){&near.bytes, 0},
             (pami_rma_mr_t){&all[next].bytes, 0}, sizeof constant);
    rma_wait(&job);
    CHECK(memcmp(got, constant, sizeof got) == 0);
    job_barrier(&job);
    CHECK_OK(PAMI_Memregion_destroy(job.context[1], &mine.bytes));
    CHECK_OK(PAMI_Memregion_destroy(job.context[1], &near.bytes));
    free(all);
}

/* In a message; the receiver reads from inside the dispatch function. */
static struct rma answer;
static uint64_t fetched;
static struct region fetched_region;

static void on_region(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct region region;

    (void)cookie, (void)header, (void)header_bytes;
    CHECK_CALLBACK();
    CHECK(recv == NULL && bytes == sizeof region);
    memcpy(&region, data, sizeof region);
    rma_rget(&answer, context, origin, (pami_rma_mr_t){&fetched_region.bytes, 0},
             (pami_rma_mr_t){&region.bytes, 8}, 8);
}

static void in_a_message(void)
{
    uint64_t words[3] = {1, 100 + job.task, 3};
    struct region region;

    rma_region(job.context[1], &fetched, sizeof fetched, &fetched_region.bytes);
    rma_region(job.context[0], words, sizeof words, &region.bytes);
    test_dispatch(job.context[2], ID, on_region, NULL, test_ordered());
    job_barrier(&job);
    test_send_immediate(job.context[2], job_endpoint(&job, next, 2), ID, NULL, 0, &region,
                        sizeof region);
    WAIT(&job, answer.done == 1);
    CHECK(fetched == 100 + previous);
    job_barrier(&job);
    CHECK_OK(PAMI_Memregion_destroy(job.context[0], &region.bytes));
    CHECK_OK(PAMI_Memregion_destroy(job.context[0], &fetched_region.bytes));
}

int main(void)
{
    job_start(&job, "memregion", CONTEXTS);
    rma_open(&job);
    next = (job.task + 1) % job.tasks;
    previous = (job.task + job.tasks - 1) % job.tasks;
    arguments();
    overlapping();
    many();
    again();
    if (job.tasks == 1)
        among_many();
    read_only();
    in_a_message();
    rma_close(&job);
    return 0;
}
