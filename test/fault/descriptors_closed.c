/*
 * The first task knows the second one, and closes every descriptor that is not its own, as daemons
 * do. What tells it of the last task then has the number of what has told of the second one; the
 * last one ends, and the second one is not taken for dead.
 *
 * Run: tasks=3
 */
#include "api/api_test.h"

enum {
    ID = 1,
    DESCRIPTORS = 1024,
    ROUNDS = 20,
    PAUSE_US = 10000 /* the library looks after others about as often */
};

static struct job job;
static size_t heard[3], ended;
static pami_result_t end;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)recv;
    heard[test_origin(origin)]++;
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    end = result != PAMI_SUCCESS ? result : end;
    ended++;
}

static void tell(size_t task)
{
    test_send_immediate(job.context[0], job_endpoint(&job, task, 0), ID, NULL, 0, NULL, 0);
}

/* The number of the descriptor that tells of a process; 0: there is none. */
static int find_number(void)
{
    char path[64], name[64];
    int fd;

    for (fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++) {
        ssize_t bytes;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        bytes = readlink(path, name, sizeof(name) - 1);
        name[bytes > 0 ? bytes : 0] = '\0';
        if (strstr(name, "pidfd") != NULL)
            return fd;
    }
    return 0;
}

static void close_and_hear_of_last(void)
{
    int fd, number = find_number();

    if (number == 0)
        test_skip("no descriptors tell of processes here");
    for (fd = STDERR_FILENO + 1; fd < DESCRIPTORS; fd++)
        close(fd);
    for (fd = STDERR_FILENO + 1; fd < number; fd++)
        CHECK(dup(STDERR_FILENO) == fd);
    tell(2);
    CHECK(find_number() == number);
    WAIT(&job, heard[2] != 0);
}

static void talk(size_t to)
{
    size_t i;

    for (i = 0; i < ROUNDS && end == PAMI_SUCCESS; i++) {
        pami_send_event_t events = {.remote_fn = on_end};

        test_send(job.context[0], job_endpoint(&job, to, 0), ID, NULL, 0, NULL, 0, events);
        WAIT(&job, ended == i + 1);
        usleep(PAUSE_US);
    }
    if (end != PAMI_SUCCESS)
        FAIL("task %zu lives and was taken for dead", to);
}

int main(void)
{
    job_start(&job, "descriptors_closed", 1);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    if (job.task == 2) {
        WAIT(&job, heard[0] != 0);
        tell(0);
        job_destroy(&job);
        return 0;
    }
    tell(1 - job.task);
    WAIT(&job, heard[1 - job.task] != 0);
    if (job.task == 0)
        close_and_hear_of_last();
    talk(1 - job.task);
    WAIT(&job, heard[1 - job.task] == 1 + ROUNDS);
    job_destroy(&job);
    return 0;
}
