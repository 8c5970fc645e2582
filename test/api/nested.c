/*
 * Callbacks that start the next operation: chains through local_fn, remote_fn, dispatch and receive
 * completion, also when each completes at once. The stack does not grow with the length of the
 * chain, and queries, posts and registrations work inside callbacks.
 *
 * Run: tasks=1,2
 * Run: tasks=2 nodes=2
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0"
 */
#include "api_test.h"

enum {
    ID = 1,
    CHAIN = 20000,
    STACK = 64 << 10, /* bytes that callbacks may be apart */
    BYTES = 2000
};

enum link { /* what starts the next message */
    BY_LOCAL,
    BY_REMOTE,
    BY_DISPATCH,
    BY_LANDING,
    LINKS
};

static struct job job;
static enum link link_now;
static size_t left, bytes_now, landed, sent, completed;
static uintptr_t lowest, highest;
static unsigned char source[BYTES], target[BYTES];

static void watch_stack(void)
{
    char here;
    uintptr_t address = (uintptr_t)&here;

    CHECK_CALLBACK();
    lowest = address < lowest ? address : lowest;
    highest = address > highest ? address : highest;
    CHECK(highest - lowest < STACK);
}

static void next(void);

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    watch_stack();
    if (link_now == BY_LOCAL)
        next();
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    watch_stack();
    completed++;
    if (link_now == BY_REMOTE)
        next();
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    watch_stack();
    landed++;
    if (link_now == BY_LANDING)
        next();
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin;
    watch_stack();
    if (recv != NULL) {
        recv->addr = target;
        recv->local_fn = on_landed;
    } else {
        landed++;
    }
    if (link_now == BY_DISPATCH)
        next();
}

static void next(void)
{
    pami_send_event_t events = {NULL, on_local, on_remote};

    if (left == 0)
        return;
    left--;
    sent++;
    test_send(job.context[0], job_endpoint(&job, job.task, 0), ID, NULL, 0, source, bytes_now,
              events);
}

static void chain(enum link link, size_t bytes, size_t length)
{
    link_now = link;
    bytes_now = bytes;
    left = length;
    landed = completed = sent = 0;
    lowest = (uintptr_t)-1;
    highest = 0;
    next();
    WAIT(&job, landed == length && completed == length && sent == length);
}

/* Work that posts work, for as long as it likes. */
static pami_result_t on_work(pami_context_t context, void *cookie)
{
    watch_stack();
    if (left == 0)
        return PAMI_SUCCESS;
    left--;
    CHECK_OK(PAMI_Context_post(context, cookie, on_work, cookie));
    return PAMI_SUCCESS;
}

static void on_anything(pami_context_t context, void *cookie, const void *header,
                        size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                        pami_recv_t *recv)
{
    pami_configuration_t query = {.name = PAMI_CONTEXT_DISPATCH_ID_MAX};
    pami_type_t type;

    (void)header, (void)header_bytes, (void)data, (void)bytes, (void)recv;
    CHECK_OK(PAMI_Context_query(context, &query, 1));
    CHECK(client_attribute(job.client, PAMI_CLIENT_TASK_ID) == job.task);
    CHECK(dispatch_attribute(context, ID, PAMI_DISPATCH_SEND_IMMEDIATE_MAX) >= 256);
    CHECK(test_origin(origin) == job.task && PAMI_Wtime(job.client) > 0);
    test_dispatch(context, ID + 2, on_message, NULL, test_ordered());
    CHECK_OK(PAMI_Type_create(&type));
    CHECK_OK(PAMI_Type_add_simple(type, 8, 0, 4, 16));
    CHECK_OK(PAMI_Type_complete(type, 8));
    CHECK_OK(PAMI_Type_destroy(&type));
    *(bool *)cookie = true;
}

int main(void)
{
    static const size_t sizes[] = {0, 100, BYTES};
    pami_work_t work;
    bool seen = false;
    enum link link;
    size_t i;

    job_start(&job, "nested", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[0], ID + 1, on_anything, &seen, test_ordered());
    for (link = BY_LOCAL; link < LINKS; link++)
        for (i = 0; i < 3; i++)
            if (link != BY_LANDING || sizes[i] > 512) /* else there is none */
                chain(link, sizes[i], CHAIN);
    left = CHAIN;
    CHECK_OK(PAMI_Context_post(job.context[0], &work, on_work, &work));
    WAIT(&job, left == 0);
    test_send_immediate(job.context[0], job_endpoint(&job, job.task, 0), ID + 1, NULL, 0, NULL, 0);
    WAIT(&job, seen);
    job_finish(&job);
    return 0;
}
