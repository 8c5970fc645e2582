/*
 * An ordered message that finds no memory on its way to a server process is refused: the context
 * does not send it by itself, ahead of those that wait at the server. A put in pieces of which only
 * the first finds memory is under way; where no callback tells that, the next fence does.
 *
 * Run: tasks=1 servers=1
 */
#include "api/servers.h"
#include "server_pids.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int main(void)
{
    test_skip("sanitizers have the memory");
}
#else

enum {
    MESSAGE_ID = 7,
    LONG = 400, /* bytes of a header: more than requests and their messages have room for */
    PIECE = 4096,
    PUTS = 200 /* more requests than there is memory for at first */
};

extern void *__libc_malloc(size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static struct job job;
static pamix_servers_t servers;
static struct server_pids pids;
static size_t left = SIZE_MAX, refused; /* so many allocations are not refused, then one is */
static size_t received[2];
static size_t count;

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    if (left != SIZE_MAX && left-- == 0) {
        refused++;
        return NULL;
    }
    return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes)
{
    if (left != SIZE_MAX && left-- == 0) {
        refused++;
        return NULL;
    }
    return __libc_memalign(alignment, bytes);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK(count < 2);
    received[count++] = header_bytes;
}

static pami_result_t send(size_t header_bytes)
{
    static const char header[LONG];
    pami_send_immediate_t message =
        test_message(job_endpoint(&job, 0, 0), MESSAGE_ID, header, header_bytes, NULL, 0);

    return TEST_CALL(
        PAMIX_Servers_send_immediate(servers, job.context[0], &message, PAMIX_SERVERS_ORDERED));
}

static void ordered(void)
{
    pami_result_t result;

    server_pids_signal(&job, &pids, 0, 1, SIGSTOP);
    CHECK_OK(send(1));
    for (size_t which = 0;; which++) {
        size_t before = refused;

        left = which;
        result = send(LONG);
        left = SIZE_MAX;
        if (refused == before)
            break;
        CHECK_RESULT(result, PAMI_ENOMEM);
    }
    CHECK_OK(result);
    CHECK(refused != 0);
    for (int i = 0; i < 1000; i++)
        test_advance(job.context[0], 1);
    CHECK_SIZE(count, 0);
    server_pids_signal(&job, &pids, 0, 1, SIGCONT);
    WAIT(&job, count == 2);
    CHECK(received[0] == 1 && received[1] == LONG);
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    *(pami_result_t *)cookie = result;
}

static pami_result_t put(char *from, char *to, size_t bytes)
{
    pami_put_simple_t call = {.rma = {.dest = job_endpoint(&job, 0, 0), .bytes = bytes},
                              .addr = {from, to}};

    return TEST_CALL(PAMIX_Servers_put(servers, job.context[0], &call, 0));
}

/* `before`: requests that take memory before, as every put takes that of two. Returns the puts
 * that have begun and are not whole. */
static size_t pieces(size_t before)
{
    char *from = servers_memory(&job, 2 * PIECE), *to = servers_memory(&job, PUTS * 2 * PIECE);
    pami_result_t results[PUTS], ended = PAMI_OTHER;
    size_t halves = 0;

    memset(from, 1, 2 * PIECE);
    server_pids_signal(&job, &pids, 0, 1, SIGSTOP);
    for (size_t i = 0; i < before; i++)
        CHECK_OK(put(from, to, 8));
    for (size_t i = 0; i < PUTS; i++) {
        left = 0;
        results[i] = put(from, to + i * 2 * PIECE, 2 * PIECE);
        left = SIZE_MAX;
        CHECK(results[i] == PAMI_SUCCESS || results[i] == PAMI_ENOMEM);
    }
    server_pids_signal(&job, &pids, 0, 1, SIGCONT);
    SERVERS_REQUEST(job_advance(&job),
                    PAMIX_Servers_fence(servers, job.context[0], on_end, &ended));
    WAIT(&job, ended != PAMI_OTHER);
    for (size_t i = 0; i < PUTS; i++)
        halves += results[i] == PAMI_SUCCESS && !test_all(to + i * 2 * PIECE, 2 * PIECE, 1);
    CHECK_SIZE(ended, halves != 0 ? PAMI_ERROR : PAMI_SUCCESS);
    CHECK_OK(PAMIX_Mem_free(job.client, from));
    CHECK_OK(PAMIX_Mem_free(job.client, to));
    return halves;
}

int main(void)
{
    pamix_servers_policy_t policy;

    job_start(&job, "servers_memory", 1);
    test_dispatch(job.context[0], MESSAGE_ID, on_message, NULL, test_ordered());
    server_pids_find(&pids);
    servers = servers_make(&job, 0, 0, NULL);
    CHECK_OK(PAMIX_Servers_start(servers));
    ordered();
    policy = servers_policy(servers);
    policy.active = 1;
    policy.split = PIECE;
    CHECK_OK(PAMIX_Servers_set_policy(servers, &policy));
    CHECK(pieces(0) + pieces(1) != 0);
    servers_end(&job, &servers);
    job_finish(&job);
    return 0;
}
#endif
