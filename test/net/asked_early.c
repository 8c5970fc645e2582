/*
 * A context asks for one that does not exist yet, and is gone when that comes: it has been created
 * again, or its task has died. The new one sends to the context that is there now, or hears that
 * there is none.
 *
 *     pamirun -n 2 --nodes 2 --keep-going asked_early [dies]
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_DRAIN_TIMEOUT=100ms"
 */
#include "api/api_test.h"
#include "net/net.h"

#include <signal.h>

enum {
    ID = 10
};

static struct job job, steady; /* the contexts that come and go; those that stay */
static size_t came, ended;

static void advance_steady(void)
{
    job_advance_alone(&steady);
}

static void advance_job(void)
{
    if (job.contexts != 0)
        job_advance_alone(&job);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(recv == NULL && bytes == 3);
    came++;
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    pami_result_t expected = *(pami_result_t *)cookie;

    (void)context;
    CHECK_CALLBACK();
    CHECK_SIZE(result, expected);
    ended++;
}

static void create(void)
{
    job_create_contexts(&job, 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
}

static void send_to(size_t task)
{
    test_send_immediate(job.context[0], job_endpoint(&job, task, 0), ID, NULL, 0, "abc", 3);
}

/* Nobody is there to take it. */
static void ask_early(bool dies)
{
    create();
    send_to(0);
    job_linger(&job, 0.2);
    if (dies)
        raise(SIGKILL);
    job_destroy_contexts(&job);
    create();
}

int main(int argc, char **argv)
{
    bool dies = argc > 1 && strcmp(argv[1], "dies") == 0;
    pami_result_t expected = dies ? PAMI_ERROR : PAMI_SUCCESS;
    pami_send_event_t events = {.cookie = &expected, .remote_fn = on_end};

    job_start(&steady, "steady", 1);
    need_module();
    job_create_client(&job, "early");
    job.advance_too = advance_steady;
    steady.advance_too = advance_job;
    job_barrier(&steady);
    if (job.task == 1) {
        ask_early(dies);
        job_barrier(&steady);
        WAIT(&job, came == 1);
    } else {
        if (dies)
            job_linger(&steady, 1);
        else
            job_barrier(&steady);
        create();
        job_linger(&job, 0.2); /* the question could be answered now */
        test_send(job.context[0], job_endpoint(&job, 1, 0), ID, NULL, 0, "abc", 3, events);
        WAIT(&job, ended == 1);
        CHECK_SIZE(came, 0);
        if (dies) {
            puts("the death was told");
            return 0;
        }
    }
    job_barrier(&steady);
    job_destroy(&job);
    job_finish(&steady);
    return 0;
}
