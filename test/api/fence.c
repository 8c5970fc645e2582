/*
 * PAMI_Fence_all and _endpoint: done_fn runs, from advance, when what this context has started
 * earlier has completed at the target: puts are visible, gets have landed, messages have been
 * received, with and without callbacks of their own. Not collective: the target only advances.
 * Accepted with and without a region that PAMI_Fence_begin has opened; regions do not nest.
 *
 * Run: tasks=1,2,3,5,8
 * Run: tasks=2,5 nodes=2
 * Run: tasks=2,3 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=1K"
 * Run: tasks=2,5 env="PAMI_YIELD=always"
 */
#include "rma.h"

#include <pamix.h>

enum {
    CONTEXTS = 2,
    ROUNDS = 12,
    PUTS = 60,
    LARGE = 50000,
    ID_DATA = 1,
    ID_ASK, /* how much has arrived? */
    ID_ANSWER,
    ID_PLACE,
    ID_PLACE_FAR, /* not by shared memory */
    PLACES = 10,
    PLACE = 120000 /* bytes */
};

static struct job job;
static size_t next, previous;

/* ------------------------------------------------------------------------------- the rules -- */

static void never(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    FAIL("the callback of a fence that was refused");
}

static void regions(void)
{
    pami_context_t context = job.context[0];

    CHECK_RESULT(PAMI_Fence_end(context), PAMI_INVAL);
    CHECK_OK(PAMI_Fence_begin(context));
    CHECK_RESULT(PAMI_Fence_begin(context), PAMI_INVAL);
    CHECK_OK(PAMI_Fence_begin(job.context[1])); /* each context has its own */
    rma_fence(&job, 0);
    rma_fence(&job, 0);
    CHECK_OK(PAMI_Fence_end(context));
    CHECK_RESULT(PAMI_Fence_end(context), PAMI_INVAL);
    CHECK_OK(PAMI_Fence_end(job.context[1]));
    rma_fence(&job, 0); /* also without one */
}

static void arguments(void)
{
    pami_context_t context = job.context[0];

    CHECK_RESULT(PAMI_Fence_begin(PAMI_CONTEXT_NULL), PAMI_INVAL);
    CHECK_RESULT(PAMI_Fence_end(PAMI_CONTEXT_NULL), PAMI_INVAL);
    CHECK_REFUSED(PAMI_Fence_all(PAMI_CONTEXT_NULL, never, NULL), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Fence_endpoint(PAMI_CONTEXT_NULL, never, NULL, 0), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Fence_endpoint(context, never, NULL, (pami_endpoint_t)job.tasks), PAMI_INVAL,
                  "endpoint");
    CHECK_REFUSED(PAMI_Fence_endpoint(context, never, NULL, PAMI_ENDPOINT_NULL), PAMI_INVAL,
                  "endpoint");
    CHECK_OK(PAMI_Fence_all(context, NULL, NULL));
    CHECK_OK(PAMI_Fence_endpoint(context, NULL, NULL, job_endpoint(&job, next, 1)));
    job_linger(&job, 0.002);
}

/* Nothing to wait for, and ten of them at once. */
static void idle(void)
{
    bool fenced[10] = {false};

    for (size_t i = 0; i < 10; i++)
        CHECK_OK(TEST_CALL(
            i % 2 ? PAMI_Fence_all(job.context[0], rma_on_fence, &fenced[i])
                  : PAMI_Fence_endpoint(job.context[0], rma_on_fence, &fenced[i],
                                        job_endpoint(&job, i % job.tasks, i % CONTEXTS))));
    for (size_t i = 0; i < 10; i++)
        WAIT(&job, fenced[i]);
}

/* ---------------------------------------------------------------------- puts that are silent -- */

struct window {
    unsigned char data[PUTS][100];
    unsigned char large[LARGE];
};

static bool is_complete(const struct window *window, size_t seed)
{
    for (size_t i = 0; i < PUTS; i++)
        if (test_differs(window->data[i], sizeof window->data[i], seed + i, 0) != 100)
            return false;
    return test_differs(window->large, LARGE, seed, 0) == LARGE;
}

