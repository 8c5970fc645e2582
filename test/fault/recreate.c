/*
 * Programs that create, use and destroy a client in phases, as libraries do that are opened and
 * closed again: whoever is first in a new phase sends to tasks whose contexts do not exist yet.
 * That is early traffic like any other: it is accepted, kept and delivered, and nothing of an
 * earlier phase mixes with it.
 *
 * Run: tasks=2,3 timeout=60
 */
#include "api/api_test.h"

enum {
    ID_WORD = 10,
    ID_BULK,
    PHASES = 30,
    BULK = 5000
};

static size_t words, bulks, answers;

static void on_word(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t phase;

    (void)context, (void)data, (void)bytes, (void)origin;
    CHECK_CALLBACK();
    CHECK(recv == NULL && header_bytes == sizeof phase);
    memcpy(&phase, header, sizeof phase);
    CHECK_SIZE(phase, *(size_t *)cookie);
    words++;
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    free(cookie);
    bulks++;
}

static void on_bulk(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(recv != NULL && bytes == BULK);
    recv->addr = recv->cookie = test_alloc(bytes);
    recv->local_fn = on_landed;
}

static void on_answer(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    answers++;
}

/* One task takes its time before it creates its contexts, in each phase another one. */
static void dawdle(const struct job *job, size_t phase)
{
    if (phase % job->tasks == job->task)
        test_sleep(phase % 2 ? 0.02 : 0.002);
}

static void use(struct job *job, size_t phase)
{
    static char bulk[BULK];
    pami_send_event_t events = {.remote_fn = on_answer};

    words = bulks = answers = 0;
    for (size_t task = 0; task < job->tasks; task++) {
        pami_endpoint_t dest = job_endpoint(job, task, 0);

        test_send_immediate(job->context[0], dest, ID_WORD, &phase, sizeof phase, NULL, 0);
        test_send(job->context[0], dest, ID_BULK, NULL, 0, bulk, sizeof bulk, events);
    }
    WAIT(job, words == job->tasks && bulks == job->tasks && answers == job->tasks);
}

int main(void)
{
    size_t phase;
    struct job job;

    for (phase = 0; phase < PHASES; phase++) {
        job_create_client(&job, "recreate");
        dawdle(&job, phase);
        job_create_contexts(&job, 1);
        test_dispatch(job.context[0], ID_WORD, on_word, &phase, test_ordered());
        test_dispatch(job.context[0], ID_BULK, on_bulk, NULL, test_ordered());
        use(&job, phase);
        if (phase % 3 == 0)
            job_barrier(&job);
        job_destroy(&job);
    }
    return 0;
}
