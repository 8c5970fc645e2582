/*
 * A context is destroyed while it reads and writes memory of a task that does not advance for
 * longer than PAMI_DRAIN_TIMEOUT. The memory on this side is the program's again then: nothing
 * comes to it, and nothing is taken from it, when that task advances again, whether there is
 * another context by then or not. And both go on with one another.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_RAILS=3"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_RMA=regions"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_PROVIDER=tcp;ofi_rxm"
 */
#include "api/rma.h"
#include "net.h"

enum {
    WORD_ID = 10,
    LARGE_ID = 11,
    CONTEXTS = 2,
    BYTES = 8 << 20,
    PART = 1 << 20,
    OTHER = 0x77 /* what the program has there when the context has gone */
};

enum what {
    A_GET,
    A_PUT,
    A_MESSAGE,
    WHATS
};

static struct job control, job;
static unsigned char *memory;
static pami_memregion_t mine, all[2];
static size_t words, begun, moved;

static void on_word(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    words++;
}

static void on_moved(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    moved++;
}

static void on_large(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(recv != NULL && bytes == BYTES);
    recv->addr = memory;
    recv->local_fn = on_moved;
    begun++;
}

static void live(void)
{
    job_create_contexts(&job, CONTEXTS);
    for (size_t i = 0; i < CONTEXTS; i++) {
        test_dispatch(job.context[i], WORD_ID, on_word, NULL, test_ordered());
        test_dispatch(job.context[i], LARGE_ID, on_large, NULL, test_ordered());
    }
}

/* In parts, so that all of it is under way. */
static void move(enum what what, size_t bytes, size_t part)
{
    for (size_t at = 0; at < bytes; at += part) {
        pami_rma_t rma = {.dest = job_endpoint(&job, 1, 0), .bytes = part, .done_fn = on_moved};
        pami_rdma_t rdma = {{&mine, at}, {&all[1], at}};
        pami_rget_simple_t get = {.rma = rma, .rdma = rdma};
        pami_rput_simple_t put = {.rma = rma, .rdma = rdma};

        if (what == A_GET)
            CHECK_OK(TEST_CALL(PAMI_Rget(job.context[0], &get)));
        else
            CHECK_OK(TEST_CALL(PAMI_Rput(job.context[0], &put)));
    }
}

static void leave(enum what what, bool again)
{
    job_barrier(&control);
    if (what == A_MESSAGE)
        WAIT(&job, begun == 1);
    else
        move(what, BYTES, PART);
    job_linger(&job, 0.05);
    job_destroy_contexts(&job);
    memset(memory, OTHER, BYTES);
    if (again)
        live();
    job_barrier(&control);
    if (again)
        job_linger(&job, 0.3);
    else
        test_sleep(0.3);
    job_barrier(&control);
    if (!again)
        live();
    job_linger(&job, 0.1);
    if (!test_all(memory, BYTES, OTHER))
        FAIL("%d, again %d: something has come late", (int)what, again);
}

static void stand_still(enum what what)
{
    const pami_send_event_t none = {NULL, NULL, NULL};

    if (what == A_MESSAGE)
        test_send(job.context[0], job_endpoint(&job, 0, 0), LARGE_ID, NULL, 0, memory, BYTES, none);
    job_barrier(&control); /* and does not advance the others until the next one */
    job_barrier(&control);
    job_linger(&job, 0.3);
    job_barrier(&control);
    job_linger(&job, 0.1);
    for (size_t i = 0; i < BYTES; i++)
        if (memory[i] == OTHER)
            FAIL("%d: what was there later has been sent", (int)what);
}

static void advance(void)
{
    job_advance(&job);
}

/* Between all contexts of both; who is told to begins. */
static void greet(size_t first)
{
    words = 0;
    control.advance_too = advance;
    job_barrier(&control);
    if (job.task != first)
        WAIT(&control, words == CONTEXTS * CONTEXTS);
    for (size_t i = 0; i < CONTEXTS * CONTEXTS; i++)
        test_send_immediate(job.context[i / CONTEXTS],
                            job_endpoint(&job, 1 - job.task, i % CONTEXTS), WORD_ID, NULL, 0, NULL,
                            0);
    WAIT(&control, words == CONTEXTS * CONTEXTS);
    job_barrier(&control);
    control.advance_too = NULL;
}

static void one(enum what what, bool again)
{
    begun = 0;
    live();
    memset(memory, 0, BYTES);
    rma_region(job.context[0], memory, BYTES, &mine);
    rma_share(&control, &mine, sizeof mine, all);
    greet(0);
    moved = 0;
    if (job.task == 0) {
        move(A_GET, 1, 1);
        WAIT(&job, moved == 1);
    }
    greet(0);
    if (job.task == 0)
        leave(what, again);
    else
        stand_still(what);
    greet(1); /* who was left behind is sent to when it has sent something */
    job_destroy_contexts(&job);
    if (job.task == 1) { /* as often as the other one */
        live();
        job_destroy_contexts(&job);
    }
}

int main(void)
{
    setenv("PAMI_DRAIN_TIMEOUT", "0.1", 1);
    setenv("PAMI_BEHIND_TIMEOUT", "0", 1);
    job_start(&control, "control", 1);
    need_module();
    rma_open(&control);
    job_create_client(&job, "unserved");
    memory = test_alloc(BYTES);
    for (enum what what = 0; what < WHATS; what++) {
        one(what, false);
        one(what, true);
    }
    free(memory);
    job_destroy(&job);
    rma_close(&control);
    return 0;
}
