/*
 * A task destroys its context while another one reads its memory, and gets no processor then for
 * longer than PAMI_PEER_TIMEOUT. What has ended with an error by then does not move data later.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_PEER_TIMEOUT=1 PAMI_DRAIN_TIMEOUT=0" timeout=60
 */
#include "api/api_test.h"
#include "net.h"
#include "reads.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    ID = 10,
    ROUNDS = 6
};

struct start {
    char *memory;
    pid_t pid;
    size_t round;
};

static struct start start; /* of the reader: that it has begun */

static void on_start(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_SIZE(header_bytes, sizeof start);
    memcpy(&start, header, sizeof start);
}

static void live(struct job *job)
{
    job_create_contexts(job, 1);
    test_dispatch(job->context[0], ID, on_start, NULL, test_ordered());
}

static void on_told(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    *(int *)cookie = result == PAMI_SUCCESS ? 1 : -1;
}

/* Again, if it has met a context that was closing. */
static void tell(struct job *job, size_t task, size_t round)
{
    struct start message = {.memory = source, .pid = getpid(), .round = round};
    int told = -1;

    while (told != 1) {
        pami_send_t send = {
            .send = test_message(job_endpoint(job, task, 0), ID, &message, sizeof message, NULL, 0),
            .events = {.cookie = &told, .remote_fn = on_told},
        };

        told = TEST_CALL(PAMI_Send(job->context[0], &send)) == PAMI_SUCCESS ? 0 : -1;
        if (told == 0)
            WAIT(job, told != 0);
        else
            job_advance(job);
    }
}

/* The other one is stopped a moment after it has been told to destroy its context; what is read by
 * then, or is still to be begun, is not the same in each round. */
static void reader(struct job *job, size_t round)
{
    pami_endpoint_t peer = job_endpoint(job, 1, 0);

    PAMI_Resume(job->context[0], &peer, 1);
    WAIT(job, start.round == round);
    begin_reads(job, start.memory);
    tell(job, 1, round);
    job_linger(job, 1e-3 * (double)round);
    kill(start.pid, SIGSTOP);
    job_linger(job, 1.6);
    kill(start.pid, SIGCONT);
    finish_reads(job);
}

static void target(struct job *job, size_t round)
{
    tell(job, 0, round);
    WAIT(job, start.round == round);
    job_destroy_contexts(job);
    test_sleep(0.05);
    live(job);
}

int main(void)
{
    struct job job;

    job_create_client(&job, "closed_stopped");
    need_module();
    test_fill(source, sizeof source, 7, 0);
    live(&job);
    for (size_t round = 1; round <= ROUNDS; round++)
        if (job.task == 0)
            reader(&job, round);
        else
            target(&job, round);
    job_destroy_contexts(&job);
    job_destroy(&job);
    return 0;
}
