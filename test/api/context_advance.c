/*
 * The rules of advance: what `maximum` means, what counts as an event, that nothing runs twice at
 * once, and that advancing one context never serves another.
 *
 * Run: tasks=1,2,5
 * Run: tasks=2 nodes=2
 * Run: tasks=2 env="PAMI_YIELD=always"
 * Run: tasks=2 env="PAMI_YIELD=never"
 */
#include "api_test.h"

enum {
    ID = 1,
    ELSEWHERE = 2
};

static struct job job;
static size_t received, elsewhere, runs, for_ever;
static bool stop_for_ever;

static pami_result_t once(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    runs++;
    return PAMI_SUCCESS;
}

static pami_result_t never_done(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    for_ever++;
    return stop_for_ever ? PAMI_SUCCESS : PAMI_EAGAIN;
}

/* From a callback of a context every way to advance this context is turned down. */
static void try_to_nest(pami_context_t context)
{
    pami_context_t copy = context;

    CHECK_RESULT(PAMI_Context_advance(context, 1), PAMI_EAGAIN);
    CHECK_RESULT(PAMI_Context_advance(context, (size_t)-1), PAMI_EAGAIN);
    CHECK_RESULT(PAMI_Context_advancev(&copy, 1, 10), PAMI_EAGAIN);
    CHECK_RESULT(PAMI_Context_trylock_advancev(&copy, 1, 10), PAMI_EAGAIN);
    CHECK_RESULT(PAMI_Context_advancev(&copy, 1, (size_t)-1), PAMI_EAGAIN);
    CHECK_RESULT(PAMI_Context_trylock_advancev(&copy, 1, (size_t)-1), PAMI_EAGAIN);
}

static pami_result_t nests(pami_context_t context, void *cookie)
{
    (void)cookie;
    try_to_nest(context);
    runs++;
    return PAMI_SUCCESS;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    CHECK_CALLBACK();
    try_to_nest(context);
    received++;
}

