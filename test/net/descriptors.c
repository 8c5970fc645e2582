/*
 * A program that has no descriptors left, while somebody knocks at its door: the library's thread
 * cannot let anybody in, and leaves the processor to others until it can. Messages go on. Contexts
 * cannot be made meanwhile, which says why, and can be afterwards.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 */
#include "api/api_test.h"
#include "net/net.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
    DESCRIPTORS = 400
};

static const double rest = 0.5; /* seconds */

static int is_listening(int fd)
{
    int yes = 0;
    socklen_t bytes = sizeof yes;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &bytes) == 0 && yes;
}

/* The address that the library listens at. */
static struct sockaddr_in door(void)
{
    struct sockaddr_in address = {.sin_family = AF_UNSPEC};

    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        socklen_t bytes = sizeof address;

        if (is_listening(fd) && getsockname(fd, (struct sockaddr *)&address, &bytes) == 0 &&
            address.sin_family == AF_INET)
            return address;
    }
    test_skip("nothing listens at an address of version 4");
}

static double processor_time(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fail_to_create(pami_client_t client)
{
    pami_context_t context;

    CHECK_REFUSED(PAMI_Context_createv(client, NULL, 0, &context, 1), PAMI_ERROR, strerror(EMFILE));
}

/* Another client has no contexts yet. */
static void knock(pami_client_t other)
{
    const struct rlimit few = {DESCRIPTORS, DESCRIPTORS};
    struct sockaddr_in address = door();
    int copies[DESCRIPTORS], count = 0, stranger = socket(AF_INET, SOCK_STREAM, 0);
    double spent;

    CHECK(stranger >= 0 && setrlimit(RLIMIT_NOFILE, &few) == 0);
    while ((copies[count] = dup(stranger)) >= 0)
        count++;
    CHECK(errno == EMFILE);
    fail_to_create(other);
    CHECK(connect(stranger, (struct sockaddr *)&address, sizeof address) == 0);
    spent = processor_time();
    test_sleep(rest);
    spent = processor_time() - spent;
    if (spent > rest / 4)
        FAIL("%.2f s of processor time in %.2f s of rest", spent, rest);
    while (count > 0)
        close(copies[--count]);
    close(stranger);
}

int main(void)
{
    struct job job, other;

    job_create_client(&job, "descriptors");
    need_module();
    job_create_contexts(&job, 1);
    job_create_client(&other, "others");
    job_barrier(&job);
    if (job.task == 0)
        knock(other.client);
    job_barrier(&job);
    job_create_contexts(&other, 1);
    job_finish(&other);
    job_finish(&job);
    return 0;
}
