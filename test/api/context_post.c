/*
 * Posted work on one thread: when it runs, how often, and what happens to its storage.
 *
 * Run: timeout=60
 * Run: tasks=2
 * Run: env="PAMI_YIELD=always"
 */
#include "api_test.h"

enum {
    WORK_BYTES_USED = 48, /* the library may use no more of a work object */
    MANY = 1000
};

static struct job job;
static size_t runs, order_next;
static bool posting;

static pami_result_t once(pami_context_t context, void *cookie)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && cookie == &runs && !posting);
    runs++;
    return PAMI_SUCCESS;
}

static pami_result_t in_order(pami_context_t context, void *cookie)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[0]);
    CHECK_SIZE(*(size_t *)cookie, order_next);
    order_next++;
    return PAMI_SUCCESS;
}

static pami_result_t again(pami_context_t context, void *cookie)
{
    size_t *left = cookie;

    CHECK_CALLBACK();
    (void)context;
    runs++;
    return --*left == 0 ? PAMI_SUCCESS : PAMI_EAGAIN;
}

static void post(pami_context_t context, void *work, pami_work_function fn, void *cookie)
{
    posting = true;
    CHECK_OK(PAMI_Context_post(context, work, fn, cookie));
    posting = false;
}

static void arguments(void)
{
    pami_work_t work;

    CHECK_REFUSED(PAMI_Context_post(PAMI_CONTEXT_NULL, &work, once, NULL), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Context_post(job.context[0], NULL, once, NULL), PAMI_INVAL, "work");
    CHECK_REFUSED(PAMI_Context_post(job.context[0], &work, NULL, NULL), PAMI_INVAL, "fn");
}

/* Runs once, not inside post, on its own context only. */
static void runs_once(void)
{
    pami_work_t work;
    size_t i;

    memset(work, 0xa5, sizeof work);
    runs = 0;
    post(job.context[0], &work, once, &runs);
    for (i = 0; i < 100; i++)
        test_advance(job.context[1], 1);
    CHECK_SIZE(runs, 0);
    CHECK_RESULT(test_advance(job.context[0], 1), PAMI_SUCCESS);
    CHECK_SIZE(runs, 1);
    memset(work, 0x5a, sizeof work);
    job_linger(&job, 0.005);
    CHECK_SIZE(runs, 1);
}

static void first_in_first_out(void)
{
    static pami_work_t work[MANY];
    static size_t numbers[MANY];
    size_t i;

    order_next = 0;
    for (i = 0; i < MANY; i++) {
        numbers[i] = i;
        post(job.context[0], &work[i], in_order, &numbers[i]);
    }
    WAIT(&job, order_next == MANY);
}

/* EAGAIN keeps an item for one more call in each later pass; it is no event. */
static void repeated(void)
{
    pami_work_t work;
    size_t left = 50, i;

    job_linger(&job, 0.005);
    runs = 0;
    post(job.context[0], &work, again, &left);
    for (i = 1; i < 50; i++) {
        CHECK_RESULT(test_advance(job.context[0], 1), PAMI_EAGAIN);
        CHECK_SIZE(runs, i);
    }
    CHECK_RESULT(test_advance(job.context[0], 1), PAMI_SUCCESS);
    CHECK_SIZE(runs, 50);
    CHECK_RESULT(test_advance(job.context[0], 1), PAMI_EAGAIN);
    CHECK_SIZE(runs, 50);
}

/* Storage of 48 bytes, aligned to 4 only, with other things right behind it. */
static void small_storage(void)
{
    uint64_t memory[12];
    unsigned char *work = (unsigned char *)memory + 12;
    size_t left = 3;

    memset(memory, 0xc3, sizeof memory);
    runs = 0;
    post(job.context[0], work, again, &left);
    WAIT(&job, left == 0);
    CHECK_SIZE(runs, 3);
    CHECK(test_all(memory, 12, 0xc3));
    CHECK(test_all(work + WORK_BYTES_USED, sizeof memory - 12 - WORK_BYTES_USED, 0xc3));
}

