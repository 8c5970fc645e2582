/*
 * A thread advances a context without its lock when asynchronous progress of that begins. The two
 * never look at anything of the context at the same time, also where the program's thread is inside
 * a call that has given the processor up. (Only SANITIZE=thread sees it if they do.)
 *
 * Run: tasks=1
 * Run: tasks=1,2 env="PAMI_YIELD=always"
 */
#include "async.h"

enum {
    ID = 1,
    ROUNDS = 20,
    SENDS = 20
};

static struct job job;
static size_t arrived;
static bool over;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)data, (void)origin;
    CHECK(header_bytes == 1 && bytes == 0 && recv == NULL);
    __atomic_fetch_add(&arrived, 1, __ATOMIC_RELEASE);
}

static pami_result_t send(pami_context_t context, void *cookie)
{
    (void)cookie;
    for (int i = 0; i < SENDS; i++)
        test_send_immediate(context, job_endpoint(&job, job.task, 1), ID, "h", 1, NULL, 0);
    return PAMI_SUCCESS;
}

static void *advance(void *context)
{
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
        test_advance(context, 1000);
    return NULL;
}

static void begin(void)
{
    pami_context_t context = job.context[1];
    pami_work_t work;
    pthread_t thread;

    arrived = 0;
    over = false;
    test_dispatch(context, ID, on_message, NULL, test_ordered());
    CHECK(pthread_create(&thread, NULL, advance, context) == 0);
    test_sleep(1e-3);
    CHECK_OK(PAMIX_Context_async_enable(&context, 1, NULL));
    CHECK_OK(PAMI_Context_post(context, &work, send, NULL));
    WAIT_WITH(test_sleep(1e-4), load(&arrived) == SENDS);
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    job_create_client(&job, "async_begin");
    for (int i = 0; i < ROUNDS; i++) {
        job_create_contexts(&job, 2);
        begin();
        job_destroy_contexts(&job);
    }
    job_destroy(&job);
    return 0;
}