/* Puts without callbacks; after the fence they are read back, and then their owner is told. */
static void silent_puts(void)
{
    static struct window window, source, back;
    struct window *mine = &window, **all = test_alloc(job.tasks * sizeof *all);

    for (size_t round = 0; round < ROUNDS; round++) {
        struct rma op = {.quiet_done = true, .quiet_rdone = true}, get = {0};
        pami_endpoint_t to = job_endpoint(&job, next, round % CONTEXTS);
        size_t context = round / 2 % CONTEXTS, seed = round * 100 + job.task;
        bool fenced = false;

        memset(&window, 0, sizeof window);
        rma_share(&job, &mine, sizeof mine, all);
        test_fill(source.large, LARGE, seed, 0);
        rma_put(&op, job.context[context], to, source.large, all[next]->large, LARGE);
        for (size_t i = 0; i < PUTS; i++) {
            test_fill(source.data[i], 100, seed + i, 0);
            rma_put(&op, job.context[context], to, source.data[i], all[next]->data[i], 100);
        }
        CHECK_OK(TEST_CALL(
            round % 3 == 0 ? PAMI_Fence_endpoint(job.context[context], rma_on_fence, &fenced, to)
                           : PAMI_Fence_all(job.context[context], rma_on_fence, &fenced)));
        CHECK(!fenced);
        WAIT(&job, fenced);
        rma_get(&get, job.context[0], to, &back, all[next], sizeof back);
        rma_wait(&job);
        CHECK(is_complete(&back, seed));
        job_barrier(&job);
        CHECK(is_complete(&window, round * 100 + previous));
        job_barrier(&job);
    }
    free(all);
}

/* The same with gets: when the fence is over they have landed. */
static void silent_gets(void)
{
    static struct window window, got;
    struct window *mine = &window, **all = test_alloc(job.tasks * sizeof *all);
    struct rma op = {.quiet_done = true};

    test_fill(&window, sizeof window, job.task, 0);
    rma_share(&job, &mine, sizeof mine, all);
    for (size_t round = 0; round < ROUNDS; round++) {
        pami_endpoint_t to = job_endpoint(&job, next, round % CONTEXTS);

        memset(&got, 0, sizeof got);
        rma_get(&op, job.context[0], to, got.large, all[next]->large, LARGE);
        for (size_t i = 0; i < PUTS; i++)
            rma_get(&op, job.context[0], to, got.data[i], all[next]->data[i], 100);
        rma_fence(&job, 0);
        CHECK_SIZE(test_differs(&got, sizeof got, next, 0), sizeof got);
    }
    job_barrier(&job);
    free(all);
}

/* ---------------------------------------------------------------------------------- messages -- */

static size_t arrived, landed, asked, answered;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    landed++;
    free(cookie);
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    arrived++;
    if (recv == NULL) {
        landed++;
        return;
    }
    recv->addr = recv->cookie = test_alloc(bytes);
    recv->local_fn = on_landed;
}

/* Whoever asks has fenced: all that it had sent has been received. */
static void on_ask(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t expected;

    (void)cookie, (void)header, (void)header_bytes, (void)recv;
    CHECK(bytes == sizeof expected);
    memcpy(&expected, data, sizeof expected);
    asked++;
    if (arrived < expected || landed < expected)
        FAIL("after the fence %zu of %zu messages have arrived and %zu been received", arrived,
             expected, landed);
    test_send_immediate(context, origin, ID_ANSWER, NULL, 0, NULL, 0);
}

static void on_answer(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    answered++;
}

static void ask(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    test_send_immediate(context, job_endpoint(&job, next, 0), ID_ASK, NULL, 0, cookie,
                        sizeof(size_t));
}

static void messages(void)
{
    static const size_t sizes[] = {0, 100, 1000, 9000, 40000, 300000};
    static unsigned char data[300000];
    static size_t sent;

    test_dispatch(job.context[0], ID_DATA, on_data, NULL, test_ordered());
    test_dispatch(job.context[0], ID_ASK, on_ask, NULL, test_ordered());
    test_dispatch(job.context[0], ID_ANSWER, on_answer, NULL, test_ordered());
    job_barrier(&job);
    for (size_t round = 1; round <= ROUNDS; round++) {
        pami_send_event_t none = {0};
        pami_endpoint_t to = job_endpoint(&job, next, 0);

        for (size_t i = 0; i < 12; i++, sent++) {
            size_t bytes = sizes[(i * round) % (sizeof sizes / sizeof sizes[0])];

            if (bytes <= 1000 && i % 2)
                test_send_immediate(job.context[0], to, ID_DATA, NULL, 0, data, bytes);
            else
                test_send(job.context[0], to, ID_DATA, NULL, 0, data, bytes, none);
        }
        CHECK_OK(TEST_CALL(round % 2 ? PAMI_Fence_all(job.context[0], ask, &sent)
                                     : PAMI_Fence_endpoint(job.context[0], ask, &sent, to)));
        WAIT(&job, answered == round);
    }
    WAIT(&job, asked == ROUNDS);
    job_barrier(&job);
}

/* ------------------------------------------------------------------------- data in its place -- */

/* Messages go to places in the shared heap, and the origin looks there as soon as the fence has
 * ended, past everything that may still be under way. */
static unsigned char *places, **all_places;

static void on_place(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t place;

    (void)context, (void)cookie, (void)origin;
    CHECK(header_bytes == sizeof place);
    memcpy(&place, header, sizeof place);
    if (recv == NULL)
        memcpy(places + place * PLACE, data, bytes);
    else
        recv->addr = places + place * PLACE;
}

