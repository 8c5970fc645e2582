/*
 * Active messages in the manner of GASNet: short, medium and long requests run a handler from a
 * table at the target, which answers with a reply of any kind; long ones put their data into the
 * target's segment first. Polling counts credits; a barrier of its own (dissemination) separates
 * phases. Handlers run inside dispatch and completion functions and send from there.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=4 nodes=2
 * Run: tasks=5 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=3 env="PAMI_RNDV_BYTES=0"
 */
#include "api_test.h"

#include <stddef.h>

enum {
    SHORT = 10,
    MEDIUM = 11,
    LONG = 12,
    BARRIER = 13,
    ARGS = 8,
    CREDITS = 40, /* requests that may be unanswered */
    REQUESTS = 1500,
    MEDIUM_MAX = 7700,
    SLOT = 60000, /* of a segment, for the long messages of one task */
    TASKS_MAX = 16
};

enum handler {
    H_PING_SHORT,
    H_PING_MEDIUM,
    H_PING_LONG,
    H_PONG_SHORT,
    H_PONG_MEDIUM,
    H_PONG_LONG
};

struct am {
    uint8_t handler, args;
    uint32_t bytes;
    int32_t arg[ARGS];
    void *dest;
};

struct token { /* of a long message, from dispatch to completion */
    pami_endpoint_t origin;
    struct am am;
};

static struct job job;
static size_t credits = CREDITS, replies, requests_in, puts_in;
static size_t barrier_in[32][2]; /* per step and parity */
static unsigned char *segment;   /* requests arrive in the first half, replies in the second */
static void **remote_segments;
static unsigned char payload[SLOT];

static void run_handler(pami_endpoint_t origin, const struct am *am, void *data, size_t bytes);

static void send_am(size_t id, pami_endpoint_t dest, enum handler handler, int32_t key,
                    const void *data, size_t bytes, void *to)
{
    struct am am = {
        .handler = (uint8_t)handler, .args = ARGS, .bytes = (uint32_t)bytes, .dest = to};
    size_t header = id == LONG ? sizeof am : offsetof(struct am, dest), i;
    pami_send_t send;

    for (i = 0; i < ARGS; i++)
        am.arg[i] = key + (int32_t)i;
    memset(&send, 0, sizeof send);
    send.send.header.iov_base = (char *)&am;
    send.send.header.iov_len = header;
    send.send.data.iov_base = (void *)data;
    send.send.data.iov_len = bytes;
    send.send.dispatch = id;
    send.send.dest = dest;
    send.send.hints = test_garbage_hints();
    if (header + bytes <= 8192) {
        TEST_CALL(PAMI_Send_immediate(job.context[0], &send.send));
    } else {
        /* `payload` and the segments stay as they are; nobody waits for local_fn */
        TEST_CALL(PAMI_Send(job.context[0], &send));
    }
}

static void on_am(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                  const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct am am;

    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(recv == NULL && data != NULL); /* all of them fit */
    memcpy(&am, header, header_bytes);
    CHECK_SIZE(am.bytes, bytes);
    run_handler(origin, &am, (void *)data, bytes);
}

static void on_long_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct token *token = cookie;

    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    puts_in++;
    run_handler(token->origin, &token->am, token->am.dest, token->am.bytes);
    free(token);
}

static void on_long(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct token *token = test_alloc(sizeof *token);

    CHECK_CALLBACK();
    (void)context, (void)cookie;
    CHECK_SIZE(header_bytes, sizeof token->am);
    memcpy(&token->am, header, sizeof token->am);
    token->origin = origin;
    if (recv == NULL) {
        memcpy(token->am.dest, data, bytes);
        run_handler(origin, &token->am, token->am.dest, bytes);
        free(token);
        return;
    }
    recv->addr = token->am.dest;
    recv->cookie = token;
    recv->local_fn = on_long_done;
}

static void reply(pami_endpoint_t origin, int32_t key)
{
    size_t from = test_origin(origin), kind = (size_t)key % 3, bytes;
    unsigned char *to =
        (unsigned char *)remote_segments[from] + (job.tasks + job.task) * (size_t)SLOT;

    if (kind == 0) {
        send_am(SHORT, origin, H_PONG_SHORT, key, NULL, 0, NULL);
    } else if (kind == 1) {
        bytes = (size_t)key * 13 % MEDIUM_MAX;
        send_am(MEDIUM, origin, H_PONG_MEDIUM, key, payload, bytes, NULL);
    } else {
        bytes = (size_t)key * 131 % SLOT;
        send_am(LONG, origin, H_PONG_LONG, key, payload, bytes, to);
    }
}

