/*
 * Tasks that are stopped, with much under way to them, keep nobody from sending to another one:
 * what the provider has not got rid of for them takes no buffer that others need.
 *
 * Run: tasks=4 nodes=4 env="PAMI_NETWORK=ofi PAMI_OFI_CREDITS=256" timeout=60
 * Run: tasks=6 nodes=6 env="PAMI_NETWORK=ofi PAMI_OFI_CREDITS=256 PAMI_OFI_SEND_BUFFERS=4"
 */
#include "api/api_test.h"
#include "net.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    PID = 10,
    DATA,
    BYTES = 60000,
    EACH = 300
};

static pid_t pids[6];
static size_t known, arrived;
static char data[BYTES], landing[BYTES];

static void on_pid(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)pipe, (void)bytes, (void)recv;
    CHECK_SIZE(header_bytes, sizeof pids[0]);
    memcpy(&pids[test_origin(origin)], header, sizeof pids[0]);
    known++;
}

static void on_arrived(pami_context_t context, void *cookie, pami_result_t result)
{
    size_t *bytes = cookie;

    (void)context;
    CHECK_SIZE(result, PAMI_SUCCESS);
    CHECK_SIZE(test_differs(landing, *bytes, 3, 0), *bytes);
    arrived++;
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *pipe, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    static size_t expected;

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)origin;
    if (recv == NULL) {
        CHECK_SIZE(test_differs(pipe, bytes, 3, 0), bytes);
        arrived++;
        return;
    }
    recv->type = PAMI_TYPE_BYTE;
    recv->addr = landing;
    recv->data_fn = PAMI_DATA_COPY;
    recv->local_fn = on_arrived;
    recv->cookie = &expected;
    expected = bytes;
}

static void on_told(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK_SIZE(result, PAMI_SUCCESS);
    *(bool *)cookie = true;
}

static void signal_all(size_t last, int signal)
{
    for (size_t task = 1; task < last; task++)
        CHECK(kill(pids[task], signal) == 0);
}

static void sender(struct job *job)
{
    size_t last = job->tasks - 1;
    bool told = false;
    double until;

    WAIT(job, known == last);
    signal_all(last, SIGSTOP);
    for (size_t i = 0; i < EACH; i++)
        for (size_t task = 1; task < last; task++)
            test_send(job->context[0], job_endpoint(job, task, 0), DATA, NULL, 0, data, BYTES,
                      (pami_send_event_t){0});
    job_linger(job, 0.3);
    test_send(job->context[0], job_endpoint(job, last, 0), DATA, NULL, 0, data, 2000,
              (pami_send_event_t){.cookie = &told, .remote_fn = on_told});
    until = test_now() + test_limit() / 2;
    while (!told && test_now() < until)
        job_advance(job);
    signal_all(last, SIGCONT);
    CHECK(told);
}

int main(void)
{
    struct job job;
    pid_t pid = getpid();

    job_create_client(&job, "starve");
    need_module();
    job_create_contexts(&job, 1);
    test_fill(data, sizeof data, 3, 0);
    test_dispatch(job.context[0], PID, on_pid, NULL, test_ordered());
    test_dispatch(job.context[0], DATA, on_data, NULL, test_ordered());
    job_barrier(&job);
    if (job.task == 0) {
        sender(&job);
    } else {
        test_send_immediate(job.context[0], job_endpoint(&job, 0, 0), PID, &pid, sizeof pid, NULL,
                            0);
        WAIT(&job, arrived == (job.task == job.tasks - 1 ? 1 : EACH));
    }
    job_barrier(&job);
    job_finish(&job);
    return 0;
}
