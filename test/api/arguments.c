/*
 * Wrong arguments of sends: refused with the documented result and a text that names function and
 * argument, without side effects, whatever else the structure holds.
 *
 * Run: tasks=1,2
 * Run: tasks=2 nodes=2
 */
#include "api_test.h"

enum {
    ID = 1
};

static struct job job;
static size_t received;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    received++;
}

static void on_event(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    FAIL("an event of a send that was refused");
}

static void data_fn(void *target, void *source, size_t bytes, void *cookie)
{
    (void)target, (void)source, (void)bytes, (void)cookie;
    FAIL("a data function of a send that was refused");
}

/* The three calls with one structure: each refuses it. */
static void refuse(const pami_send_immediate_t *message, pami_result_t result, const char *word)
{
    pami_send_t send = {.send = *message, .events = {&job, on_event, on_event}};
    pami_send_typed_t typed = {
        .send = *message, .events = {&job, on_event, on_event}, .typed = {.type = PAMI_TYPE_BYTE}};

    CHECK_REFUSED(PAMI_Send_immediate(job.context[0], &send.send), result, word);
    CHECK_REFUSED(PAMI_Send(job.context[0], &send), result, word);
    CHECK_REFUSED(PAMI_Send_typed(job.context[0], &typed), result, word);
    CHECK(memcmp(&send.send, message, sizeof *message) == 0);
}

int main(void)
{
    static char memory[16];
    static uint64_t strange[8]; /* no contexts, and not aligned as they are */
    pami_send_immediate_t good, bad;
    pami_send_t send;
    pami_send_typed_t typed;
    size_t limit;

    job_start(&job, "arguments", 2);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    limit = client_attribute(job.client, PAMI_CLIENT_NUM_CONTEXTS);
    good = test_message(job_endpoint(&job, job.task, 0), ID, memory, 8, memory, 8);

    bad = good;
    bad.dest = (pami_endpoint_t)job.tasks; /* no such task */
    refuse(&bad, PAMI_INVAL, "dest");
    bad.dest = PAMI_ENDPOINT_NULL;
    refuse(&bad, PAMI_INVAL, "dest");
    bad.dest = (pami_endpoint_t)(job_endpoint(&job, 0, limit - 1) + job_endpoint(&job, 0, 1));
    refuse(&bad, PAMI_INVAL, "dest"); /* no such context */
    bad = good;
    bad.dispatch = ID + 1;
    refuse(&bad, PAMI_ERROR, "dispatch");
    bad.dispatch = (size_t)-1;
    refuse(&bad, PAMI_ERROR, "dispatch");
    bad = good;
    bad.header.iov_base = NULL;
    refuse(&bad, PAMI_INVAL, "header");

    bad = good;
    bad.data.iov_base = NULL;
    send = (pami_send_t){.send = bad};
    CHECK_REFUSED(PAMI_Send_immediate(job.context[0], &bad), PAMI_INVAL, "data");
    CHECK_REFUSED(PAMI_Send(job.context[0], &send), PAMI_INVAL, "data");
    bad = good;
    bad.data.iov_len = SIZE_MAX;
    CHECK_REFUSED(PAMI_Send_immediate(job.context[0], &bad), PAMI_INVAL, "18446744073709551615");

    send.send = good;
    typed = (pami_send_typed_t){.send = good};
    CHECK_REFUSED(PAMI_Send(PAMI_CONTEXT_NULL, &send), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Send_immediate(PAMI_CONTEXT_NULL, &good), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Send_typed(PAMI_CONTEXT_NULL, &typed), PAMI_INVAL, "context");
    for (size_t i = 0; i < 8; i++)
        CHECK_REFUSED(PAMI_Send(&strange[i], &send), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Send(job.context[0], NULL), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMI_Send_immediate(job.context[0], NULL), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMI_Send_typed(job.context[0], NULL), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMI_Send_typed(job.context[0], &typed), PAMI_INVAL, "type"); /* NULL */
    typed.typed.type = PAMI_TYPE_BYTE;
    typed.typed.data_fn = PAMI_DATA_NOOP;
    CHECK_REFUSED(PAMI_Send_typed(job.context[0], &typed), PAMI_INVAL, "data_fn: an operation");
    typed.typed.data_fn = PAMI_DATA_SUM;
    CHECK_REFUSED(PAMI_Send_typed(job.context[0], &typed), PAMI_INVAL, "data_fn: an operation");
    typed.typed.data_fn = PAMI_DATA_COPY;
    typed.send.data.iov_base = NULL; /* and the type has no addresses of its own */
    CHECK_REFUSED(PAMI_Send_typed(job.context[0], &typed), PAMI_INVAL, "data: NULL");
    typed.typed.data_fn = data_fn;
    CHECK_REFUSED(PAMI_Send_typed(job.context[0], &typed), PAMI_INVAL, "data: NULL");
    job_linger(&job, 0.01);
    CHECK_SIZE(received, 0);

    /* Soft hints of any kind, reserved bits too, are no error. */
    memset(&good.hints, 0xff, sizeof good.hints);
    CHECK_OK(PAMI_Send_immediate(job.context[0], &good));
    WAIT(&job, received == 1);
    job_finish(&job);
    return 0;
}
