/*
 * A program with large thread-local variables gets to the network and talks over it: the thread
 * that the network device starts has room for them besides its stack.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include "api/api_test.h"
#include "net.h"

enum {
    LARGE_ID = 1,
    LARGE = 1 << 20
};

static _Thread_local unsigned char large[LARGE];
static size_t arrived;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_OK(result);
    CHECK_SIZE(test_differs(large, LARGE, 1, 0), LARGE);
    arrived++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK_SIZE(bytes, LARGE);
    memset(large, 0, sizeof large);
    recv->addr = large;
    recv->local_fn = on_landed;
}

int main(void)
{
    struct job job;
    unsigned char *source = test_zalloc(LARGE);

    test_fill(source, LARGE, 1, 0);
    job_create_client(&job, "thread_local");
    need_module();
    job_create_contexts(&job, 1);
    test_dispatch(job.context[0], LARGE_ID, on_message, NULL, test_ordered());
    job_barrier(&job);
    test_send(job.context[0], job_endpoint(&job, 1 - job.task, 0), LARGE_ID, NULL, 0, source, LARGE,
              (pami_send_event_t){0});
    WAIT(&job, arrived == 1);
    job_finish(&job);
    free(source);
    return 0;
}
