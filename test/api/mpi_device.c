/*
 * A small message-passing layer in the manner of an MPI device: tags and sources are matched, early
 * messages wait in an unexpected queue, small ones go by PAMI_Send_immediate, middle ones by
 * PAMI_Send, large ones after a request and an answer. Written with the habits of such layers: few
 * fields set, the rest whatever it was, one advance at a time under the context lock, an idle work
 * function that says EAGAIN for ever.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=4 nodes=2
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=3 env="PAMI_SHM_SINGLE_COPY=off"
 */
#include "api_test.h"

enum {
    SHORT_ID = 0,
    EAGER_ID = 1,
    REQUEST_ID = 2,
    ANSWER_ID = 3,
    LARGE_ID = 4,
    EAGER_MAX = 30000,
    ANY = -1
};

struct envelope {
    int source, tag;
    size_t bytes;
    void *sender, *receiver; /* requests of large messages */
};

struct request {
    struct request *next;
    struct envelope envelope;
    void *buffer;
    size_t capacity, arrived;
    bool done, data_here;
    struct request *waiting; /* of an unexpected message: who has claimed it meanwhile */
};

static struct job job;
static struct request *posted, *unexpected;
static size_t immediate_max, polls;
static pami_work_t idle_work;

static pami_result_t idle(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    polls++;
    return PAMI_EAGAIN;
}

static void progress(void)
{
    PAMI_Context_lock(job.context[0]);
    test_advance(job.context[0], 1);
    PAMI_Context_unlock(job.context[0]);
}

static bool matches(const struct envelope *wanted, const struct envelope *got)
{
    return (wanted->source == ANY || wanted->source == got->source) &&
           (wanted->tag == ANY || wanted->tag == got->tag);
}

/* Take the first match out of a list; `wanted` is in the list or in hand, as `mine` says. */
static struct request *take(struct request **list, const struct envelope *other, bool list_wants)
{
    struct request *found;

    for (; *list != NULL; list = &(*list)->next) {
        found = *list;
        if (list_wants ? matches(&found->envelope, other) : matches(other, &found->envelope)) {
            *list = found->next;
            return found;
        }
    }
    return NULL;
}

static void append(struct request **list, struct request *request)
{
    while (*list != NULL)
        list = &(*list)->next;
    request->next = NULL;
    *list = request;
}

static void finish_receive(struct request *request, const void *data, size_t bytes)
{
    CHECK(bytes <= request->capacity);
    if (data != NULL)
        memcpy(request->buffer, data, bytes);
    request->arrived = bytes;
    request->done = true;
}

static struct request *unexpected_new(const struct envelope *envelope)
{
    struct request *request = test_zalloc(sizeof *request);

    request->envelope = *envelope;
    request->buffer = envelope->sender == NULL ? test_alloc(envelope->bytes) : NULL;
    append(&unexpected, request);
    return request;
}

static void on_short(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    const struct envelope *envelope = header;
    struct request *request = take(&posted, envelope, true);

    (void)context, (void)cookie, (void)header_bytes, (void)origin, (void)recv;
    if (request != NULL) {
        request->envelope.source = envelope->source;
        finish_receive(request, data, bytes); /* trusts pipe_addr */
        return;
    }
    request = unexpected_new(envelope);
    memcpy(request->buffer, data, bytes);
    request->data_here = true;
}

static void on_eager_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct request *request = cookie;

    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    request->data_here = true;
    if (request->waiting != NULL) {
        finish_receive(request->waiting, request->buffer, request->envelope.bytes);
        free(request->buffer);
        free(request);
    }
}

static void on_posted_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct request *request = cookie;

    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    finish_receive(request, NULL, request->envelope.bytes);
}