/* What a function posts, itself or others, runs from a later advance. */
static pami_result_t posts_more(pami_context_t context, void *cookie)
{
    static pami_work_t other[MANY];
    size_t *calls = cookie;

    if (++*calls < MANY) {
        post(context, &other[*calls], once, &runs);
        post(context, &other[0], posts_more, calls);
    }
    return PAMI_SUCCESS;
}

static void later(void)
{
    pami_work_t work;
    size_t calls = 0, i;

    runs = 0;
    post(job.context[0], &work, posts_more, &calls);
    for (i = 1; i <= MANY; i++) {
        CHECK_RESULT(test_advance(job.context[0], 1), PAMI_SUCCESS);
        CHECK_SIZE(calls, i);
        CHECK_SIZE(runs, i - 1);
    }
    CHECK_RESULT(test_advance(job.context[0], 100), PAMI_EAGAIN);
}

/* A function may free its storage, or post it again, and return SUCCESS. */
static pami_result_t frees(pami_context_t context, void *cookie)
{
    (void)context;
    memset(cookie, 0xdd, sizeof(pami_work_t));
    free(cookie);
    runs++;
    return PAMI_SUCCESS;
}

static pami_result_t reposts(pami_context_t context, void *cookie)
{
    CHECK(context == job.context[0]);
    if (++runs % MANY != 0) {
        memset(cookie, 0xdd, sizeof(pami_work_t));
        post(context, cookie, reposts, cookie);
    }
    return PAMI_SUCCESS;
}

static void storage(void)
{
    pami_work_t work[8];
    size_t i, left[8];

    runs = 0;
    for (i = 0; i < MANY; i++) {
        void *memory = test_alloc(sizeof(pami_work_t));

        post(job.context[0], memory, frees, memory);
    }
    WAIT(&job, runs == MANY);
    runs = 0;
    post(job.context[0], &work[0], reposts, &work[0]);
    WAIT(&job, runs == MANY);

    /* Many lives of one stack object; items that leave the queue from its middle. */
    for (i = 0; i < 200; i++) {
        size_t j;

        for (j = 0; j < 8; j++) {
            left[j] = (i + j * 5) % 7 + 1;
            post(job.context[0], &work[j], again, &left[j]);
        }
        WAIT(&job, !(left[0] || left[1] || left[2] || left[3] || left[4] || left[5] || left[6] ||
                     left[7]));
        memset(work, (int)i, sizeof work);
    }
}

static pami_result_t fails(pami_context_t context, void *cookie)
{
    static const pami_result_t results[] = {PAMI_ERROR, PAMI_INVAL, PAMI_NERROR, PAMI_OTHER};

    (void)context;
    return results[++*(size_t *)cookie % 4];
}

/* Anything but EAGAIN ends an item. */
static void other_results(void)
{
    pami_work_t work;
    size_t count, i;

    for (i = 0; i < 4; i++) {
        count = i;
        post(job.context[0], &work, fails, &count);
        WAIT(&job, count == i + 1);
        memset(work, 0x11, sizeof work);
        job_linger(&job, 0.002);
        CHECK_SIZE(count, i + 1);
    }
}

/* Work posts onto another context of the task: it runs when that one is advanced. */
static pami_result_t hands_over(pami_context_t context, void *cookie)
{
    CHECK(context == job.context[1]);
    post(job.context[0], cookie, once, &runs);
    return PAMI_SUCCESS;
}

static void between_contexts(void)
{
    pami_work_t work[2];

    runs = 0;
    post(job.context[1], &work[0], hands_over, &work[1]);
    test_advance(job.context[1], 4);
    CHECK_SIZE(runs, 0);
    WAIT_WITH(test_advance(job.context[0], 1), runs == 1);
}

int main(void)
{
    static pami_work_t pending;

    job_start(&job, "context_post", 2);
    job_barrier(&job);
    arguments();
    runs_once();
    first_in_first_out();
    if (job.tasks == 1)
        repeated();
    small_storage();
    later();
    storage();
    other_results();
    between_contexts();
    job_barrier(&job);
    runs = 0;
    post(job.context[0], &pending, once, &runs); /* dropped quietly */
    job_destroy(&job);
    CHECK_SIZE(runs, 0);
    return 0;
}
