/*
 * A task destroys its contexts while another one reads its memory, and creates them again. What has
 * ended with an error by then does not move any data later. Nor does the task that reads, when it
 * destroys its own contexts, hear of transfers any more.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_BEHIND_TIMEOUT=0 PAMI_DRAIN_TIMEOUT=0"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_BEHIND_TIMEOUT=0 PAMI_OFI_RAILS=3"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_BEHIND_TIMEOUT=0 PAMI_OFI_RMA=regions"
 */
#include "api/api_test.h"
#include "net.h"
#include "reads.h"

enum {
    ID = 10,
    CONTEXTS = 8,
    PART = 70000, /* of many reads: some end at any moment */
    ROUNDS = 12
};

struct start {
    char *memory;
    size_t round;
};

static size_t began;
static struct start start;
static size_t round_now;

static void on_start(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)data, (void)bytes, (void)origin, (void)recv;
    CHECK_SIZE(header_bytes, sizeof start);
    memcpy(&start, header, sizeof start);
    if (start.round > began)
        began = start.round;
}

static void live(struct job *job)
{
    job_create_contexts(job, CONTEXTS);
    test_dispatch(job->context[0], ID, on_start, NULL, test_ordered());
}

static void on_part(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    CHECK_CALLBACK();
}

/* On the context that is destroyed last, a while after it was advanced last. */
static void begin_parts(struct job *job)
{
    for (size_t at = 0; at + PART <= sizeof got; at += PART) {
        pami_get_simple_t get = {
            .rma = {.dest = job_endpoint(job, 1, 0), .bytes = PART, .done_fn = on_part},
            .addr = {.local = (char *)got + at, .remote = start.memory},
        };

        CHECK_OK(TEST_CALL(PAMI_Get(job->context[CONTEXTS - 1], &get)));
    }
}

/* The reads end, well or not, while the other one has no context or a new one. */
static void reader(struct job *job)
{
    pami_endpoint_t peer = job_endpoint(job, 1, 0);

    WAIT(job, began >= 2 * round_now);
    begin_reads(job, start.memory);
    finish_reads(job);
    /* It is there again: under way when this context ends. */
    PAMI_Resume(job->context[0], &peer, 1);
    WAIT(job, began >= 2 * round_now + 1);
    begin_parts(job);
    for (size_t i = 2 * round_now; i != 0; i--)
        test_advance(job->context[CONTEXTS - 1], 1);
    job_destroy_contexts(job);
    live(job);
}

static void on_told(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    *(int *)cookie = result == PAMI_SUCCESS ? 1 : -1;
}

/* Again, if it has met a context that was closing; the last word may get no answer. */
static void tell(struct job *job, size_t round)
{
    struct start message = {.memory = source, .round = round};
    double until = test_now() + 2;
    int told = -1;

    while (told != 1 && test_now() < until) {
        pami_send_t send = {
            .send = test_message(job_endpoint(job, 0, 0), ID, &message, sizeof message, NULL, 0),
            .events = {.cookie = &told, .remote_fn = on_told},
        };

        told = TEST_CALL(PAMI_Send(job->context[0], &send)) == PAMI_SUCCESS ? 0 : -1;
        if (told == 0)
            WAIT(job, told != 0);
        else
            job_advance(job);
    }
}

static void target(struct job *job)
{
    tell(job, 2 * round_now);
    job_linger(job, 1e-4 * (double)(round_now % 4));
    test_sleep(0.01);
    job_destroy_contexts(job);
    test_sleep(0.02);
    live(job);
    tell(job, 2 * round_now + 1);
    job_linger(job, 0.3);
}

int main(void)
{
    struct job job;

    job_create_client(&job, "closed_target");
    need_module();
    test_fill(source, sizeof source, 7, 0);
    live(&job);
    for (round_now = 1; round_now <= ROUNDS; round_now++) {
        if (job.task == 0)
            reader(&job);
        else
            target(&job);
    }
    job_destroy_contexts(&job);
    job_destroy(&job);
    return 0;
}