static void run_handler(pami_endpoint_t origin, const struct am *am, void *data, size_t bytes)
{
    size_t i;

    CHECK_SIZE(am->args, ARGS);
    for (i = 1; i < ARGS; i++)
        CHECK(am->arg[i] == am->arg[0] + (int32_t)i);
    if (am->handler != H_PING_LONG && am->handler != H_PONG_LONG)
        CHECK_SIZE(test_differs(data, bytes, 4, 0), bytes);
    else if (bytes != 0) /* the slot may be written again while we look */
        CHECK(*(unsigned char *)data == test_byte(4, 0));
    if (am->handler <= H_PING_LONG) {
        requests_in++;
        reply(origin, am->arg[0]);
    } else {
        credits++;
        replies++;
    }
}

static void on_barrier(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    const unsigned char *step = header;

    (void)context, (void)cookie, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_SIZE(header_bytes, 2);
    barrier_in[step[0]][step[1]]++;
}

static void am_barrier(void)
{
    static unsigned char parity;
    static size_t uses[2];
    unsigned char step[2] = {0, parity};
    size_t distance;

    uses[parity]++;
    for (distance = 1; distance < job.tasks; distance *= 2, step[0]++) {
        size_t peer = (job.task + distance) % job.tasks;

        test_send_immediate(job.context[0], (pami_endpoint_t)peer, BARRIER, step, 2, NULL, 0);
        WAIT(&job, barrier_in[step[0]][parity] >= uses[parity]);
    }
    parity ^= 1;
}

static void on_address(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)recv;
    CHECK_SIZE(bytes, sizeof(void *));
    memcpy(&remote_segments[test_origin(origin)], data, bytes);
}

static void exchange_segments(void)
{
    size_t i;

    for (i = 0; i < job.tasks; i++)
        test_send_immediate(job.context[0], (pami_endpoint_t)i, 9, NULL, 0, &segment,
                            sizeof segment);
    for (i = 0; i < job.tasks; i++)
        WAIT(&job, remote_segments[i] != NULL);
    am_barrier();
}

static void request(uint64_t *random)
{
    int32_t key = (int32_t)(test_random(random) % 100000);
    size_t dest = test_random(random) % job.tasks, kind = test_random(random) % 3;
    void *to = (unsigned char *)remote_segments[dest] + job.task * (size_t)SLOT;

    WAIT(&job, credits > 0);
    credits--;
    if (kind == 0)
        send_am(SHORT, (pami_endpoint_t)dest, H_PING_SHORT, key, NULL, 0, NULL);
    else if (kind == 1)
        send_am(MEDIUM, (pami_endpoint_t)dest, H_PING_MEDIUM, key, payload,
                (size_t)key % MEDIUM_MAX, NULL);
    else
        send_am(LONG, (pami_endpoint_t)dest, H_PING_LONG, key, payload, (size_t)key % SLOT, to);
    if (key % 4 == 0)
        job_advance(&job);
}

int main(void)
{
    uint64_t random;
    size_t i, count;

    test_fill(payload, sizeof payload, 4, 0);
    job_start(&job, "GASNet", 1);
    CHECK(job.tasks <= TASKS_MAX);
    segment = test_alloc(2 * job.tasks * (size_t)SLOT);
    remote_segments = test_zalloc(job.tasks * sizeof *remote_segments);
    test_dispatch(job.context[0], 9, on_address, NULL, test_ordered());
    test_dispatch(job.context[0], SHORT, on_am, NULL, test_ordered());
    test_dispatch(job.context[0], MEDIUM, on_am, NULL, test_ordered());
    test_dispatch(job.context[0], LONG, on_long, NULL, test_ordered());
    test_dispatch(job.context[0], BARRIER, on_barrier, NULL, test_ordered());
    exchange_segments();
    random = job.task + 1;
    count = REQUESTS / job.tasks;
    for (i = 0; i < count; i++)
        request(&random);
    WAIT(&job, replies == count);
    CHECK_SIZE(credits, CREDITS);
    for (i = 0; i < 20; i++)
        am_barrier();
    CHECK(puts_in > 0 || job.tasks > 4);
    job_finish(&job);
    free(segment), free(remote_segments);
    return 0;
}
