/*
 * Hard hints that differ between the sender and the receiver of a message: the receiver's say how
 * it is delivered, the sender's what may be sent. Two contexts of one task register the same ids
 * with all pairs of values of one hint.
 *
 * Run: tasks=1
 * Run: tasks=1 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=1 env="PAMI_RNDV_BYTES=0 PAMI_SHM_SINGLE_COPY=off"
 */
#include "api_test.h"

enum {
    HINTS = 5,
    VALUES = 3, /* default, enable, disable */
    FIRST_ID = 10,
    LARGE = 100000,
    HEADER_MAX = 2000,
    RECV_MAX = 512
};

enum hint {
    LONG_HEADER = 1,
    RECV_CONTIGUOUS,
    RECV_COPY,
    RECV_IMMEDIATE,
    QUEUE_IMMEDIATE = 10
};

static const enum hint hints_used[HINTS] = {LONG_HEADER, RECV_CONTIGUOUS, RECV_COPY, RECV_IMMEDIATE,
                                            QUEUE_IMMEDIATE};

static struct job job;
static size_t arrived, acknowledged;
static unsigned char source[LARGE];
static pami_type_t strided;

struct row {
    enum hint hint;
    unsigned here, there; /* value at the sender and at the receiver */
};

static struct row rows[HINTS * VALUES * VALUES];

struct head {
    size_t row, sent_by; /* sent_by: 'i' PAMI_Send_immediate, 's' PAMI_Send, 't' PAMI_Send_typed */
};

static pami_dispatch_hint_t hint_alone(enum hint hint, unsigned value)
{
    uint32_t bits = value << (2 * hint);
    pami_dispatch_hint_t hints;

    memcpy(&hints, &bits, sizeof hints);
    return hints;
}

static void twice(void *target, void *from, size_t bytes, void *cookie)
{
    unsigned char *to = target, *in = from;
    size_t i;

    CHECK(cookie == &job);
    for (i = 0; i < bytes; i++)
        to[i] = (unsigned char)(2 * in[i]);
}

/* What lies where, by the hints of this side. */
struct landing {
    size_t bytes;
    bool spread, doubled;
    unsigned char room[];
};

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct landing *landing = cookie;
    size_t i;

    CHECK_CALLBACK();
    CHECK(context == job.context[1] && result == PAMI_SUCCESS);
    for (i = 0; i < landing->bytes; i++) {
        unsigned char want = test_byte(1, i);
        size_t at = landing->spread ? i / 8 * 16 + i % 8 : i;

        if (landing->doubled)
            want = (unsigned char)(2 * want);
        if (landing->room[at] != want)
            FAIL("byte %zu of %zu is wrong (spread %d, doubled %d)", i, landing->bytes,
                 landing->spread, landing->doubled);
    }
    free(landing);
    arrived++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    const struct row *row = cookie;
    struct landing *landing;
    struct head head;
    bool never, fits = header_bytes + bytes <= RECV_MAX || bytes == 0;

    CHECK_CALLBACK();
    (void)origin;
    CHECK(context == job.context[1] && header_bytes >= sizeof head);
    memcpy(&head, header, sizeof head);
    CHECK(&rows[head.row] == row);
    never = row->hint == RECV_IMMEDIATE && row->there == PAMI_HINT_DISABLE;
    CHECK((recv == NULL) != (data == NULL));
    if ((recv == NULL) != (!never && (fits || head.sent_by == 'i')))
        FAIL("hint %d, sender %u, receiver %u, '%c', %zu + %zu bytes: recv %p", (int)row->hint,
             row->here, row->there, (char)head.sent_by, header_bytes, bytes, (void *)recv);
    if (recv == NULL) {
        CHECK_SIZE(test_differs(data, bytes, 1, 0), bytes);
        arrived++;
        return;
    }
    landing = test_zalloc(sizeof *landing + 2 * bytes + 16);
    landing->bytes = bytes;
    landing->spread = row->hint != RECV_CONTIGUOUS || row->there != PAMI_HINT_ENABLE;
    landing->doubled = row->hint != RECV_COPY || row->there != PAMI_HINT_ENABLE;
    recv->cookie = landing;
    recv->local_fn = on_landed;
    recv->addr = landing->room;
    recv->type = strided;
    recv->data_fn = twice;
    recv->data_cookie = &job;
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)cookie;
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    acknowledged++;
}

