/*
 * Communication servers at their edges: what they refuse is told by the callback, with the reason,
 * or by the fence behind it and no other one; a throttle that is lifted lets go; each server has a
 * thread of its own, whatever contexts they are.
 *
 * Run: tasks=1,2
 * Run: tasks=4 nodes=2
 * Run: tasks=2,3 env="PAMI_SHM_SINGLE_COPY=off"
 *
 * With 0 for their number, servers are the processes that the launcher has started:
 * Run: tasks=1,2 servers=1 args="0"
 * Run: tasks=2 servers=2 args="0" env="PAMI_SHM_SINGLE_COPY=off"
 */
#include "servers.h"

enum {
    MESSAGE_ID = 7,
    BIG = 40000,
    SLOW = 32 << 20 /* takes longer than to refuse something */
};

/* One request's callback. */
struct expect {
    unsigned first;
    pami_result_t result;
};

static struct job job;
static bool processes;
static pamix_servers_t servers;
static unsigned char *window, **windows, pattern[BIG];

static void on_message(pami_context_t context, void *cookie, const void *head, size_t head_bytes,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)head, (void)head_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    FAIL("a message arrives");
}

static void on_first(pami_context_t context, void *cookie, pami_result_t result)
{
    struct expect *expect = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && expect->first == 0);
    expect->first++;
    expect->result = result;
}

static void on_fenced(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    *(pami_result_t *)cookie = result;
}

static void fence_begin(pami_result_t *result)
{
    *result = PAMI_EAGAIN;
    CHECK_OK(TEST_CALL(PAMIX_Servers_fence(servers, job.context[0], on_fenced, result)));
}

static pami_result_t fence(void)
{
    pami_result_t result;

    fence_begin(&result);
    WAIT(&job, result != PAMI_EAGAIN);
    return result;
}

/* An operation that the server's context refuses is reported by the callback, once; where there is
 * none, by the next fence. */
static void failure(void)
{
    struct expect expect = {0};
    unsigned char *local = servers_memory(&job, 8);
    pami_get_simple_t get = {
        .rma = {.dest = 0x7fffffff, .bytes = 8, .cookie = &expect, .done_fn = on_first},
        .addr = {local, local},
    };
    pami_result_t result;

    result = TEST_CALL(PAMIX_Servers_get(servers, job.context[0], &get, 0));
    if (result == PAMI_SUCCESS) {
        WAIT(&job, expect.first == 1);
        result = expect.result;
        CHECK(strstr(test_text(), "get to endpoint 2147483647") != NULL);
        CHECK(strstr(test_text(), processes ? "argument" : "outside the job") != NULL);
    }
    CHECK(result == PAMI_INVAL);
    CHECK_RESULT(fence(), PAMI_SUCCESS);
    get.rma.done_fn = NULL;
    if (TEST_CALL(PAMIX_Servers_get(servers, job.context[0], &get, 0)) == PAMI_SUCCESS)
        CHECK_RESULT(fence(), PAMI_ERROR);
    CHECK_RESULT(fence(), PAMI_SUCCESS);
    CHECK_OK(PAMIX_Mem_free(job.client, local));
}

/* A fence says nothing of what was asked for behind it, although that fails before it ends. */
static void failure_behind_fence(void)
{
    unsigned char *to = servers_memory(&job, SLOW), *from = servers_memory(&job, SLOW);
    pami_get_simple_t get = {
        .rma = {.dest = job_endpoint(&job, job.task, 0), .bytes = SLOW},
        .addr = {to, from},
    };
    pami_result_t before, behind;

    CHECK_OK(TEST_CALL(PAMIX_Servers_get(servers, job.context[0], &get, 0)));
    fence_begin(&before);
    get.rma.dest = 0x7fffffff;
    get.rma.bytes = 8;
    CHECK_OK(TEST_CALL(PAMIX_Servers_get(servers, job.context[0], &get, 0)));
    fence_begin(&behind);
    WAIT(&job, before != PAMI_EAGAIN && behind != PAMI_EAGAIN);
    CHECK_RESULT(before, PAMI_SUCCESS);
    CHECK_RESULT(behind, PAMI_ERROR);
    CHECK_OK(PAMIX_Mem_free(job.client, to));
    CHECK_OK(PAMIX_Mem_free(job.client, from));
}

/* So is a message with an id that is not registered: in no case does it go out with another one,
 * or by a server process that others have told the id. */
