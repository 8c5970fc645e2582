/*
 * One message of more than 4 GiB: its head, its tail and what lies around every 2 GiB arrive where
 * they belong. Neither side needs that much memory: the source is a mapping of zeros with a few
 * marks in it, the target ("plain") maps one small file again and again, except where the marks go,
 * or ("ring") is a type that writes over the same megabyte again and again.
 *
 * Run: tasks=2 args="ring" timeout=120
 * Run: tasks=2 args="plain" timeout=120
 * Run: tasks=2 args="ring" env="PAMI_SHM_SINGLE_COPY=off" timeout=120
 */
#define TEST_LIMIT 100 /* much to move, and memory between cores may be slow */
#include "api_test.h"

#include <sys/mman.h>

enum {
    ID = 1,
    MARK = 4096,
    MARKS = 5,
    RING = 1 << 20,
    WINDOW = 16 << 20
};

static const size_t GIB = (size_t)1 << 30;
static const size_t TOTAL = ((size_t)9 << 29) + 12345; /* 4.5 GiB and a bit */

static struct job job;
static unsigned char *target;
static pami_type_t ring;
static bool plain, landed, local, remote;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS && !landed);
    landed = true;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK_CALLBACK();
    CHECK_SIZE(bytes, TOTAL);
    CHECK(recv != NULL);
    recv->addr = target;
    recv->local_fn = on_landed;
    if (!plain)
        recv->type = ring;
}

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS && !local);
    local = true;
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS && !remote && local);
    remote = true;
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        test_skip("no address space for 4.5 GiB");
    madvise(memory, bytes, MADV_HUGEPAGE); /* else most of the time goes into page faults */
    return memory;
}

/* Head, across 2 and 4 GiB, anywhere, tail. */
static size_t mark_at(size_t i)
{
    const size_t marks[] = {0, 2 * GIB - MARK / 2, 4 * GIB - MARK / 2, 3 * GIB + 777, TOTAL - MARK};

    return marks[i];
}

/* TOTAL bytes of addresses and a guard behind them; memory of their own for the marks only. */
static unsigned char *map_target(void)
{
    unsigned char *memory = map(TOTAL + WINDOW);
    int flags = MAP_FIXED, file = memfd_create("huge", MFD_CLOEXEC);
    size_t i;

    CHECK(file >= 0 && ftruncate(file, WINDOW) == 0);
    for (i = 0; i < TOTAL; i += WINDOW)
        CHECK(mmap(memory + i, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | flags, file, 0) !=
              MAP_FAILED);
    for (i = 0; i < MARKS; i++) {
        size_t page = mark_at(i) / MARK * MARK;

        CHECK(mmap(memory + page, 4 * MARK, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0) != MAP_FAILED);
    }
    close(file);
    return memory;
}

static void send(void)
{
    unsigned char *source = map(TOTAL);
    pami_send_event_t events = {NULL, on_local, on_remote};
    size_t i;

    for (i = 0; i < MARKS; i++)
        test_fill(source + mark_at(i), MARK, i, 0);
    test_send(job.context[0], job_endpoint(&job, 1, 0), ID, "huge", 4, source, TOTAL, events);
    WAIT(&job, remote);
    munmap(source, TOTAL);
}

static void receive(void)
{
    size_t i, last = TOTAL - TOTAL % RING;

    WAIT(&job, landed);
    CHECK(test_all(target + (plain ? TOTAL : RING), MARK, 0xab));
    if (plain) {
        for (i = 0; i < MARKS; i++)
            CHECK_SIZE(test_differs(target + mark_at(i), MARK, i, 0), MARK);
    } else { /* the last round of the ring is what remains */
        CHECK_SIZE(test_differs(target + (TOTAL - MARK - last), MARK, 4, 0), MARK);
        CHECK(test_all(target, TOTAL - MARK - last, 0));
        CHECK(test_all(target + (TOTAL - last), RING - (TOTAL - last), 0));
    }
}

int main(int argc, char **argv)
{
    plain = argc > 1 && strcmp(argv[1], "plain") == 0;
    job_start(&job, "huge", 1);
    CHECK_OK(PAMI_Type_create(&ring));
    CHECK_OK(PAMI_Type_add_simple(ring, RING, 0, 1, 0));
    CHECK_OK(PAMI_Type_complete(ring, 1));
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    target = plain ? map_target() : map(RING + MARK);
    memset(target + (plain ? TOTAL : RING), 0xab, MARK);
    job_barrier(&job);
    if (job.task == 0)
        send();
    else if (job.task == 1)
        receive();
    CHECK_OK(PAMI_Type_destroy(&ring));
    job_finish(&job);
    return 0;
}
