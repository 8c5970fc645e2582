/*
 * A thread with a cancellation request against it sends, receives and advances under the context
 * lock, at last where nothing comes for a while: it must not end inside the library, with the lock
 * or something else held, but where it says so itself.
 *
 * Run: tasks=1,2
 * Run: tasks=3 env="PAMI_YIELD=always"
 * Run: tasks=2 nodes=2
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off PAMI_SHM_CHUNKS=2"
 */
#include "api_test.h"

#include <pthread.h>

enum {
    ID = 1,
    MESSAGES = 200
};

static struct job job;
static size_t received;
static bool survived;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    free(cookie);
    received++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    if (recv == NULL) {
        received++;
        return;
    }
    recv->addr = recv->cookie = test_alloc(bytes);
    recv->local_fn = on_landed;
}

static pami_result_t on_work(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    return PAMI_SUCCESS;
}

__attribute__((noinline)) static void live(void)
{
    static char data[100000];
    static const size_t sizes[] = {0, 400, 8000, 100000};
    pami_send_event_t none = {0};
    pami_work_t work;
    size_t i;
    double until = test_now() + 0.1;

    CHECK(pthread_cancel(pthread_self()) == 0);
    for (i = 0; i < MESSAGES || received < MESSAGES || test_now() < until; i++) {
        CHECK_OK(PAMI_Context_post(job.context[0], &work, on_work, NULL));
        CHECK_OK(PAMI_Context_lock(job.context[0]));
        if (i < MESSAGES)
            test_send(job.context[0], job_endpoint(&job, (job.task + 1) % job.tasks, 0), ID, "h", 1,
                      data, sizes[i % 4], none);
        test_advance(job.context[0], 50);
        CHECK_OK(PAMI_Context_unlock(job.context[0]));
        CHECK(test_now() < until + test_limit());
    }
    /* Who waits in vain gives the processor up, and rests after a millisecond. */
    CHECK_OK(PAMI_Context_lock(job.context[0]));
    for (until = test_now() + 0.02; test_now() < until;)
        test_advance(job.context[0], 5000);
    CHECK_OK(PAMI_Context_unlock(job.context[0]));
    survived = true;
}

/* Ends with a small frame: sanitizers do not clean up those that cancellation leaves. */
static void *doomed(void *cookie)
{
    live();
    pthread_testcancel();
    return cookie;
}

int main(void)
{
    pthread_t thread;
    void *status;

    job_start(&job, "cancel", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    job_barrier(&job);
    CHECK(pthread_create(&thread, NULL, doomed, NULL) == 0);
    CHECK(pthread_join(thread, &status) == 0 && status == PTHREAD_CANCELED);
    if (!survived)
        FAIL("the thread was cancelled inside the library");
    WAIT(&job, received == MESSAGES);
    job_finish(&job);
    return 0;
}
