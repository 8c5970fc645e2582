/*
 * async and finish in the manner of X10: a finish waits for all activities spawned inside it, at
 * all places, by whomever. Activities travel as messages and run as posted work; each place counts
 * what it has spawned towards every place and what it has ended, and reports to the root of the
 * finish when it runs dry. Several finishes, one inside the other, end one after another.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=4 nodes=2
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=5 env="PAMI_YIELD=always"
 */
#include "api_test.h"

enum {
    ASYNC = 1,
    REPORT = 2,
    PLACES_MAX = 16,
    DEPTH = 9,
    ROUNDS = 5
};

struct activity {
    pami_work_t work;
    uint32_t root, finish, depth, serial;
    uint64_t random;
    size_t bytes;
    unsigned char data[];
};

struct finish {
    uint32_t number;
    bool dirty;                  /* there is something to report */
    int64_t delta[PLACES_MAX];   /* spawned towards a place, less ended there, since the report */
    int64_t balance[PLACES_MAX]; /* at the root: the sum of all reports */
};

struct report {
    uint32_t finish;
    int64_t delta[PLACES_MAX];
};

static struct job job;
static struct finish current; /* one at a time, all roots in turn */
static size_t waiting_here, ran, landed_late;

static void spawn(size_t place, uint32_t root, uint32_t depth, uint64_t random);

static uint64_t children_of(const struct activity *activity, uint64_t *random)
{
    *random = activity->random;
    return activity->depth == 0 ? 0 : test_random(random) % 4;
}

static pami_result_t run(pami_context_t context, void *cookie)
{
    struct activity *activity = cookie;
    uint64_t random, children = children_of(activity, &random), i;
    uint32_t root = activity->root, depth = activity->depth;

    CHECK_CALLBACK();
    CHECK(context == job.context[0]);
    CHECK_SIZE(activity->finish, current.number);
    if (activity->serial-- != 0)
        return PAMI_EAGAIN; /* not its turn yet */
    CHECK_SIZE(test_differs(activity->data, activity->bytes, depth, 0), activity->bytes);
    free(activity);
    for (i = 0; i < children; i++)
        spawn(test_random(&random) % job.tasks, root, depth - 1, test_random(&random));
    current.delta[job.task]--;
    current.dirty = true;
    waiting_here--;
    ran++;
    return PAMI_SUCCESS;
}

static void enqueue(struct activity *activity)
{
    waiting_here++;
    CHECK_OK(PAMI_Context_post(job.context[0], &activity->work, run, activity));
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    landed_late++;
    enqueue(cookie);
}

/* The header is the activity itself, from `root` on. */
static void on_async(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct activity *activity = test_alloc(sizeof *activity + bytes);

    (void)context, (void)cookie, (void)origin;
    CHECK_CALLBACK();
    CHECK_SIZE(header_bytes, sizeof *activity - sizeof activity->work);
    memcpy(&activity->root, header, header_bytes);
    CHECK_SIZE(activity->bytes, bytes);
    if (recv == NULL) {
        memcpy(activity->data, data, bytes);
        enqueue(activity);
        return;
    }
    recv->addr = activity->data;
    recv->cookie = activity;
    recv->local_fn = on_landed;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    free(cookie);
}

static void spawn(size_t place, uint32_t root, uint32_t depth, uint64_t random)
{
    static const size_t limits[] = {1, 1, 300, 2000, 40000};
    uint64_t dice = test_random(&random);
    size_t bytes = (dice >> 8) % limits[dice % 5];
    struct activity *activity = test_alloc(sizeof *activity + bytes);
    pami_send_t send;

    activity->root = root;
    activity->finish = current.number;
    activity->depth = depth;
    activity->serial = (uint32_t)(dice >> 32 & 3);
    activity->random = random;
    activity->bytes = bytes;
    test_fill(activity->data, bytes, depth, 0);
    current.delta[place]++;
    current.dirty = true;
    if (place == job.task) {
        enqueue(activity); /* no message for oneself */
        return;
    }
    send.send = test_message(job_endpoint(&job, place, 0), ASYNC, &activity->root,
                             sizeof *activity - sizeof activity->work, activity->data, bytes);
    send.events.cookie = activity;
    send.events.local_fn = on_sent;
    send.events.remote_fn = NULL;
    CHECK_OK(TEST_CALL(PAMI_Send(job.context[0], &send)));
}

static void on_report(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct report report;
    size_t i;

    (void)context, (void)cookie, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_SIZE(header_bytes, sizeof report);
    memcpy(&report, header, sizeof report);
    CHECK_SIZE(report.finish, current.number);
    for (i = 0; i < PLACES_MAX; i++)
        current.balance[i] += report.delta[i];
}

/* A place with nothing to run tells the root what has changed. */
static void report_when_idle(size_t root)
{
    struct report report = {.finish = current.number};
    size_t i;

    if (waiting_here != 0 || !current.dirty)
        return;
    memcpy(report.delta, current.delta, sizeof report.delta);
    memset(current.delta, 0, sizeof current.delta);
    current.dirty = false;
    if (job.task == root) {
        for (i = 0; i < PLACES_MAX; i++)
            current.balance[i] += report.delta[i];
        return;
    }
    test_send_immediate(job.context[0], job_endpoint(&job, root, 0), REPORT, &report, sizeof report,
                        NULL, 0);
}

static bool quiet(void)
{
    size_t i;

    for (i = 0; i < job.tasks; i++)
        if (current.balance[i] != 0)
            return false;
    return waiting_here == 0 && !current.dirty;
}

static void step(size_t root)
{
    job_advance(&job);
    report_when_idle(root);
}

static void on_end(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    *(bool *)cookie = true;
}

int main(void)
{
    bool ended = false;
    uint32_t number;
    size_t i, root, total = 0;

    job_start(&job, "X10", 1);
    CHECK(job.tasks <= PLACES_MAX);
    test_dispatch(job.context[0], ASYNC, on_async, NULL, test_ordered());
    test_dispatch(job.context[0], REPORT, on_report, NULL, test_ordered());
    test_dispatch(job.context[0], REPORT + 1, on_end, &ended, test_ordered());
    for (number = 0; number < ROUNDS * job.tasks; number++) {
        memset(&current, 0, sizeof current);
        current.number = number;
        root = number % job.tasks;
        ended = false;
        job_barrier(&job);
        if (job.task == root) {
            for (i = 0; i < 5; i++)
                spawn((number + i) % job.tasks, (uint32_t)root, DEPTH, number * 100 + i);
            WAIT_WITH(step(root), quiet());
            for (i = 0; i < job.tasks; i++)
                test_send_immediate(job.context[0], job_endpoint(&job, i, 0), REPORT + 1, NULL, 0,
                                    NULL, 0);
        }
        WAIT_WITH(step(root), ended);
        CHECK(waiting_here == 0 && !current.dirty);
        total += ran;
        ran = 0;
    }
    CHECK(total > 0);
    job_finish(&job);
    return 0;
}
