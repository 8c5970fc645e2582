/*
 * The eleven hard hints, each alone: ENABLE and DISABLE are accepted and kept, 3 is refused. Every
 * setting is used for messages of several sizes to a neighbour and to oneself; where a hint forbids
 * a message the sender is told so. Two hints that set limits forbid together what each does alone.
 *
 * Run: tasks=1,2,3
 * Run: tasks=4 nodes=2
 * Run: tasks=2 nodes=2
 * Run: tasks=3 env="PAMI_RNDV_BYTES=0 PAMI_SHM_SINGLE_COPY=off"
 */
#include "api_test.h"

enum {
    FIRST_ID = 10, /* hint h, value v: id FIRST_ID + 4 * h + v */
    SHORT_ID = 60, /* immediate receives, short headers */
    LARGE = 90000
};

enum hint {
    MULTICONTEXT,
    LONG_HEADER,
    RECV_CONTIGUOUS,
    RECV_COPY,
    RECV_IMMEDIATE,
    CONSISTENCY,
    BUFFER_REGISTERED,
    REMOTE_ASYNC_PROGRESS,
    USE_RDMA,
    USE_SHMEM,
    QUEUE_IMMEDIATE,
    HINTS
};

static const char *const names[HINTS] = {
    "multicontext",   "long_header", "recv_contiguous",   "recv_copy",
    "recv_immediate", "consistency", "buffer_registered", "remote_async_progress",
    "use_rdma",       "use_shmem",   "queue_immediate"};

static struct job job;
static unsigned char *source;
static size_t recv_max, expected, landed, acknowledged;

static pami_dispatch_hint_t hint_alone(enum hint hint, unsigned value)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    uint32_t bits = value << (30 - 2 * hint);
#else
    uint32_t bits = value << (2 * hint);
#endif
    pami_dispatch_hint_t hints;

    memcpy(&hints, &bits, sizeof hints);
    return hints;
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    unsigned char *block = cookie;
    size_t bytes;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    memcpy(&bytes, block, sizeof bytes);
    CHECK_SIZE(test_differs(block + sizeof bytes, bytes, 1, 0), bytes);
    landed++;
    free(block);
}

static void never_called(void *target, void *from, size_t bytes, void *cookie)
{
    (void)target, (void)from, (void)bytes, (void)cookie;
    FAIL("data_fn of a receive that only copies");
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    size_t id = (uintptr_t)cookie, hint = (id - FIRST_ID) / 4, value = (id - FIRST_ID) % 4;
    bool never = hint == RECV_IMMEDIATE && value == PAMI_HINT_DISABLE;
    unsigned char kind;

    CHECK_CALLBACK();
    (void)context, (void)origin;
    CHECK(header_bytes >= 1);
    kind = *(const unsigned char *)header;
    CHECK((recv == NULL) ==
          (!never && (kind == 'i' || bytes == 0 || header_bytes + bytes <= recv_max)));
    CHECK((recv == NULL) == (data != NULL));
    if (recv == NULL) {
        CHECK_SIZE(test_differs(data, bytes, 1, 0), bytes);
        landed++;
        return;
    }
    recv->cookie = test_alloc(sizeof bytes + bytes);
    memcpy(recv->cookie, &bytes, sizeof bytes);
    recv->addr = (unsigned char *)recv->cookie + sizeof bytes;
    recv->local_fn = on_landed;
    if (hint == RECV_CONTIGUOUS && value == PAMI_HINT_ENABLE) {
        recv->type = (pami_type_t)&names; /* not looked at */
        recv->offset = 1000;
    }
    if (hint == RECV_COPY && value == PAMI_HINT_ENABLE) {
        recv->data_fn = never_called;
        recv->data_cookie = &job;
    }
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    acknowledged++;
}

static void accepted(void)
{
    pami_dispatch_callback_function fn = {.p2p = on_message};
    enum hint hint;
    unsigned value;

    for (hint = 0; hint < HINTS; hint++) {
        for (value = PAMI_HINT_DEFAULT; value <= PAMI_HINT_DISABLE; value++) {
            size_t id = FIRST_ID + 4 * hint + value;

            CHECK_OK(PAMI_Dispatch_set(job.context[0], id, fn, (void *)(uintptr_t)id,
                                       hint_alone(hint, value)));
        }
        CHECK_REFUSED(
            PAMI_Dispatch_set(job.context[0], 5, fn, NULL, hint_alone(hint, PAMI_HINT_INVALID)),
            PAMI_INVAL, names[hint]);
    }
    CHECK_RESULT(PAMI_Dispatch_set(job.context[0], 5, fn, NULL,
                                   (pami_dispatch_hint_t){.use_rdma = PAMI_HINT_DISABLE,
                                                          .buffer_registered = PAMI_HINT_ENABLE}),
                 PAMI_INVAL);
    CHECK_OK(PAMI_Dispatch_set(job.context[0], SHORT_ID, fn, (void *)(uintptr_t)SHORT_ID,
                               (pami_dispatch_hint_t){.recv_immediate = PAMI_HINT_ENABLE,
                                                      .long_header = PAMI_HINT_DISABLE}));
}

