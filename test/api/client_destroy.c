/*
 * Destroying a client in the state it happens to be in: contexts alive, locked, with work posted
 * (also work that never ends), with messages on their way. What was accepted still arrives, and the
 * peers that stay are not harmed. A forked child that destroys its copies (as its atexit handlers
 * may) leaves the parent's alone.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=4 nodes=2
 * Run: tasks=2,5 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=3 env="PAMI_SHM_SINGLE_COPY=off PAMI_RNDV_BYTES=0"
 * Run: tasks=2,3 env="PAMI_DRAIN_TIMEOUT=60"
 */
#include "api_test.h"

#include <sys/wait.h>

enum {
    ID = 1,
    UNSEEN = 2,
    SMALL = 300, /* messages of each size */
    SMALL_BYTES = 5000,
    LARGE = 3,
    LARGE_BYTES = 300000
};

static size_t received, work_runs;
static bool destroyed;

static pami_result_t count_for_ever(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    CHECK(!destroyed);
    work_runs++;
    return PAMI_EAGAIN;
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    CHECK_SIZE(test_differs(cookie, LARGE_BYTES, 7, 0), LARGE_BYTES);
    free(cookie);
    received++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    CHECK_CALLBACK();
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)origin;
    if (recv == NULL) {
        CHECK_SIZE(test_differs(data, bytes, 3, 0), SMALL_BYTES);
        received++;
        return;
    }
    CHECK_SIZE(bytes, LARGE_BYTES);
    recv->addr = recv->cookie = test_alloc(bytes);
    recv->local_fn = on_landed;
}

static void on_unseen(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_CALLBACK();
}

/* Contexts alive, held, with work that has run and work that never will. */
static void careless(void)
{
    static pami_work_t work[3];
    struct job job;
    size_t i;

    job_start(&job, "careless", 3);
    job_barrier(&job);
    destroyed = false;
    work_runs = 0;
    for (i = 0; i < 3; i++) {
        CHECK_OK(PAMI_Context_lock(job.context[i]));
        CHECK_OK(PAMI_Context_post(job.context[i], &work[i], count_for_ever, NULL));
    }
    test_advance(job.context[0], 1);
    test_advance(job.context[1], 1);
    CHECK_SIZE(work_runs, 2);
    CHECK_OK(PAMI_Client_destroy(&job.client));
    destroyed = true;
    CHECK(job.client == PAMI_CLIENT_NULL);
}

/* Posted work that never ends does not block destroyv either. */
static void contexts_with_work(void)
{
    static pami_work_t work[2];
    struct job job;

    job_start(&job, "with work", 2);
    job_barrier(&job);
    destroyed = false;
    CHECK_OK(PAMI_Context_post(job.context[0], &work[0], count_for_ever, NULL));
    CHECK_OK(PAMI_Context_post(job.context[1], &work[1], count_for_ever, NULL));
    job_linger(&job, 0.01);
    CHECK_OK(PAMI_Context_lock(job.context[0]));
    job_destroy(&job);
    destroyed = true;
}

/* Every task but the last sends much to the last one and destroys its client without advancing. */
static void in_flight(void)
{
    struct job job;
    unsigned char *large = test_alloc(LARGE_BYTES), small[SMALL_BYTES];
    pami_send_event_t quiet = {0};
    size_t i, last;

    test_fill(large, LARGE_BYTES, 7, 0);
    test_fill(small, SMALL_BYTES, 3, 0);
    job_start(&job, "in flight", 1);
    last = job.tasks - 1;
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    job_barrier(&job);
    if (job.task != last) {
        for (i = 0; i < SMALL; i++)
            test_send_immediate(job.context[0], job_endpoint(&job, last, 0), ID, "h", 1, small,
                                sizeof small);
        for (i = 0; i < LARGE; i++)
            test_send(job.context[0], job_endpoint(&job, last, 0), ID, "h", 1, large, LARGE_BYTES,
                      quiet);
        memset(small, 0, sizeof small);
        CHECK_OK(PAMI_Client_destroy(&job.client));
        memset(large, 0, LARGE_BYTES);
    } else {
        WAIT(&job, received == (job.tasks - 1) * (SMALL + LARGE));
        CHECK_OK(PAMI_Client_destroy(&job.client));
    }
    free(large);
}

/* A peer that does not advance holds nobody up for long; one that is gone does not either. */
static void towards_the_idle(void)
{
    struct job job;
    double begin;
    char data[2000] = {0};
    size_t i;

    job_start(&job, "idle", 1);
    test_dispatch(job.context[0], UNSEEN, on_unseen, NULL, test_ordered());
    job_barrier(&job);
    if (job.task == 0) {
        for (i = 1; i < job.tasks; i++)
            test_send_immediate(job.context[0], job_endpoint(&job, i, 0), UNSEEN, NULL, 0, data,
                                100);
    } else {
        test_sleep(0.3);
    }
    begin = test_now();
    CHECK_OK(PAMI_Client_destroy(&job.client));
    if (test_now() - begin > 6 * test_factor())
        FAIL("Client_destroy took %.1f s", test_now() - begin);
}

/* Messages to a context that its task never creates, or to an id that it never sets, wait for ever;
 * leaving does not. */
static void towards_nobody(void)
{
    struct job job;
    double begin;
    unsigned char *data = test_zalloc(LARGE_BYTES);
    pami_send_event_t none = {0};
    size_t i;

    job_start(&job, "nobody", 1);
    if (job.task % 2 == 0)
        test_dispatch(job.context[0], UNSEEN, on_unseen, NULL, test_ordered());
    job_barrier(&job);
    for (i = 0; i < 20 && job.task % 2 == 0; i++)
        test_send(job.context[0], job_endpoint(&job, (job.task + 1) % job.tasks, i % 3 == 0),
                  UNSEEN, "h", 1, data, i % 2 ? 3000 : LARGE_BYTES, none);
    job_linger(&job, 0.02);
    job_barrier(&job);
    begin = test_now();
    CHECK_OK(PAMI_Client_destroy(&job.client));
    if (test_now() - begin > 6 * test_factor())
        FAIL("Client_destroy took %.1f s", test_now() - begin);
    free(data);
}

static void in_a_child(bool contexts_first)
{
    struct job job;
    pid_t child;
    int status;

    job_start(&job, "child", 2);
    job_barrier(&job);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (contexts_first) {
            CHECK_OK(PAMI_Context_destroyv(job.context, 2));
            CHECK(job.context[0] == PAMI_CONTEXT_NULL && job.context[1] == PAMI_CONTEXT_NULL);
        }
        CHECK_OK(PAMI_Client_destroy(&job.client));
        CHECK(job.client == PAMI_CLIENT_NULL);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    job_barrier(&job);
    job_destroy(&job);
}

int main(void)
{
    careless();
    contexts_with_work();
    in_flight();
    towards_the_idle();
    towards_nobody();
    in_a_child(true);
    in_a_child(false);
    careless();
    return 0;
}