static void unregistered(void)
{
    const size_t ids[] = {65536 + MESSAGE_ID, 65536, MESSAGE_ID + 1};

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        struct expect expect = {0};
        pami_send_t message = {
            .send = test_message(job_endpoint(&job, job.task, 0), ids[i], "head", 4, NULL, 0),
            .events = {.cookie = &expect, .local_fn = on_first},
        };
        pami_result_t result =
            TEST_CALL(PAMIX_Servers_send(servers, job.context[0], &message, PAMIX_SERVERS_ORDERED));

        if (result == PAMI_SUCCESS) {
            CHECK(!processes);
            WAIT(&job, expect.first == 1);
            result = expect.result;
        }
        CHECK(result == PAMI_ERROR && strstr(test_text(), "is not registered") != NULL);
    }
}

static void on_put(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    *(bool *)cookie = true;
}

static void put_to(size_t task, size_t bytes, bool *ended)
{
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, task, 0), .bytes = bytes, .cookie = ended},
        .addr = {pattern, windows[task]},
        .put = {on_put},
    };

    CHECK_OK(TEST_CALL(PAMIX_Servers_put(servers, job.context[0], &put, 0)));
}

/* A throttle that is lifted lets go at once what it has kept back, although what is in flight does
 * not end: the last task, whose memory is not shared, sleeps. */
static void throttle(void)
{
    pamix_servers_policy_t policy = {
        .operations = 7, .bytes_most = SIZE_MAX, .batch = 1, .in_flight = 1, .servers = 1};
    bool slow = false, quick = false, vain; /* there is nothing to see */
    double begin;

    CHECK_OK(PAMIX_Servers_set_policy(servers, &policy));
    job_barrier(&job);
    begin = test_now();
    if (job.task == job.tasks - 1) {
        test_sleep(2);
    } else if (job.task == 0) {
        test_sleep(0.1); /* the last task has left the barrier */
        put_to(job.tasks - 1, BIG, &slow);
        put_to(0, 8, &quick);
        test_sleep(0.1);
        job_advance(&job);
        vain = slow;
        CHECK(vain || !quick);
        policy.in_flight = 0;
        CHECK_OK(PAMIX_Servers_set_policy(servers, &policy));
        vain = vain || test_now() > begin + 1;
        WAIT(&job, quick);
        CHECK(vain || !slow);
        WAIT(&job, slow);
    }
    job_barrier(&job);
    CHECK_OK(PAMIX_Servers_set_policy(servers, NULL));
}

/* Each server has a thread, whatever contexts of the client are others. */
static void apart(void)
{
    struct job second;
    pami_context_t some[2];
    pamix_servers_t spread;
    unsigned seen = 0;
    bool stopped = false;

    job_start(&second, "second", 4);
    second.driven = 1;
    for (size_t i = 0; i < 2; i++)
        some[i] = second.context[2 * i + 1];
    CHECK_OK(PAMIX_Servers_create(some, 2, NULL, &spread));
    CHECK_OK(PAMIX_Servers_start(spread));
    for (size_t i = 0; i < 2; i++) {
        pamix_context_async_status_t status;

        CHECK_OK(PAMIX_Context_async_query(some[i], &status));
        CHECK(status.enabled && (seen & 1u << status.thread) == 0);
        seen |= 1u << status.thread;
    }
    CHECK_OK(PAMIX_Servers_stop(spread, second.context[0], rma_on_fence, &stopped));
    WAIT(&second, stopped);
    CHECK_OK(PAMIX_Servers_destroy(&spread));
    job_finish(&second);
}

int main(int argc, char **argv)
{
    size_t threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 2;

    processes = threads == 0;
    job_start(&job, "servers edges", 1 + threads);
    rma_open(&job);
    job.driven = 1;
    for (size_t i = 0; i < job.contexts; i++)
        test_dispatch(job.context[i], MESSAGE_ID, on_message, NULL, test_ordered());
    window = test_zalloc(BIG);
    windows = test_alloc(job.tasks * sizeof *windows);
    rma_share(&job, &window, sizeof window, windows);
    servers = servers_make(&job, 1, threads, NULL);
    CHECK_OK(PAMIX_Servers_start(servers));
    job_barrier(&job);
    failure();
    failure_behind_fence();
    unregistered();
    if (!processes && job.tasks > 1 && getenv("PAMI_SHM_SINGLE_COPY") != NULL)
        throttle();
    apart();
    servers_end(&job, &servers);
    rma_close(&job);
    free(window), free(windows);
    return 0;
}
