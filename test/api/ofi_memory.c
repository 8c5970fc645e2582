/*
 * No memory for the thread that exchanges the names of endpoints, for one allocation or a few in a
 * row, each in turn: tasks of two nodes get to know each other all the same. None for a context
 * that leaves and is created again: the other task hears of both. None for a context that another
 * task has sent to already: when it can be made, the message is there. And none for messages that
 * come: they arrive.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi" timeout=120
 */
#include "api_test.h"

#include <stdatomic.h>
#include <sys/prctl.h>

enum {
    REPORT_ID = 1,
    ROWS = 2,
    MOST = 40, /* allocations in one round */
    LARGE = 1 << 20
};

static atomic_long left = -1; /* so many are not refused, then `row` are */
static atomic_long row;
static atomic_bool of_thread; /* whose: the thread's, or those of the others */
static atomic_long refused;

static bool is_the_thread(void)
{
    static _Thread_local int known;
    char name[16] = "";

    if (known == 0) {
        prctl(PR_GET_NAME, name);
        known = strcmp(name, "pami-ofi") == 0 ? 1 : -1;
    }
    return known > 0;
}

static bool is_refused(size_t bytes)
{
    (void)bytes;
    if (atomic_load(&left) < 0 || is_the_thread() != atomic_load(&of_thread))
        return false;
    if (atomic_load(&left) > 0) {
        atomic_fetch_sub(&left, 1);
        return false;
    }
    if (atomic_fetch_sub(&row, 1) == 1)
        atomic_store(&left, -1);
    atomic_fetch_add(&refused, 1);
    return true;
}

#include "refusing.h"

static void refuse(bool thread, long which, long count)
{
    atomic_store(&refused, 0);
    atomic_store(&row, count);
    atomic_store(&of_thread, thread);
    atomic_store(&left, which);
}

static size_t done, reported, enough;
static pami_result_t last;

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    last = result;
    done++;
}

static void on_report(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    bool was;

    (void)context, (void)cookie, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK(header_bytes == sizeof(was));
    memcpy(&was, header, sizeof(was));
    reported++;
    enough += was;
}

/* Allocation number `which` of each task's thread fails; whether any task had so many. */
static bool run(long which, long count)
{
    struct job job = {0};
    pami_send_t send = {.send = {.dispatch = REPORT_ID}, .events = {.remote_fn = on_done}};
    bool was;

    done = reported = enough = 0;
    job_create_client(&job, "ofi_memory");
    refuse(true, which, count);
    job_create_contexts(&job, 1);
    test_dispatch(job.context[0], REPORT_ID, on_report, NULL, test_ordered());
    job_barrier(&job);
    was = atomic_load(&refused) != 0;
    send.send.header.iov_base = &was;
    send.send.header.iov_len = sizeof(was);
    send.send.dest = job_endpoint(&job, 1 - job.task, 0);
    CHECK_OK(PAMI_Send(job.context[0], &send));
    WAIT(&job, done == 1 && reported == 1);
    CHECK(last == PAMI_SUCCESS);
    atomic_store(&left, -1);
    job_barrier(&job);
    job_destroy_contexts(&job);
    CHECK_OK(PAMI_Client_destroy(&job.client));
    return was || enough != 0;
}

/* Whether an allocation has failed. */
static bool create_again(struct job *job)
{
    pami_result_t result;

    while ((result = PAMI_Context_createv(job->client, NULL, 0, job->context, 1)) != PAMI_SUCCESS) {
        CHECK(result == PAMI_ENOMEM && atomic_load(&refused) != 0);
        test_sleep(0.01);
    }
    atomic_store(&left, -1);
    test_dispatch(job->context[0], REPORT_ID, on_report, NULL, test_ordered());
    return atomic_load(&refused) != 0;
}

