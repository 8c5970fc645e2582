/*
 * Task 0 asks for a context of task 1 that has ended, and does not advance while that is there once
 * more and leaves again: it hears of that, too, and no message waits for ever for an answer of a
 * context that has gone.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include "net/net.h"
#include "net/stage.h"

enum {
    ID = 10
};

static struct job job;
static size_t arrived;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    arrived++;
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    *(int *)cookie = (int)result;
}

static void create(void)
{
    job_create_contexts(&job, 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
}

/* Stages: 1 task 1 has gone, 2 task 0 has asked for it, 3 it was there, 4 task 0 has tried again,
 * 5 it is there, 6 and is not needed any more. */
static void come_and_go(unsigned base)
{
    test_send_immediate(job.context[0], job_endpoint(&job, 0, 0), ID, NULL, 0, "a", 1);
    job_linger(&job, 0.2);
    job_destroy_contexts(&job);
    stage_set(base + 1);
    stage_wait(base + 2);
    create();
    job_destroy_contexts(&job);
    test_sleep(0.1);
    stage_set(base + 3);
    stage_wait(base + 4);
    create();
    stage_set(base + 5);
    WAIT(&job, atomic_load(stage) >= base + 6);
    CHECK(arrived != 0);
}

/* What becomes of it; -1: not known yet. */
static int try(int *result)
{
    pami_send_t send = {
        .send = test_message(job_endpoint(&job, 1, 0), ID, NULL, 0, "b", 1),
        .events = {.cookie = result, .remote_fn = on_end},
    };
    pami_result_t now = TEST_CALL(PAMI_Send(job.context[0], &send));

    *result = now == PAMI_SUCCESS ? -1 : (int)now;
    return *result;
}

static void ask(unsigned base)
{
    int first, second, third;

    WAIT(&job, arrived != 0);
    stage_wait(base + 1);
    job_linger(&job, 0.2);
    CHECK(try(&first) == -1);
    test_sleep(0.1); /* it is not there: that answer has come */
    stage_set(base + 2);
    stage_wait(base + 3);
    WAIT(&job, first != -1);
    CHECK(first != PAMI_SUCCESS);
    try(&second);
    stage_set(base + 4);
    stage_wait(base + 5);
    WAIT(&job, second != -1);
    WAIT(&job, try(&third) == -1);
    WAIT(&job, third != -1);
    CHECK_SIZE(third, PAMI_SUCCESS);
    stage_set(base + 6);
}

int main(void)
{
    setenv("PAMI_DRAIN_TIMEOUT", "0", 1);
    job_create_client(&job, "left_again");
    need_module();
    create();
    stage_open(job.tasks);
    if (job.task == 0)
        ask((unsigned)job.tasks);
    else
        come_and_go((unsigned)job.tasks);
    job_destroy(&job);
    return 0;
}
