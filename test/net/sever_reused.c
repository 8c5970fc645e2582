/*
 * A task dies, and the connections to it are ended, those of other contexts as well. While they are
 * looked for, another thread may close one, and the program may open something that gets its
 * number: that is left alone.
 *
 * Task 1 ends without a word. One context of task 0 advances, and finds the connection of the other
 * one. Each connection that it has looked at becomes, for a moment, a socket of the program.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include "api/api_test.h"
#include "net/net.h"

#include <dirent.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

enum {
    NUMBER = 1
};

static int program[2]; /* its socket, and the other end */
static int replaced = -1, kept, replacements;
static bool broken;
static __thread bool looking; /* this thread advances, and task 1 has gone */

static void *usual(const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    CHECK(symbol != NULL);
    return symbol;
}

static int usual_close(int fd)
{
    return ((int (*)(int))usual("close"))(fd);
}

static void put_back(void)
{
    struct pollfd other = {.fd = program[1], .events = POLLRDHUP};

    if (!looking || replaced < 0)
        return;
    broken = broken || poll(&other, 1, 0) != 0;
    CHECK(dup2(kept, replaced) == replaced);
    usual_close(kept);
    replaced = -1;
}

__attribute__((visibility("default"))) int getsockopt(int fd, int level, int option, void *value,
                                                      socklen_t *bytes)
{
    int result;

    put_back();
    result = ((int (*)(int, int, int, void *, socklen_t *))usual("getsockopt"))(fd, level, option,
                                                                                value, bytes);
    if (looking && result == 0 && level == SOL_SOCKET && option == SO_PEERNAME &&
        ((struct sockaddr *)value)->sa_family == AF_INET) {
        kept = dup(fd);
        CHECK(kept >= 0 && dup2(program[0], fd) == fd);
        replaced = fd;
        replacements++;
    }
    return result;
}

__attribute__((visibility("default"))) ssize_t recv(int fd, void *to, size_t bytes, int flags)
{
    put_back();
    return ((ssize_t(*)(int, void *, size_t, int))usual("recv"))(fd, to, bytes, flags);
}

__attribute__((visibility("default"))) int close(int fd)
{
    put_back();
    return usual_close(fd);
}

__attribute__((visibility("default"))) int closedir(DIR *directory)
{
    put_back();
    return ((int (*)(DIR *))usual("closedir"))(directory);
}

static size_t received;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *pipe, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)pipe, (void)bytes;
    (void)origin, (void)recv;
}

static void on_received(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK_RESULT(result, PAMI_SUCCESS);
    received++;
}

int main(void)
{
    const pami_send_event_t events = {.remote_fn = on_received};
    struct job job;

    job_start(&job, "sever_reused", 2);
    need_module();
    for (int i = 0; i < 2; i++)
        test_dispatch(job.context[i], NUMBER, on_message, NULL, test_ordered());
    job_barrier(&job);
    for (size_t i = 0; i < 2 && job.task == 0; i++)
        test_send(job.context[i], job_endpoint(&job, 1, 1), NUMBER, "n", 1, NULL, 0, events);
    WAIT(&job, job.task == 1 || received == 2);
    job_barrier(&job);
    if (job.task == 1)
        _exit(0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, program) == 0);
    looking = true;
    WAIT_WITH(test_advance(job.context[0], 1), replacements != 0 && replaced < 0);
    for (double end = test_now() + 0.3; test_now() < end;)
        test_advance(job.context[0], 1);
    looking = false;
    CHECK(!broken);
    _exit(0);
}
