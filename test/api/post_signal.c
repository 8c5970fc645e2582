/*
 * Work is posted from a signal handler that interrupts whatever its thread is in: an advance, a
 * post, a send, a posted function that posts; and by threads that end right after posting. Each
 * item runs once.
 *
 * Run: tasks=1,2,3
 * Run: tasks=2 nodes=2
 */
#include "api_test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

enum {
    ITEMS = 200,
    LEAVERS = 50,
    BURST = 100,
    ID = 1
};

struct item {
    pami_work_t work;
    size_t runs, posts;
};

static struct job job;
static struct item by_handler[ITEMS], by_leaver[LEAVERS], by_main, by_function[BURST], function;
static volatile sig_atomic_t posted, refused;
static size_t messages;

static pami_result_t run_item(pami_context_t context, void *cookie)
{
    struct item *item = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0]);
    item->runs++;
    return PAMI_SUCCESS;
}

/* Posts all the time, for handlers to interrupt that. */
static pami_result_t post_burst(pami_context_t context, void *cookie)
{
    size_t i;

    (void)cookie;
    for (i = 0; i < BURST; i++) {
        if (by_function[i].posts != by_function[i].runs)
            continue;
        by_function[i].posts++;
        CHECK_OK(PAMI_Context_post(context, &by_function[i].work, run_item, &by_function[i]));
    }
    return posted == ITEMS ? PAMI_SUCCESS : PAMI_EAGAIN;
}

static void on_alarm(int signal)
{
    struct item *item = &by_handler[posted];

    (void)signal;
    if (posted == ITEMS)
        return;
    posted = posted + 1;
    if (PAMI_Context_post(job.context[0], &item->work, run_item, item) != PAMI_SUCCESS)
        refused = 1;
}

static void *leave(void *cookie)
{
    struct item *item = cookie;

    CHECK_OK(PAMI_Context_post(job.context[0], &item->work, run_item, item));
    return NULL;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin, (void)recv;
    messages++;
}

/* What the handler interrupts: posts of the same thread, sends, advances. */
static void step(pami_endpoint_t next, size_t *own)
{
    if (by_main.runs == *own) {
        ++*own;
        CHECK_OK(PAMI_Context_post(job.context[0], &by_main.work, run_item, &by_main));
    }
    test_send_immediate(job.context[0], next, ID, NULL, 0, NULL, 0);
    job_advance(&job);
}

int main(void)
{
    struct itimerval timer = {{0, 500}, {0, 500}};
    struct sigaction action = {.sa_handler = on_alarm};
    pami_endpoint_t next;
    pthread_t thread;
    sigset_t alarm_set;
    size_t i, own = 0;

    job_start(&job, "post_signal", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    next = job_endpoint(&job, (job.task + 1) % job.tasks, 0);
    job_barrier(&job);
    /* The threads that leave do not take the signal: it is to interrupt this one. */
    sigemptyset(&alarm_set);
    sigaddset(&alarm_set, SIGALRM);
    CHECK(pthread_sigmask(SIG_BLOCK, &alarm_set, NULL) == 0);
    step(next, &own);
    for (i = 0; i < LEAVERS; i++) {
        CHECK(pthread_create(&thread, NULL, leave, &by_leaver[i]) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK_OK(PAMI_Context_post(job.context[0], &function.work, post_burst, &function));
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &alarm_set, NULL) == 0);
    WAIT_WITH(step(next, &own), posted == ITEMS);
    memset(&timer, 0, sizeof timer);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    CHECK(refused == 0);
    WAIT(&job, messages != 0);
    for (i = 0; i < ITEMS; i++)
        WAIT(&job, by_handler[i].runs != 0);
    for (i = 0; i < BURST; i++)
        WAIT(&job, by_function[i].runs == by_function[i].posts);
    WAIT(&job, by_main.runs == own);
    job_barrier(&job);
    for (i = 0; i < ITEMS; i++)
        CHECK_SIZE(by_handler[i].runs, 1);
    for (i = 0; i < LEAVERS; i++)
        CHECK_SIZE(by_leaver[i].runs, 1);
    job_finish(&job);
    return 0;
}
