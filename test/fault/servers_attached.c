/*
 * A task attaches to a server process again, while the answer to a request of before, whose context
 * has gone, still waits to be read: it does not end the request that comes in its place, although
 * that has the same handle after so many before.
 *
 * Run: tasks=1 servers=1
 */
#include "api/servers.h"
#include "server_pids.h"

enum {
    MAIN,   /* the context that stops */
    ASKING, /* that nobody advances for a while */
    CONTEXTS,
    USES = 255, /* of a handle, until it comes around */
    BYTES = 4096
};

static struct job job;
static pamix_servers_t servers;
static unsigned char *area; /* what is put, and where the first and the second put go */
static size_t used;
static bool second_ended;

static void on_use(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK_RESULT(result, PAMI_SUCCESS);
    used++;
}

static void on_first(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    FAIL("a callback of a context that has gone");
}

static void on_second(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)cookie;
    CHECK_CALLBACK();
    CHECK(context == job.context[ASKING] && result == PAMI_SUCCESS && !second_ended);
    second_ended = true;
}

static void put(size_t which, pami_hint_t shmem, pami_event_function fn)
{
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, 0, MAIN), .hints = {.use_shmem = shmem}, .bytes = BYTES},
        .addr = {area, area + which * BYTES},
        .put = {fn},
    };

    CHECK_OK(TEST_CALL(PAMIX_Servers_put(servers, job.context[ASKING], &put, 0)));
}

static void attach(void)
{
    servers = servers_make(&job, 0, 0, NULL);
    CHECK_OK(PAMIX_Servers_start(servers));
}

/* With packets the server is at the first put when it hears that its caller has gone. */
static void scene(pid_t server, pami_hint_t shmem)
{
    attach();
    used = 0;
    for (size_t i = 0; i < USES; i++) {
        put(1, shmem, on_use);
        WAIT(&job, used == i + 1);
    }
    memset(area + BYTES, 0, 2 * BYTES);
    CHECK(kill(server, SIGSTOP) == 0);
    put(1, shmem, on_first);
    job_destroy_contexts(&job);
    job_create_contexts(&job, CONTEXTS);
    job.driven = 1;
    CHECK(kill(server, SIGCONT) == 0);
    test_sleep(0.1);
    servers_end(&job, &servers); /* behind the put, so its answer is there */
    CHECK_SIZE(test_differs(area + BYTES, BYTES, 0, 0), BYTES);

    attach();
    second_ended = false;
    CHECK(kill(server, SIGSTOP) == 0);
    put(2, shmem, on_second);
    for (int i = 0; i < 1000; i++)
        test_advance(job.context[ASKING], 1);
    CHECK(!second_ended);
    CHECK(kill(server, SIGCONT) == 0);
    job.driven = CONTEXTS;
    WAIT(&job, second_ended);
    CHECK_SIZE(test_differs(area + 2 * BYTES, BYTES, 0, 0), BYTES);
    servers_end(&job, &servers);
}

int main(void)
{
    struct server_pids pids;

    job_start(&job, "servers_attached", CONTEXTS);
    server_pids_find(&pids);
    CHECK(pids.count == 1);
    area = servers_memory(&job, 3 * BYTES);
    test_fill(area, BYTES, 0, 0);
    scene(pids.pid[0], PAMI_HINT_DEFAULT);
    scene(pids.pid[0], PAMI_HINT_DISABLE);
    CHECK_OK(PAMIX_Mem_free(job.client, area));
    job_destroy(&job);
    return 0;
}
