/*
 * A destination that has gone hides no other fault of a send: wrong arguments are refused as ever,
 * and only a send that is right in everything else is accepted and ends with an error by its
 * callbacks, once each, local_fn first. So do one-sided transfers and atomic operations, and the
 * text of the error names the call. Of what has no callbacks the next fence tells, also when it was
 * the first contact with the destination.
 *
 * Run: tasks=2
 * Run: tasks=2 nodes=2
 */
#include "api_test.h"

enum {
    ID = 1,
    SHORT = 2, /* long_header = DISABLE */
    SMALL = 3  /* recv_immediate = ENABLE */
};

static struct job control, job;
static size_t events;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
}

static void on_refused(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    FAIL("an event of a send that was refused");
}

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && cookie == &events && result != PAMI_SUCCESS);
    CHECK_SIZE(events, 0);
    events++;
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && cookie == &events && result != PAMI_SUCCESS);
    CHECK_SIZE(events, 1);
    events++;
}

static void refuse(const pami_send_immediate_t *message, pami_result_t result, const char *word)
{
    pami_send_t send = {.send = *message, .events = {&job, on_refused, on_refused}};
    pami_send_typed_t typed = {.send = *message,
                               .events = {&job, on_refused, on_refused},
                               .typed = {.type = PAMI_TYPE_BYTE}};

    CHECK_REFUSED(PAMI_Send(job.context[0], &send), result, word);
    CHECK_REFUSED(PAMI_Send_typed(job.context[0], &typed), result, word);
    CHECK_REFUSED(PAMI_Send_immediate(job.context[0], &send.send), result, word);
}

static void wrong(pami_endpoint_t gone)
{
    static char memory[10000];
    pami_send_immediate_t good = test_message(gone, ID, memory, 8, memory, 8), bad;
    pami_send_t send = {.events = {&job, on_refused, on_refused}};
    pami_send_typed_t typed = {.send = good, .events = {&job, on_refused, on_refused}};
    pami_type_t incomplete;

    bad = good;
    bad.dispatch = 77;
    refuse(&bad, PAMI_ERROR, "dispatch");
    bad = good;
    bad.header.iov_base = NULL;
    refuse(&bad, PAMI_INVAL, "header");
    bad = good;
    bad.dispatch = SHORT;
    bad.header.iov_len = 600;
    refuse(&bad, PAMI_INVAL, "header");
    bad = good;
    bad.data.iov_base = NULL;
    send.send = bad;
    CHECK_REFUSED(PAMI_Send(job.context[0], &send), PAMI_INVAL, "data");
    CHECK_REFUSED(PAMI_Send_immediate(job.context[0], &bad), PAMI_INVAL, "data");
    bad = good;
    bad.data.iov_len = sizeof memory;
    CHECK_REFUSED(PAMI_Send_immediate(job.context[0], &bad), PAMI_INVAL, "data");
    bad.dispatch = SMALL;
    send.send = bad;
    CHECK_REFUSED(PAMI_Send(job.context[0], &send), PAMI_INVAL, "data");
    bad = good;
    bad.data.iov_len = (size_t)-4; /* with the header: 4 bytes */
    refuse(&bad, PAMI_INVAL, "data");

    CHECK_REFUSED(PAMI_Send_typed(job.context[0], &typed), PAMI_INVAL, "type"); /* NULL */
    CHECK_OK(PAMI_Type_create(&incomplete));
    typed.typed.type = incomplete;
    CHECK_REFUSED(PAMI_Send_typed(job.context[0], &typed), PAMI_INVAL, "type");
    CHECK_OK(PAMI_Type_destroy(&incomplete));
    typed.typed.type = PAMI_TYPE_SIGNED_INT;
    typed.typed.data_fn = PAMI_DATA_SUM;
    CHECK_REFUSED(PAMI_Send_typed(job.context[0], &typed), PAMI_INVAL, "data_fn");
}

static void right(pami_endpoint_t gone)
{
    pami_send_t send = {.send = test_message(gone, ID, "h", 1, "data", 4),
                        .events = {&events, on_local, on_remote}};
    pami_send_typed_t typed = {
        .send = send.send, .events = send.events, .typed = {.type = PAMI_TYPE_BYTE}};

    events = 0;
    CHECK_OK(TEST_CALL(PAMI_Send(job.context[0], &send)));
    WAIT(&job, events == 2);
    events = 0;
    CHECK_OK(TEST_CALL(PAMI_Send_typed(job.context[0], &typed)));
    WAIT(&job, events == 2);
    CHECK_REFUSED(PAMI_Send_immediate(job.context[0], &send.send), PAMI_ERROR, "dest");
}

