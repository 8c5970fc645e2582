/*
 * The operator of an amreduce is what the initiator's dispatch function has named for elements of
 * the contribution's type: an operator that is none, means nothing for them, or blocks of no whole
 * elements end it with an error; the other members' contributions are taken.
 *
 * Run: tasks=1,2,3
 */
#include "coll.h"

enum {
    ID = 7,
    BYTES = 16
};

static struct job job;
static size_t ended;
static pami_result_t ended_with;

/* What all members try now. */
static struct attempt {
    pami_data_function op;
    pami_type_t type;
    size_t bytes;
    pami_result_t result;
    const char *text;
} attempt;

static void on_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && cookie == &job);
    ended_with = result;
    if (result != PAMI_SUCCESS && strstr(test_text(), attempt.text) == NULL)
        FAIL("no %s in the text: %s", attempt.text, test_text());
    ended++;
}

static void on_reduce(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_data_function *op, pami_recv_t *send)
{
    static char zeros[BYTES];

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)origin, (void)geometry;
    CHECK_SIZE(bytes, attempt.bytes);
    send->addr = zeros;
    send->type = attempt.type;
    send->local_fn = on_ended;
    send->cookie = &job;
    if (attempt.op != NULL)
        *op = attempt.op;
}

static void reduce(void)
{
    unsigned char result[BYTES];
    pami_xfer_t xfer = {.algorithm = algorithm_of(world_of(&job), PAMI_XFER_AMREDUCE)};

    memset(result, 0xaa, sizeof result);
    xfer.cmd.xfer_amreduce = (pami_amreduce_t){
        .dispatch = ID, .rcvbuf = result, .rtype = PAMI_TYPE_BYTE, .rtypecount = attempt.bytes};
    ended = 0;
    job_barrier(&job);
    if (job.task == 0)
        CHECK_OK(TEST_CALL(PAMI_Collective(job.context[0], &xfer)));
    WAIT(&job, ended == 1);
    if (ended_with != (job.task == 0 ? attempt.result : PAMI_SUCCESS))
        FAIL("%zu bytes: ended with %d: %s", attempt.bytes, (int)ended_with, test_text());
    for (size_t k = 0; k < sizeof result && job.task == 0; k++)
        CHECK(result[k] == (attempt.result == PAMI_SUCCESS && k < attempt.bytes ? 0 : 0xaa));
    job_barrier(&job);
}

int main(void)
{
    const struct attempt attempts[] = {
        {PAMI_DATA_SUM, PAMI_TYPE_SIGNED_INT, BYTES, PAMI_SUCCESS, ""},
        {PAMI_DATA_SUM, PAMI_TYPE_SIGNED_INT, 6, PAMI_INVAL, "rtypecount"},
        {PAMI_DATA_SUM, PAMI_TYPE_SIGNED_INT, 3, PAMI_INVAL, "rtypecount"},
        {PAMI_DATA_SUM, PAMI_TYPE_SIGNED_SHORT, 6, PAMI_SUCCESS, ""},
        {NULL, PAMI_TYPE_SIGNED_INT, BYTES, PAMI_INVAL, "op"},
        {PAMI_DATA_NOOP, PAMI_TYPE_SIGNED_INT, BYTES, PAMI_INVAL, "op"},
        {PAMI_DATA_BXOR, PAMI_TYPE_FLOAT, BYTES, PAMI_INVAL, "op"},
        {PAMI_DATA_MAX, PAMI_TYPE_FLOAT, BYTES, PAMI_SUCCESS, ""},
    };
    pami_dispatch_callback_function fn = {.amreduce = on_reduce};

    job_start(&job, "am-operators", 1);
    CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0],
                                            algorithm_of(world_of(&job), PAMI_XFER_AMREDUCE), ID,
                                            fn, NULL, (pami_collective_hint_t){0}));
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        attempt = attempts[i];
        reduce();
    }
    job_finish(&job);
    return 0;
}
