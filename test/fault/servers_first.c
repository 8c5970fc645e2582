/*
 * A put through a server process has two callbacks: each runs once, and done_fn first, when the
 * server has no memory for what it is asked, and when it is killed between the two, which a fence
 * says too. Who attaches to it after that finds it dead at the first request.
 *
 * Run: tasks=2 nodes=2 servers=1
 */
#include "api/servers.h"
#include "server_pids.h"

#include <sys/resource.h>

/* Sanitizers end a program that has no memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_REFUSE 0
#else
#define CAN_REFUSE 1
#endif

enum {
    BYTES = 64,
    LARGE = 16 << 20 /* such an allocation is one of address space */
};

static struct job job;
static pamix_servers_t servers;
static struct server_pids pids;
static unsigned char *window, *windows[2], *heap;

static void put(struct rma *op, size_t task, void *from, void *to, size_t bytes, unsigned flags)
{
    pami_put_simple_t put = {
        .rma = rma_head(op, true, job.context[0], job_endpoint(&job, task, 0), bytes),
        .addr = {from, to},
        .put = {rma_on_rdone},
    };

    SERVERS_REQUEST(job_advance(&job), PAMIX_Servers_put(servers, job.context[0], &put, flags));
}

static void limit_memory(rlim_t most)
{
    for (size_t i = 0; i < pids.count; i++) {
        struct rlimit limit;

        CHECK(prlimit(pids.pid[i], RLIMIT_AS, NULL, &limit) == 0);
        limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
        CHECK(prlimit(pids.pid[i], RLIMIT_AS, &limit, NULL) == 0);
    }
}

/* What is not in the shared heap, and is to stay in order, goes along with the request. */
static void no_memory(void)
{
    unsigned char *from = test_zalloc(LARGE), *to = test_zalloc(LARGE);
    struct rma op = {.expect = RMA_BAD}, after = {.expect = RMA_GOOD};

    limit_memory(1);
    put(&op, 0, from, to, LARGE, PAMIX_SERVERS_ORDERED);
    WAIT(&job, rma_has_ended(&op));
    CHECK(op.done == 1 && op.result == PAMI_ENOMEM && op.rresult == PAMI_ENOMEM);
    limit_memory(RLIM_INFINITY);
    put(&after, 0, from, to, LARGE, PAMIX_SERVERS_ORDERED);
    WAIT(&job, rma_has_ended(&after));
    free(from), free(to);
}

static void on_lost(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_ERROR);
    *(bool *)cookie = true;
}

/* The target does nothing before the servers are dead. */
static void killed_between(void)
{
    bool fenced = false;
    struct rma op;

    do { /* at first it may still be in the barrier */
        op = (struct rma){.expect = RMA_ANY};
        put(&op, 1, heap, windows[1], BYTES, 0);
        WAIT(&job, op.done == 1);
        CHECK(op.result == PAMI_SUCCESS);
        for (int i = 0; i < 200 && op.rdone == 0; i++) {
            job_advance(&job);
            test_sleep(1e-4);
        }
    } while (op.rdone != 0);
    for (size_t i = 0; i < pids.count; i++)
        CHECK(kill(pids.pid[i], SIGKILL) == 0);
    WAIT(&job, rma_has_ended(&op));
    CHECK(op.rresult == PAMI_ERROR);
    CHECK_OK(TEST_CALL(PAMIX_Servers_fence(servers, job.context[0], on_lost, &fenced)));
    WAIT(&job, fenced);
}

static void attach_to_dead(void)
{
    struct rma op = {.expect = RMA_GOOD};

    servers = servers_make(&job, 0, 0, NULL);
    CHECK_OK(PAMIX_Servers_start(servers));
    put(&op, job.task, heap, window, BYTES, 0);
    WAIT(&job, rma_has_ended(&op));
    CHECK(servers_status(servers).lost == 1);
    servers_end(&job, &servers);
}

int main(void)
{
    job_start(&job, "servers_first", 1);
    rma_open(&job);
    server_pids_find(&pids);
    CHECK(pids.count == 2);
    window = test_zalloc(BYTES);
    rma_share(&job, &window, sizeof window, windows);
    heap = servers_memory(&job, BYTES);
    servers = servers_make(&job, 0, 0, NULL);
    CHECK_OK(PAMIX_Servers_start(servers));
    if (job.task == 0 && CAN_REFUSE)
        no_memory();
    job_barrier(&job);
    if (job.task == 0)
        killed_between();
    else
        WAIT_WITH(test_sleep(1e-3), kill(pids.pid[0], 0) != 0 && kill(pids.pid[1], 0) != 0);
    job_barrier(&job);
    servers_end(&job, &servers);
    attach_to_dead();
    CHECK_OK(PAMIX_Mem_free(job.client, heap));
    rma_close(&job);
    free(window);
    return 0;
}