static void on_gone(pami_context_t context, void *cookie, pami_result_t result)
{
    const char *call = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_ERROR);
    if (strncmp(test_text(), call, strlen(call)) != 0 || strstr(test_text(), "has gone") == NULL)
        FAIL("the text of %s is: %s", call, test_text());
    events++;
}

static void right_transfers(pami_endpoint_t gone)
{
    static char is_put[] = "PAMI_Put: ", is_get[] = "PAMI_Get: ", is_rmw[] = "PAMI_Rmw: ";
    static uint64_t word, value;
    pami_rma_t rma = {.dest = gone, .bytes = 8, .cookie = is_put, .done_fn = on_gone};
    pami_put_simple_t put = {.rma = rma, .addr = {&value, &word}, .put = {on_gone}};
    pami_get_simple_t get = {.rma = rma, .addr = {&value, &word}};
    pami_rmw_t rmw = {.dest = gone,
                      .cookie = is_rmw,
                      .done_fn = on_gone,
                      .remote = &word,
                      .value = &value,
                      .operation = PAMI_ATOMIC_ADD,
                      .type = PAMI_TYPE_UNSIGNED_LONG};

    events = 0;
    CHECK_OK(TEST_CALL(PAMI_Put(job.context[0], &put)));
    WAIT(&job, events == 2);
    get.rma.cookie = is_get;
    CHECK_OK(TEST_CALL(PAMI_Get(job.context[0], &get)));
    WAIT(&job, events == 3);
    CHECK_OK(TEST_CALL(PAMI_Rmw(job.context[0], &rmw)));
    WAIT(&job, events == 4);
}

static void on_fenced(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_CALLBACK();
    *(pami_result_t *)cookie = result;
}

static pami_result_t fence(pami_context_t context, pami_endpoint_t gone, bool all)
{
    pami_result_t result = PAMI_EAGAIN;

    CHECK_OK(TEST_CALL(all ? PAMI_Fence_all(context, on_fenced, &result)
                           : PAMI_Fence_endpoint(context, on_fenced, &result, gone)));
    WAIT(&job, result != PAMI_EAGAIN);
    return result;
}

/* Nobody is told of what is wrong but by a fence, and that once. */
static void silent(pami_context_t context, pami_endpoint_t gone)
{
    static uint64_t word, value;
    pami_send_t send = {.send = test_message(gone, ID, "h", 1, "data", 4)};
    pami_put_simple_t put = {.rma = {.dest = gone, .bytes = 8}, .addr = {&value, &word}};
    pami_get_simple_t get = {put.rma, put.addr};
    pami_rmw_t rmw = {.dest = gone,
                      .remote = &word,
                      .value = &value,
                      .operation = PAMI_ATOMIC_ADD,
                      .type = PAMI_TYPE_UNSIGNED_LONG};

    for (int way = 0; way < 8; way++) {
        switch (way / 2) {
        case 0:
            CHECK_OK(PAMI_Send(context, &send));
            break;
        case 1:
            CHECK_OK(PAMI_Put(context, &put));
            break;
        case 2:
            CHECK_OK(PAMI_Get(context, &get));
            break;
        default:
            CHECK_OK(PAMI_Rmw(context, &rmw));
        }
        CHECK_RESULT(fence(context, gone, way % 2 == 0), PAMI_ERROR);
        CHECK_RESULT(fence(context, gone, true), PAMI_SUCCESS);
    }
}

int main(void)
{
    pami_dispatch_hint_t is_short = {.long_header = PAMI_HINT_DISABLE};
    pami_dispatch_hint_t small = {.recv_immediate = PAMI_HINT_ENABLE};

    job_start(&control, "control", 1);
    job_start(&job, "gone_arguments", 2);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[1], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[0], SHORT, on_message, NULL, is_short);
    test_dispatch(job.context[0], SMALL, on_message, NULL, small);
    job_barrier(&job);
    if (job.task == 1)
        job_destroy(&job);
    job_barrier(&control);
    if (job.task == 0) {
        pami_endpoint_t gone = job_endpoint(&job, 1, 0);

        job_linger(&job, 0.1); /* until it is known */
        wrong(gone);
        right(gone);
        right_transfers(gone);
        CHECK_RESULT(fence(job.context[0], gone, true), PAMI_ERROR);
        silent(job.context[1], gone);
        silent(job.context[0], gone);
        job_destroy(&job);
    }
    job_finish(&control);
    return 0;
}
