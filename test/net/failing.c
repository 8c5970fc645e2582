/*
 * Messages of all sizes, puts, gets, fences and barriers between tasks of different nodes, whatever
 * of it succeeds: all that is started ends, and what has come is right. Says how much did and did
 * not; failing.sh makes calls of libfabric fail meanwhile.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include "api/api_test.h"
#include "net/net.h"

enum {
    ID = 10,
    ROUNDS = 12,
    LARGE = 300000,
    TASKS_MAX = 8,
    PATTERN = 7
};

static struct job job;
static size_t begun, good, bad;
static struct memory {
    char out[LARGE], in[TASKS_MAX][LARGE], window[TASKS_MAX][LARGE], got[TASKS_MAX][LARGE];
} * memory, *theirs[TASKS_MAX];
static char text[256];

static void check(const char *data, size_t bytes)
{
    if (test_differs(data, bytes, PATTERN, 0) != bytes)
        FAIL("of %zu bytes number %zu is wrong", bytes, test_differs(data, bytes, PATTERN, 0));
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    if (result == PAMI_SUCCESS) {
        good++;
        return;
    }
    bad++;
    PAMI_Error_text(text, sizeof text);
}

static void on_got(pami_context_t context, void *cookie, pami_result_t result)
{
    if (result == PAMI_SUCCESS)
        check(cookie, LARGE);
    on_end(context, NULL, result);
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    if (result == PAMI_SUCCESS)
        check(cookie, LARGE);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    size_t from = test_origin(origin);

    (void)context, (void)cookie;
    if (header_bytes == sizeof theirs[from])
        memcpy(&theirs[from], header, header_bytes);
    if (recv == NULL) {
        check(data, bytes);
        return;
    }
    recv->addr = recv->cookie = memory->in[from];
    recv->local_fn = bytes == LARGE ? on_landed : NULL;
}

static void started(pami_result_t result)
{
    if (result == PAMI_SUCCESS)
        begun++;
    else
        bad++;
}

static void transfers(size_t task)
{
    pami_endpoint_t dest = job_endpoint(&job, task, 0);
    pami_put_simple_t put = {.rma = {.dest = dest, .bytes = LARGE}, .put = {.rdone_fn = on_end}};
    pami_get_simple_t get = {.rma = {.dest = dest, .bytes = LARGE, .done_fn = on_got}};

    if (theirs[task] == NULL)
        return;
    put.addr.local = memory->out;
    put.addr.remote = theirs[task]->window[job.task];
    started(PAMI_Put(job.context[0], &put));
    get.rma.cookie = get.addr.local = memory->got[task];
    get.addr.remote = theirs[task]->out;
    started(PAMI_Get(job.context[0], &get));
}

static void messages(size_t task)
{
    static const size_t sizes[] = {8, 3000, 60000, LARGE};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pami_send_t message = {
            .send = test_message(job_endpoint(&job, task, 0), ID, &memory, sizeof memory,
                                 memory->out, sizes[i]),
            .events = {.remote_fn = on_end},
        };

        started(PAMI_Send(job.context[0], &message));
    }
}

static void barrier(void)
{
    pami_xfer_t barrier = {.cb_done = on_end};
    pami_metadata_t metadata[64];
    pami_algorithm_t all[64];
    pami_geometry_t world;

    CHECK_OK(PAMI_Geometry_world(job.client, &world));
    CHECK_OK(
        PAMI_Geometry_algorithms_query(world, PAMI_XFER_BARRIER, all, metadata, 1, NULL, NULL, 0));
    barrier.algorithm = all[0];
    started(PAMI_Collective(job.context[0], &barrier));
}

static void rounds(void)
{
    test_fill(memory->out, LARGE, PATTERN, 0);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t task = 0; task < job.tasks; task++) {
            if (task == job.task)
                continue;
            messages(task);
            transfers(task);
        }
        started(PAMI_Fence_all(job.context[0], on_end, NULL));
        barrier();
        WAIT(&job, good + bad >= begun);
    }
    /* Who is not through yet may want answers. */
    job_linger(&job, 3);
}

int main(void)
{
    job_create_client(&job, "failing");
    need_module();
    CHECK(job.tasks <= TASKS_MAX);
    memory = test_zalloc(sizeof *memory);
    if (PAMI_Context_createv(job.client, NULL, 0, job.context, 1) == PAMI_SUCCESS) {
        job.contexts = job.driven = 1;
        rounds();
    } else {
        printf("task %zu: no context: %s\n", job.task, test_text());
    }
    printf("task %zu: %s %s\n", job.task, bad == 0 ? "all is well" : "some failed:", text);
    fflush(stdout);
    job_destroy(&job);
    free(memory);
    return 0;
}