/* Allocation number `which` fails from here to the return of the context; whether there was one. */
static bool leave_and_return(struct job *job, long which)
{
    test_sleep(0.01); /* the other one's message is under way */
    refuse(false, which, 1);
    CHECK_OK(PAMI_Context_destroyv(job->context, 1));
    test_sleep(0.01);
    return create_again(job);
}

static void send(struct job *job, const bool *was, size_t bytes)
{
    static char data[LARGE];
    pami_send_t send = {.send = {.dispatch = REPORT_ID}, .events = {.remote_fn = on_done}};

    send.send.header.iov_base = (void *)(uintptr_t)was;
    send.send.header.iov_len = sizeof(*was);
    send.send.data.iov_base = data;
    send.send.data.iov_len = bytes;
    send.send.dest = job_endpoint(job, 1 - job->task, 0);
    done = 0;
    last = PAMI_ERROR;
    if (PAMI_Send(job->context[0], &send) == PAMI_SUCCESS)
        WAIT(job, done == 1);
    else
        job_linger(job, 0.001);
}

static void begin(struct job *job)
{
    reported = enough = 0;
    job_start(job, "ofi_memory", 1);
    test_dispatch(job->context[0], REPORT_ID, on_report, NULL, test_ordered());
    job_barrier(job);
}

/* Task 0 leaves while a message to it is under way, and returns. A sender that was late reaches the
 * new context with both of its messages. */
static bool run_leaving(long which)
{
    struct job job;
    bool was = false;

    begin(&job);
    if (job.task == 0) {
        was = leave_and_return(&job, which);
        WAIT(&job, reported != 0); /* else it would take the other one for behind */
    } else {
        send(&job, &was, LARGE);
    }
    do
        send(&job, &was, 0);
    while (last != PAMI_SUCCESS);
    WAIT(&job, reported != 0);
    job_linger(&job, 0.001);
    job_destroy(&job);
    return was || enough != 0;
}

/* Both leave and return; allocation number `which` of task 0 fails when it creates its context, to
 * which the other one's message is under way. */
static bool run_returning(long which)
{
    struct job job;
    bool was = false;

    begin(&job);
    CHECK_OK(PAMI_Context_destroyv(job.context, 1));
    refuse(false, job.task == 0 ? which : -1, 1);
    if (job.task == 0)
        test_sleep(0.01);
    was = create_again(&job);
    if (job.task == 1) {
        send(&job, &was, 0);
        CHECK(last == PAMI_SUCCESS);
    }
    WAIT(&job, reported == 1);
    if (job.task == 0) {
        send(&job, &was, 0);
        CHECK(last == PAMI_SUCCESS);
    }
    job_linger(&job, 0.001);
    job_destroy(&job);
    return was || enough != 0;
}

/* Allocation number `which` of task 0 fails while messages come, and three behind it: neither can
 * they be taken, nor kept for later. */
static bool run_receiving(long which)
{
    struct job job;
    bool was = false;

    begin(&job);
    if (job.task == 0) {
        refuse(false, which, 4);
        WAIT(&job, reported == 3);
        atomic_store(&left, -1);
        was = atomic_load(&refused) != 0;
        send(&job, &was, 0);
        CHECK(last == PAMI_SUCCESS);
    } else {
        for (size_t bytes = 0; bytes <= LARGE; bytes += LARGE / 2) {
            send(&job, &was, bytes);
            CHECK(last == PAMI_SUCCESS);
        }
        WAIT(&job, reported == 1);
    }
    job_finish(&job);
    return was || enough != 0;
}

int main(void)
{
    static const long rows[ROWS] = {1, 4};

    need_refusing();
    for (size_t i = 0; i < ROWS; i++)
        for (long which = 0; run(which, rows[i]); which++)
            CHECK(which < MOST);
    for (long which = 0; run_leaving(which); which++)
        CHECK(which < MOST);
    for (long which = 0; run_returning(which); which++)
        CHECK(which < MOST);
    for (long which = 0; run_receiving(which); which++)
        CHECK(which < MOST);
    return 0;
}
