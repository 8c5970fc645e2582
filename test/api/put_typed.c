/*
 * PAMI_Put_typed: the stream of data bytes of one layout goes into another one. Both types are the
 * origin's own handles. Layouts repeat, end anywhere, overlap (the source's), run downwards; gaps
 * stay untouched, also where the node shares the target's memory. The types may be destroyed as
 * soon as the call has returned. Predefined types are types. A type without data cannot move any.
 *
 * Run: tasks=1,2,3,8
 * Run: tasks=2,5 nodes=2
 * Run: tasks=2,3 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=3 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_CHUNK_BYTES=1K PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_YIELD=always"
 */
#include "rma_layouts.h"

enum {
    BATCHES = 6,
    EACH = 40,
    MOST = 8000,
    MOST_LARGE = 200000 /* more pieces than one vectored copy takes, more bytes than a buffer */
};

static struct job job;
static size_t next, previous;

/* Of the transfers that this task starts. */
static uint64_t seed_of(size_t task, size_t batch, size_t i)
{
    return ((uint64_t)task * BATCHES + batch) * EACH + i + 1;
}

static size_t most_of(size_t batch)
{
    return batch == 0 ? 50 : batch == 1 ? MOST_LARGE : MOST;
}

static void batch(size_t number)
{
    struct rma_typed mine[EACH], theirs[EACH];
    unsigned char *window[EACH], *source[EACH];
    unsigned char **all = test_alloc(job.tasks * sizeof window);
    struct rma op[EACH];

    for (size_t i = 0; i < EACH; i++) {
        theirs[i] = rma_typed_random(seed_of(previous, number, i), most_of(number));
        window[i] = rma_window(&job, i, theirs[i].to.room);
        memset(window[i], RMA_GUARD_BYTE, theirs[i].to.room);
    }
    rma_share(&job, window, sizeof window, all);
    for (size_t i = 0; i < EACH; i++) {
        struct rma_typed *t = &mine[i];

        *t = rma_typed_random(seed_of(job.task, number, i), most_of(number));
        source[i] = test_alloc(t->from.room);
        test_fill(source[i], t->from.room, t->seed, 0);
        op[i] = (struct rma){.spoil = source[i], .spoil_bytes = t->from.room};
        rma_put_typed(
            &op[i], job.context[0], job_endpoint(&job, next, i % 2),
            (pami_rma_addr_t){source[i] + t->from.base, all[next * EACH + i] + t->to.base},
            (pami_rma_typed_t){t->from.type, t->to.type}, t->bytes);
        if (i % 2) /* the library holds on to it */
            rma_typed_free(t);
    }
    rma_wait(&job);
    job_barrier(&job);
    for (size_t i = 0; i < EACH; i++) {
        rma_typed_verify(&theirs[i], window[i], seed_of(previous, number, i));
        rma_typed_free(&theirs[i]);
        rma_typed_free(&mine[i]);
        rma_window_free(&job, i, window[i]);
        free(source[i]);
    }
    free(all);
}

/* Predefined types on one side or on both, and not a whole number of them. */
static void predefined(void)
{
    enum {
        BYTES = 999,
        KINDS = 6
    };
    static unsigned char source[BYTES], window[KINDS * KINDS][BYTES + 1];
    void *mine = window, **all = test_alloc(job.tasks * sizeof *all);
    struct rma op[KINDS * KINDS] = {0};

    memset(window, 0x11, sizeof window);
    test_fill(source, BYTES, job.task, 0);
    rma_share(&job, &mine, sizeof mine, all);
    for (size_t i = 0; i < KINDS * KINDS; i++) {
        pami_rma_typed_t type;

        rma_predefined(i / KINDS, &type.local);
        rma_predefined(i % KINDS, &type.remote);
        rma_put_typed(&op[i], job.context[1], job_endpoint(&job, next, 0),
                      (pami_rma_addr_t){source, (char *)all[next] + i * (BYTES + 1)}, type, BYTES);
    }
    rma_wait(&job);
    job_barrier(&job);
    for (size_t i = 0; i < KINDS * KINDS; i++) {
        CHECK_SIZE(test_differs(window[i], BYTES, previous, 0), BYTES);
        CHECK(window[i][BYTES] == 0x11);
    }
    job_barrier(&job);
    free(all);
}

static void refused(void)
{
    static char memory[64];
    pami_type_t empty, incomplete;
    struct rma op = {0};
    pami_put_typed_t put = {
        .rma = rma_head(&op, true, job.context[0], job_endpoint(&job, next, 0), 8),
        .addr = {memory, memory},
        .type = {PAMI_TYPE_BYTE, PAMI_TYPE_BYTE},
        .put = rma_tail(&op),
    };

    CHECK_OK(PAMI_Type_create(&incomplete));
    CHECK_OK(PAMI_Type_create(&empty));
    CHECK_OK(PAMI_Type_complete(empty, 1));
    put.type.local = incomplete;
    CHECK_REFUSED(PAMI_Put_typed(job.context[0], &put), PAMI_INVAL, "type");
    put.type.local = empty;
    CHECK_REFUSED(PAMI_Put_typed(job.context[0], &put), PAMI_INVAL, "type");
    put.type.local = PAMI_TYPE_BYTE;
    put.type.remote = incomplete;
    CHECK_REFUSED(PAMI_Put_typed(job.context[0], &put), PAMI_INVAL, "type");
    put.type.remote = empty;
    CHECK_REFUSED(PAMI_Put_typed(job.context[0], &put), PAMI_INVAL, "type");
    put.type.remote = PAMI_TYPE_NULL;
    CHECK_REFUSED(PAMI_Put_typed(job.context[0], &put), PAMI_INVAL, "type");
    job_linger(&job, 0.005);
    CHECK(op.done == 0 && op.rdone == 0);
    CHECK_OK(PAMI_Type_destroy(&empty));
    CHECK_OK(PAMI_Type_destroy(&incomplete));
    rma_pending = 0;
}

int main(void)
{
    job_start(&job, "put_typed", 2);
    rma_open(&job);
    next = (job.task + 1) % job.tasks;
    previous = (job.task + job.tasks - 1) % job.tasks;
    for (size_t i = 0; i < BATCHES; i++)
        batch(i);
    predefined();
    refused();
    rma_close(&job);
    return 0;
}
