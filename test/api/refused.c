/*
 * Messages that are sent and then not received: the receiver asks for what cannot be done with the
 * data, or destroys its context while it holds them. At all sizes the sender's local_fn says that
 * the memory is free, and remote_fn and fences what happened, with a text of their own.
 *
 * Run: tasks=1,2
 * Run: tasks=2 nodes=2
 * Run: tasks=1,2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0 PAMI_SHM_SINGLE_COPY=off"
 */
#include "api_test.h"

enum {
    ID = 1,
    HELD_ID = 2, /* set at the sender only */
    SIZES = 5,
    LARGEST = 200000
};

struct flight {
    size_t local, remote;
    pami_result_t result;
};

static struct job job;
static const size_t sizes[SIZES] = {100, 600, 5000, 40000, LARGEST};
static char source[LARGEST], room[LARGEST];
static pami_type_t incomplete, empty;
static pami_recv_t wish;
static const char *word; /* in the receiver's text */
static size_t refused;

static void on_refused(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_INVAL && strstr(test_text(), word) != NULL);
    refused++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes,
        (void)origin;
    CHECK_CALLBACK();
    *recv = wish;
}

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    struct flight *flight = cookie;

    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS && flight->remote == 0);
    flight->local++;
}

static void check_reason(void)
{
    CHECK(strstr(test_text(), "endpoint") != NULL);
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    struct flight *flight = cookie;

    (void)context;
    CHECK_CALLBACK();
    CHECK(result == flight->result);
    check_reason();
    flight->remote++;
}

static void on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_ERROR);
    check_reason();
    ++*(size_t *)cookie;
}

static void forget_text(void)
{
    CHECK_RESULT(PAMI_Context_advance(PAMI_CONTEXT_NULL, 1), PAMI_INVAL);
}

static void start(size_t id, struct flight *flight, size_t bytes, bool with_remote)
{
    pami_send_event_t events = {flight, on_local, with_remote ? on_remote : NULL};

    test_send(job.context[0], job_endpoint(&job, (job.task + 1) % job.tasks, 0), id, "h", 1, source,
              bytes, events);
}

/* One task after the other sends: the receiver's failures leave texts as well. */
static void wrong_wish(pami_type_t type, pami_data_function fn, const char *text)
{
    wish = (pami_recv_t){.local_fn = on_refused, .addr = room, .type = type, .data_fn = fn};
    word = text;
    refused = 0;
    job_barrier(&job);
    for (size_t sender = 0; sender < job.tasks; sender++) {
        for (size_t i = 0; i < SIZES && sender == job.task; i++) {
            struct flight told = {.result = PAMI_INVAL}, quiet = {0};

            forget_text();
            start(ID, &told, sizes[i], true);
            WAIT(&job, told.remote == 1);
            CHECK_SIZE(told.local, 1);
            start(ID, &quiet, sizes[i], false);
            WAIT(&job, quiet.local == 1);
        }
        if ((sender + 1) % job.tasks == job.task)
            WAIT(&job, refused == 2 * (size_t)SIZES);
        job_barrier(&job);
    }
}

/* Task 1 leaves with what task 0 has sent. */
static void closed(void)
{
    struct flight flights[SIZES];
    size_t fenced = 0;

    if (job.task == 0) {
        test_dispatch(job.context[0], HELD_ID, on_message, NULL, test_ordered());
        forget_text();
        for (size_t i = 0; i < SIZES; i++) {
            flights[i] = (struct flight){.result = PAMI_SHUTDOWN};
            start(HELD_ID, &flights[i], sizes[i], true);
        }
    }
    job_barrier(&job);
    if (job.task == 0) {
        for (size_t i = 0; i < SIZES; i++) {
            WAIT(&job, flights[i].remote == 1);
            CHECK_SIZE(flights[i].local, 1);
        }
        forget_text();
        CHECK_OK(PAMI_Fence_all(job.context[0], on_fence, &fenced));
        WAIT(&job, fenced == 1);
    }
}

int main(void)
{
    pami_dispatch_hint_t hints = test_ordered();

    hints.recv_immediate = PAMI_HINT_DISABLE;
    CHECK_OK(PAMI_Type_create(&incomplete));
    CHECK_OK(PAMI_Type_create(&empty));
    CHECK_OK(PAMI_Type_complete(empty, 1));
    job_start(&job, "refused", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, hints);
    job_barrier(&job);
    wrong_wish(incomplete, PAMI_DATA_COPY, "type: not a complete type");
    wrong_wish(empty, PAMI_DATA_COPY, "type: holds no data");
    wrong_wish(PAMI_TYPE_LOGICAL4, PAMI_DATA_SUM, "data_fn");
    if (job.tasks > 1)
        closed();
    CHECK_OK(PAMI_Type_destroy(&incomplete));
    CHECK_OK(PAMI_Type_destroy(&empty));
    job_destroy(&job);
    return 0;
}
