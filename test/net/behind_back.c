/*
 * Task 1 has renewed its contexts more often than task 0. What it has of a context of task 0 that
 * has ended it asks about, and hears that it has ended, when the next one has its place already:
 * what that one has sent is answered, and not ended with its predecessor.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_BEHIND_TIMEOUT=0"
 */
#include "net/net.h"
#include "net/stage.h"

enum {
    ID = 10,
    RENEWALS = 7, /* more than task 0 makes */
    ROUNDS = 3
};

static struct job job;
static size_t arrived;
static bool answered;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    arrived++;
}

/* Nobody waits for this one, but task 1 has to answer. */
static void on_nothing(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
}

static void on_answer(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    if (result != PAMI_SUCCESS)
        FAIL("a message that was delivered is reported as %d: %s", (int)result, test_text());
    answered = true;
}

static void create(void)
{
    job_create_contexts(&job, 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
}

static void renew(void)
{
    job_destroy_contexts(&job);
    create();
}

static void send(pami_event_function on_end)
{
    const pami_send_event_t events = {.remote_fn = on_end};

    answered = false;
    test_send(job.context[0], job_endpoint(&job, 1, 0), ID, NULL, 0, "a", 1, events);
}

/* There is a connection from now on. */
static void meet(void)
{
    if (job.task == 0) {
        send(on_answer);
        WAIT(&job, answered);
    } else {
        WAIT(&job, arrived != 0);
    }
}

/* Stages of a round: 1 the first message is out and its context gone, 2 task 1 has asked about it,
 * 3 the message of the next one is out, 4 it was answered. */
static void send_two(unsigned base)
{
    renew();
    job_linger(&job, 0.3);
    send(on_nothing);
    job_linger(&job, 0.1);
    job_destroy_contexts(&job);
    stage_set(base + 1);
    stage_wait(base + 2);
    create();
    send(on_answer);
    job_linger(&job, 0.1);
    stage_set(base + 3);
    WAIT(&job, answered);
    stage_set(base + 4);
}

static void take_two(unsigned base)
{
    size_t before = arrived;

    job_linger(&job, 0.2); /* the last context of task 0 has gone */
    stage_wait(base + 1);
    WAIT(&job, arrived == before + 1);
    test_sleep(0.1); /* the answer has come */
    stage_set(base + 2);
    stage_wait(base + 3);
    WAIT(&job, atomic_load(stage) >= base + 4);
    CHECK_SIZE(arrived, before + 2);
}

int main(void)
{
    setenv("PAMI_DRAIN_TIMEOUT", "0", 1); /* for what task 1 does not read */
    job_create_client(&job, "behind_back");
    need_module();
    create();
    for (size_t i = 0; i < RENEWALS && job.task == 1; i++)
        renew();
    stage_open(job.tasks);
    meet();
    for (unsigned i = 0; i < ROUNDS; i++)
        if (job.task == 0)
            send_two(2 + 4 * i);
        else
            take_two(2 + 4 * i);
    job_destroy(&job);
    return 0;
}
