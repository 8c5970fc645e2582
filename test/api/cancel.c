/*
 * A thread with a cancellation request against it sends, receives, advances and waits under the
 * context lock, also to and from a context that it has had nothing to do with before, at last where
 * nothing comes for a while; memory of the shared heap that it has used is given back, and a first
 * collective runs. It must not end inside the library, with the lock or something else held, but
 * where it says so itself. With an argument it also starts servers that learn, and uses them, or
 * meets a task that has closed every descriptor that is not its own.
 *
 * Run: tasks=1,2
 * Run: tasks=2 args="servers" env="PAMI_SERVERS_TABLE=/dev/null"
 * Run: tasks=2 args="closed"
 * Run: tasks=2 env="PAMI_COLL_LEVELS=node,package"
 * Run: tasks=3 env="PAMI_YIELD=always"
 * Run: tasks=2 nodes=2
 * Run: tasks=2,3 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off PAMI_SHM_CHUNKS=2"
 */
#include <pthread.h>

#include "coll.h"
#include "servers.h"

enum {
    ID = 1,
    MESSAGES = 200,
    DATA_BYTES = 300000,    /* of the largest message, which a network registers */
    PUT_BYTES = 1000,       /* learning asks whether servers are to move them */
    BLOCK_BYTES = 32 << 20, /* so much is not kept when it is free */
    DESCRIPTORS = 1024
};

static struct job job;
static pamix_servers_t servers;
static size_t received;
static bool met, greeted, survived, serves;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    free(cookie);
    received++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    if (context == job.context[1]) {
        greeted = true;
        return;
    }
    if (recv == NULL) {
        received++;
        return;
    }
    recv->addr = recv->cookie = test_alloc(bytes);
    recv->local_fn = on_landed;
}

static pami_result_t on_work(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    return PAMI_SUCCESS;
}

static void use_heap(void)
{
    void *block;

    CHECK_OK(PAMIX_Mem_alloc(job.client, BLOCK_BYTES, 0, PAMIX_MEM_ANY, &block));
    memset(block, 1, BLOCK_BYTES);
    CHECK_OK(PAMIX_Mem_free(job.client, block));
}

static void start_servers(void)
{
    pamix_servers_policy_t policy;

    servers = servers_make(&job, 2, 1, NULL);
    policy = servers_policy(servers);
    policy.learn = 1;
    servers_start(servers, &policy);
}

static void use_servers(void)
{
    static char from[PUT_BYTES], to[PUT_BYTES];
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, job.task, 0), .bytes = PUT_BYTES},
        .addr = {from, to},
    };

    CHECK_OK(PAMI_Context_lock(job.context[0]));
    CHECK_OK(PAMIX_Servers_put(servers, job.context[0], &put, 0));
    CHECK_OK(PAMI_Context_unlock(job.context[0]));
}

static void on_met(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    met = true;
}

/* The neighbour's second context is new to this one's second. */
static void meet(void)
{
    pami_send_event_t events = {.remote_fn = on_met};

    CHECK_OK(PAMI_Context_lock(job.context[1]));
    test_send(job.context[1], job_endpoint(&job, (job.task + 1) % job.tasks, 1), ID, "h", 1, NULL,
              0, events);
    while (!greeted || !met) {
        PAMIX_Context_wait(job.context[1], 1000);
        test_advance(job.context[1], 1);
        test_advance(job.context[0], 1); /* the barrier before may have left something there */
    }
    CHECK_OK(PAMI_Context_unlock(job.context[1]));
}

/* The first one here, for which the members make memory that they share. */
static void collect(void)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_BARRIER), &told);

    CHECK_OK(PAMI_Context_lock(job.context[0]));
    coll_start(job.context[0], &xfer);
    while (told.count == 0) {
        test_advance(job.context[0], 1);
        test_advance(job.context[1], 1); /* the neighbour may wait for the answer still */
    }
    CHECK(told.result == PAMI_SUCCESS);
    CHECK_OK(PAMI_Context_unlock(job.context[0]));
}

__attribute__((noinline)) static void live(void)
{
    static char data[DATA_BYTES];
    static const size_t sizes[] = {0, 400, 8000, 100000, DATA_BYTES};
    pami_send_event_t none = {0};
    pami_work_t work;
    size_t i;
    double until;

    CHECK(pthread_cancel(pthread_self()) == 0);
    meet();
    use_heap();
    collect();
    if (serves) {
        start_servers();
        use_servers();
    }
    until = test_now() + 0.1;
    for (i = 0; i < MESSAGES || received < MESSAGES || test_now() < until; i++) {
        CHECK_OK(PAMI_Context_post(job.context[0], &work, on_work, NULL));
        CHECK_OK(PAMI_Context_lock(job.context[0]));
        if (i < MESSAGES)
            test_send(job.context[0], job_endpoint(&job, (job.task + 1) % job.tasks, 0), ID, "h", 1,
                      data, sizes[i % 5], none);
        test_advance(job.context[0], 50);
        CHECK_OK(PAMI_Context_unlock(job.context[0]));
        CHECK(test_now() < until + test_limit());
    }
    /* Who waits in vain gives the processor up, and rests after a millisecond. */
    CHECK_OK(PAMI_Context_lock(job.context[0]));
    for (until = test_now() + 0.02; test_now() < until;)
        test_advance(job.context[0], 5000);
    CHECK_OK(PAMI_Context_unlock(job.context[0]));
    survived = true;
}

/* Ends with a small frame: sanitizers do not clean up those that cancellation leaves. */
static void *doomed(void *cookie)
{
    live();
    pthread_testcancel();
    return cookie;
}

/* By the time that the other task has to do with this one. The heap takes its addresses before. */
static void close_descriptors(void)
{
    use_heap();
    if (job.task == 1)
        for (int fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
            close(fd);
    test_sleep(0.3);
}

int main(int argc, char **argv)
{
    const char *more = argc > 1 ? argv[1] : "";
    pthread_t thread;
    void *status;

    job_start(&job, "cancel", 3);
    job.driven = 2;
    for (size_t i = 0; i < 2; i++)
        test_dispatch(job.context[i], ID, on_message, NULL, test_ordered());
    serves = strcmp(more, "servers") == 0;
    if (strcmp(more, "closed") == 0)
        close_descriptors();
    else
        job_barrier(&job);
    CHECK(pthread_create(&thread, NULL, doomed, NULL) == 0);
    CHECK(pthread_join(thread, &status) == 0 && status == PTHREAD_CANCELED);
    if (!survived)
        FAIL("the thread was cancelled inside the library");
    use_heap();
    WAIT(&job, received == MESSAGES);
    if (servers != NULL)
        servers_end(&job, &servers);
    job_finish(&job);
    return 0;
}
