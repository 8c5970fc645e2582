/*
 * Fences and stops over what a server process had that is killed: they end behind the gets that
 * the context begins again, and say with PAMI_ERROR that puts may be lost, which have no callback;
 * of several fences the one behind the put, and no later one. What a context that has gone had
 * begun again holds up nobody.
 *
 * Run: tasks=2 servers=1
 * Run: tasks=2 servers=1 args="stop"
 * Run: tasks=2 servers=1 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 servers=1 args="stop" env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 servers=1 args="destroy" env="PAMI_SHM_SINGLE_COPY=off"
 */
#include "api/servers.h"
#include "server_pids.h"

enum {
    MAIN,   /* the context that fences or stops */
    ASKING, /* has requests, which only the stop is for */
    CONTEXTS,
    BYTES = 16 << 20, /* so much that a get takes many advances */
    PUT_BYTES = 64
};

struct fence {
    bool ended;
    pami_result_t result;
};

static struct job job;
static pamix_servers_t servers;
static struct server_pids pids;
static unsigned char *window, *windows[2], *area, *from;
static bool gotten;

static void on_got(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS && !gotten);
    gotten = true;
}

static void on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    struct fence *fence = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[MAIN] && !fence->ended);
    *fence = (struct fence){true, result};
}

/* From the other task, into the shared heap. */
static void get(pami_context_t context)
{
    pami_get_simple_t get = {
        .rma = {.dest = job_endpoint(&job, 1, 0), .bytes = BYTES, .done_fn = on_got},
        .addr = {area, windows[1]},
    };

    gotten = false;
    CHECK_OK(TEST_CALL(PAMIX_Servers_get(servers, context, &get, 0)));
}

static void put(pami_context_t context)
{
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, 1, 0), .bytes = PUT_BYTES},
        .addr = {from, windows[1] + BYTES},
    };

    CHECK_OK(TEST_CALL(PAMIX_Servers_put(servers, context, &put, 0)));
}

/* It has begun when this returns. */
static void fence(struct fence *fence)
{
    CHECK_OK(TEST_CALL(PAMIX_Servers_fence(servers, job.context[MAIN], on_fence, fence)));
    for (int i = 0; i < 10; i++)
        job_advance(&job);
    CHECK(!fence->ended);
}

static void check_fenced(void)
{
    struct fence after = {false, PAMI_ERROR};

    CHECK_OK(TEST_CALL(PAMIX_Servers_fence(servers, job.context[MAIN], on_fence, &after)));
    WAIT(&job, after.ended);
    CHECK_OK(after.result);
}

static void fences(void)
{
    struct fence first = {0}, second = {0}, third = {0};

    put(job.context[MAIN]);
    fence(&first);
    get(job.context[MAIN]);
    fence(&second);
    put(job.context[MAIN]);
    fence(&third);
    put(job.context[MAIN]);
    CHECK(kill(pids.pid[0], SIGKILL) == 0);
    WAIT(&job, first.ended);
    CHECK_RESULT(first.result, PAMI_ERROR);
    WAIT(&job, second.ended);
    CHECK(gotten);
    CHECK_OK(second.result);
    CHECK_SIZE(test_differs(area, BYTES, 1, 0), BYTES);
    WAIT(&job, third.ended);
    CHECK_RESULT(third.result, PAMI_ERROR);
    third = (struct fence){0};
    CHECK_OK(TEST_CALL(PAMIX_Servers_fence(servers, job.context[MAIN], on_fence, &third)));
    WAIT(&job, third.ended);
    CHECK_RESULT(third.result, PAMI_ERROR);
    check_fenced();
    servers_end(&job, &servers);
}

static void stop(void)
{
    struct fence stopped = {0};

    put(job.context[ASKING]);
    get(job.context[ASKING]);
    CHECK_OK(TEST_CALL(PAMIX_Servers_stop(servers, job.context[MAIN], on_fence, &stopped)));
    CHECK(kill(pids.pid[0], SIGKILL) == 0);
    WAIT(&job, stopped.ended);
    CHECK(gotten);
    CHECK_RESULT(stopped.result, PAMI_ERROR);
    CHECK_SIZE(test_differs(area, BYTES, 1, 0), BYTES);
    CHECK_OK(PAMIX_Servers_start(servers));
    servers_end(&job, &servers);
}

/* The other task does nothing, so the get that is begun again cannot end. */
static void destroy(void)
{
    struct fence stopped = {0};

    put(job.context[ASKING]);
    get(job.context[ASKING]);
    CHECK(kill(pids.pid[0], SIGKILL) == 0);
    WAIT_WITH(test_advance(job.context[ASKING], 1), servers_status(servers).direct == 1);
    job_destroy_contexts(&job);
    job_create_contexts(&job, CONTEXTS);
    CHECK_OK(TEST_CALL(PAMIX_Servers_stop(servers, job.context[MAIN], on_fence, &stopped)));
    WAIT(&job, stopped.ended);
    CHECK_OK(stopped.result);
    CHECK(!gotten);
    CHECK_OK(PAMIX_Servers_destroy(&servers));
    __atomic_store_n(from, 1, __ATOMIC_RELEASE);
}

/* The other task: contexts anew as well, when the first one has them. */
static void follow(unsigned char *flag)
{
    flag = PAMIX_Mem_local_address(job.client, 0, flag, 1);
    CHECK(flag != NULL);
    WAIT_WITH(test_sleep(1e-3), __atomic_load_n(flag, __ATOMIC_ACQUIRE) == 1);
    job_destroy_contexts(&job);
    job_create_contexts(&job, CONTEXTS);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "fence";
    unsigned char *areas[2];

    job_start(&job, "servers_fenced", CONTEXTS);
    rma_open(&job);
    server_pids_find(&pids);
    CHECK(pids.count == 1);
    window = test_zalloc(BYTES + PUT_BYTES);
    test_fill(window, BYTES, job.task, 0);
    rma_share(&job, &window, sizeof window, windows);
    area = servers_memory(&job, BYTES);
    from = servers_memory(&job, PUT_BYTES);
    rma_share(&job, &from, sizeof from, areas);
    servers = servers_make(&job, 0, 0, NULL);
    CHECK_OK(PAMIX_Servers_start(servers));
    if (job.task == 0)
        check_fenced();
    server_pids_signal(&job, &pids, 0, 1, SIGSTOP);
    if (strcmp(what, "destroy") == 0)
        job.task == 0 ? destroy() : follow(areas[0]);
    else if (job.task == 0)
        strcmp(what, "stop") == 0 ? stop() : fences();
    job_barrier(&job);
    if (job.task == 1)
        servers_end(&job, &servers);
    CHECK_OK(PAMIX_Mem_free(job.client, area));
    CHECK_OK(PAMIX_Mem_free(job.client, from));
    rma_close(&job);
    free(window);
    return 0;
}
