/*
 * A context is destroyed while another task fetches a large message of its, or while it writes
 * there itself, and that takes longer than PAMI_DRAIN_TIMEOUT, as the other one advances seldom.
 * All of it gets there.
 *
 * Run: tasks=2 nodes=2 args="message 16" env="PAMI_NETWORK=ofi"
 * Run: tasks=2 nodes=2 args="put 16" env="PAMI_NETWORK=ofi"
 * Run: tasks=2 args="message 96" env="PAMI_SHM_SINGLE_COPY=on PAMI_SHM_JOINT_COPY=off"
 */
#include "rma.h"

enum {
    ID = 10
};

/* Seconds between two advances of the other one: it needs far more of them than PAMI_DRAIN_TIMEOUT
 * has room for. */
static const double between = 0.1;

static struct job control, job;
static size_t size;
static unsigned char *memory;
static pami_memregion_t mine, all[2];
static bool landed;

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    if (result != PAMI_SUCCESS)
        FAIL("the message is lost: %s", test_text());
    landed = true;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(recv != NULL && bytes == size);
    recv->addr = memory;
    recv->local_fn = on_landed;
}

static void begin(bool is_message)
{
    const pami_send_event_t none = {NULL, NULL, NULL};
    pami_endpoint_t dest = job_endpoint(&job, 1, 0);
    pami_rput_simple_t put = {.rma = {.dest = dest, .bytes = size},
                              .rdma = {{&mine, 0}, {&all[1], 0}}};

    if (is_message)
        test_send(job.context[0], dest, ID, NULL, 0, memory, size, none);
    else
        CHECK_OK(TEST_CALL(PAMI_Rput(job.context[0], &put)));
}

static void follow(bool is_message)
{
    const volatile unsigned char *last = memory + size - 1;

    while (is_message ? !landed : *last == 0) {
        test_advance(job.context[0], 1);
        test_sleep(between);
    }
    CHECK_SIZE(test_differs(memory, size, 3, 0), size);
}

int main(int argc, char **argv)
{
    bool is_message = argc > 1 && strcmp(argv[1], "message") == 0;

    size = (size_t)(argc > 2 ? atoi(argv[2]) : 16) << 20;
    setenv("PAMI_DRAIN_TIMEOUT", "1", 1);
    job_start(&control, "control", 1);
    rma_open(&control);
    job_start(&job, "drain_long", 1);
    memory = test_zalloc(size);
    if (job.task == 0)
        test_fill(memory, size, 3, 0);
    rma_region(job.context[0], memory, size, &mine);
    rma_share(&control, &mine, sizeof mine, all);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    job_barrier(&job);
    if (job.task == 0)
        begin(is_message);
    else if (job.task == 1)
        follow(is_message);
    job_destroy_contexts(&job);
    job_destroy(&job);
    free(memory);
    rma_close(&control);
    return 0;
}