static void send_one(size_t index, size_t sent_by, size_t task, size_t header_bytes, size_t bytes)
{
    static unsigned char header[HEADER_MAX];
    const struct row *row = &rows[index];
    struct head head = {index, sent_by};
    pami_send_typed_t send = {.events = {.remote_fn = on_remote}, .typed.type = PAMI_TYPE_BYTE};
    bool is_short = row->hint == LONG_HEADER && row->here == PAMI_HINT_DISABLE;
    bool is_small = row->hint == RECV_IMMEDIATE && row->here == PAMI_HINT_ENABLE && sent_by != 'i';
    size_t before_arrived = arrived, before_acknowledged = acknowledged;
    pami_result_t result, want = PAMI_SUCCESS;

    memcpy(header, &head, sizeof head);
    send.send = test_message(job_endpoint(&job, task, 1), FIRST_ID + index, header, header_bytes,
                             source, bytes);
    if ((is_short && header_bytes > RECV_MAX) || (is_small && header_bytes + bytes > RECV_MAX))
        want = PAMI_INVAL;
    do {
        if (sent_by == 'i')
            result = TEST_CALL(PAMI_Send_immediate(job.context[0], &send.send));
        else if (sent_by == 's')
            result = TEST_CALL(PAMI_Send(job.context[0], (pami_send_t *)&send));
        else
            result = TEST_CALL(PAMI_Send_typed(job.context[0], &send));
        if (result == PAMI_EAGAIN)
            job_advance(&job);
    } while (result == PAMI_EAGAIN && row->hint == QUEUE_IMMEDIATE);
    CHECK_RESULT(result, want);
    if (want != PAMI_SUCCESS)
        return;
    WAIT(&job,
         arrived > before_arrived && (sent_by == 'i' || acknowledged == before_acknowledged + 1));
}

static void use(size_t index, size_t task)
{
    static const size_t sizes[] = {0, 8, 480, RECV_MAX, 4096, LARGE};
    const struct row *row = &rows[index];
    size_t i;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        /* Everything shall be immediate there, which the sender does not know. */
        bool too_much = row->hint == RECV_IMMEDIATE && row->there == PAMI_HINT_ENABLE &&
                        sizeof(struct head) + sizes[i] > RECV_MAX;

        if (sizes[i] <= 4096)
            send_one(index, 'i', task, sizeof(struct head), sizes[i]);
        if (too_much)
            continue;
        send_one(index, 's', task, sizeof(struct head), sizes[i]);
        send_one(index, 't', task, sizeof(struct head), sizes[i]);
    }
    send_one(index, 'i', task, HEADER_MAX, 0);
    send_one(index, 's', task, HEADER_MAX, 0);
    if (row->hint != RECV_IMMEDIATE || row->there != PAMI_HINT_ENABLE)
        send_one(index, 's', task, HEADER_MAX, 100);
}

int main(void)
{
    size_t h, here, there, count = 0, i;

    test_fill(source, sizeof source, 1, 0);
    CHECK_OK(PAMI_Type_create(&strided));
    CHECK_OK(PAMI_Type_add_simple(strided, 8, 0, 1, 16));
    CHECK_OK(PAMI_Type_complete(strided, 1));
    job_start(&job, "hints_differ", 2);
    for (h = 0; h < HINTS; h++)
        for (here = 0; here < VALUES; here++)
            for (there = 0; there < VALUES; there++)
                rows[count++] = (struct row){hints_used[h], (unsigned)here, (unsigned)there};
    for (i = 0; i < count; i++) {
        test_dispatch(job.context[0], FIRST_ID + i, on_message, &rows[i],
                      hint_alone(rows[i].hint, rows[i].here));
        test_dispatch(job.context[1], FIRST_ID + i, on_message, &rows[i],
                      hint_alone(rows[i].hint, rows[i].there));
    }
    job_barrier(&job);
    for (i = 0; i < count; i++)
        use(i, job.task); /* to oneself: what arrives is what was sent */
    job_barrier(&job);
    CHECK_OK(PAMI_Type_destroy(&strided));
    job_finish(&job);
    return 0;
}
