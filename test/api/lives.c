/*
 * All tasks destroy their contexts and create them again, as often as one another but not at the
 * same time, and nothing but the contexts themselves holds them together. What is sent in one life
 * arrives in the same life of the other task, whether that is a life behind, between two, or there:
 * messages of each size, one-sided transfers, collectives of the world; also the first thing in a
 * life, and the last one.
 *
 * Run: tasks=1,2,3,5,8
 * Run: tasks=2,3,5 nodes=2
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=4 env="PAMI_SHM_LANES=0"
 * Run: tasks=2,3,5 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include "coll.h"

enum {
    ID = 1,
    LIVES = 24,
    SIZES = 3,
    LARGE = 300000,
    TASKS_MAX = 64
};

static const size_t size_of[SIZES] = {8, 3000, LARGE};
static size_t life, arrived;
static char received[LARGE];

struct sent {
    size_t done;
};

static void on_arrived(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK_RESULT(result, PAMI_SUCCESS);
    arrived++;
}

/* One neighbour sends, one message after the other. */
static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    size_t from;

    (void)cookie, (void)origin;
    CHECK_CALLBACK();
    CHECK(header_bytes == sizeof from);
    memcpy(&from, header, sizeof from);
    CHECK_SIZE(from, life);
    if (recv == NULL) {
        CHECK(test_differs(data, bytes, from, 0) == bytes);
        on_arrived(context, NULL, PAMI_SUCCESS);
        return;
    }
    CHECK(bytes <= sizeof received);
    recv->addr = received;
    recv->local_fn = on_arrived;
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct sent *sent = cookie;

    (void)context;
    CHECK_CALLBACK();
    CHECK_RESULT(result, PAMI_SUCCESS);
    sent->done++;
}

static void messages(struct job *job)
{
    static char data[LARGE];
    struct sent sent = {0};
    const pami_send_event_t events = {.cookie = &sent, .remote_fn = on_done};
    pami_endpoint_t next = job_endpoint(job, (job->task + 1) % job->tasks, 0);

    test_fill(data, sizeof data, life, 0);
    test_send_immediate(job->context[0], next, ID, &life, sizeof life, data, 8);
    for (size_t i = 0; i < SIZES; i++)
        test_send(job->context[0], next, ID, &life, sizeof life, data, size_of[i], events);
    WAIT(job, sent.done == SIZES && arrived == SIZES + 1);
    CHECK(test_differs(received, LARGE, life, 0) == LARGE);
    arrived = 0;
}

/* The task before has added one to a word of this one in each life. */
static void atomics(struct job *job)
{
    static volatile uint64_t word;
    static volatile uint64_t *words[TASKS_MAX];
    uint64_t one = 1, before = 0;
    struct sent sent = {0};
    struct told told;
    pami_geometry_t world;
    pami_xfer_t xfer;
    pami_rmw_t rmw = {
        .dest = job_endpoint(job, (job->task + 1) % job->tasks, 0),
        .cookie = &sent,
        .done_fn = on_done,
        .local = &before,
        .value = &one,
        .operation = PAMI_ATOMIC_FETCH_ADD,
        .type = PAMI_TYPE_UNSIGNED_LONG_LONG,
    };

    CHECK(job->tasks <= TASKS_MAX);
    words[job->task] = &word;
    CHECK_OK(PAMI_Geometry_world(job->client, &world));
    xfer = coll_xfer(algorithm_of(world, PAMI_XFER_ALLGATHER), &told);
    xfer.cmd.xfer_allgather = (pami_allgather_t){
        .sndbuf = (char *)&words[job->task],
        .stype = PAMI_TYPE_BYTE,
        .stypecount = sizeof words[0],
        .rcvbuf = (char *)words,
        .rtype = PAMI_TYPE_BYTE,
        .rtypecount = sizeof words[0],
    };
    coll_run(job, job->context[0], &xfer);
    rmw.remote = (void *)words[(job->task + 1) % job->tasks];
    CHECK_OK(TEST_CALL(PAMI_Rmw(job->context[0], &rmw)));
    WAIT(job, sent.done == 1 && word == life + 1);
    CHECK_SIZE(before, life);
}

/* In each life something else comes first, and last. */
static void live(struct job *job)
{
    pami_geometry_t world;

    CHECK_OK(PAMI_Geometry_world(job->client, &world));
    for (size_t i = 0; i < 3; i++)
        switch ((i + life) % 3) {
        case 0:
            messages(job);
            break;
        case 1:
            CHECK(coll_total(job, world, 1) == (int)job->tasks);
            break;
        default:
            atomics(job);
        }
}

int main(void)
{
    struct job job;
    uint64_t random;

    job_create_client(&job, "lives");
    random = job.task;
    for (life = 0; life < LIVES; life++) {
        if (test_random(&random) % 4 == 0)
            test_sleep(1e-3 * (double)(test_random(&random) % 4));
        job_create_contexts(&job, 1 + life % 3);
        test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
        live(&job);
        job_destroy_contexts(&job);
    }
    job_destroy(&job);
    return 0;
}
