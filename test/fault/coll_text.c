/*
 * A collective that has failed ends when another member is done with its memory. What its function
 * then finds as the text is why it has failed, whatever else has failed meanwhile.
 *
 * Run: tasks=3
 */
#include "api/coll.h"
#include "api/rma.h"

#include <pamix.h>

enum {
    BYTES = 1 << 20,
    ID = 1
};

static struct job job;
static char source[BYTES], target[3 * BYTES], text[512];
static bool told;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(!told);
    CHECK(job.task != 0 || result == PAMI_ERROR);
    PAMI_Error_text(text, sizeof text);
    told = true;
}

static void gather_all(void)
{
    pami_xfer_t xfer;

    memset(&xfer, 0, sizeof xfer);
    xfer.cb_done = on_end;
    xfer.algorithm = algorithm_named(world_of(&job), PAMI_XFER_ALLGATHER, "Linear");
    CHECK(xfer.algorithm != PAMI_ALGORITHM_NULL);
    xfer.cmd.xfer_allgather =
        (pami_allgather_t){source, PAMI_TYPE_BYTE, BYTES, target, PAMI_TYPE_BYTE, BYTES};
    CHECK_OK(TEST_CALL(PAMI_Collective(job.context[0], &xfer)));
}

/* Until a message to it is refused. */
static void see_end_of(size_t task)
{
    pami_send_immediate_t message = test_message(job_endpoint(&job, task, 0), ID, NULL, 0, NULL, 0);
    double until = test_now() + test_limit();

    while (TEST_CALL(PAMI_Send_immediate(job.context[0], &message)) == PAMI_SUCCESS) {
        CHECK(test_now() < until);
        job_advance(&job);
    }
}

/* The task waits for that without advancing. */
static void go(size_t task, uint64_t *const *words)
{
    uint64_t *word =
        PAMIX_Mem_local_address(job.client, (pami_task_t)task, words[task], sizeof *word);

    CHECK(word != NULL);
    PAMIX_Mem_put8(word, 1);
}

int main(void)
{
    uint64_t *words[3], *own;

    job_start(&job, "coll text", 1);
    rma_open(&job);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    CHECK_OK(PAMIX_Mem_alloc(job.client, sizeof *own, 0, PAMIX_MEM_ANY, (void **)&own));
    PAMIX_Mem_put8(own, 0);
    rma_share(&job, &own, sizeof own, words);
    job_barrier(&job);
    if (job.task == 0) {
        gather_all();
        go(2, words);
        see_end_of(2);
        job_linger(&job, 0.1); /* and the collective fails */
        CHECK(!told);
        CHECK_REFUSED(PAMI_Context_advance(PAMI_CONTEXT_NULL, 1), PAMI_INVAL, "context");
        go(1, words);
    } else {
        WAIT_WITH(test_sleep(1e-3), PAMIX_Mem_get8(own) != 0);
        if (job.task == 2)
            _exit(0);
        gather_all();
    }
    WAIT(&job, told);
    if (job.task == 0 && strstr(text, "has gone") == NULL)
        FAIL("the text is \"%s\"", text);
    job_destroy(&job);
    return 0;
}
