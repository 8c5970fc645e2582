/*
 * Contexts that are destroyed and made again at once, so quickly that nobody has seen them gone:
 * what was sent to the first ones is not delivered to the second ones, all its events come all the
 * same, and who is told by another way that they are there again reaches them with the next send.
 *
 * Run: tasks=2 timeout=60
 * Run: tasks=2 nodes=2 timeout=60
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2" timeout=60
 */
#include "api/api_test.h"

enum {
    ID_OLD = 10,
    ID_NEW,
    ID_READY, /* on the other client */
    ROUNDS = 25,
    MESSAGES = 40,
    LARGE = 100000
};

static struct job control, job;
static size_t life, arrived, ready;
static size_t old_local, old_remote, new_local, new_remote;
static char large[LARGE];

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    free(cookie);
    arrived++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    size_t meant;

    (void)cookie, (void)data, (void)origin;
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && header_bytes == sizeof meant);
    memcpy(&meant, header, sizeof meant);
    if (meant != life)
        FAIL("a message for life %zu came to life %zu", meant, life);
    if (recv == NULL) {
        arrived++;
        return;
    }
    recv->addr = recv->cookie = test_alloc(bytes);
    recv->local_fn = on_landed;
}

static void on_ready(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    ready++;
}

static void on_old(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    CHECK_CALLBACK();
    ++*(size_t *)cookie;
}

static void on_new(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    ++*(size_t *)cookie;
}

static size_t size_of(size_t i)
{
    static const size_t sizes[] = {0, 100, 3000, 20000, LARGE};

    return sizes[i % (sizeof sizes / sizeof sizes[0])];
}

/* Messages with one event each, local and remote in turn, and immediate ones between them. */
static void send_all(size_t id, size_t *local, size_t *remote, pami_event_function fn)
{
    pami_endpoint_t dest = job_endpoint(&job, 1, 0);
    size_t i;

    for (i = 0; i < MESSAGES; i++) {
        pami_send_event_t events = {.cookie = i % 2 ? local : remote};

        if (i % 2)
            events.local_fn = fn;
        else
            events.remote_fn = fn;
        test_send(job.context[0], dest, id, &life, sizeof life, large, size_of(i), events);
        test_send_immediate(job.context[0], dest, id, &life, sizeof life, NULL, 0);
    }
}

static void live(void)
{
    job_create_contexts(&job, 1);
    test_dispatch(job.context[0], ID_OLD, on_message, NULL, test_ordered());
    test_dispatch(job.context[0], ID_NEW, on_message, NULL, test_ordered());
}

static void advance_job(void)
{
    test_advance(job.context[0], 1);
}

static void sender(size_t round)
{
    control.advance_too = round % 2 ? advance_job : NULL;
    old_local = old_remote = new_local = new_remote = 0;
    life = round;
    send_all(ID_OLD, &old_local, &old_remote, on_old);
    job_barrier(&control);
    WAIT(&control, ready == round + 1);
    life = round + 1;
    send_all(ID_NEW, &new_local, &new_remote, on_new);
    WAIT(&job, old_local == MESSAGES / 2 && old_remote == MESSAGES / 2);
    WAIT(&job, new_local == MESSAGES / 2 && new_remote == MESSAGES / 2);
}

static void reborn(size_t round)
{
    job_barrier(&control); /* it has sent; we have not looked */
    arrived = 0;
    life = round + 1;
    job_destroy_contexts(&job);
    live();
    test_send_immediate(control.context[0], job_endpoint(&control, 0, 0), ID_READY, NULL, 0, NULL,
                        0);
    WAIT(&job, arrived == 2 * MESSAGES);
    control.advance_too = advance_job; /* the last answers may still wait for room */
}

int main(void)
{
    size_t round;

    job_start(&control, "control", 1);
    test_dispatch(control.context[0], ID_READY, on_ready, NULL, test_ordered());
    job_create_client(&job, "job");
    live();
    for (round = 0; round < ROUNDS; round++) {
        job_barrier(&control);
        control.advance_too = NULL;
        if (job.task == 0)
            sender(round);
        else
            reborn(round);
    }
    job_barrier(&control);
    control.advance_too = NULL;
    job_destroy(&job);
    job_finish(&control);
    return 0;
}
