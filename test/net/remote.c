/*
 * Transfers between memory regions of two tasks on two nodes: what rdone_fn promises is looked at
 * by the target, regions come and go all the time on both contexts, puts to the same place keep the
 * order of the calls, and a region that has gone disturbs nothing but the transfer that uses it.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_RMA=regions"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_RMA=regions PAMI_OFI_RAILS=3"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_RAILS=4"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_RMA=no"
 */
#include "api/rma.h"
#include "net/net.h"

enum {
    LOOK_ID = 1,
    CONTEXTS = 2,
    ROUNDS = 30,
    WINDOW = 6 << 20,
    REGIONS = 40,
    PART = 100000,
    STALE = 5000,
    CROWDS = 5,
    PUTS = 400,
    CROWDED = 1 << 20
};

struct look {
    size_t at, bytes;
    unsigned char first;
};

static struct job job;
static unsigned char *window, *source;
static size_t looks, other;

static unsigned char pattern(unsigned char first, size_t i)
{
    return (unsigned char)(first + i * 7 + (i >> 11));
}

/* It has been told that the bytes are there. */
static void on_look(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct look look;

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)origin, (void)recv;
    CHECK_SIZE(bytes, sizeof look);
    memcpy(&look, data, sizeof look);
    for (size_t i = 0; i < look.bytes; i++)
        if (window[look.at + i] != pattern(look.first, i))
            FAIL("byte %zu of %zu put at %zu is not there", i, look.bytes, look.at);
    looks++;
}

static size_t size_of_round(size_t round)
{
    static const size_t sizes[] = {1,     8,      100,     4096,    40000,
                                   70001, 300000, 1 << 20, 2500003, 5 << 20};

    return sizes[round % (sizeof sizes / sizeof sizes[0])];
}

static void put_and_say(size_t round, pami_memregion_t *mine, pami_memregion_t *theirs)
{
    struct look look = {.at = round * 4099, .bytes = size_of_round(round)};
    size_t context = round % CONTEXTS;
    struct rma op = {0};

    look.first = (unsigned char)(round * 31 + job.task);
    for (size_t i = 0; i < look.bytes; i++)
        source[i] = pattern(look.first, i);
    rma_rput(&op, job.context[context], job_endpoint(&job, other, round / 2 % CONTEXTS),
             (pami_rma_mr_t){mine, 0}, (pami_rma_mr_t){theirs, look.at}, look.bytes);
    rma_wait(&job);
    test_send_immediate(job.context[0], job_endpoint(&job, other, 0), LOOK_ID, NULL, 0, &look,
                        sizeof look);
}

/* What was put comes back by a get. */
static void get_back(size_t round, pami_memregion_t *mine, pami_memregion_t *theirs)
{
    size_t bytes = size_of_round(round), at = round * 4099;
    struct rma op = {0};

    memset(source, 0, bytes);
    rma_rget(&op, job.context[round % CONTEXTS], job_endpoint(&job, other, round / 2 % CONTEXTS),
             (pami_rma_mr_t){mine, 0}, (pami_rma_mr_t){theirs, at}, bytes);
    rma_wait(&job);
    for (size_t i = 0; i < bytes; i++)
        CHECK(source[i] == pattern((unsigned char)(round * 31 + job.task), i));
}

static void one_round(size_t round)
{
    pami_memregion_t mine[2], all[2][2];

    rma_region(job.context[round / 2 % CONTEXTS], window, WINDOW, &mine[0]);
    /* By the context that uses it, or by the other one. */
    rma_region(job.context[(round + round / 4) % CONTEXTS], source, WINDOW, &mine[1]);
    rma_share(&job, mine, sizeof mine, all);
    put_and_say(round, &mine[1], &all[other][0]);
    WAIT(&job, looks == round + 1);
    job_barrier(&job);
    get_back(round, &mine[1], &all[other][0]);
    job_barrier(&job);
    CHECK_OK(PAMI_Memregion_destroy(job.context[round % CONTEXTS], &mine[0]));
    CHECK_OK(PAMI_Memregion_destroy(job.context[0], &mine[1]));
}

/* Nobody is promised anything but an end, and that what comes after is as good as ever. Providers
 * that know the region by itself may end the connection. */
static void stale(void)
{
    unsigned char *old = test_zalloc(STALE);
    pami_memregion_t mine, copy, all[2];
    struct rma put = {.expect = RMA_ANY}, get = {.expect = RMA_ANY};
    size_t usable;

    rma_region(job.context[0], old, STALE, &mine);
    memcpy(copy, mine, sizeof copy);
    rma_share(&job, &mine, sizeof mine, all);
    CHECK_OK(PAMI_Memregion_destroy(job.context[1], &mine));
    CHECK_OK(PAMI_Memregion_create(job.context[0], old, STALE, &usable, &mine));
    job_barrier(&job);
    rma_rput(&put, job.context[0], job_endpoint(&job, other, 0), (pami_rma_mr_t){&mine, 0},
             (pami_rma_mr_t){&all[other], 0}, STALE);
    rma_rget(&get, job.context[0], job_endpoint(&job, other, 0), (pami_rma_mr_t){&mine, 0},
             (pami_rma_mr_t){&all[other], 0}, STALE);
    rma_wait(&job);
    job_barrier(&job);
    CHECK_OK(PAMI_Memregion_destroy(job.context[0], &mine));
    CHECK_RESULT(PAMI_Memregion_destroy(job.context[0], &copy), PAMI_INVAL);
    free(old);
}

