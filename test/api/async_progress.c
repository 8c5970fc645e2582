/*
 * EXT_async_progress: a context whose program does something else is served all the same; not
 * before enable, not after disable; programs that use the context lock or PAMI_Context_post get
 * along with it; the extension may be closed before the contexts are destroyed.
 *
 * Run: tasks=1,2,3
 * Run: tasks=4 nodes=2
 */
#include "async.h"

enum {
    ID = 1,
    POSTS = 2000
};

static struct job job;
static register_fn async_register;
static enable_fn async_enable, async_disable;
static size_t received, posted;
static pthread_t helper;
static bool helper_known;

/* One stable thread, which is not ours, and never while we hold the lock. */
static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK(context == job.context[1]);
    if (test_advancing == 0) { /* a thread of the library's */
        CHECK(!helper_known || pthread_equal(helper, pthread_self()));
        helper = pthread_self();
        helper_known = true;
    }
    __atomic_fetch_add(&received, 1, __ATOMIC_RELEASE);
}

static pami_result_t on_post(pami_context_t context, void *cookie)
{
    (void)cookie;
    CHECK(context == job.context[1]);
    __atomic_fetch_add(&posted, 1, __ATOMIC_RELEASE);
    return PAMI_SUCCESS;
}

static void *symbol(pami_extension_t extension, const char *name)
{
    void *found = PAMI_Extension_symbol(extension, name);

    CHECK(found != NULL);
    return found;
}

/* Let everybody's neighbour be the sender; its context 0 is advanced, our context 1 is not. */
static void ping(void)
{
    test_send_immediate(job.context[0], job_endpoint(&job, (job.task + 1) % job.tasks, 1), ID, NULL,
                        0, NULL, 0);
}

static void not_yet(size_t so_far)
{
    ping();
    job_barrier(&job);
    job_linger(&job, 0.05);
    CHECK_SIZE(load(&received), so_far);
}

static void served(size_t target)
{
    double until = test_now() + test_limit();

    while (load(&received) < target) {
        job_advance(&job); /* context 0 only */
        if (test_now() > until)
            FAIL("asynchronous progress has not delivered message %zu", target);
    }
}

/* A program that only computes. */
static void served_while_spinning(size_t target)
{
    double until = test_now() + test_limit();

    ping();
    job_barrier(&job);
    while (load(&received) < target)
        if (test_now() > until)
            FAIL("asynchronous progress has not delivered message %zu", target);
    job_barrier(&job);
}

static void along_with_lock(size_t target)
{
    static pami_work_t work[POSTS];
    size_t i;

    for (i = 0; i < POSTS; i++) {
        CHECK_OK(PAMI_Context_post(job.context[1], &work[i], on_post, NULL));
        if (i % 10 == 0) {
            CHECK_OK(PAMI_Context_lock(job.context[1]));
            test_advance(job.context[1], 1);
            CHECK_OK(PAMI_Context_unlock(job.context[1]));
        }
    }
    WAIT(&job, load(&posted) == POSTS);
    CHECK_OK(PAMI_Context_lock(job.context[1]));
    test_send_immediate(job.context[1], job_endpoint(&job, (job.task + 1) % job.tasks, 1), ID, NULL,
                        0, NULL, 0);
    CHECK_OK(PAMI_Context_unlock(job.context[1]));
    served(target);
}

int main(void)
{
    pami_extension_t extension;

    job_start(&job, "async_progress", 2);
    job.driven = 1;
    CHECK_OK(PAMI_Extension_open(job.client, "EXT_async_progress", &extension));
    *(void **)&async_register = symbol(extension, "register");
    *(void **)&async_enable = symbol(extension, "ENABLE");
    *(void **)&async_disable = symbol(extension, "disable");
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[1], ID, on_message, NULL, test_ordered());
    job_barrier(&job);

    not_yet(0);
    CHECK_OK(async_register(job.context[1], NULL, NULL, NULL, NULL));
    not_yet(0);
    CHECK_RESULT(async_enable(job.context[1], (pamix_async_t)77), PAMI_UNIMPL);
    CHECK_OK(async_enable(job.context[1], PAMIX_ASYNC_ALL));
    served(2);
    CHECK_OK(PAMI_Extension_close(extension));
    job_barrier(&job);
    served_while_spinning(3);
    along_with_lock(4);
    job_barrier(&job);
    CHECK_OK(async_disable(job.context[1], PAMIX_ASYNC_ALL));
    job_barrier(&job);
    not_yet(4);
    CHECK_OK(async_enable(job.context[1], PAMIX_ASYNC_ALL));
    served(5);
    job_barrier(&job);
    CHECK_OK(async_disable(job.context[1], PAMIX_ASYNC_ALL));
    job_finish(&job);
    return 0;
}
