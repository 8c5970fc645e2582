/*
 * Completion of PAMI_Send: which events come, when, and what they allow.
 *
 * After local_fn the sender's data may change, after remote_fn it is in the target's buffer; small
 * data is copied during the call when there is no local_fn; events come once each, for every
 * combination of NULL functions, at every size. The target is another context of the same task, so
 * that both ends can be seen at once, and then the next task.
 *
 * Run: tasks=1,2,3
 * Run: tasks=4 nodes=2
 * Run: tasks=1,2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=1,2 env="PAMI_RNDV_BYTES=0"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0 PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=1G"
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 */
#include "api_test.h"

enum {
    ID = 1,
    COPIED = 512, /* data that PAMI_Send copies when there is no local_fn */
    LARGEST = 2 << 20
};

struct flight {
    unsigned char *data; /* belongs to the library until local_fn */
    size_t bytes;
    bool local, remote;
    size_t landed_before; /* at this task */
};

static struct job job;
static size_t landed, due, destination; /* messages arrived here, and how many must */
static const size_t sizes[] = {0,     1,     8,     64,     256,    511,     512,
                               513,   1000,  4096,  8192,   16384,  32768,   32769,
                               65536, 65537, 99999, 262144, 300001, 1 << 20, LARGEST};

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    unsigned char *block = cookie;
    size_t bytes;

    CHECK_CALLBACK();
    CHECK(context == job.context[1] && result == PAMI_SUCCESS);
    memcpy(&bytes, block, sizeof bytes);
    CHECK_SIZE(test_differs(block + sizeof bytes, bytes, bytes, 0), bytes);
    free(block);
    landed++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[1] && cookie == &landed && header_bytes == 1);
    (void)header, (void)origin;
    if (recv == NULL) {
        CHECK_SIZE(test_differs(data, bytes, bytes, 0), bytes);
        landed++;
        return;
    }
    recv->cookie = test_alloc(sizeof bytes + bytes);
    memcpy(recv->cookie, &bytes, sizeof bytes);
    recv->addr = (unsigned char *)recv->cookie + sizeof bytes;
    recv->local_fn = on_landed;
}

static void on_local(pami_context_t context, void *cookie, pami_result_t result)
{
    struct flight *flight = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    CHECK(!flight->local && !flight->remote);
    flight->local = true;
    memset(flight->data, 0x99, flight->bytes);
}

static void on_remote(pami_context_t context, void *cookie, pami_result_t result)
{
    struct flight *flight = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS && !flight->remote);
    flight->remote = true;
    if (destination == job.task)
        CHECK_SIZE(landed, flight->landed_before + 1);
}

/* With the functions asked for; waits until everything that must happen has happened. */
static void one(size_t bytes, bool with_local, bool with_remote)
{
    struct flight flight = {.bytes = bytes, .landed_before = landed};
    pami_send_event_t events = {&flight, with_local ? on_local : NULL,
                                with_remote ? on_remote : NULL};
    size_t before = landed;

    flight.data = test_alloc(bytes);
    test_fill(flight.data, bytes, bytes, 0);
    test_send(job.context[0], job_endpoint(&job, destination, 1), ID, "h", 1, flight.data, bytes,
              events);
    CHECK(!flight.local && !flight.remote && landed == before);
    if (!with_local && bytes <= COPIED)
        memset(flight.data, 0x77, bytes);
    WAIT(&job, flight.local == with_local && flight.remote == with_remote);
    due++; /* our predecessor does the same, message by message */
    WAIT(&job, landed >= due);
    if (!with_local && !with_remote)
        job_barrier(&job); /* now the data has left */
    free(flight.data);
}

/* Many at once, each with its own data; every event exactly once, local before remote. */
static void many(void)
{
    enum {
        COUNT = 500
    };
    static struct flight flights[COUNT];
    size_t i, waiting = 0;

    for (i = 0; i < COUNT; i++) {
        pami_send_event_t events = {&flights[i], on_local, NULL};

        flights[i] = (struct flight){.bytes = sizes[i % 18]};
        flights[i].data = test_alloc(flights[i].bytes);
        test_fill(flights[i].data, flights[i].bytes, flights[i].bytes, 0);
        test_send(job.context[0], job_endpoint(&job, destination, 1), ID, "h", 1, flights[i].data,
                  flights[i].bytes, events);
    }
    for (i = 0; i < COUNT; i++) {
        WAIT(&job, flights[i].local);
        waiting += !flights[i].local;
    }
    due += COUNT;
    WAIT(&job, landed >= due);
    job_barrier(&job);
    CHECK(waiting == 0);
    for (i = 0; i < COUNT; i++)
        free(flights[i].data);
}

static void all(size_t to)
{
    size_t i;

    destination = to;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        one(sizes[i], true, true);
        one(sizes[i], true, false);
        one(sizes[i], false, true);
        one(sizes[i], false, false);
    }
    many();
    job_barrier(&job);
    CHECK_SIZE(landed, due);
    job_barrier(&job);
    landed = due = 0;
    job_barrier(&job);
}

int main(void)
{
    job_start(&job, "send_events", 2);
    test_dispatch(job.context[0], ID, on_message, &landed, test_ordered());
    test_dispatch(job.context[1], ID, on_message, &landed, test_ordered());
    job_barrier(&job);
    all(job.task);
    all((job.task + 1) % job.tasks);
    job_finish(&job);
    return 0;
}