/* Their source belongs to a context that uses it, or to the other one. */
static void many(size_t owner)
{
    static pami_memregion_t regions[REGIONS], all[2 * REGIONS];
    pami_memregion_t local;
    static struct rma ops[REGIONS];

    for (size_t i = 0; i < REGIONS; i++)
        rma_region(job.context[0], window + PART * i, PART, &regions[i]);
    rma_region(job.context[owner], source, WINDOW, &local);
    memset(source, (int)job.task + 1, PART * REGIONS);
    /* In two parts: they are more than one exchange takes. */
    for (size_t i = 0; i < REGIONS; i += REGIONS / 2) {
        static pami_memregion_t part[2][REGIONS / 2];

        rma_share(&job, &regions[i], sizeof part[0], part);
        memcpy(&all[i], part[0], sizeof part[0]);
        memcpy(&all[REGIONS + i], part[1], sizeof part[1]);
    }
    memset(ops, 0, sizeof ops);
    for (size_t i = 0; i < REGIONS; i++)
        rma_rput(&ops[i], job.context[0], job_endpoint(&job, other, 0),
                 (pami_rma_mr_t){&local, PART * i}, (pami_rma_mr_t){&all[other * REGIONS + i], 0},
                 PART);
    rma_wait(&job);
    job_barrier(&job);
    CHECK(test_all(window, PART * REGIONS, (unsigned char)(other + 1)));
    job_barrier(&job);
    for (size_t i = 0; i < REGIONS; i++)
        CHECK_OK(PAMI_Memregion_destroy(job.context[i % CONTEXTS], &regions[i]));
    CHECK_OK(PAMI_Memregion_destroy(job.context[1], &local));
}

/* A typed one that leaves out every other byte. */
static void put_halves(struct rma *op, pami_endpoint_t dest, unsigned char *from, unsigned char *to,
                       size_t bytes)
{
    static pami_type_t halves;

    if (halves == NULL) {
        CHECK_OK(PAMI_Type_create(&halves));
        CHECK_OK(PAMI_Type_add_simple(halves, 1, 0, 1, 2));
        CHECK_OK(PAMI_Type_complete(halves, 1));
    }
    rma_put_typed(op, job.context[0], dest, (pami_rma_addr_t){from, to},
                  (pami_rma_typed_t){halves, halves}, (bytes + 1) / 2);
}

/* Puts that mostly lie over others, few or many of them plain: as if each ended before the next
 * began. */
static void crowd(size_t round)
{
    struct area {
        pami_memregion_t region;
        unsigned char *address;
    } mine = {.address = window}, all[2];
    static struct rma ops[PUTS];
    unsigned char *expected = test_zalloc(CROWDED);
    pami_endpoint_t dest = job_endpoint(&job, other, 0);
    uint32_t dice = 2463534242u + (uint32_t)round;
    pami_memregion_t local;

    rma_region(job.context[0], window, CROWDED, &mine.region);
    rma_region(job.context[0], source, WINDOW, &local);
    memset(window, 0, CROWDED);
    for (size_t i = 0; i < WINDOW; i++)
        source[i] = (unsigned char)(i * 7 + (i >> 9) + job.task);
    rma_share(&job, &mine, sizeof mine, all);
    memset(ops, 0, sizeof ops);
    for (size_t i = 0; i < PUTS; i++) {
        size_t bytes, from, to;

        dice = dice * 1664525 + 1013904223;
        bytes = (dice >> 8) % (1u << (3 + (dice >> 4) % 17)) + 1;
        to = (dice >> 12) % (CROWDED - bytes);
        from = (dice >> 6) % (WINDOW - bytes);
        if (round % 2 != 0 && dice >> 27 == 31) {
            for (size_t at = 0; at < bytes; at += 2)
                expected[to + at] = source[from + at];
            put_halves(&ops[i], dest, source + from, all[other].address + to, bytes);
            continue;
        }
        memcpy(expected + to, source + from, bytes);
        if (dice >> 28 <= 5 * (round % 3))
            rma_put(&ops[i], job.context[0], dest, source + from, all[other].address + to, bytes);
        else
            rma_rput(&ops[i], job.context[0], dest, (pami_rma_mr_t){&local, from},
                     (pami_rma_mr_t){&all[other].region, to}, bytes);
    }
    rma_wait(&job);
    job_barrier(&job);
    ops[0] = (struct rma){0};
    rma_rget(&ops[0], job.context[0], dest, (pami_rma_mr_t){&local, 0},
             (pami_rma_mr_t){&all[other].region, 0}, CROWDED);
    rma_wait(&job);
    CHECK(memcmp(source, expected, CROWDED) == 0);
    job_barrier(&job);
    CHECK_OK(PAMI_Memregion_destroy(job.context[0], &mine.region));
    CHECK_OK(PAMI_Memregion_destroy(job.context[0], &local));
    free(expected);
}

int main(void)
{
    const char *mode = getenv("PAMI_OFI_RMA");

    job_start(&job, "remote", CONTEXTS);
    need_module();
    CHECK_SIZE(job.tasks, 2);
    other = 1 - job.task;
    rma_open(&job);
    test_dispatch(job.context[0], LOOK_ID, on_look, NULL, test_ordered());
    window = test_zalloc(WINDOW);
    source = test_zalloc(WINDOW);
    job_barrier(&job);
    for (size_t round = 0; round < ROUNDS; round++)
        one_round(round);
    many(0);
    for (size_t round = 0; round < CROWDS; round++)
        crowd(round);
    if (getenv("STRICT_FABRIC") == NULL && (mode == NULL || strcmp(mode, "regions") != 0))
        stale();
    many(1);
    free(window), free(source);
    rma_close(&job);
    return 0;
}
