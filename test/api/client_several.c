/*
 * Several clients at once, of different names and of the same name: each has contexts, endpoints
 * and dispatch tables of its own, and a message never crosses over. A callback of one may advance
 * another, and wait for it.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=4 nodes=2
 * Run: tasks=3 nodes=3 env="PAMI_NETWORK=ofi PAMI_OFI_INTERFACE=lo PAMI_OFI_PROVIDER=tcp;ofi_rxm"
 * Run: tasks=3 servers=2
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 */
#include "api_test.h"

enum {
    ID = 1,
    QUESTION = 2, /* of client 0 */
    ASK = 3,      /* of client 1 */
    ANSWER = 4,
    CLIENTS = 4,
    ROUNDS = 50,
    BYTES = 3000
};

static struct job jobs[CLIENTS];
static size_t received[CLIENTS];

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct job *job = cookie;
    size_t number = (size_t)(job - jobs), offset;
    uint32_t client;

    CHECK_CALLBACK();
    CHECK(header_bytes == sizeof client && recv == NULL);
    memcpy(&client, header, sizeof client);
    CHECK_SIZE(client, number);
    for (offset = 0; offset < job->contexts && job->context[offset] != context; offset++) {
    }
    CHECK(offset < job->contexts);
    CHECK_SIZE(test_differs(data, bytes, client + test_origin(origin), 0), BYTES);
    received[number]++;
}

static void advance_all(void)
{
    size_t i;

    for (i = 0; i < CLIENTS; i++)
        if (jobs[i].client != NULL)
            job_advance_alone(&jobs[i]);
}

static void start(size_t number, const char *name)
{
    struct job *job = &jobs[number];
    size_t i;

    job_start(job, name, number + 1);
    for (i = 0; i < job->contexts; i++)
        test_dispatch(job->context[i], ID, on_message, job, test_ordered());
    received[number] = 0;
    job->advance_too = advance_all; /* a barrier of one client must not hold up the others */
}

static void send_round(struct job *job, size_t task, size_t round)
{
    uint32_t number = (uint32_t)(job - jobs);
    unsigned char data[BYTES];

    test_fill(data, sizeof data, number + job->task, 0);
    test_send_immediate(job->context[round % job->contexts],
                        job_endpoint(job, task, (round + task) % job->contexts), ID, &number,
                        sizeof number, data, sizeof data);
}

/* All clients that live talk at the same time, from everybody to everybody. */
static void talk(size_t rounds)
{
    size_t i, task, round;

    for (round = 0; round < rounds; round++) {
        for (task = 0; task < jobs[0].tasks; task++)
            for (i = 0; i < CLIENTS; i++)
                if (jobs[i].client != NULL)
                    send_round(&jobs[i], task, round);
        advance_all();
    }
    for (i = 0; i < CLIENTS; i++) {
        if (jobs[i].client != NULL) {
            WAIT_WITH(advance_all(), received[i] == rounds * jobs[i].tasks);
            received[i] = 0;
        }
    }
    for (i = 0; i < CLIENTS; i++)
        if (jobs[i].client != NULL)
            job_barrier(&jobs[i]);
}

static size_t answered, questions;

static void on_ask(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)cookie, (void)data, (void)bytes, (void)recv;
    CHECK_CALLBACK();
    test_send_immediate(context, origin, ANSWER, header, header_bytes, NULL, 0);
}

static void on_answer(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t number;

    (void)cookie, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_CALLBACK();
    CHECK(context == jobs[1].context[0] && header_bytes == sizeof number);
    memcpy(&number, header, sizeof number);
    CHECK_SIZE(number, questions);
    answered++;
}

/* Returns when the other client has brought an answer; this one is not served meanwhile. */
static void on_question(pami_context_t context, void *cookie, const void *header,
                        size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                        pami_recv_t *recv)
{
    size_t before = answered;

    (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes, (void)recv;
    CHECK_CALLBACK();
    test_send_immediate(jobs[1].context[0], job_endpoint(&jobs[1], test_origin(origin), 0), ASK,
                        &questions, sizeof questions, NULL, 0);
    WAIT_WITH(job_advance_alone(&jobs[1]), answered == before + 1);
    CHECK_RESULT(PAMI_Context_advance(context, 1), PAMI_EAGAIN);
    questions++;
}

static void one_inside_another(void)
{
    pami_endpoint_t next = job_endpoint(&jobs[0], (jobs[0].task + 1) % jobs[0].tasks, 0);

    test_dispatch(jobs[0].context[0], QUESTION, on_question, NULL, test_ordered());
    test_dispatch(jobs[1].context[0], ASK, on_ask, NULL, test_ordered());
    test_dispatch(jobs[1].context[0], ANSWER, on_answer, NULL, test_ordered());
    for (size_t i = 0; i < ROUNDS; i++)
        test_send_immediate(jobs[0].context[0], next, QUESTION, NULL, 0, NULL, 0);
    WAIT_WITH(advance_all(), questions == ROUNDS);
    job_barrier(&jobs[0]);
    job_barrier(&jobs[1]);
}

int main(void)
{
    size_t i, j;

    start(0, "several");
    start(1, "several");
    start(2, "SEVERAL");
    start(3, "several");
    for (i = 0; i < CLIENTS; i++) {
        CHECK(jobs[i].task == jobs[0].task && jobs[i].tasks == jobs[0].tasks);
        for (j = 0; j < i; j++)
            CHECK(jobs[i].client != jobs[j].client);
    }
    talk(ROUNDS);
    one_inside_another();

    /* The others go on when one leaves, and a new one of an old name finds its peers. */
    job_destroy(&jobs[1]);
    talk(ROUNDS);
    start(1, "several");
    talk(ROUNDS);
    job_destroy(&jobs[0]);
    job_destroy(&jobs[2]);
    start(2, "several");
    jobs[0].tasks = jobs[1].tasks;
    talk(ROUNDS);
    for (i = 1; i < CLIENTS; i++)
        job_destroy(&jobs[i]);
    return 0;
}