struct placed {
    size_t bytes[PLACES];
    struct rma get[PLACES];
    unsigned char *got;
    bool fenced;
};

static void on_placed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct placed *placed = cookie;

    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS && !placed->fenced);
    placed->fenced = true;
    for (size_t i = 0; i < PLACES; i++)
        rma_get(&placed->get[i], context, job_endpoint(&job, next, 0), placed->got + i * PLACE,
                all_places[next] + i * PLACE, placed->bytes[i]);
}

/* Some messages, one fence, and a look at what is there. */
static void in_place_once(struct placed *placed, unsigned char *source, size_t round)
{
    pami_endpoint_t to = job_endpoint(&job, next, 0);
    uint64_t random = round;

    memset(placed->got, 0, PLACES * PLACE);
    memset(placed->get, 0, sizeof placed->get);
    placed->fenced = false;
    job_barrier(&job);
    for (size_t i = 0; i < PLACES; i++) {
        size_t id = test_random(&random) % 2 ? ID_PLACE : ID_PLACE_FAR;
        pami_send_event_t none = {0};

        placed->bytes[i] = test_random(&random) % (1 + test_random(&random) % PLACE);
        test_fill(source + i * PLACE, placed->bytes[i], round + i + job.task, 0);
        test_send(job.context[0], to, id, &i, sizeof i, source + i * PLACE, placed->bytes[i], none);
    }
    CHECK_OK(TEST_CALL(round % 2 ? PAMI_Fence_all(job.context[0], on_placed, placed)
                                 : PAMI_Fence_endpoint(job.context[0], on_placed, placed, to)));
    WAIT(&job, placed->fenced && rma_pending == 0);
    for (size_t i = 0; i < PLACES; i++)
        CHECK_SIZE(test_differs(placed->got + i * PLACE, placed->bytes[i], round + i + job.task, 0),
                   placed->bytes[i]);
    job_barrier(&job);
    memset(places, 0, PLACES * PLACE);
}

static void in_place(void)
{
    pami_dispatch_hint_t far = test_ordered();
    unsigned char *source = test_alloc(PLACES * PLACE);
    struct placed placed = {.got = test_alloc(PLACES * PLACE)};
    void *heap;

    far.use_shmem = PAMI_HINT_DISABLE;
    CHECK_OK(PAMIX_Mem_alloc(job.client, PLACES * PLACE, 0, PAMIX_MEM_ANY, &heap));
    places = memset(heap, 0, PLACES * PLACE);
    all_places = test_alloc(job.tasks * sizeof *all_places);
    test_dispatch(job.context[0], ID_PLACE, on_place, NULL, test_ordered());
    test_dispatch(job.context[0], ID_PLACE_FAR, on_place, NULL, far);
    rma_share(&job, &places, sizeof places, all_places);
    for (size_t round = 1; round <= ROUNDS; round++)
        in_place_once(&placed, source, round);
    job_barrier(&job);
    CHECK_OK(PAMIX_Mem_free(job.client, places));
    free(source), free(placed.got), free(all_places);
}

/* -------------------------------------------------------------------- from inside a callback -- */

static size_t chain;

static void on_chain(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS && context == job.context[0]);
    if (++chain < 50)
        CHECK_OK(TEST_CALL(PAMI_Fence_all(context, on_chain, cookie)));
}

/* The last task is late; fences to others do not wait for it. */
static void late_target(void)
{
    static unsigned char source[LARGE], window[LARGE];
    unsigned char *mine = window, **all = test_alloc(job.tasks * sizeof *all);
    size_t late = job.tasks - 1;
    bool fenced = false;

    rma_share(&job, &mine, sizeof mine, all);
    if (job.task == late) {
        test_sleep(0.05);
    } else {
        struct rma op = {.quiet_done = true, .quiet_rdone = true};

        rma_put(&op, job.context[0], job_endpoint(&job, late, 0), source, all[late],
                job.task == 0 ? LARGE : 8);
        rma_put(&op, job.context[0], job_endpoint(&job, job.task, 0), source, all[job.task], 8);
        CHECK_OK(TEST_CALL(PAMI_Fence_endpoint(job.context[0], rma_on_fence, &fenced,
                                               job_endpoint(&job, job.task, 0))));
        WAIT(&job, fenced);
        rma_fence(&job, 0);
    }
    job_barrier(&job);
    free(all);
}

int main(void)
{
    job_start(&job, "fence", CONTEXTS);
    rma_open(&job);
    next = (job.task + 1) % job.tasks;
    previous = (job.task + job.tasks - 1) % job.tasks;
    regions();
    arguments();
    idle();
    silent_puts();
    silent_gets();
    messages();
    in_place();
    CHECK_OK(TEST_CALL(PAMI_Fence_all(job.context[0], on_chain, NULL)));
    WAIT(&job, chain == 50);
    late_target();
    rma_close(&job);
    return 0;
}
