/*
 * Data that a server process is to fetch along with a request lies in memory that the task has not
 * got any more: the request ends with PAMI_ERROR, or the next fence where it has no callbacks,
 * those behind it go on, and servers stop.
 *
 * Where tasks share processors the receiver fetches:
 * Run: tasks=1 servers=1 env="PAMI_YIELD=always"
 */
#include "api/servers.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    BYTES = 1 << 20
};

static struct job job;
static pamix_servers_t servers;
static unsigned char *target;

/* The server does not fetch: the task pushes, and reads the hole by itself. */
static void on_fault(int signal)
{
    static const char text[] = "SKIP: no single copy: the task itself reads what it sends\n";

    (void)signal;
    if (write(STDOUT_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
    _exit(77);
}

/* Outside the shared heap, and in order: the data goes along with the request. */
static void put(struct rma *op, void *from)
{
    pami_put_simple_t put = {
        .rma = rma_head(op, true, job.context[0], job_endpoint(&job, 0, 0), BYTES),
        .addr = {from, target},
        .put = rma_tail(op),
    };

    CHECK_OK(TEST_CALL(PAMIX_Servers_put(servers, job.context[0], &put, PAMIX_SERVERS_ORDERED)));
}

static void on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    *(pami_result_t *)cookie = result;
}

int main(void)
{
    struct rma lost = {.expect = RMA_BAD}, quiet = {.quiet_done = true, .quiet_rdone = true};
    struct rma good = {.expect = RMA_GOOD};
    pami_result_t fenced = PAMI_EAGAIN;
    unsigned char *hole, *whole;

    job_start(&job, "servers_unread", 1);
    target = servers_memory(&job, BYTES);
    whole = test_zalloc(BYTES);
    test_fill(whole, BYTES, 0, 0);
    hole = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(hole != MAP_FAILED);
    memset(hole, 1, BYTES / 2);
    CHECK(mprotect(hole + BYTES / 2, BYTES / 2, PROT_NONE) == 0);
    CHECK(signal(SIGSEGV, on_fault) != SIG_ERR);
    servers = servers_make(&job, 0, 0, NULL);
    CHECK_OK(PAMIX_Servers_start(servers));
    put(&lost, hole);
    put(&quiet, hole);
    put(&good, whole);
    WAIT(&job, rma_has_ended(&lost));
    CHECK(lost.done == 1 && lost.result == PAMI_ERROR && lost.rresult == PAMI_ERROR);
    WAIT(&job, rma_has_ended(&good));
    CHECK_SIZE(test_differs(target, BYTES, 0, 0), BYTES);
    CHECK(servers_status(servers).failed == 2);
    CHECK_OK(TEST_CALL(PAMIX_Servers_fence(servers, job.context[0], on_fence, &fenced)));
    WAIT(&job, fenced != PAMI_EAGAIN);
    CHECK_RESULT(fenced, PAMI_ERROR);
    servers_end(&job, &servers);
    CHECK(munmap(hole, BYTES) == 0);
    CHECK_OK(PAMIX_Mem_free(job.client, target));
    free(whole);
    job_destroy(&job);
    return 0;
}
