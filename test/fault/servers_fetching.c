/*
 * Server processes are killed while they fetch the data of large messages: when all are stopped and
 * hold whole fetches, or pieces of them, and then one after the other at any moment, until none is
 * left. The receiver takes over what they had: every message arrives, complete and once, and its
 * sender hears of it.
 *
 * Run: tasks=2,3 servers=3 env="PAMI_SERVERS_FETCH=on PAMI_YIELD=always" timeout=120
 * Run: tasks=4 nodes=2 servers=2 env="PAMI_SERVERS_FETCH=on PAMI_YIELD=always" timeout=120
 */
#define TEST_LIMIT 60
#include "api/servers.h"
#include "server_pids.h"

enum {
    MESSAGE_ID = 7,
    COUNT = 6, /* messages of a round */
    BYTES = 400000,
    SMALL = 100001, /* of every other message; fetched in one piece */
    SPLIT = 100000
};

static struct job job;
static pamix_servers_t servers;
static struct server_pids pids;
static unsigned char *outgoing, *landing; /* the latter in the shared heap */
static size_t round_, begun, landed, sent, fetched;
static bool fetches; /* servers do: there is single copy from the task before */

static size_t bytes_of(size_t i)
{
    return i % 2 == 0 ? BYTES : SMALL;
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    size_t i = (size_t)(uintptr_t)cookie, from = (job.task + job.tasks - 1) % job.tasks;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    CHECK_SIZE(test_differs(landing + i * BYTES, bytes_of(i), from, round_ * COUNT + i),
               bytes_of(i));
    landed++;
}

static void on_message(pami_context_t context, void *cookie, const void *head, size_t head_bytes,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    size_t i;

    (void)context, (void)cookie, (void)data, (void)origin;
    CHECK(head_bytes == sizeof i && recv != NULL);
    memcpy(&i, head, sizeof i);
    CHECK(i < COUNT && bytes == bytes_of(i));
    memset(recv, 0, sizeof *recv);
    recv->type = PAMI_TYPE_BYTE;
    recv->addr = landing + i * BYTES;
    recv->local_fn = on_landed;
    recv->cookie = (void *)(uintptr_t)i;
    begun++;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)cookie;
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    sent++;
}

static void send_all(void)
{
    pami_endpoint_t dest = job_endpoint(&job, (job.task + 1) % job.tasks, 0);

    memset(landing, 0, COUNT * BYTES);
    for (size_t i = 0; i < COUNT; i++)
        test_fill(outgoing + i * BYTES, bytes_of(i), job.task, round_ * COUNT + i);
    job_barrier(&job);
    for (size_t i = 0; i < COUNT; i++) {
        pami_send_t call = {
            .send = test_message(dest, MESSAGE_ID, &i, sizeof i, outgoing + i * BYTES, bytes_of(i)),
            .events = {.remote_fn = on_sent},
        };

        CHECK_OK(TEST_CALL(PAMI_Send(job.context[0], &call)));
    }
}

static void settle(void)
{
    size_t all = (round_ + 1) * COUNT;

    WAIT(&job, landed == all && sent == all);
    job_barrier(&job);
    CHECK(landed == all && sent == all);
    fetched = servers_status(servers).gets;
    round_++;
}

/* Fetches are in the hands of servers that do nothing, and one is killed. */
static void kill_stopped(void)
{
    server_pids_signal(&job, &pids, 0, pids.count, SIGSTOP);
    send_all();
    WAIT(&job, begun == (round_ + 1) * COUNT);
    CHECK(!fetches || servers_status(servers).gets > fetched);
    server_pids_signal(&job, &pids, 0, 1, SIGKILL);
    server_pids_signal(&job, &pids, 1, pids.count - 1, SIGCONT);
    settle();
}

static void kill_busy(size_t victim)
{
    send_all();
    WAIT(&job, begun > round_ * COUNT + victim % COUNT);
    if (job.task == 0)
        CHECK(kill(pids.pid[victim], SIGKILL) == 0);
    settle();
}

/* Fetches by processes want a context that has made a request; and whoever has heard of a server
 * learns of its death. */
static void first_requests(void)
{
    for (size_t i = 0; i < pids.count; i++) {
        struct rma op = {.expect = RMA_GOOD};
        pami_get_simple_t get = {
            .rma = rma_head(&op, false, job.context[0], job_endpoint(&job, job.task, 0), 8),
            .addr = {landing, outgoing},
        };

        SERVERS_REQUEST(job_advance(&job), PAMIX_Servers_get(servers, job.context[0], &get, 0));
        WAIT(&job, rma_has_ended(&op));
    }
}

int main(void)
{
    pamix_servers_policy_t policy;

    job_start(&job, "servers_fetching", 1);
    test_dispatch(job.context[0], MESSAGE_ID, on_message, NULL, test_ordered());
    server_pids_find(&pids);
    CHECK(pids.count >= 2);
    landing = servers_memory(&job, COUNT * BYTES);
    outgoing = test_alloc(COUNT * BYTES);
    servers = servers_make(&job, 0, 0, NULL);
    policy = servers_policy(servers);
    policy.split = SPLIT;
    policy.batch = 1;
    servers_start(servers, &policy);
    first_requests();
    send_all();
    settle();
    fetches = fetched > pids.count;
    if (!fetches)
        printf("# task %zu: servers fetch nothing\n", job.task);
    kill_stopped();
    for (size_t victim = 1; victim < pids.count; victim++)
        kill_busy(victim);
    WAIT(&job, servers_status(servers).lost == servers_status(servers).servers);
    send_all();
    settle();
    servers_end(&job, &servers);
    CHECK_OK(PAMIX_Mem_free(job.client, landing));
    job_finish(&job);
    free(outgoing);
    return 0;
}
