/*
 * Immediate messages, and short transfers in the shared heap, through servers that learn: the
 * context carries each of them and none is lost, at once and for ever after. A change of the policy
 * is heard by the next call, as are start and stop; what is to stay in order goes to a server all
 * the same. Servers that have a place of their own would be tried at any time.
 *
 * Run: tasks=1,2
 * Run: tasks=1,2 env="PAMI_ASYNC_CPUS=0"
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8"
 * Run: tasks=2 servers=1 args="0"
 */
#include "servers.h"

enum {
    MAIN,
    SERVING,
    CONTEXTS,
    MESSAGE_ID = 7,
    MESSAGES = 20000,
    TRANSFERS = 20000,
    BYTES = 512
};

static struct job job;
static pamix_servers_t servers;
static pami_endpoint_t next;
static size_t heard, ended;
static unsigned char *local, *back, *window, **windows;

static void on_message(pami_context_t context, void *cookie, const void *head, size_t head_bytes,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)head, (void)origin;
    CHECK_CALLBACK();
    CHECK(head_bytes == 0 && bytes == sizeof heard && recv == NULL);
    CHECK(memcmp(data, "eight b", bytes) == 0);
    heard++;
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)cookie;
    CHECK_CALLBACK();
    CHECK(context == job.context[MAIN] && result == PAMI_SUCCESS);
    ended++;
}

static void send(unsigned flags)
{
    pami_send_immediate_t message =
        test_message(next, MESSAGE_ID, NULL, 0, "eight b", sizeof heard);

    SERVERS_REQUEST(job_advance(&job),
                    PAMIX_Servers_send_immediate(servers, job.context[MAIN], &message, flags));
}

/* In turn, of all sizes that are short. */
static void move(size_t i)
{
    pami_rma_t rma = {.dest = next, .bytes = 1 + i % BYTES, .done_fn = on_end};
    void *remote = windows[(job.task + 1) % job.tasks];
    pami_put_simple_t put = {.rma = rma, .addr = {local, remote}};
    pami_get_simple_t get = {.rma = rma, .addr = {back, remote}};

    if (i % 2 == 0)
        CHECK_OK(TEST_CALL(PAMIX_Servers_put(servers, job.context[MAIN], &put, 0)));
    else
        CHECK_OK(TEST_CALL(PAMIX_Servers_get(servers, job.context[MAIN], &get, 0)));
}

/* So many have gone to servers. */
static void check(size_t forwarded)
{
    CHECK_SIZE(servers_status(servers).forwarded, forwarded);
}

static void messages_by_context(void)
{
    for (size_t i = 1; i <= MESSAGES; i++) {
        send(0);
        if (i % 64 == 0)
            WAIT(&job, heard >= i);
    }
    WAIT(&job, heard == MESSAGES);
    check(0);
}

static void transfers_by_context(void)
{
    test_fill(local, BYTES, job.task, 0);
    for (size_t i = 1; i <= TRANSFERS; i++) {
        move(i - 1);
        if (i % 64 == 0)
            WAIT(&job, ended == i);
    }
    WAIT(&job, ended == TRANSFERS);
    CHECK_SIZE(test_differs(back, BYTES - 1, job.task, 0), BYTES - 1); /* puts are of odd sizes */
    check(0);
    job_barrier(&job);
    CHECK_SIZE(test_differs(window, BYTES - 1, (job.task + job.tasks - 1) % job.tasks, 0),
               BYTES - 1);
}

static void changes(pamix_servers_policy_t policy)
{
    bool stopped = false;

    send(PAMIX_SERVERS_ORDERED);
    check(1);
    policy.learn = 0;
    CHECK_OK(PAMIX_Servers_set_policy(servers, &policy));
    send(0);
    check(2);
    policy.learn = 1;
    CHECK_OK(PAMIX_Servers_set_policy(servers, &policy));
    send(0);
    send(0);
    check(2);
    CHECK_OK(TEST_CALL(PAMIX_Servers_stop(servers, job.context[MAIN], rma_on_fence, &stopped)));
    WAIT(&job, stopped);
    send(0);
    send(0);
    send(PAMIX_SERVERS_ORDERED);
    check(2);
    policy.learn = 0;
    CHECK_OK(PAMIX_Servers_set_policy(servers, &policy));
    send(0);
    send(0);
    check(2);
    CHECK_OK(PAMIX_Servers_start(servers));
    send(0);
    check(3);
    WAIT(&job, heard == MESSAGES + 10);
}

int main(int argc, char **argv)
{
    pamix_servers_policy_t policy;

    job_start(&job, "servers short", CONTEXTS);
    rma_open(&job);
    job.driven = 1;
    for (size_t i = 0; i < CONTEXTS; i++)
        test_dispatch(job.context[i], MESSAGE_ID, on_message, NULL, (pami_dispatch_hint_t){0});
    next = job_endpoint(&job, (job.task + 1) % job.tasks, MAIN);
    window = servers_memory(&job, BYTES);
    local = servers_memory(&job, BYTES), back = servers_memory(&job, BYTES);
    windows = test_alloc(job.tasks * sizeof *windows);
    rma_share(&job, &window, sizeof window, windows);
    servers = servers_make(&job, SERVING, argc > 1 ? strtoul(argv[1], NULL, 10) : 1, NULL);
    policy = servers_policy(servers);
    policy.learn = 1;
    servers_start(servers, &policy);
    job_barrier(&job);
    messages_by_context();
    if (job.tasks > 1) /* there is no short cut to a task's own memory */
        transfers_by_context();
    changes(policy);
    servers_end(&job, &servers);
    rma_close(&job);
    free(windows);
    return 0;
}
