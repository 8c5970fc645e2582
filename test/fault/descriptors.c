/*
 * Tasks may have fewer descriptors than there are tasks on the host, which each of them watches: a
 * death is noticed all the same.
 *
 * Run: tasks=20
 */
#include <sys/resource.h>

#include "api/api_test.h"

enum {
    ID = 1,
    DESCRIPTORS = 16
};

static struct job job;
static size_t heard, ended;
static pami_result_t end;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    heard++;
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    end = result;
    ended++;
}

int main(void)
{
    struct rlimit limit = {.rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS};
    pami_endpoint_t last;
    size_t i;

    job_start(&job, "descriptors", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    for (i = 0; i < job.tasks; i++)
        test_send_immediate(job.context[0], job_endpoint(&job, i, 0), ID, NULL, 0, NULL, 0);
    WAIT(&job, heard == job.tasks);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    job_barrier(&job);
    if (job.task == job.tasks - 1)
        _exit(0);
    /* It takes nothing in; the last message was read by everybody. */
    last = job_endpoint(&job, job.tasks - 1, 0);
    for (i = 0; end == PAMI_SUCCESS; i++) {
        pami_send_event_t events = {.remote_fn = on_end};

        test_send(job.context[0], last, ID, NULL, 0, NULL, 0, events);
        WAIT(&job, ended == i + 1);
    }
    job_destroy(&job);
    return 0;
}
