/*
 * A task creates its contexts anew, sends much, and dies. The other one gets all of it before it
 * hears that the task has gone.
 *
 * Run by last_words.sh: the death is no failure.
 */
#include "api/api_test.h"
#include "net.h"

#include <signal.h>

enum {
    ID = 10,
    ID_HELD, /* of the dead task's contexts: never registered */
    MESSAGES = 700,
    BYTES = 3000
};

static size_t came;
static bool gone, ready;

static char room[BYTES];

static void on_came(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_RESULT(result, PAMI_SUCCESS);
    CHECK(!gone);
    came++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    ready = true;
    if (bytes == 0)
        return;
    if (recv != NULL) {
        recv->addr = room;
        recv->local_fn = on_came;
        return;
    }
    on_came(context, NULL, PAMI_SUCCESS);
}

static void on_gone(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result != PAMI_SUCCESS);
    gone = true;
}

static void live(struct job *job)
{
    job_create_contexts(job, 1);
    test_dispatch(job->context[0], ID, on_message, NULL, test_ordered());
    if (job->task == 0)
        test_dispatch(job->context[0], ID_HELD, on_message, NULL, test_ordered());
}

static void speak(struct job *job)
{
    static char data[BYTES];
    pami_send_event_t nothing = {0};

    test_send(job->context[0], job_endpoint(job, 0, 0), ID, NULL, 0, NULL, 0, nothing);
    WAIT(job, ready);
    for (size_t i = 0; i < MESSAGES; i++) {
        test_send(job->context[0], job_endpoint(job, 0, 0), ID, NULL, 0, data, BYTES, nothing);
        job_advance(job);
    }
    job_linger(job, 0.5);
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
    pami_send_event_t events = {.remote_fn = on_gone};
    struct job job;

    if (argc != 2 || strcmp(argv[1], "--die") != 0) {
        puts("SKIP: last_words.sh runs it");
        return 77;
    }
    job_create_client(&job, "last_words");
    need_module();
    for (int i = 0; i < 2; i++) {
        live(&job);
        job_barrier(&job);
        if (i == 0 && job.task == 0)
            job_linger(&job, 0.3); /* hears of the other one's end */
        if (i == 0)
            job_destroy_contexts(&job);
    }
    if (job.task == 1)
        speak(&job);
    WAIT(&job, ready);
    test_send(job.context[0], job_endpoint(&job, 1, 0), ID, NULL, 0, NULL, 0,
              (pami_send_event_t){0});
    test_send(job.context[0], job_endpoint(&job, 1, 0), ID_HELD, NULL, 0, NULL, 0, events);
    test_advance(job.context[0], 1);
    test_sleep(2);
    WAIT(&job, gone);
    CHECK_SIZE(came, MESSAGES);
    puts("all came");
    fflush(stdout);
    _exit(0);
}
