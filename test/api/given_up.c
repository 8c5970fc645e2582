/*
 * A context is destroyed while its large message waits for a task that does not advance for longer
 * than PAMI_DRAIN_TIMEOUT. The memory is the program's again then, so who fetches the data later is
 * told that it is lost, also where there is another context by then.
 *
 * Run: tasks=2 env="PAMI_DRAIN_TIMEOUT=0.1"
 * Run: tasks=2 env="PAMI_DRAIN_TIMEOUT=0.1 PAMI_SHM_SINGLE_COPY=on"
 * Run: tasks=2 env="PAMI_DRAIN_TIMEOUT=0.1 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 nodes=2 env="PAMI_DRAIN_TIMEOUT=0.1 PAMI_NETWORK=ofi PAMI_OFI_INTERFACE=lo"
 */
#include "api_test.h"

enum {
    ID = 1,
    OVER_ID = 2,
    BYTES = 300000
};

static struct job control, job;
static unsigned char data[BYTES];
static size_t begun, ended;
static bool over;

static void on_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK_RESULT(result, PAMI_ERROR);
    CHECK(strstr(test_text(), "has gone") != NULL);
    ended++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *pipe, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)pipe, (void)origin;
    CHECK(recv != NULL && bytes == BYTES);
    recv->addr = data;
    recv->local_fn = on_ended;
    begun++;
}

static void on_over(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)pipe, (void)bytes, (void)origin, (void)recv;
    CHECK_SIZE(header_bytes, 1);
    over = true;
}

/* Gives up, and uses the memory for something else. Over a network only who advances is read from.
 */
static void give_up(bool again)
{
    const pami_send_event_t none = {NULL, NULL, NULL};

    test_send(job.context[0], job_endpoint(&job, 1, 0), ID, "h", 1, data, BYTES, none);
    job_linger(&job, 0.05);
    job_destroy_contexts(&job);
    memset(data, 0xee, BYTES);
    if (again)
        job_create_contexts(&job, 1);
    job_barrier(&control);
    WAIT_WITH((job_advance(&control), job_advance(&job)), over);
}

static void fetch(void)
{
    job_barrier(&control);
    WAIT(&job, begun == 1 && ended == 1);
    test_send_immediate(control.context[0], job_endpoint(&control, 0, 0), OVER_ID, "o", 1, NULL, 0);
}

static void one(bool again)
{
    job_create_contexts(&job, 1);
    begun = ended = 0;
    over = false;
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    job_barrier(&control);
    job_barrier(&job);
    job_barrier(&control);
    if (job.task == 0)
        give_up(again);
    else
        fetch();
    job_barrier(&control);
    if (job.contexts != 0)
        job_destroy_contexts(&job);
}

int main(void)
{
    job_start(&control, "control", 1);
    test_dispatch(control.context[0], OVER_ID, on_over, NULL, test_ordered());
    job_create_client(&job, "given_up");
    one(false);
    job_destroy(&job);
    job_create_client(&job, "again");
    one(true);
    job_destroy(&job);
    job_finish(&control);
    return 0;
}
