/*
 * An ordered message that finds no memory on its way to a server process is refused: the context
 * does not send it by itself, ahead of those that wait at the server.
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
    LONG = 400 /* bytes of a header: more than requests and their messages have room for */
};

extern void *__libc_malloc(size_t bytes);

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

int main(void)
{
    pami_result_t result;

    job_start(&job, "servers_memory", 1);
    test_dispatch(job.context[0], MESSAGE_ID, on_message, NULL, test_ordered());
    server_pids_find(&pids);
    servers = servers_make(&job, 0, 0, NULL);
    CHECK_OK(PAMIX_Servers_start(servers));
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
    servers_end(&job, &servers);
    job_finish(&job);
    return 0;
}
#endif
