/*
 * A task leaves when a creation is over for it, or without having called.
 *
 *   done   task 0 leaves with its geometry made. The others hear of that first on a context that is
 *          no member, while the end of their creation waits at those that take part: they get their
 *          geometry all the same.
 *   never  task 0 leaves instead of calling: the others get an error, also one that calls later.
 *
 * Collectives on a geometry that is not complete, or has failed, are refused in these words.
 *
 * The number is the context that creates; of `done` context 1 is the only member.
 *
 * Run: tasks=2,3,5 nodes=1,2 args="done 1"
 * Run: tasks=3 nodes=1,2 args="done 2"
 * Run: tasks=2,3,5 nodes=1,2 args="never 1"
 * Run: tasks=3 nodes=3 args="done 1" env="PAMI_NETWORK=ofi"
 * Run: tasks=3 nodes=3 args="done 2" env="PAMI_NETWORK=ofi"
 * Run: tasks=3 nodes=3 args="never 1" env="PAMI_NETWORK=ofi"
 */
#include "coll.h"

enum {
    CONTEXTS = 3,
    MEMBER = 1,
    CALLED = 1
};

static struct job job;
static size_t called, creator;
static bool refused, answered;

static void on_called(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin, (void)recv;
    called += *(const char *)header == 'c';
}

static void on_answer(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    answered = true;
    refused = result != PAMI_SUCCESS;
}

static void begin(size_t offset, pami_geometry_t *geometry, struct told *told)
{
    pami_geometry_range_t all = {0, (pami_task_t)job.tasks - 1};

    *told = (struct told){.context = job.context[creator]};
    CHECK_OK(TEST_CALL(PAMI_Geometry_create_taskrange(job.client, offset, NULL, 0, geometry, NULL,
                                                      7, &all, 1, told->context, on_told, told)));
}

static void advance_members(void)
{
    test_advance(job.context[creator], 10);
    test_advance(job.context[MEMBER], 10);
}

/* Nothing runs on it, and the text says that this is no fault of the context. */
static void refuse(pami_geometry_t geometry, const char *why)
{
    pami_algorithm_t algorithm = algorithm_of(geometry, PAMI_XFER_AMBROADCAST);
    pami_xfer_t xfer = coll_xfer(algorithm_of(geometry, PAMI_XFER_BARRIER), NULL);
    pami_dispatch_callback_function fn = {.p2p = on_called};

    CHECK_REFUSED(PAMI_Collective(job.context[MEMBER], &xfer), PAMI_INVAL, why);
    CHECK_REFUSED(PAMI_AMCollective_dispatch_set(job.context[MEMBER], algorithm, 1, fn, NULL,
                                                 (pami_collective_hint_t){0}),
                  PAMI_INVAL, why);
}

static void tell(size_t from, size_t to, const char *word)
{
    const pami_send_event_t events = {.remote_fn = on_answer};

    answered = false;
    test_send(job.context[from], job_endpoint(&job, 0, to), CALLED, word, 1, NULL, 0, events);
}

/* What the creation has sent to task 0 is there: that takes advances, which cease then. */
static void see_it_arrive(void)
{
    tell(creator, MEMBER, "behind it");
    WAIT_WITH(advance_members(), answered);
    CHECK(!refused);
}

/* Context 0 tells task 0 that this one has called, and learns that task 0 has left. */
static void see_it_leave(void)
{
    for (const char *word = "c"; !refused; word = "still there?") {
        tell(0, 0, word);
        WAIT_WITH(test_advance(job.context[0], 10), answered);
    }
    for (double end = test_now() + 0.05; test_now() < end;)
        test_advance(job.context[0], 10);
}

static void done(void)
{
    pami_geometry_t geometry;
    struct told told;

    if (job.task == 0) {
        WAIT(&job, called == job.tasks - 1);
        begin(MEMBER, &geometry, &told);
        WAIT_WITH(advance_members(), told.count != 0);
        CHECK(told.result == PAMI_SUCCESS);
    } else {
        begin(MEMBER, &geometry, &told);
        see_it_arrive();
        CHECK(told.count == 0);
        refuse(geometry, "algorithm: the creation of its geometry is not complete");
        see_it_leave();
        CHECK(told.count == 0);
        WAIT_WITH(advance_members(), told.count != 0);
        if (told.result != PAMI_SUCCESS)
            FAIL("the creation ends with %d: %s", (int)told.result, test_text());
    }
    CHECK_OK(PAMI_Geometry_destroy(job.client, &geometry, told.context, NULL, NULL));
}

static void never(void)
{
    pami_geometry_t geometry;
    struct told told;

    if (job.task == 0)
        return;
    if (job.task == job.tasks - 1)
        see_it_leave();
    begin(PAMI_ALL_CONTEXTS, &geometry, &told);
    WAIT(&job, told.count != 0);
    CHECK(told.result == PAMI_ERROR);
    refuse(geometry, "algorithm: the creation of its geometry has failed");
    CHECK_OK(PAMI_Geometry_destroy(job.client, &geometry, told.context, NULL, NULL));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    creator = (size_t)atoi(argv[2]);
    job_start(&job, "geometry leave", CONTEXTS);
    for (size_t i = 0; i < CONTEXTS; i++)
        test_dispatch(job.context[i], CALLED, on_called, NULL, test_ordered());
    job_barrier(&job);
    if (strcmp(argv[1], "done") == 0)
        done();
    else
        never();
    job_destroy(&job);
    return 0;
}