static bool same_node(size_t task)
{
    pami_configuration_t query = {.name = PAMI_CLIENT_LOCAL_TASKS};
    size_t i, count = client_attribute(job.client, PAMI_CLIENT_NUM_LOCAL_TASKS);

    CHECK_OK(PAMI_Client_query(job.client, &query, 1));
    for (i = 0; i < count; i++)
        if (query.value.intarray[i] == task)
            return true;
    return false;
}

static void send_one(size_t id, size_t task, char kind, size_t header_bytes, size_t bytes,
                     pami_result_t result)
{
    static char header[4096];
    pami_send_t send = {.events = {.remote_fn = on_remote}};

    header[0] = kind;
    send.send = test_message(job_endpoint(&job, task, 0), id, header, header_bytes, source, bytes);
    if (kind == 'i')
        CHECK_RESULT(TEST_CALL(PAMI_Send_immediate(job.context[0], &send.send)), result);
    else
        CHECK_RESULT(TEST_CALL(PAMI_Send(job.context[0], &send)), result);
    if (result != PAMI_SUCCESS)
        return;
    expected++;
    acknowledged += kind == 'i'; /* which has no events */
}

static void use(enum hint hint, unsigned value, size_t task)
{
    size_t id = FIRST_ID + 4 * hint + value, i;
    static const size_t sizes[] = {0, 10, 511, 512, 6000, 32768, LARGE};
    bool enabled = value == PAMI_HINT_ENABLE, disabled = value == PAMI_HINT_DISABLE;
    bool reachable = hint != USE_SHMEM || !enabled || same_node(task);
    pami_result_t result = reachable ? PAMI_SUCCESS : PAMI_INVAL;

    for (i = 0; i < 3; i++)
        send_one(id, task, 'i', 1, sizes[i], result);
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bool fits = 1 + sizes[i] <= recv_max;

        if (hint == BUFFER_REGISTERED && enabled && sizes[i] != 0)
            continue; /* our buffers are not */
        send_one(id, task, 's', 1, sizes[i],
                 hint == RECV_IMMEDIATE && enabled && !fits ? PAMI_INVAL : result);
    }
    send_one(id, task, 's', recv_max, 0, result);
    if (hint == LONG_HEADER && disabled) {
        send_one(id, task, 's', recv_max + 1, 0, PAMI_INVAL);
        send_one(id, task, 's', recv_max + 1, 5000, PAMI_INVAL);
        send_one(id, task, 'i', recv_max + 1, 0, PAMI_INVAL);
    } else if (hint != RECV_IMMEDIATE || !enabled) {
        send_one(id, task, 's', recv_max + 1, 0, result);
        send_one(id, task, 's', 3000, 0, result);
    } else {
        send_one(id, task, 's', recv_max + 1, 0, PAMI_INVAL);
        send_one(id, task, 's', recv_max, 1, PAMI_INVAL);
    }
}

static void use_both(size_t task)
{
    send_one(SHORT_ID, task, 'i', 1, 6000, PAMI_SUCCESS);
    send_one(SHORT_ID, task, 'i', recv_max, 1, PAMI_SUCCESS);
    send_one(SHORT_ID, task, 'i', recv_max + 1, 0, PAMI_INVAL);
    send_one(SHORT_ID, task, 's', recv_max, 0, PAMI_SUCCESS);
    send_one(SHORT_ID, task, 's', recv_max, 1, PAMI_INVAL);
    send_one(SHORT_ID, task, 's', recv_max + 1, 0, PAMI_INVAL);
}

int main(void)
{
    enum hint hint;
    unsigned value;

    source = test_alloc(LARGE);
    test_fill(source, LARGE, 1, 0);
    job_start(&job, "dispatch_hints", 1);
    accepted();
    recv_max = dispatch_attribute(job.context[0], FIRST_ID, PAMI_DISPATCH_RECV_IMMEDIATE_MAX);
    for (hint = 0; hint < HINTS; hint++) {
        for (value = PAMI_HINT_DEFAULT; value <= PAMI_HINT_DISABLE; value++) {
            use(hint, value, (job.task + 1) % job.tasks);
            use(hint, value, job.task);
            WAIT(&job, acknowledged == expected);
        }
    }
    use_both((job.task + 1) % job.tasks);
    use_both(job.task);
    WAIT(&job, acknowledged == expected);
    job_barrier(&job);
    job_linger(&job, 0.01);
    /* The predecessor sent what we sent, unless its neighbour is elsewhere. */
    if (client_attribute(job.client, PAMI_CLIENT_NUM_LOCAL_TASKS) == job.tasks)
        CHECK_SIZE(landed, expected);
    job_finish(&job);
    free(source);
    return 0;
}
