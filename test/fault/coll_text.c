/*
 * A collective that has failed ends when another member is done with its memory, and one of active
 * messages when all others have answered. What its function then finds as the text is why it has
 * failed, whatever else has failed meanwhile.
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
static char source[BYTES], target[3 * BYTES], block, blocks[3];
static struct end {
    char text[512];
    bool told;
} collective, active;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
}

static void fail_otherwise(void)
{
    CHECK_REFUSED(PAMI_Context_advance(PAMI_CONTEXT_NULL, 1), PAMI_INVAL, "context");
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    struct end *end = cookie;

    (void)context;
    CHECK(!end->told);
    CHECK(job.task != 0 || result == PAMI_ERROR);
    PAMI_Error_text(end->text, sizeof end->text);
    fail_otherwise();
    end->told = true;
}

static void on_asked(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                     pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)bytes, (void)origin, (void)geometry;
    recv->addr = &block;
    recv->local_fn = on_end;
    recv->cookie = &active;
}

static void dispatch(pami_algorithm_t algorithm)
{
    pami_dispatch_callback_function fn = {.amgather = on_asked};

    CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0], algorithm, ID, fn, NULL,
                                            (pami_collective_hint_t){0}));
}

static void ask_all(pami_algorithm_t algorithm)
{
    pami_xfer_t xfer = {.algorithm = algorithm};

    xfer.cmd.xfer_amgather = (pami_amgather_t){
        .dispatch = ID, .rcvbuf = blocks, .rtype = PAMI_TYPE_BYTE, .rtypecount = 1};
    CHECK_OK(TEST_CALL(PAMI_Collective(job.context[0], &xfer)));
}

static void gather_all(void)
{
    pami_xfer_t xfer;

    memset(&xfer, 0, sizeof xfer);
    xfer.cb_done = on_end;
    xfer.cookie = &collective;
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

/* In the word of a task, which waits for GO without advancing. */
enum {
    WAITS = 1,
    GO
};

static uint64_t *word_of(size_t task, uint64_t *const *words)
{
    uint64_t *word =
        PAMIX_Mem_local_address(job.client, (pami_task_t)task, words[task], sizeof *word);

    CHECK(word != NULL);
    return word;
}

int main(void)
{
    uint64_t *words[3], *own;
    pami_algorithm_t gather;

    job_start(&job, "coll text", 1);
    rma_open(&job);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    CHECK_OK(PAMIX_Mem_alloc(job.client, sizeof *own, 0, PAMIX_MEM_ANY, (void **)&own));
    PAMIX_Mem_put8(own, 0);
    rma_share(&job, &own, sizeof own, words);
    gather = algorithm_of(world_of(&job), PAMI_XFER_AMGATHER);
    dispatch(gather);
    job_barrier(&job);
    if (job.task == 0) {
        WAIT(&job, PAMIX_Mem_get8(word_of(1, words)) == WAITS);
        WAIT(&job, PAMIX_Mem_get8(word_of(2, words)) == WAITS);
        gather_all();
        ask_all(gather);
        PAMIX_Mem_put8(word_of(2, words), GO);
        see_end_of(2);
        job_linger(&job, 0.1); /* and the collectives fail */
        CHECK(!collective.told && !active.told);
        fail_otherwise();
        PAMIX_Mem_put8(word_of(1, words), GO);
    } else {
        PAMIX_Mem_put8(own, WAITS);
        WAIT_WITH(test_sleep(1e-3), PAMIX_Mem_get8(own) == GO);
        if (job.task == 2)
            _exit(0);
        WAIT(&job, active.told);
        gather_all();
    }
    WAIT(&job, collective.told && active.told);
    for (size_t i = 0; i < 2 && job.task == 0; i++) {
        const char *text = i == 0 ? collective.text : active.text;

        if (strstr(text, "task 2 has gone") == NULL)
            FAIL("the text is \"%s\"", text);
    }
    job_destroy(&job);
    return 0;
}
