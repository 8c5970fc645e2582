/*
 * Messages that arrive before their id is registered: they wait, in order, with whatever they
 * carry, and do not hold up other ids. remote_fn does not come before they have been received.
 *
 * Run: tasks=1,2,3,5
 * Run: tasks=4 nodes=2
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=1G"
 */
#include "api_test.h"

enum {
    EARLY = 1, /* and EARLY + 1 */
    KNOWN = 3,
    ROUNDS = 60,
    LARGEST = 200000,
    SENDER = 0, /* context that sends; context 1 receives */
    RECEIVER = 1
};

static struct job job;
static unsigned char *source;
static size_t next_number[8], landed, known, acknowledged;

static const struct {
    size_t header, data;
    bool immediate;
} kinds[] = {{8, 0, true},      {8, 100, true},     {8, 8000, true},      {8, 50, false},
             {8, 600, false},   {8, 20000, false},  {3000, 40000, false}, {40000, 0, false},
             {9999, 77, false}, {8, LARGEST, false}};

enum {
    KINDS = sizeof kinds / sizeof kinds[0]
};

struct landing {
    size_t number, bytes;
    unsigned char data[];
};

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct landing *landing = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[RECEIVER] && result == PAMI_SUCCESS);
    CHECK_SIZE(test_differs(landing->data, landing->bytes, 1, landing->number), landing->bytes);
    free(landing);
    landed++;
}

static void on_early(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t *expected = cookie, number;
    struct landing *landing;

    CHECK_CALLBACK();
    CHECK(context == job.context[RECEIVER]);
    CHECK(test_origin(origin) == (job.task + job.tasks - 1) % job.tasks);
    memcpy(&number, header, sizeof number);
    CHECK_SIZE(number, *expected);
    ++*expected;
    CHECK_SIZE(header_bytes, kinds[number % KINDS].header);
    CHECK_SIZE(bytes, kinds[number % KINDS].data);
    CHECK_SIZE(test_differs((const char *)header + 8, header_bytes - 8, 1, number + 8),
               header_bytes - 8);
    if (recv == NULL) {
        CHECK_SIZE(test_differs(data, bytes, 1, number), bytes);
        landed++;
        return;
    }
    landing = test_alloc(sizeof *landing + bytes);
    landing->number = number;
    landing->bytes = bytes;
    recv->cookie = landing;
    recv->addr = landing->data;
    recv->local_fn = on_landed;
}

static void on_known(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes, (void)recv;
    (void)origin;
    CHECK_CALLBACK();
    CHECK(context == job.context[RECEIVER]);
    known++;
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)cookie;
    CHECK_CALLBACK();
    CHECK(context == job.context[SENDER] && result == PAMI_SUCCESS);
    acknowledged++;
}

static size_t send_round(size_t id, size_t number)
{
    unsigned char *header = source + LARGEST + ROUNDS * KINDS; /* room for a header */
    size_t kind = number % KINDS;
    pami_endpoint_t dest = job_endpoint(&job, (job.task + 1) % job.tasks, RECEIVER);
    pami_send_event_t events = {.remote_fn = on_remote};

    memcpy(header, &number, sizeof number);
    test_fill(header + 8, kinds[kind].header - 8, 1, number + 8);
    if (kinds[kind].immediate) {
        test_send_immediate(job.context[SENDER], dest, id, header, kinds[kind].header,
                            source + number, kinds[kind].data);
        return 0;
    }
    test_send(job.context[SENDER], dest, id, header, kinds[kind].header, source + number,
              kinds[kind].data, events);
    return 1;
}

static void register_receiver(size_t id)
{
    test_dispatch(job.context[RECEIVER], id, on_early, &next_number[id], test_ordered());
}

static pami_result_t register_from_work(pami_context_t context, void *cookie)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[RECEIVER]);
    register_receiver(*(size_t *)cookie);
    return PAMI_SUCCESS;
}

int main(void)
{
    size_t i, with_events = 0, id = EARLY;
    pami_work_t work;

    source = test_alloc(LARGEST + ROUNDS * KINDS + 50000);
    test_fill(source, LARGEST + ROUNDS * KINDS, 1, 0);
    job_start(&job, "early_dispatch", 2);
    for (i = EARLY; i <= KNOWN; i++) /* the sender's side */
        test_dispatch(job.context[SENDER], i, on_early, NULL, test_ordered());
    test_dispatch(job.context[RECEIVER], KNOWN, on_known, NULL, test_ordered());
    job_barrier(&job);

    for (i = 0; i < ROUNDS; i++) {
        with_events += send_round(EARLY, i);
        with_events += send_round(EARLY + 1, i);
        test_send_immediate(job.context[SENDER],
                            job_endpoint(&job, (job.task + 1) % job.tasks, RECEIVER), KNOWN, NULL,
                            0, NULL, 0);
        job_advance(&job);
    }
    /* What is known flows past what is not. */
    WAIT(&job, known == ROUNDS);
    job_linger(&job, 0.02);
    CHECK(next_number[EARLY] == 0 && next_number[EARLY + 1] == 0 && acknowledged == 0);
    job_barrier(&job);

    register_receiver(EARLY + 1);
    WAIT(&job, next_number[EARLY + 1] >= ROUNDS && landed >= ROUNDS);
    CHECK(next_number[EARLY] == 0);
    /* More come while the old ones are being delivered. */
    CHECK_OK(PAMI_Context_post(job.context[RECEIVER], &work, register_from_work, &id));
    for (; i < 2 * ROUNDS; i++) {
        with_events += send_round(EARLY, i % (ROUNDS * KINDS));
        with_events += send_round(EARLY + 1, i % (ROUNDS * KINDS));
        job_advance(&job);
    }
    WAIT(&job, landed == 4 * ROUNDS && acknowledged == with_events);
    CHECK(next_number[EARLY] == 2 * ROUNDS && next_number[EARLY + 1] == 2 * ROUNDS);
    job_finish(&job);
    free(source);
    return 0;
}
