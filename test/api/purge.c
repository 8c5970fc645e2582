/*
 * PAMI_Purge and PAMI_Resume: local, for any list of other endpoints; afterwards everything works
 * as before, also when a message or a transfer comes before the resume. One's own endpoint and
 * endpoints that do not exist are refused, and then nothing was done.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=4 nodes=2
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=3 env="PAMI_SHM_SINGLE_COPY=off PAMI_YIELD=always"
 */
#include "rma.h"

enum {
    CONTEXTS = 2,
    ROUNDS = 6,
    ID = 1,
    BYTES = 3000
};

static struct job job;
static size_t received;
static pami_endpoint_t *others;
static size_t count;

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    received++;
}

static void arguments(void)
{
    pami_endpoint_t own = job_endpoint(&job, job.task, 0), bad = (pami_endpoint_t)job.tasks;
    pami_endpoint_t list[2];

    CHECK_OK(PAMI_Purge(job.context[0], NULL, 0));
    CHECK_OK(PAMI_Resume(job.context[0], NULL, 0));
    CHECK_REFUSED(PAMI_Purge(job.context[0], &own, 1), PAMI_INVAL, "dest");
    CHECK_REFUSED(PAMI_Resume(job.context[0], &own, 1), PAMI_INVAL, "dest");
    CHECK_REFUSED(PAMI_Purge(job.context[0], &bad, 1), PAMI_INVAL, "dest");
    CHECK_REFUSED(PAMI_Resume(job.context[0], &bad, 1), PAMI_INVAL, "dest");
    CHECK_REFUSED(PAMI_Purge(job.context[0], NULL, 1), PAMI_INVAL, "dest");
    CHECK_REFUSED(PAMI_Resume(job.context[0], NULL, 1), PAMI_INVAL, "dest");
    CHECK_REFUSED(PAMI_Purge(PAMI_CONTEXT_NULL, &own, 1), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Resume(PAMI_CONTEXT_NULL, &own, 1), PAMI_INVAL, "context");
    if (count > 0) {
        list[0] = others[0];
        list[1] = own;
        CHECK_REFUSED(PAMI_Purge(job.context[0], list, 2), PAMI_INVAL, "dest");
    }
}

/* One message and one put to everybody, from both contexts; they arrive. */
static void exchange(unsigned char **all, size_t round)
{
    static unsigned char source[BYTES];
    struct rma *op = test_zalloc((count + 1) * sizeof *op);

    test_fill(source, BYTES, job.task + round, 0);
    for (size_t i = 0; i < count; i++) {
        test_send_immediate(job.context[i % CONTEXTS], others[i], ID, NULL, 0, source, 8);
        rma_put(&op[i], job.context[i % CONTEXTS], others[i], source,
                all[test_origin(others[i])] + job.task * BYTES, BYTES);
    }
    rma_wait(&job);
    rma_fence(&job, 0);
    rma_fence(&job, 1);
    free(op);
}

int main(void)
{
    unsigned char *mine, **all;

    job_start(&job, "purge", CONTEXTS);
    rma_open(&job);
    mine = test_alloc(job.tasks * BYTES);
    all = test_alloc(job.tasks * sizeof *all);
    others = test_alloc(job.tasks * CONTEXTS * sizeof *others);
    for (size_t i = 0; i < job.tasks; i++)
        if (i != job.task)
            others[count++] = job_endpoint(&job, i, 0);
    test_dispatch(job.context[0], ID, on_message, NULL, test_ordered());
    test_dispatch(job.context[1], ID, on_message, NULL, test_ordered());
    rma_share(&job, &mine, sizeof mine, all);
    arguments();
    for (size_t round = 0; round < ROUNDS; round++) {
        memset(mine, 0, job.tasks * BYTES);
        received = 0;
        job_barrier(&job);
        exchange(all, round);
        WAIT(&job, received == count);
        job_barrier(&job);
        for (size_t i = 0; i < job.tasks; i++)
            if (i != job.task)
                CHECK_SIZE(test_differs(mine + i * BYTES, BYTES, i + round, 0), BYTES);
        /* Nothing is under way to or from anybody. */
        if (round % 2 == job.task % 2 || round == 2)
            for (size_t i = 0; i < CONTEXTS; i++)
                CHECK_OK(TEST_CALL(PAMI_Purge(job.context[i], others, count)));
        if (round % 3 != 0)
            for (size_t i = 0; i < CONTEXTS; i++)
                CHECK_OK(TEST_CALL(PAMI_Resume(job.context[i], others, count)));
    }
    rma_close(&job);
    free(mine), free(all), free(others);
    return 0;
}