/* Another context may be advanced from a callback, if nobody else is at it. */
static void on_elsewhere(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *data, size_t bytes,
                         pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t before = received;

    (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    CHECK(context == job.context[0]);
    test_send_immediate(context, job_endpoint(&job, job.task, 1), ID, NULL, 0, NULL, 0);
    WAIT_WITH(test_advance(job.context[1], 1), received == before + 1);
    elsewhere++;
}

static void on_event(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    try_to_nest(context);
    ++*(size_t *)cookie;
}

static void maxima(void)
{
    pami_work_t work;
    size_t i;

    job_linger(&job, 0.005);
    runs = 0;
    CHECK_OK(PAMI_Context_post(job.context[0], &work, once, NULL));
    for (i = 0; i < 10; i++)
        CHECK_RESULT(test_advance(job.context[0], 0), PAMI_EAGAIN);
    CHECK_SIZE(runs, 0);
    CHECK_RESULT(test_advance(job.context[0], (size_t)-1), PAMI_SUCCESS);
    CHECK_SIZE(runs, 1);
    CHECK_RESULT(test_advance(job.context[0], 1), PAMI_EAGAIN);
    CHECK_RESULT(test_advance(job.context[0], 1000), PAMI_EAGAIN);

    CHECK_RESULT(PAMI_Context_advancev(job.context, 0, 1), PAMI_EAGAIN);
    CHECK_RESULT(PAMI_Context_advancev(job.context, 3, 0), PAMI_EAGAIN);
    CHECK_RESULT(PAMI_Context_trylock_advancev(job.context, 3, 0), PAMI_EAGAIN);
    CHECK_RESULT(PAMI_Context_advancev(job.context, 3, 100), PAMI_EAGAIN);

    CHECK_OK(PAMI_Context_post(job.context[2], &work, once, NULL));
    test_advancing++;
    CHECK_OK(PAMI_Context_advancev(job.context, 3, (size_t)-1));
    CHECK_SIZE(runs, 2);
    CHECK_OK(PAMI_Context_post(job.context[1], &work, once, NULL));
    CHECK_OK(PAMI_Context_trylock_advancev(job.context, 3, (size_t)-1));
    test_advancing--;
    CHECK_SIZE(runs, 3);
    /* trylock_advancev has given the locks back. */
    CHECK_RESULT(PAMI_Context_unlock(job.context[1]), PAMI_INVAL);
}

/* A message ends the longest advance. */
static void until_a_message(void)
{
    double until = test_now() + test_limit();
    size_t before = received;

    job_barrier(&job);
    if (job.task == 0) {
        test_sleep(0.05);
        for (size_t i = 0; i < job.tasks; i++)
            test_send_immediate(job.context[0], job_endpoint(&job, i, 0), ID, NULL, 0, NULL, 0);
    }
    while (received == before) {
        CHECK_OK(test_advance(job.context[0], (size_t)-1));
        CHECK(test_now() < until);
    }
    job_barrier(&job);
}

static void nesting(void)
{
    pami_work_t work;
    size_t local = 0, remote = 0, i;
    pami_send_event_t locals = {&local, on_event, NULL}, remotes = {&remote, NULL, on_event};
    static char data[100000];

    runs = 0;
    CHECK_OK(PAMI_Context_post(job.context[0], &work, nests, NULL));
    WAIT(&job, runs == 1);
    for (i = 0; i < 10; i++) {
        size_t peer = (job.task + i) % job.tasks, bytes = i % 3 == 0 ? 0 : i % 3 == 1 ? 400 : 9000;

        test_send(job.context[0], job_endpoint(&job, peer, i % 3), ID, NULL, 0, data, bytes,
                  locals);
        test_send(job.context[0], job_endpoint(&job, peer, i % 3), ID, NULL, 0, data, bytes,
                  remotes);
    }
    WAIT(&job, local == 10 && remote == 10);
    WAIT(&job, received >= 21); /* one from until_a_message */
    job_barrier(&job);
    CHECK_SIZE(received, 21);

    test_send_immediate(job.context[0], job_endpoint(&job, job.task, 0), ELSEWHERE, NULL, 0, NULL,
                        0);
    WAIT_WITH(test_advance(job.context[0], 1), elsewhere == 1);
    job_barrier(&job);
}

/* Work that is never done is called once per advance(.., 1) and changes nothing for anybody else.
 * */
static void work_for_ever(void)
{
    pami_work_t work, item;
    size_t i, before, sent = 0;

    job_linger(&job, 0.005);
    for_ever = runs = 0;
    CHECK_OK(PAMI_Context_post(job.context[0], &work, never_done, NULL));
    for (i = 1; i <= 100; i++) {
        CHECK_RESULT(test_advance(job.context[0], 1), PAMI_EAGAIN);
        CHECK_SIZE(for_ever, i);
    }
    CHECK_OK(PAMI_Context_post(job.context[0], &item, once, NULL));
    CHECK_RESULT(test_advance(job.context[0], 1), PAMI_SUCCESS);
    CHECK_SIZE(runs, 1);
    CHECK_SIZE(for_ever, 101);

    before = received;
    for (; sent < 200; sent++) {
        test_send_immediate(job.context[0], job_endpoint(&job, (job.task + 1) % job.tasks, 0), ID,
                            NULL, 0, NULL, 0);
        test_advance(job.context[0], 1);
    }
    WAIT_WITH(test_advance(job.context[0], 1), received == before + sent);
    for_ever = 0;
    CHECK_RESULT(test_advance(job.context[0], 50), PAMI_EAGAIN);
    CHECK(for_ever >= 1 && for_ever <= 50);
    stop_for_ever = true;
    CHECK_RESULT(test_advance(job.context[0], 1), PAMI_SUCCESS);
    job_barrier(&job);
}

/* An operation on the task's own word, which is over at once: its callback is due. */
static void start_own(size_t *ended)
{
    static long word, one = 1;
    pami_rmw_t own = {
        .dest = job_endpoint(&job, job.task, 0),
        .cookie = ended,
        .done_fn = on_event,
        .remote = &word,
        .value = &one,
        .operation = PAMI_ATOMIC_ADD,
        .type = PAMI_TYPE_SIGNED_LONG,
    };

    CHECK_OK(PAMI_Rmw(job.context[0], &own));
}

/* Callbacks that are always due keep neither messages nor posted work waiting. */
static void busy(void)
{
    size_t before = received, ended = 0, started;
    double until;
    pami_work_t work;

    job_barrier(&job);
    for (size_t i = 0; i < job.tasks; i++)
        test_send_immediate(job.context[0], job_endpoint(&job, i, 0), ID, NULL, 0, NULL, 0);
    until = test_now() + test_limit();
    for (started = 1; received < before + job.tasks; started++) {
        start_own(&ended);
        CHECK_RESULT(test_advance(job.context[0], 1), PAMI_SUCCESS);
        CHECK_SIZE(ended, started);
        CHECK(test_now() < until);
    }
    runs = 0;
    for (size_t i = 1; i <= 10; i++, started++) {
        CHECK_OK(PAMI_Context_post(job.context[0], &work, once, NULL));
        start_own(&ended);
        CHECK_RESULT(test_advance(job.context[0], 1), PAMI_SUCCESS);
        CHECK_SIZE(ended, started);
        CHECK_SIZE(runs, i);
    }
    job_barrier(&job);
}

static double processor_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* An advance that finds nothing costs next to nothing, but gives the processor to who needs it. */
static void cheap(void)
{
    double used;

    job_barrier(&job);
    used = processor_time();
    for (size_t i = 0; i < 200; i++)
        test_advance(job.context[1], 1);
    used = processor_time() - used;
    if (used > 0.05 * test_factor())
        FAIL("200 empty advances took %.3f s of a processor", used);
}

int main(void)
{
    size_t i;

    job_start(&job, "context_advance", 3);
    for (i = 0; i < 3; i++) {
        test_dispatch(job.context[i], ID, on_message, NULL, test_ordered());
        test_dispatch(job.context[i], ELSEWHERE, on_elsewhere, NULL, test_ordered());
    }
    if (job.tasks == 1)
        maxima();
    job_barrier(&job);
    until_a_message();
    nesting();
    if (job.tasks == 1)
        work_for_ever();
    busy();
    cheap();
    job_finish(&job);
    return 0;
}
