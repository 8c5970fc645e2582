/*
 * Server processes are killed: stopped with requests in their hands, under load, and one after the
 * other until none is left. Every callback runs once; gets succeed and bring the right bytes; puts
 * and messages succeed or say that it is not known; fences end, and say it too; the job goes on
 * without servers.
 *
 * Run: tasks=1,2 servers=2 timeout=120
 * Run: tasks=4 nodes=2 servers=2 timeout=120
 */
#define TEST_LIMIT 60
#include "api/servers.h"
#include "server_pids.h"

enum {
    MESSAGE_ID = 7,
    COUNT = 24, /* of each kind, at a time */
    BYTES = 3000
};

struct expect {
    unsigned ended;
    pami_result_t result;
};

static struct job job;
static pamix_servers_t servers;
static unsigned char *window, **windows; /* of all tasks: what others get, and put to */
static unsigned char *area;              /* my own, in the shared heap */
static struct expect puts_[COUNT], gets_[COUNT], sends_[COUNT];
static size_t received, begun, errors;
static struct server_pids pids;

static void on_message(pami_context_t context, void *cookie, const void *head, size_t head_bytes,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)data, (void)origin;
    CHECK(head_bytes == 4 && memcmp(head, "head", 4) == 0 && bytes == BYTES);
    received++;
    if (recv == NULL)
        return;
    memset(recv, 0, sizeof *recv);
    recv->type = PAMI_TYPE_BYTE;
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    struct expect *expect = cookie;

    CHECK(context == job.context[0] && expect->ended == 0);
    CHECK(result == PAMI_SUCCESS || result == PAMI_ERROR);
    expect->ended++;
    expect->result = result;
}

static unsigned char *piece(unsigned char *from, size_t kind, size_t i)
{
    return from + (kind * COUNT + i) * BYTES;
}

/* To, and from, the next task. */
static void issue(void)
{
    size_t peer = (job.task + 1) % job.tasks;
    pami_endpoint_t dest = job_endpoint(&job, peer, 0);

    memset(piece(area, 1, 0), 0, COUNT * BYTES);
    for (size_t i = 0; i < COUNT; i++) {
        pami_put_simple_t put = {
            .rma = {.dest = dest, .bytes = BYTES, .cookie = &puts_[i]},
            .addr = {piece(area, 0, i), piece(windows[peer], 0, i)},
            .put = {on_end},
        };
        pami_get_simple_t get = {
            .rma = {.dest = dest, .bytes = BYTES, .cookie = &gets_[i], .done_fn = on_end},
            .addr = {piece(area, 1, i), piece(windows[peer], 1, i)},
        };
        pami_send_t message = {
            .send = test_message(dest, MESSAGE_ID, "head", 4, piece(area, 0, i), BYTES),
            .events = {.cookie = &sends_[i], .local_fn = on_end},
        };

        puts_[i] = gets_[i] = sends_[i] = (struct expect){0, PAMI_SUCCESS};
        SERVERS_REQUEST(job_advance(&job), PAMIX_Servers_put(servers, job.context[0], &put, 0));
        SERVERS_REQUEST(job_advance(&job), PAMIX_Servers_get(servers, job.context[0], &get, 0));
        SERVERS_REQUEST(job_advance(&job),
                        PAMIX_Servers_send(servers, job.context[0], &message,
                                           i % 2 == 0 ? PAMIX_SERVERS_ORDERED : 0));
        begun++;
    }
}

static bool all_ended(void)
{
    for (size_t i = 0; i < COUNT; i++)
        if (puts_[i].ended == 0 || gets_[i].ended == 0 || sends_[i].ended == 0)
            return false;
    return true;
}

/* Waits for what was issued and for a fence; all but gets may have failed if `deaths`. */
static void settle(bool deaths)
{
    size_t peer = (job.task + 1) % job.tasks, lost = 0;
    struct expect fence = {0, PAMI_SUCCESS};

    SERVERS_REQUEST(job_advance(&job),
                    PAMIX_Servers_fence(servers, job.context[0], on_end, &fence));
    WAIT(&job, fence.ended != 0);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(gets_[i].ended == 1);
    WAIT(&job, all_ended());
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(gets_[i].result == PAMI_SUCCESS);
        CHECK(test_differs(piece(area, 1, i), BYTES, peer, i) == BYTES);
        CHECK(deaths || puts_[i].result == PAMI_SUCCESS);
        CHECK(deaths || sends_[i].result == PAMI_SUCCESS);
        lost += (puts_[i].result != PAMI_SUCCESS) + (sends_[i].result != PAMI_SUCCESS);
    }
    CHECK_RESULT(fence.result, lost != 0 ? PAMI_ERROR : PAMI_SUCCESS);
    errors += lost;
}

int main(void)
{
    size_t bytes = 2 * COUNT * BYTES;

    job_start(&job, "servers", 1);
    rma_open(&job);
    test_dispatch(job.context[0], MESSAGE_ID, on_message, NULL, test_ordered());
    server_pids_find(&pids);
    CHECK(pids.count >= 2);
    area = servers_memory(&job, bytes);
    window = test_zalloc(bytes);
    windows = test_alloc(job.tasks * sizeof *windows);
    for (size_t i = 0; i < COUNT; i++)
        test_fill(piece(window, 1, i), BYTES, job.task, i);
    rma_share(&job, &window, sizeof window, windows);
    servers = servers_make(&job, 0, 0, NULL);
    CHECK_OK(PAMIX_Servers_start(servers));
    issue();
    settle(false);

    /* What all have in their hands is lost with one of them. */
    server_pids_signal(&job, &pids, 0, pids.count, SIGSTOP);
    issue();
    server_pids_signal(&job, &pids, 0, pids.count / 2, SIGKILL);
    server_pids_signal(&job, &pids, pids.count / 2, pids.count - pids.count / 2, SIGCONT);
    settle(true);
    job_barrier(&job);
    issue();
    settle(true);

    /* The others under load, while it is not known who has what. */
    issue();
    server_pids_signal(&job, &pids, pids.count / 2, pids.count - pids.count / 2, SIGKILL);
    settle(true);
    WAIT_WITH(({
                  issue();
                  settle(true);
              }),
              servers_status(servers).lost == 2);
    job_barrier(&job);
    issue();
    settle(false);
    CHECK(job.tasks > 1 || (errors > 0 && received + errors >= begun));
    servers_end(&job, &servers);
    CHECK_OK(PAMIX_Mem_free(job.client, area));
    rma_close(&job);
    free(window), free(windows);
    return 0;
}