static void on_eager(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    const struct envelope *envelope = header;
    struct request *request;

    if (recv == NULL) {
        on_short(context, cookie, header, header_bytes, data, bytes, origin, recv);
        return;
    }
    /* No type, no data_fn: bytes are meant. */
    request = take(&posted, envelope, true);
    if (request != NULL) {
        CHECK(bytes <= request->capacity);
        request->envelope = *envelope;
        recv->addr = request->buffer;
        recv->local_fn = on_posted_done;
    } else {
        request = unexpected_new(envelope);
        recv->addr = request->buffer;
        recv->local_fn = on_eager_done;
    }
    recv->cookie = request;
}

static void answer(struct request *request, const struct envelope *envelope)
{
    pami_send_immediate_t message; /* hints are whatever the stack held */
    struct envelope back = *envelope;

    back.receiver = request;
    request->envelope = *envelope;
    message.header.iov_base = &back;
    message.header.iov_len = sizeof back;
    message.data.iov_len = 0;
    message.data.iov_base = NULL;
    message.dispatch = ANSWER_ID;
    message.dest = (pami_endpoint_t)envelope->source;
    PAMI_Send_immediate(job.context[0], &message);
}

static void on_request(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    const struct envelope *envelope = header;
    struct request *request = take(&posted, envelope, true);

    (void)context, (void)cookie, (void)header_bytes, (void)data;
    (void)bytes, (void)origin, (void)recv;
    if (request != NULL)
        answer(request, envelope);
    else
        unexpected_new(envelope);
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    ((struct request *)cookie)->done = true;
}

static void on_answer(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct envelope envelope = *(const struct envelope *)header;
    struct request *request = envelope.sender;
    pami_send_t send = {.send = {.header = {&envelope, sizeof envelope},
                                 .data = {request->buffer, envelope.bytes},
                                 .dispatch = LARGE_ID,
                                 .dest = origin},
                        .events = {.cookie = request, .local_fn = on_sent}};

    (void)cookie, (void)header_bytes, (void)data, (void)bytes, (void)recv;
    PAMI_Send(context, &send);
}

static void on_large(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct request *request = ((const struct envelope *)header)->receiver;

    (void)context, (void)cookie, (void)header_bytes, (void)data, (void)bytes, (void)origin;
    recv->cookie = request;
    recv->local_fn = on_posted_done;
    recv->addr = request->buffer;
}

static void send_start(struct request *request, void *buffer, size_t bytes, size_t dest, int tag)
{
    struct envelope envelope = {(int)job.task, tag, bytes, NULL, NULL};
    pami_send_t send;

    memset(request, 0, sizeof *request);
    request->buffer = buffer;
    send.send.header.iov_base = &envelope;
    send.send.header.iov_len = sizeof envelope;
    send.send.data.iov_base = buffer;
    send.send.data.iov_len = bytes;
    send.send.dest = (pami_endpoint_t)dest;
    PAMI_Context_lock(job.context[0]);
    if (sizeof envelope + bytes <= immediate_max) {
        send.send.dispatch = SHORT_ID;
        request->done = true;
        PAMI_Send_immediate(job.context[0], &send.send);
    } else if (bytes <= EAGER_MAX) {
        send.send.dispatch = EAGER_ID;
        send.events.cookie = request;
        send.events.local_fn = on_sent;
        send.events.remote_fn = NULL;
        PAMI_Send(job.context[0], &send);
    } else {
        envelope.sender = request;
        send.send.dispatch = REQUEST_ID;
        send.send.data.iov_len = 0;
        PAMI_Send_immediate(job.context[0], &send.send);
    }
    PAMI_Context_unlock(job.context[0]);
}

static void receive_start(struct request *request, void *buffer, size_t capacity, int source,
                          int tag)
{
    struct request *found;

    memset(request, 0, sizeof *request);
    request->envelope.source = source;
    request->envelope.tag = tag;
    request->buffer = buffer;
    request->capacity = capacity;
    PAMI_Context_lock(job.context[0]);
    found = take(&unexpected, &request->envelope, false);
    if (found == NULL) {
        append(&posted, request);
    } else if (found->envelope.sender != NULL) {
        answer(request, &found->envelope);
        free(found);
    } else {
        request->envelope = found->envelope;
        if (found->data_here) {
            finish_receive(request, found->buffer, found->envelope.bytes);
            free(found->buffer);
            free(found);
        } else {
            found->waiting = request;
        }
    }
    PAMI_Context_unlock(job.context[0]);
}

