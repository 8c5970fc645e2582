/*
 * Message-driven objects in the manner of Charm++: "chares" spread over tasks and contexts send
 * each other messages of random size; nobody knows who sends next or how much. The end is found by
 * quiescence detection: two rounds of counting that agree. Sends happen from handlers, from posted
 * work on other contexts, and without looking at results; messages live on the heap until local_fn.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=4 nodes=2
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=3 env="PAMI_RNDV_BYTES=0 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=5 env="PAMI_YIELD=always"
 */
#include "api_test.h"

enum {
    SHORT_ID = 1,
    LONG_ID = 2,
    COUNT_ID = 3,
    CHARES = 200,
    CONTEXTS = 2,
    LIFE = 25, /* generations of messages */
    SHORT_MAX = 7700
};

struct message { /* the header of the layer travels in front of the data */
    uint32_t chare, life, bytes, check;
    uint64_t random;
    unsigned char data[];
};

struct wave {
    uint64_t number, created, processed;
    uint32_t kind; /* 'q' question, 'a' answer, 'e' end */
};

struct deferred {
    pami_work_t work;
    struct message *message;
};

static struct job job;
static uint64_t created, processed; /* by this task, all contexts */
static uint64_t state_of[CHARES];
static struct wave sum;
static size_t answers;
static bool ended;

static void deliver(const struct message *message);

static pami_endpoint_t home_of(size_t chare)
{
    return job_endpoint(&job, chare % job.tasks, chare / job.tasks % CONTEXTS);
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    free(cookie);
}

/* Hands the message over, whatever it takes. */
static void send_on(pami_context_t context, struct message *message)
{
    size_t total = sizeof *message + message->bytes;
    pami_send_t send;

    send.send.hints = test_garbage_hints();
    send.send.header.iov_base = NULL;
    send.send.header.iov_len = 0;
    send.send.data.iov_base = (char *)message;
    send.send.data.iov_len = total;
    send.send.dest = home_of(message->chare);
    if (total <= SHORT_MAX) {
        send.send.dispatch = SHORT_ID;
        TEST_CALL(PAMI_Send_immediate(context, &send.send));
        free(message);
        return;
    }
    send.send.dispatch = LONG_ID;
    send.events.cookie = message;
    send.events.local_fn = on_sent;
    send.events.remote_fn = NULL;
    TEST_CALL(PAMI_Send(context, &send));
}

static pami_result_t on_deferred(pami_context_t context, void *cookie)
{
    struct deferred *deferred = cookie;
    struct message *message = deferred->message;

    CHECK_CALLBACK();
    free(deferred);
    send_on(context, message);
    return PAMI_SUCCESS;
}

static void create(pami_context_t context, uint32_t chare, uint32_t life, uint64_t random)
{
    static const size_t limits[] = {1, 100, 600, 8000, 30000, 90000};
    uint64_t dice = test_random(&random);
    size_t bytes = (dice >> 8) % limits[dice % 6];
    struct message *message = test_alloc(sizeof *message + bytes);
    struct deferred *deferred;

    message->chare = chare;
    message->life = life;
    message->bytes = (uint32_t)bytes;
    message->random = random;
    message->check = chare ^ life ^ (uint32_t)bytes;
    test_fill(message->data, bytes, life, 0);
    created++;
    if (dice >> 40 & 1) {
        send_on(context, message);
        return;
    }
    deferred = test_alloc(sizeof *deferred);
    deferred->message = message;
    PAMI_Context_post(job.context[dice >> 41 & 1], &deferred->work, on_deferred, deferred);
}

/* The entry method of a chare: sends up to three messages on. */
static void deliver(const struct message *message)
{
    uint64_t random = message->random;
    size_t i, children = test_random(&random) % 4;

    CHECK(message->chare < CHARES && message->chare % job.tasks == job.task);
    CHECK(message->check == (message->chare ^ message->life ^ message->bytes));
    CHECK_SIZE(test_differs(message->data, message->bytes, message->life, 0), message->bytes);
    state_of[message->chare] += message->random;
    processed++;
    if (message->life == 0)
        return;
    /* On average one child lives on, and never more than the first three generations' worth. */
    if (message->life < LIFE - 3 && children > 1)
        children = 1;
    for (i = 0; i < children; i++)
        create(job.context[random >> 7 & 1], (uint32_t)(test_random(&random) % CHARES),
               message->life - 1, test_random(&random));
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct message *message = cookie;

    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    deliver(message);
    free(message);
}

static void on_short(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct message *message = test_alloc(bytes);

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)origin;
    CHECK_CALLBACK();
    CHECK(recv == NULL);
    memcpy(message, data, bytes);
    deliver(message);
    free(message);
}

static void on_long(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK_CALLBACK();
    recv->addr = recv->cookie = test_alloc(bytes);
    recv->local_fn = on_landed;
}

static void send_wave(size_t task, struct wave wave)
{
    test_send_immediate(job.context[0], job_endpoint(&job, task, 0), COUNT_ID, &wave, sizeof wave,
                        NULL, 0);
}

static void on_count(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct wave wave;

    (void)context, (void)cookie, (void)data, (void)bytes, (void)recv;
    CHECK_SIZE(header_bytes, sizeof wave);
    memcpy(&wave, header, sizeof wave);
    if (wave.kind == 'q') {
        send_wave(test_origin(origin), (struct wave){wave.number, created, processed, 'a'});
    } else if (wave.kind == 'a') {
        CHECK(wave.number == sum.number);
        sum.created += wave.created;
        sum.processed += wave.processed;
        answers++;
    } else {
        ended = true;
    }
}

/* Task 0: quiet when two successive rounds agree and everything created has been processed. */
static void detect(void)
{
    struct wave last = {0};
    size_t i;

    for (;;) {
        sum = (struct wave){.number = last.number + 1};
        answers = 0;
        for (i = 0; i < job.tasks; i++)
            send_wave(i, (struct wave){.number = sum.number, .kind = 'q'});
        WAIT(&job, answers == job.tasks);
        if (sum.created == sum.processed && sum.created == last.created &&
            sum.processed == last.processed)
            break;
        last = sum;
    }
    for (i = 0; i < job.tasks; i++)
        send_wave(i, (struct wave){.kind = 'e'});
}

int main(void)
{
    uint64_t before;
    size_t i;

    job_start(&job, "Converse", CONTEXTS);
    for (i = 0; i < CONTEXTS; i++) {
        test_dispatch(job.context[i], SHORT_ID, on_short, NULL, test_ordered());
        test_dispatch(job.context[i], LONG_ID, on_long, NULL, test_ordered());
    }
    test_dispatch(job.context[0], COUNT_ID, on_count, NULL, test_ordered());
    job_barrier(&job);
    for (i = job.task; i < CHARES; i += job.tasks)
        create(job.context[i & 1], (uint32_t)((i * 7 + 3) % CHARES), LIFE, i + 1);
    if (job.task == 0)
        detect();
    WAIT(&job, ended);
    /* Nothing happens after the end. */
    before = created + processed;
    job_linger(&job, 0.01);
    CHECK(before == created + processed);
    job_finish(&job);
    return 0;
}
