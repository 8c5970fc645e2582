/*
 * Ways to leave without saying good-bye. The job ends with status 0 and without delay; what a task
 * had accepted to send still arrives after exit; what it has received is acknowledged.
 *
 *   exit        every task exits, nothing destroyed, nothing pending
 *   heap        the same, with memory of the shared heap in use
 *   _exit       every task leaves with operations pending
 *   threads     exit while other threads are inside advance
 *   asleep      exit while another thread sleeps in PAMIX_Context_wait: what it sent arrives
 *   asleep_     the same with asynchronous progress
 *   handler_    the same by a signal handler of the thread that sleeps
 *   received    a task leaves as soon as it has received: its peer still gets remote_fn
 *   received_   the same with _exit
 *   destroyed   the same with Client_destroy and exit
 *   fetching    a task leaves while its communication server is to fetch what it receives
 *   sent        a task sends and exits at once: the messages arrive
 *   first       the same with messages that are the first ones to their destination
 *   one         one task leaves early, the others go on
 *   relay       each task sends messages on from the callback in which the last of them has come,
 *               and exits there
 *   inside      a task exits in the callback of what it has received: its peer gets remote_fn
 *
 * Run: tasks=1,2,5 args="exit"
 * Run: tasks=1,2 args="heap"
 * Run: tasks=1,2,5 args="_exit"
 * Run: tasks=1,3 args="threads"
 * Run: tasks=2 args="asleep"
 * Run: tasks=2 nodes=1,2 args="asleep_"
 * Run: tasks=2 args="handler_" env="TSAN_OPTIONS=report_signal_unsafe=0"
 * Run: tasks=2,3,4 args="received"
 * Run: tasks=2,4 args="received_"
 * Run: tasks=2,4 args="destroyed"
 * Run: tasks=4 nodes=2 args="received"
 * Run: tasks=2 args="received" env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 args="received_" env="PAMI_RNDV_BYTES=0"
 * Run: tasks=2 args="fetching" env="PAMI_SERVERS_FETCH=on"
 * Run: tasks=2,4 args="sent"
 * Run: tasks=2 args="sent" env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=4 nodes=2 args="sent"
 * Run: tasks=2,4 nodes=1,2 args="first"
 * Run: tasks=2,5 args="one"
 * Run: tasks=4 nodes=2 args="one"
 * Run: tasks=1,3 args="relay"
 * Run: tasks=3 args="relay" env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_LANES=0"
 * Run: tasks=3 nodes=3 args="relay"
 * Run: tasks=3 nodes=3 args="relay" env="PAMI_NETWORK=ofi"
 * Run: tasks=2,4 args="inside"
 * Run: tasks=4 nodes=2 args="inside" env="PAMI_NETWORK=ofi"
 */
#include <pami/pamix.h>

#include "api_test.h"

#include <pthread.h>
#include <signal.h>

enum {
    ID = 1,
    READY = 2,
    BYTES = 300000,
    MESSAGES = 50
};

static struct job job;
static unsigned char data[BYTES], sink[BYTES];
static size_t received, acknowledged;
static size_t last_inside; /* the message whose callback ends the process; 0: none does */
static bool peers_vanish, relays, next_ready, begun;

static const size_t sizes[] = {0, 400, 5000, 30000, BYTES};

enum {
    SIZES = sizeof(sizes) / sizeof(sizes[0])
};

static void send_some(size_t task, size_t bytes);

static void on_received(void)
{
    size_t i;

    if (++received != last_inside)
        return;
    for (i = 0; relays && job.task + 1 < job.tasks && i < MESSAGES; i++)
        send_some(job.task + 1, sizes[i % SIZES]);
    exit(0);
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS || peers_vanish);
    on_received();
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *pipe, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin;
    if (recv == NULL) {
        on_received();
        return;
    }
    begun = true;
    recv->addr = sink;
    recv->local_fn = on_landed;
}

static void on_ready(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)pipe, (void)bytes, (void)origin, (void)recv;
    next_ready = true;
}

/* From now on the last of so many messages ends the process; the one who sends them may. */
static void be_ready(size_t messages)
{
    last_inside = messages;
    test_send_immediate(job.context[0], job_endpoint(&job, job.task - 1, 0), READY, "r", 1, "", 0);
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS || relays);
    acknowledged++;
}

static void send_some(size_t task, size_t bytes)
{
    pami_send_event_t events = {.remote_fn = on_remote};

    test_send(job.context[0], job_endpoint(&job, task, 0), ID, "h", 1, data, bytes, events);
}

static pami_result_t never_done(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    return PAMI_EAGAIN;
}

/* Everything at once: work, messages to oneself and to the neighbour, none of it finished. */
static void make_pending(void)
{
    static pami_work_t work;
    size_t i;

    CHECK_OK(PAMI_Context_post(job.context[1], &work, never_done, NULL));
    for (i = 0; i < MESSAGES; i++) {
        send_some(job.task, i * 6000);
        send_some((job.task + 1) % job.tasks, i * 6000);
    }
    CHECK_OK(PAMI_Context_lock(job.context[0]));
}

static void *advance_for_ever(void *context)
{
    for (;;)
        PAMI_Context_advance(context, 100);
    return NULL;
}

static void leave_with_threads(void)
{
    pthread_t thread;
    size_t i;

    for (i = 0; i < 2; i++)
        CHECK(pthread_create(&thread, NULL, advance_for_ever, job.context[i]) == 0);
    test_sleep(0.05);
    exit(0);
}

