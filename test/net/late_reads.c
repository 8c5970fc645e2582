/*
 * A task ends while another one reads its memory, and that one seldom looks. Much is in the network
 * then, on a connection that does not tell whose it is, as others live at that address. What has
 * ended with an error does not come later.
 *
 * Run: tasks=3 nodes=3 env="PAMI_NETWORK=ofi"
 */
#include "api/api_test.h"
#include "net.h"
#include "reads.h"

enum {
    ID = 10
};

static char *theirs;
static size_t came;
static bool over;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)data, (void)bytes, (void)recv;
    if (test_origin(origin) == 1)
        memcpy(&theirs, header, header_bytes);
    over = test_origin(origin) == 0;
    came++;
}

static void tell(struct job *job, size_t task)
{
    char *memory = source;
    pami_send_immediate_t message =
        test_message(job_endpoint(job, task, 0), ID, &memory, sizeof memory, NULL, 0);

    CHECK_OK(TEST_CALL(PAMI_Send_immediate(job->context[0], &message)));
}

static void reader(struct job *job)
{
    WAIT(job, came == 2);
    begin_reads(job, theirs);
    WAIT(job, *(volatile char *)got[0] != 0);
    tell(job, 1);
    test_sleep(0.5);
    while (ended != READS) {
        test_advance(job->context[0], 1);
        test_sleep(0.1);
    }
    finish_reads(job);
    tell(job, 2);
    job_linger(job, 0.1);
}

int main(void)
{
    struct job job;

    job_create_client(&job, "late_reads");
    need_module();
    job_create_contexts(&job, 1);
    test_fill(source, sizeof source, 7, 0);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    if (job.task != 0)
        tell(&job, 0);
    if (job.task == 0)
        reader(&job);
    else
        WAIT(&job, over);
    if (job.task == 1)
        job_linger(&job, 0.2);
    job_destroy_contexts(&job);
    job_destroy(&job);
    return 0;
}