static void wait_for(struct request *request)
{
    WAIT_WITH(progress(), request->done);
}

/* Everybody passes blocks around the ring, receives posted before or after the sends. */
static void ring(size_t bytes, bool receive_first)
{
    size_t next = (job.task + 1) % job.tasks, previous = (job.task + job.tasks - 1) % job.tasks;
    unsigned char *out = test_alloc(bytes), *in = test_alloc(bytes);
    struct request send, receive;
    int tag = (int)(bytes % 1000);

    test_fill(out, bytes, job.task + bytes, 0);
    if (receive_first)
        receive_start(&receive, in, bytes, (int)previous, tag);
    send_start(&send, out, bytes, next, tag);
    if (!receive_first)
        receive_start(&receive, in, bytes, ANY, tag);
    wait_for(&send);
    wait_for(&receive);
    CHECK(receive.arrived == bytes && receive.envelope.source == (int)previous);
    CHECK_SIZE(test_differs(in, bytes, previous + bytes, 0), bytes);
    free(out), free(in);
}

/* Task 0 takes what comes from anybody, in order for each source. */
static void many_to_one(void)
{
    enum {
        EACH = 60
    };
    static const size_t sizes[] = {0, 100, 5000, 20000, 60000};
    struct request request[EACH];
    unsigned char *buffer = test_alloc(EACH * 60000);
    size_t i, *next = test_zalloc(job.tasks * sizeof *next);

    if (job.task != 0) {
        for (i = 0; i < EACH; i++) {
            test_fill(buffer + i * 60000, sizes[i % 5], job.task + i, 0);
            send_start(&request[i], buffer + i * 60000, sizes[i % 5], 0, 7);
        }
        for (i = 0; i < EACH; i++)
            wait_for(&request[i]);
    }
    for (i = 0; job.task == 0 && i < EACH * (job.tasks - 1); i++) {
        size_t source, number;

        receive_start(&request[0], buffer, 60000, ANY, 7);
        wait_for(&request[0]);
        source = (size_t)request[0].envelope.source;
        number = next[source]++;
        CHECK_SIZE(request[0].arrived, sizes[number % 5]);
        CHECK_SIZE(test_differs(buffer, request[0].arrived, source + number, 0),
                   request[0].arrived);
    }
    free(buffer), free(next);
}

int main(void)
{
    static const pami_dispatch_p2p_function functions[] = {on_short, on_eager, on_request,
                                                           on_answer, on_large};
    static const size_t sizes[] = {0, 1, 400, 470, 600, 4000, 8100, 8200, 30000, 30001, 250000};
    pami_dispatch_hint_t hints;
    size_t i, round;

    memset(&hints, 0, sizeof hints);
    hints.consistency = PAMI_HINT_ENABLE;
    hints.multicontext = PAMI_HINT_DISABLE;
    job_start(&job, "MPI", 1);
    for (i = 0; i < 5; i++)
        test_dispatch(job.context[0], i, functions[i], NULL, hints);
    immediate_max = dispatch_attribute(job.context[0], SHORT_ID, PAMI_DISPATCH_SEND_IMMEDIATE_MAX);
    PAMI_Context_post(job.context[0], &idle_work, idle, NULL);
    for (round = 0; round < 4; round++)
        for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            ring(sizes[i], (i + round) % 2);
    job_barrier(&job);
    many_to_one();
    CHECK(posted == NULL && unexpected == NULL && polls > 0);
    job_finish(&job); /* with the idle function still posted */
    return 0;
}
