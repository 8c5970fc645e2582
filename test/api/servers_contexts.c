/*
 * Contexts are destroyed and created again while the task stays attached to server processes: each
 * new one has what the first had, and what the one before it had under way, whole requests, pieces
 * and fences, neither ends in it nor stays behind. What a dispatch id is registered with is each
 * context's own: a header may be long although it was not in the life before.
 *
 * Run: tasks=1 servers=1
 * Run: tasks=1 servers=2
 */
#include "servers.h"

enum {
    MESSAGE_ID = 7,
    HEADER = 5000, /* longer than it may be without long headers */
    LIVES = 6,
    COUNT = 12, /* requests of each kind in a life */
    BYTES = 6000,
    SPLIT = 1000
};

static struct job job;
static pamix_servers_t servers;
static size_t life, ended, begun, waited, received;
static unsigned char *heap; /* what is put, where it goes, what comes back */

static unsigned char *place(unsigned char *base, size_t kind, size_t i)
{
    return base + (kind * COUNT + i) * BYTES;
}

/* The cookie says which life the request is of. */
static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    CHECK_SIZE((size_t)(uintptr_t)cookie, life);
    ended++;
}

static void on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    on_end(context, cookie, result);
}

static pami_rma_t head(void)
{
    return (pami_rma_t){.dest = job_endpoint(&job, job.task, 0),
                        .bytes = BYTES,
                        .cookie = (void *)(uintptr_t)life,
                        .done_fn = on_end};
}

static void put(size_t i)
{
    pami_put_simple_t put = {.rma = head(), .addr = {place(heap, 0, i), place(heap, 1, i)}};

    SERVERS_REQUEST(job_advance(&job), PAMIX_Servers_put(servers, job.context[0], &put, 0));
    begun++;
}

static void get(size_t i)
{
    pami_get_simple_t get = {.rma = head(), .addr = {place(heap, 2, i), place(heap, 1, i)}};

    SERVERS_REQUEST(job_advance(&job), PAMIX_Servers_get(servers, job.context[0], &get, 0));
    begun++;
}

static void fence(void)
{
    SERVERS_REQUEST(job_advance(&job), PAMIX_Servers_fence(servers, job.context[0], on_fence,
                                                           (void *)(uintptr_t)life));
    begun++;
}

static void on_message(pami_context_t context, void *cookie, const void *header, size_t bytes,
                       const void *data, size_t data_bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)data, (void)origin;
    CHECK(data_bytes == 0);
    CHECK_SIZE(bytes, received == 0 ? 1 : HEADER);
    received++;
    if (recv != NULL)
        memset(recv, 0, sizeof *recv);
}

static void send(size_t bytes)
{
    static const char header[HEADER];
    pami_send_t message = {
        .send = test_message(job_endpoint(&job, job.task, 0), MESSAGE_ID, header, bytes, NULL, 0),
        .events = {.cookie = (void *)(uintptr_t)life, .local_fn = on_end},
    };

    SERVERS_REQUEST(job_advance(&job),
                    PAMIX_Servers_send(servers, job.context[0], &message, PAMIX_SERVERS_ORDERED));
    begun++;
}

/* A long one where the id allows it. */
static void messages(void)
{
    pami_dispatch_hint_t hints = test_ordered();
    bool longer = life % 2 != 0;

    hints.long_header = longer ? PAMI_HINT_ENABLE : PAMI_HINT_DISABLE;
    test_dispatch(job.context[0], MESSAGE_ID, on_message, NULL, hints);
    received = 0;
    send(1);
    if (longer)
        send(HEADER);
    WAIT(&job, ended == begun && received == 1u + longer);
}

/* Half of the time the context goes while requests are under way. */
static void live(void)
{
    ended = begun = 0;
    messages();
    test_fill(heap, COUNT * BYTES, life, job.task);
    memset(place(heap, 2, 0), 0, COUNT * BYTES);
    for (size_t i = 0; i < COUNT; i++)
        put(i);
    fence();
    WAIT(&job, ended == begun);
    for (size_t i = 0; i < COUNT; i++)
        get(i);
    WAIT(&job, ended == begun);
    CHECK_SIZE(test_differs(place(heap, 2, 0), COUNT * BYTES, life, job.task), COUNT * BYTES);
    if (life % 2 == 0)
        return;
    for (size_t i = 0; i < COUNT; i++)
        get(i);
    fence();
    waited += begun - ended;
}

int main(void)
{
    pamix_servers_policy_t policy;
    pamix_servers_status_t status;

    job_create_client(&job, "servers_contexts");
    heap = servers_memory(&job, 3 * COUNT * BYTES);
    servers = servers_make(&job, 0, 0, NULL);
    policy = servers_policy(servers);
    policy.split = SPLIT;
    policy.active = 1;
    servers_start(servers, &policy);
    for (life = 0; life < LIVES; life++) {
        job_create_contexts(&job, 1);
        live();
        job_destroy_contexts(&job);
    }
    CHECK(waited > 0);
    job_create_contexts(&job, 1);
    live();
    status = servers_status(servers);
    CHECK(status.running && status.lost == 0 && status.failed == 0 && status.forwarded > 0);
    servers_end(&job, &servers);
    CHECK_OK(PAMIX_Mem_free(job.client, heap));
    job_destroy(&job);
    return 0;
}