static void *send_and_sleep(void *context)
{
    static const pami_send_event_t nothing; /* callbacks of helpers are off the books */

    CHECK_OK(PAMI_Context_lock(context));
    for (size_t i = 0; i < SIZES; i++)
        test_send(context, job_endpoint(&job, 1, 0), ID, "h", 1, data, sizes[i], nothing);
    CHECK_OK(PAMI_Context_unlock(context));
    __atomic_store_n(&next_ready, true, __ATOMIC_RELEASE);
    for (;;) {
        CHECK(PAMIX_Context_wait(context, 10000000) != PAMI_INVAL);
        test_advance(context, 10);
    }
    return NULL;
}

static void on_signal(int number)
{
    (void)number;
    exit(0);
}

/* The other task does not look until this one has been ending for longer than it waits for threads
 * that do not leave a context. */
static void leave_asleep(const char *how)
{
    pthread_t thread;

    if (job.task != 0) {
        test_sleep(0.6);
        WAIT(&job, received == SIZES);
        exit(0);
    }
    if (strcmp(how, "asleep") != 0)
        CHECK_OK(PAMIX_Context_async_enable(job.context, 1, NULL));
    CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
    CHECK(pthread_create(&thread, NULL, send_and_sleep, job.context[0]) == 0);
    WAIT_WITH(test_sleep(1e-3), __atomic_load_n(&next_ready, __ATOMIC_ACQUIRE));
    test_sleep(0.05);
    if (strcmp(how, "handler_") != 0)
        exit(0);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    for (;;)
        test_sleep(1);
}

/* Odd tasks receive one message and are gone; even ones wait for the acknowledgement. */
static void leave_when_received(const char *how)
{
    size_t i;

    if (job.task % 2 == 0) {
        if (job.task + 1 < job.tasks) {
            WAIT(&job, next_ready || strcmp(how, "inside") != 0);
            for (i = 0; i < SIZES; i++)
                send_some(job.task + 1, sizes[i]);
            WAIT(&job, acknowledged == SIZES);
        }
        _exit(0);
    }
    if (strcmp(how, "inside") == 0)
        be_ready(SIZES);
    WAIT(&job, received == SIZES);
    if (strcmp(how, "received_") == 0)
        _exit(0);
    if (strcmp(how, "destroyed") == 0)
        CHECK_OK(PAMI_Client_destroy(&job.client));
    exit(0);
}

/* The request for the data has just been made. */
static void leave_fetching(void)
{
    pamix_servers_t servers;

    if (job.task == 0) {
        send_some(1, BYTES);
        WAIT(&job, acknowledged == 1);
        exit(0);
    }
    CHECK_OK(PAMIX_Servers_create(&job.context[1], 1, NULL, &servers));
    CHECK_OK(PAMIX_Servers_start(servers));
    WAIT_WITH(test_advance(job.context[0], 1), begun);
    test_advancing++; /* the end of the fetch comes as ever, in exit */
    exit(0);
}

/* Nothing has been advanced since, or ever. Half of the tasks destroy their contexts only. */
static void leave_when_sent(void)
{
    size_t i;

    if (job.task != 0) {
        for (i = 0; i < MESSAGES; i++)
            test_send_immediate(job.context[0], job_endpoint(&job, 0, 0), ID, "h", 1, data, 7000);
        if (job.task % 2 == 0)
            job_destroy_contexts(&job);
        else
            CHECK_OK(PAMI_Client_destroy(&job.client));
        exit(0);
    }
    test_sleep(0.1);
    WAIT(&job, received == (job.tasks - 1) * MESSAGES);
    exit(0);
}

static void relay(void)
{
    size_t i;

    WAIT(&job, next_ready || job.task + 1 == job.tasks);
    if (job.task != 0) {
        be_ready(MESSAGES);
    } else {
        last_inside = MESSAGES;
        for (i = 0; i < MESSAGES; i++)
            send_some(0, sizes[i % SIZES]);
    }
    WAIT(&job, false);
}

/* The last task goes; the rest of the job has more to do. */
static void one_leaves(void)
{
    size_t others = job.tasks - 1, before, i;

    if (job.task == others)
        exit(0);
    test_sleep(0.2);
    for (i = 0; i < MESSAGES; i++) {
        before = acknowledged;
        send_some((job.task + 1) % others, i * 6000);
        WAIT(&job, acknowledged == before + 1);
    }
    WAIT(&job, received == MESSAGES);
    job_linger(&job, 0.1);
    CHECK_OK(PAMI_Client_destroy(&job.client));
    exit(0);
}

static void use_heap(void)
{
    void *block;

    CHECK_OK(PAMIX_Mem_alloc(job.client, 4096, 0, PAMIX_MEM_LOCAL, &block));
    memset(block, 1, 4096);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "exit";

    job_start(&job, "leave", 2);
    peers_vanish = strcmp(how, "_exit") == 0; /* perhaps in the middle of a transfer */
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[0], READY, on_ready, NULL, test_ordered());
    if (strcmp(how, "first") != 0)
        job_barrier(&job);
    if (peers_vanish) {
        make_pending();
        _exit(0);
    }
    if (strcmp(how, "threads") == 0)
        leave_with_threads();
    if (strncmp(how, "asleep", 6) == 0 || strcmp(how, "handler_") == 0)
        leave_asleep(how);
    if (strcmp(how, "fetching") == 0)
        leave_fetching();
    if (strcmp(how, "sent") == 0 || strcmp(how, "first") == 0)
        leave_when_sent();
    if (strcmp(how, "one") == 0)
        one_leaves();
    relays = strcmp(how, "relay") == 0;
    if (relays)
        relay();
    if (strcmp(how, "heap") == 0)
        use_heap();
    else if (strcmp(how, "exit") != 0)
        leave_when_received(how);
    return 0;
}
