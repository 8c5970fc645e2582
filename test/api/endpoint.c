/*
 * Endpoints: pure arithmetic, before and after contexts exist; offset 0 is the task's number.
 *
 * Run:
 * Run: tasks=1,2,8
 * Run: tasks=4 nodes=2
 * Run: tasks=2 env="PAMI_NUM_CONTEXTS=64"
 */
#include "api_test.h"

enum {
    ID = 1
};

static size_t received;
static bool wrong;

static void on_endpoints(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *data, size_t bytes,
                         pami_endpoint_t origin, pami_recv_t *recv)
{
    const pami_endpoint_t *mine = cookie;

    (void)context, (void)data, (void)origin, (void)recv, (void)bytes;
    wrong = wrong || memcmp(mine, header, header_bytes) != 0;
    received++;
}

static void round_trips(struct job *job, size_t limit)
{
    pami_endpoint_t endpoint, seen[64 * TEST_CONTEXTS_MAX];
    pami_task_t task;
    size_t i, count = 0, offset, got;
    pami_task_t asked;

    for (asked = 0; asked < job->tasks; asked++) {
        for (got = 0; got < limit; got++) {
            endpoint = PAMI_ENDPOINT_NULL;
            CHECK_OK(PAMI_Endpoint_create(job->client, asked, got, &endpoint));
            CHECK(endpoint != PAMI_ENDPOINT_NULL && (int32_t)endpoint >= 0);
            CHECK(got != 0 || endpoint == asked);
            CHECK_OK(PAMI_Endpoint_query(endpoint, &task, &offset));
            CHECK(task == asked && offset == got);
            for (i = 0; i < count; i++)
                CHECK(seen[i] != endpoint);
            seen[count++] = endpoint;
        }
    }
}

static void refused(struct job *job, size_t limit)
{
    pami_endpoint_t endpoint = 123;
    pami_task_t task = 0;
    size_t offset = 0;
    pami_task_t tasks = (pami_task_t)job->tasks;

    CHECK_REFUSED(PAMI_Endpoint_create(job->client, tasks, 0, &endpoint), PAMI_INVAL, "task");
    CHECK_REFUSED(PAMI_Endpoint_create(job->client, (pami_task_t)-1, 0, &endpoint), PAMI_INVAL,
                  "task");
    CHECK_REFUSED(PAMI_Endpoint_create(job->client, 0, limit, &endpoint), PAMI_INVAL, "offset");
    CHECK_REFUSED(PAMI_Endpoint_create(job->client, 0, (size_t)-1, &endpoint), PAMI_INVAL,
                  "offset");
    CHECK_REFUSED(PAMI_Endpoint_create(job->client, 0, (size_t)1 << 32, &endpoint), PAMI_INVAL,
                  "offset");
    CHECK_REFUSED(PAMI_Endpoint_create(job->client, 0, 0, NULL), PAMI_INVAL, "endpoint");
    CHECK_REFUSED(PAMI_Endpoint_create(PAMI_CLIENT_NULL, 0, 0, &endpoint), PAMI_INVAL, "client");
    CHECK(endpoint == 123);
    CHECK_REFUSED(PAMI_Endpoint_query(0, NULL, &offset), PAMI_INVAL, "task");
    CHECK_REFUSED(PAMI_Endpoint_query(0, &task, NULL), PAMI_INVAL, "offset");
}

int main(void)
{
    struct job job;
    size_t i, limit, count;
    pami_endpoint_t mine[64];

    job_create_client(&job, "endpoint");
    limit = client_attribute(job.client, PAMI_CLIENT_NUM_CONTEXTS);
    round_trips(&job, limit);
    refused(&job, limit);

    job_create_contexts(&job, 2);
    round_trips(&job, limit);
    refused(&job, limit);

    /* The same on every task. */
    count = limit < 64 ? limit : 64;
    for (i = 0; i < count; i++)
        mine[i] = job_endpoint(&job, i % job.tasks, i);
    test_dispatch(job.context[0], ID, on_endpoints, mine, test_ordered());
    for (i = 0; i < job.tasks; i++) /* a plain task number is an endpoint of context 0 */
        test_send_immediate(job.context[0], (pami_endpoint_t)i, ID, mine, count * sizeof mine[0],
                            NULL, 0);
    WAIT(&job, received == job.tasks);
    CHECK(!wrong);
    job_finish(&job);
    return 0;
}
