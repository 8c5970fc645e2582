/*
 * A task destroys its contexts and creates them again, while answers to messages of the first life
 * are still due. Operations of the second life end by their own answers only; a peer that has seen
 * the contexts go can send to them once they are back.
 *
 * Run: tasks=2 env="PAMI_BEHIND_TIMEOUT=0" timeout=30
 * Run: tasks=2 env="PAMI_BEHIND_TIMEOUT=50ms" timeout=30
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_BEHIND_TIMEOUT=0" timeout=30
 */
#include "api/api_test.h"

enum {
    ID_FIRST = 10, /* messages of the first life */
    ID_SECOND,     /* of the second; not registered for a while */
    ID_ALIVE,      /* the second life has begun */
    ID_REGISTERED, /* now ID_SECOND is */
    ID_AGAIN,      /* from the peer, again and again */
    ID_END,
    ROUNDS = 20,
    MESSAGES_MOST = 30
};

static size_t first, second, again; /* dispatched */
static bool alive, registered, ended;
static size_t delivered;                     /* of the peer's own messages, when the end was said */
static size_t first_answers, second_answers; /* remote_fn */
static size_t tries_good, tries_bad;

static void on_count(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t *count = cookie;

    (void)context, (void)header, (void)header_bytes, (void)data, (void)bytes, (void)origin;
    CHECK(recv == NULL);
    (*count)++;
}

static void on_flag(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)header, (void)header_bytes, (void)data, (void)bytes, (void)origin;
    CHECK(recv == NULL);
    *(bool *)cookie = true;
}

static void on_end(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)origin;
    CHECK(recv == NULL);
    CHECK_SIZE(bytes, sizeof(delivered));
    memcpy(&delivered, data, bytes);
    ended = true;
}

static void on_first_answer(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    first_answers++;
}

static void on_second_answer(pami_context_t context, void *cookie, pami_result_t result)
{
    struct job *job = cookie;

    CHECK(context == job->context[0] && result == PAMI_SUCCESS);
    if (!registered)
        FAIL("answer number %zu comes before the message can have been delivered", second_answers);
    second_answers++;
}

static void on_try(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    if (result == PAMI_SUCCESS)
        tries_good++;
    else
        tries_bad++;
}

static void send_many(struct job *job, size_t id, size_t count, pami_event_function answer)
{
    pami_send_event_t events = {.cookie = job, .remote_fn = answer};

    for (size_t i = 0; i < count; i++)
        test_send(job->context[0], job_endpoint(job, 1, 0), id, "h", 1, "data", 4, events);
}

static void live(struct job *job)
{
    job_create_contexts(job, 1);
    test_dispatch(job->context[0], ID_REGISTERED, on_flag, &registered, test_ordered());
    test_dispatch(job->context[0], ID_AGAIN, on_count, &again, test_ordered());
}

static void reborn(struct job *job, size_t round)
{
    size_t count = 1 + round * 7 % MESSAGES_MOST;

    registered = false;
    second_answers = first_answers = 0;
    send_many(job, ID_FIRST, count, on_first_answer);
    job_destroy_contexts(job);
    if (round % 4 == 3)
        test_sleep(0.02);
    live(job);
    test_dispatch(job->context[0], ID_SECOND, on_count, &second, test_ordered());
    test_dispatch(job->context[0], ID_ALIVE, on_flag, &alive, test_ordered());
    test_dispatch(job->context[0], ID_END, on_end, NULL, test_ordered());
    test_send_immediate(job->context[0], job_endpoint(job, 1, 0), ID_ALIVE, NULL, 0, NULL, 0);
    send_many(job, ID_SECOND, count, on_second_answer);
    WAIT(job, second_answers == count);
    CHECK_SIZE(first_answers, 0);
    again = 0;
    WAIT(job, again > 0);
    test_send_immediate(job->context[0], job_endpoint(job, 1, 0), ID_END, NULL, 0, &again,
                        sizeof(again));
}

/* Does not look until the other one has been born again, then answers in two steps. */
static void peer(struct job *job, size_t round)
{
    size_t count = 1 + round * 7 % MESSAGES_MOST;
    pami_endpoint_t other = job_endpoint(job, 0, 0);
    pami_send_t message = {
        .send = test_message(other, ID_AGAIN, NULL, 0, "again", 5),
        .events = {.remote_fn = on_try},
    };
    size_t tries = 0;

    if (round % 4 != 3)
        test_sleep(0.01);
    WAIT(job, first == count && alive);
    if (round % 2 == 0)
        job_linger(job, 0.005); /* or else answer before it was noticed that the contexts went */
    test_send_immediate(job->context[0], other, ID_REGISTERED, NULL, 0, NULL, 0);
    test_dispatch(job->context[0], ID_SECOND, on_count, &second, test_ordered());
    WAIT(job, second == count);
    while (!ended) {
        if (PAMI_Send(job->context[0], &message) == PAMI_SUCCESS)
            tries++;
        job_linger(job, 0.0005);
    }
    WAIT(job, tries_good + tries_bad == tries);
    CHECK(tries_good >= delivered);
    tries_good = tries_bad = 0;
}

int main(void)
{
    struct job job;

    for (size_t round = 0; round < ROUNDS; round++) {
        first = second = 0;
        alive = ended = false;
        job_create_client(&job, "reborn");
        live(&job);
        test_dispatch(job.context[0], ID_FIRST, on_count, &first, test_ordered());
        test_dispatch(job.context[0], ID_ALIVE, on_flag, &alive, test_ordered());
        test_dispatch(job.context[0], ID_END, on_end, NULL, test_ordered());
        job_barrier(&job);
        if (job.task == 0)
            reborn(&job, round);
        else
            peer(&job, round);
        job_destroy(&job);
    }
    return 0;
}
