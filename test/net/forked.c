/*
 * A task dies that has a child made by fork, which lives on: the task of another node hears of the
 * death all the same, in time.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include "api/api_test.h"

enum {
    MESSAGE_ID = 1,
    CHILD_SECONDS = 15
};

static struct job job;
static size_t heard, ended, failed;

static void on_message(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_size;
    (void)data, (void)bytes, (void)origin, (void)recv;
    heard++;
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    ended++;
    failed += result != PAMI_SUCCESS;
}

static pami_result_t send_one(size_t to)
{
    pami_send_t send = {
        .send = {.dispatch = MESSAGE_ID, .dest = job_endpoint(&job, to, 0)},
        .events = {.remote_fn = on_end},
    };

    return PAMI_Send(job.context[0], &send);
}

/* Nothing of it is to keep the launcher waiting. */
static void live_on(void)
{
    close(0);
    close(1);
    close(2);
    test_sleep(CHILD_SECONDS);
    _exit(0);
}

static void die(void)
{
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0)
        live_on();
    _exit(0);
}

int main(void)
{
    pami_dispatch_callback_function function = {.p2p = on_message};
    double began;

    job_start(&job, "forked", 1);
    CHECK_OK(
        PAMI_Dispatch_set(job.context[0], MESSAGE_ID, function, NULL, (pami_dispatch_hint_t){0}));
    job_barrier(&job);
    CHECK_OK(send_one(1 - job.task));
    WAIT(&job, heard == 1 && ended == 1);
    CHECK_SIZE(failed, 0);
    job_barrier(&job);
    if (job.task == 1)
        die();
    began = test_now();
    while (failed == 0 && send_one(1) == PAMI_SUCCESS) {
        size_t before = ended;

        WAIT_WITH(job_advance(&job), ended != before);
    }
    if (test_now() - began > CHILD_SECONDS / 2)
        FAIL("told after %.1f s", test_now() - began);
    job_destroy(&job);
    return 0;
}
