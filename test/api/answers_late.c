/*
 * Answers to a context that has gone, given when another one has its place, end nothing there: not
 * those to gets, whose data would come to the wrong place, nor the word that a message has arrived
 * which had to wait for its id. The context has had so many operations before that what names them
 * has come around.
 *
 * Run: tasks=2 env="PAMI_BEHIND_TIMEOUT=0.1"
 * Run: tasks=2 nodes=2 env="PAMI_BEHIND_TIMEOUT=0.1"
 * Run: tasks=2 nodes=2 env="PAMI_BEHIND_TIMEOUT=0.1 PAMI_NETWORK=ofi"
 */
#include "api_test.h"

enum {
    ID_NOTE = 1, /* data: an address */
    ID_HELD,     /* registered late, ... */
    ID_LATER,    /* ... and even later */
    USES = 254,
    GETS = 40,
    BYTES = 64
};

static struct job job;
static unsigned char source[2 * GETS][BYTES], got[2][GETS][BYTES];
static uint64_t address;
static size_t notes, gets_over, used, arrived, later;

static void on_note(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)origin, (void)recv;
    CHECK_CALLBACK();
    CHECK_SIZE(bytes, sizeof address);
    memcpy(&address, data, sizeof address);
    notes++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    arrived++;
}

static void on_over(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_CALLBACK();
    CHECK_RESULT(result, PAMI_SUCCESS);
    ++*(size_t *)cookie;
}

static void on_never(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    FAIL("a callback of a context that has gone");
}

static void note(void)
{
    uint64_t mine = (uintptr_t)source;

    test_send_immediate(job.context[0], job_endpoint(&job, 1 - job.task, 0), ID_NOTE, "n", 1, &mine,
                        sizeof mine);
}

static void get(size_t life, size_t index, pami_event_function fn, size_t *count)
{
    pami_get_simple_t call = {
        .rma = {.dest = job_endpoint(&job, 1, 0),
                .hints = {.use_shmem = PAMI_HINT_DISABLE},
                .bytes = BYTES,
                .cookie = count,
                .done_fn = fn},
        .addr = {got[life][index], (char *)(uintptr_t)address + (life * GETS + index) * BYTES},
    };

    CHECK_OK(TEST_CALL(PAMI_Get(job.context[0], &call)));
}

static void send(size_t id, pami_event_function fn, size_t *count)
{
    pami_send_event_t events = {.cookie = count, .remote_fn = fn};

    test_send(job.context[0], job_endpoint(&job, 1, 0), id, "m", 1, NULL, 0, events);
}

static void know(size_t first, size_t last)
{
    for (size_t id = first; id <= last; id++)
        test_dispatch(job.context[0], id, id == ID_NOTE ? on_note : on_message, NULL,
                      test_ordered());
}

static void renew(void)
{
    job_destroy_contexts(&job);
    job_create_contexts(&job, 1);
    know(ID_NOTE, ID_LATER);
}

/* Whose context goes, with all that it has begun. */
static void leaver(void)
{
    WAIT(&job, notes == 1);
    send(ID_HELD, on_never, NULL);
    for (size_t i = 0; i < USES; i++) {
        get(0, 0, on_over, &used);
        WAIT(&job, used == i + 1);
    }
    note();
    test_sleep(0.1); /* for the other one to look away */
    for (size_t i = 0; i < GETS; i++)
        get(0, i, on_never, NULL);
    renew();
    send(ID_LATER, on_over, &later);
    for (size_t i = 0; i < GETS; i++)
        get(1, i, on_over, &gets_over);
    WAIT(&job, gets_over == GETS);
    for (size_t i = 0; i < GETS; i++)
        CHECK_SIZE(test_differs(got[1][i], BYTES, GETS + i, 0), BYTES);
    note();
    WAIT(&job, notes == 2);
    CHECK_SIZE(later, 0);
    note();
    WAIT(&job, later == 1);
}

static void stayer(void)
{
    for (size_t i = 0; i < 2 * GETS; i++)
        test_fill(source[i], BYTES, i, 0);
    note();
    WAIT(&job, notes == 1);
    test_sleep(0.5 * test_factor());
    WAIT(&job, notes == 2);
    know(ID_HELD, ID_HELD);
    WAIT(&job, arrived == 1);
    note();
    WAIT(&job, notes == 3);
    know(ID_LATER, ID_LATER);
    WAIT(&job, arrived == 2);
}

int main(void)
{
    job_start(&job, "answers_late", 1);
    know(ID_NOTE, job.task == 0 ? ID_LATER : ID_NOTE);
    job_barrier(&job);
    if (job.task == 0)
        leaver();
    else
        stayer();
    job_destroy(&job);
    return 0;
}
