/*
 * Servers are destroyed as soon as they may be: another thread, which makes no requests any more,
 * is still running callbacks of those that it has made, whole or in pieces; a fence of another
 * context has not ended; and contexts, which may be there again, have gone before. Their handles
 * are of no use then.
 *
 * Run: tasks=1,2
 * Run: tasks=1,2 args="fence"
 * Run: tasks=1,2 args="contexts" env="MALLOC_PERTURB_=165"
 * Run: tasks=1 servers=2 args="processes"
 */
#include "servers.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    MAIN,
    ASKING,
    SERVING,
    SERVING_TOO,
    CONTEXTS,
    ROUNDS = 200,
    COUNT = 30, /* puts of a round */
    BYTES = 1024,
    SPLIT = 300
};

static struct job job;
static pamix_servers_t servers;
static unsigned char *from, *to;
static atomic_size_t started, asked;
static size_t ended, wanted;

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)cookie;
    CHECK_CALLBACK();
    CHECK(context == job.context[ASKING] && result == PAMI_SUCCESS);
    ended++;
}

static void put(size_t i)
{
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, job.task, MAIN),
                .bytes = BYTES,
                .done_fn = i % 3 == 0 ? on_end : NULL},
        .addr = {from + i * BYTES, to + i * BYTES},
        .put = {i % 3 != 2 ? on_end : NULL},
    };

    wanted += (i % 3 == 0) + (i % 3 != 2);
    SERVERS_REQUEST(test_advance(job.context[ASKING], 1),
                    PAMIX_Servers_put(servers, job.context[ASKING], &put, 0));
}

static void put_all(void)
{
    for (size_t i = 0; i < COUNT; i++)
        put(i);
}

static void *ask(void *argument)
{
    for (size_t round = 1; round <= ROUNDS; round++) {
        WAIT_WITH(test_advance(job.context[ASKING], 1), atomic_load(&started) == round);
        put_all();
        atomic_store(&asked, round);
        WAIT_WITH(test_advance(job.context[ASKING], 1), ended == wanted);
    }
    return argument;
}

static void make(size_t threads)
{
    pamix_servers_policy_t policy;

    servers = servers_make(&job, SERVING, threads, NULL);
    policy = servers_policy(servers);
    policy.split = SPLIT;
    policy.batch = 1;
    servers_start(servers, &policy);
}

static void stop(void)
{
    bool stopped = false;

    CHECK_OK(TEST_CALL(PAMIX_Servers_stop(servers, job.context[MAIN], rma_on_fence, &stopped)));
    WAIT(&job, stopped);
}

static void beside_callbacks(void)
{
    pthread_t thread;

    test_limit(); /* looks at the environment once, before there are two threads */
    CHECK(pthread_create(&thread, NULL, ask, NULL) == 0);
    for (size_t round = 1; round <= ROUNDS; round++) {
        pami_result_t result;

        make(2);
        atomic_store(&started, round);
        WAIT(&job, atomic_load(&asked) == round);
        stop();
        WAIT(&job, (result = PAMIX_Servers_destroy(&servers)) != PAMI_EAGAIN);
        CHECK_OK(result);
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

/* The context with the fence is not advanced while another one stops servers. With processes the
 * fence needs them even then. */
static void beside_fence(size_t threads)
{
    bool fenced = false;

    make(threads);
    CHECK_OK(PAMIX_Servers_fence(servers, job.context[ASKING], rma_on_fence, &fenced));
    stop();
    CHECK(!fenced);
    if (threads == 0)
        CHECK_REFUSED(PAMIX_Servers_destroy(&servers), PAMI_EAGAIN, "fences");
    else
        CHECK_OK(PAMIX_Servers_destroy(&servers));
    WAIT_WITH(test_advance(job.context[ASKING], 1), fenced);
    if (threads == 0)
        CHECK_OK(PAMIX_Servers_destroy(&servers));
}

static void behind_contexts(bool again)
{
    make(2);
    put_all();
    if (again)
        WAIT_WITH(test_advance(job.context[ASKING], 1), ended == wanted);
    stop(); /* or callbacks that have come go with their context */
    job_barrier(&job);
    job_destroy_contexts(&job);
    if (again)
        job_create_contexts(&job, CONTEXTS);
    CHECK_OK(PAMIX_Servers_destroy(&servers));
    if (!again)
        job_create_contexts(&job, CONTEXTS);
    job.driven = 1;
    ended = wanted = 0;
    job_barrier(&job);
}

/* Handles of other objects, and of servers that are no more. */
static void other_handles(size_t threads)
{
    pamix_servers_t destroyed = servers_make(&job, SERVING, threads, NULL), other = destroyed;
    pami_put_simple_t put = {.rma = {.bytes = 8}};
    pami_send_immediate_t send = {.dest = 0};
    pamix_servers_policy_t policy;
    pamix_servers_status_t status;

    CHECK_OK(PAMIX_Servers_destroy(&other));
    const pamix_servers_t wrong[] = {NULL, job.client, job.context[0], destroyed, (void *)1};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        other = wrong[i];
        CHECK_REFUSED(PAMIX_Servers_destroy(&other), PAMI_INVAL, "servers");
        CHECK_REFUSED(PAMIX_Servers_start(other), PAMI_INVAL, "servers");
        CHECK_REFUSED(PAMIX_Servers_stop(other, job.context[0], NULL, NULL), PAMI_INVAL, "servers");
        CHECK_REFUSED(PAMIX_Servers_fence(other, job.context[0], NULL, NULL), PAMI_INVAL,
                      "servers");
        CHECK_REFUSED(PAMIX_Servers_set_policy(other, NULL), PAMI_INVAL, "servers");
        CHECK_REFUSED(PAMIX_Servers_get_policy(other, &policy), PAMI_INVAL, "servers");
        CHECK_REFUSED(PAMIX_Servers_query(other, 0, &status), PAMI_INVAL, "servers");
        if (i > 2) /* requests look at what the handle points at */
            continue;
        CHECK_REFUSED(PAMIX_Servers_put(other, job.context[0], &put, 0), PAMI_INVAL, "servers");
        CHECK_REFUSED(PAMIX_Servers_send_immediate(other, job.context[0], &send, 0), PAMI_INVAL,
                      "servers");
    }
}

int main(int argc, char **argv)
{
    size_t threads = argc > 1 && strcmp(argv[1], "processes") == 0 ? 0 : 2;

    job_start(&job, "servers_destroy", CONTEXTS);
    job.driven = 1;
    from = test_zalloc(COUNT * BYTES), to = test_zalloc(COUNT * BYTES);
    other_handles(threads);
    if (argc == 1)
        beside_callbacks();
    else if (strcmp(argv[1], "contexts") == 0)
        for (int i = 0; i < 4; i++)
            behind_contexts(i % 2 != 0);
    else
        beside_fence(threads);
    free(from), free(to);
    job_finish(&job);
    return 0;
}
