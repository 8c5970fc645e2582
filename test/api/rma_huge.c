/*
 * A put and a get of a little more than 4 GiB: what is last arrives where it belongs. Neither side
 * needs that much memory: one side is a mapping of zeros with a mark at its end, the other one a
 * type that goes over the same megabyte again and again.
 *
 * Run: tasks=2 args="put" env="PAMI_YIELD=always" timeout=120
 * Run: tasks=2 args="get" env="PAMI_YIELD=always" timeout=120
 * Run: tasks=2 args="put" env="PAMI_YIELD=always PAMI_SHM_SINGLE_COPY=off" timeout=120
 */
#define TEST_LIMIT 100 /* much to move, and memory between cores may be slow */
#include "rma.h"

#include <sys/mman.h>

enum {
    MARK = 4096,
    RING = 1 << 20,
    WINDOW = 16 << 20
};

static const size_t GIB = (size_t)1 << 30;
static const size_t TOTAL = ((size_t)4 << 30) + 123456;

static struct job job;
static pami_type_t ring;

static unsigned char *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        test_skip("no address space for 4 GiB");
    madvise(memory, bytes, MADV_HUGEPAGE); /* else most of the time goes into page faults */
    return memory;
}

/* TOTAL bytes of addresses over one small file, a page of its own at the end for the mark. */
static unsigned char *map_source(void)
{
    unsigned char *memory = map(TOTAL + WINDOW);
    int file = memfd_create("rma_huge", MFD_CLOEXEC);
    size_t last = (TOTAL - MARK) / MARK * MARK;

    CHECK(file >= 0 && ftruncate(file, WINDOW) == 0);
    for (size_t i = 0; i < TOTAL; i += WINDOW)
        CHECK(mmap(memory + i, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
              MAP_FAILED);
    CHECK(mmap(memory + last, 4 * MARK, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    close(file);
    test_fill(memory + TOTAL - MARK, MARK, 4, 0);
    return memory;
}

/* The last round of the ring is what remains. */
static void verify(const unsigned char *target)
{
    size_t last = TOTAL - TOTAL % RING;

    CHECK_SIZE(test_differs(target + (TOTAL - MARK - last), MARK, 4, 0), MARK);
    CHECK(test_all(target, TOTAL - MARK - last, 0));
    CHECK(test_all(target + (TOTAL - last), RING - (TOTAL - last), 0));
    CHECK(test_all(target + RING, MARK, 0xab));
}

int main(int argc, char **argv)
{
    bool is_put = argc < 2 || strcmp(argv[1], "put") == 0;
    unsigned char *mine, *all[2];
    struct rma op = {0};
    char patience[32];
    size_t source;

    snprintf(patience, sizeof patience, "%g", 5 * test_factor());
    setenv("TEST_FACTOR", patience, 1); /* a busy machine needs tens of seconds */
    job_start(&job, "rma_huge", 1);
    CHECK(job.tasks == 2);
    rma_open(&job);
    CHECK(TOTAL > 4 * GIB);
    CHECK_OK(PAMI_Type_create(&ring));
    CHECK_OK(PAMI_Type_add_simple(ring, RING, 0, 1, 0));
    CHECK_OK(PAMI_Type_complete(ring, 1));
    source = is_put ? 0 : 1; /* task 0 starts the transfer */
    if (job.task == source) {
        mine = map_source();
    } else {
        mine = map(RING + MARK);
        memset(mine + RING, 0xab, MARK);
    }
    rma_share(&job, &mine, sizeof mine, all);
    if (job.task == 0 && is_put)
        rma_put_typed(&op, job.context[0], job_endpoint(&job, 1, 0),
                      (pami_rma_addr_t){all[0], all[1]}, (pami_rma_typed_t){PAMI_TYPE_BYTE, ring},
                      TOTAL);
    else if (job.task == 0)
        rma_get_typed(&op, job.context[0], job_endpoint(&job, 1, 0),
                      (pami_rma_addr_t){all[0], all[1]}, (pami_rma_typed_t){ring, PAMI_TYPE_BYTE},
                      TOTAL);
    rma_wait(&job);
    job_barrier(&job);
    if (job.task != source)
        verify(mine);
    CHECK_OK(PAMI_Type_destroy(&ring));
    rma_close(&job);
    return 0;
}
