/*
 * PAMI_Get_typed: the stream of data bytes of a layout at the target comes into a local layout.
 * Both types are handles of the origin. Layouts repeat, end anywhere, overlap (the remote one), run
 * downwards; gaps stay untouched, also where pieces and gaps are of many lengths, up to more than
 * is read at once, and where the node shares the target's memory. The types may be destroyed as
 * soon as the call has returned.
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
    return 1000000 + ((uint64_t)task * BATCHES + batch) * EACH + i;
}

static size_t most_of(size_t batch)
{
    return batch == 0 ? 50 : batch == 1 ? MOST_LARGE : MOST;
}

static void batch(size_t number)
{
    size_t most = most_of(number);
    struct rma_typed mine[EACH];
    unsigned char *source[EACH], *target[EACH];
    unsigned char **all = test_alloc(job.tasks * sizeof source);
    struct rma op[EACH];

    for (size_t i = 0; i < EACH; i++) {
        struct rma_typed theirs = rma_typed_random(seed_of(previous, number, i), most);

        source[i] = rma_window(&job, i, theirs.from.room);
        test_fill(source[i], theirs.from.room, theirs.seed, 0);
        rma_typed_free(&theirs);
    }
    rma_share(&job, source, sizeof source, all);
    for (size_t i = 0; i < EACH; i++) {
        struct rma_typed *t = &mine[i];

        *t = rma_typed_random(seed_of(job.task, number, i), most);
        target[i] = memset(test_alloc(t->to.room), RMA_GUARD_BYTE, t->to.room);
        op[i] = (struct rma){0};
        rma_get_typed(
            &op[i], job.context[0], job_endpoint(&job, next, i % 2),
            (pami_rma_addr_t){target[i] + t->to.base, all[next * EACH + i] + t->from.base},
            (pami_rma_typed_t){t->to.type, t->from.type}, t->bytes);
        if (i % 2) /* the library holds on to it */
            rma_typed_free(t);
    }
    rma_wait(&job);
    for (size_t i = 0; i < EACH; i++) {
        rma_typed_verify(&mine[i], target[i], seed_of(job.task, number, i));
        rma_typed_free(&mine[i]);
    }
    job_barrier(&job);
    for (size_t i = 0; i < EACH; i++) {
        rma_window_free(&job, i, source[i]);
        free(target[i]);
    }
    free(all);
}

/* No two neighbours are alike; the local layout is in other pieces. */
static void uneven(void)
{
    static const size_t bytes[] = {8, 1, 24, 4096, 16, 4097, 3};
    static const size_t gap[] = {8, 0, 1024, 40, 1025, 5000, 1, 700, 64, 9, 2};
    size_t pieces = 7 * 11 * 3, room = 0, data = 0, x = 0;
    unsigned char *source, *target, **all = test_alloc(job.tasks * sizeof *all);
    pami_type_t remote, local;
    struct rma op = {0};

    CHECK_OK(PAMI_Type_create(&remote));
    for (size_t i = 0; i < pieces; i++) {
        CHECK_OK(PAMI_Type_add_simple(remote, bytes[i % 7], gap[i % 11], 1, bytes[i % 7]));
        room += gap[i % 11] + bytes[i % 7];
        data += bytes[i % 7];
    }
    CHECK_OK(PAMI_Type_complete(remote, 1));
    CHECK_OK(PAMI_Type_create(&local));
    CHECK_OK(PAMI_Type_add_simple(local, 5, 0, 1, 7));
    CHECK_OK(PAMI_Type_complete(local, 1));
    source = test_alloc(room);
    test_fill(source, room, job.task, 0);
    target = memset(test_alloc(data + data / 5 * 2 + 7), RMA_GUARD_BYTE, data + data / 5 * 2 + 7);
    rma_share(&job, &source, sizeof source, all);
    rma_get_typed(&op, job.context[0], job_endpoint(&job, next, 0),
                  (pami_rma_addr_t){target, all[next]}, (pami_rma_typed_t){local, remote}, data);
    rma_wait(&job);
    room = 0;
    for (size_t i = 0; i < pieces; i++) {
        room += gap[i % 11];
        for (size_t j = 0; j < bytes[i % 7]; j++, x++)
            CHECK(target[x / 5 * 7 + x % 5] == test_byte(next, room++));
    }
    for (x = 0; x + 1 < data / 5; x++)
        CHECK(test_all(target + 7 * x + 5, 2, RMA_GUARD_BYTE));
    job_barrier(&job);
    free(source), free(target), free(all);
    CHECK_OK(PAMI_Type_destroy(&remote));
    CHECK_OK(PAMI_Type_destroy(&local));
}

static void refused(void)
{
    static char memory[64];
    pami_type_t empty, incomplete;
    struct rma op = {0};
    pami_get_typed_t get = {
        .rma = rma_head(&op, false, job.context[0], job_endpoint(&job, next, 0), 8),
        .addr = {memory, memory},
        .type = {PAMI_TYPE_BYTE, PAMI_TYPE_BYTE},
    };

    CHECK_OK(PAMI_Type_create(&incomplete));
    CHECK_OK(PAMI_Type_create(&empty));
    CHECK_OK(PAMI_Type_complete(empty, 1));
    get.type.local = incomplete;
    CHECK_REFUSED(PAMI_Get_typed(job.context[0], &get), PAMI_INVAL, "type");
    get.type.local = empty;
    CHECK_REFUSED(PAMI_Get_typed(job.context[0], &get), PAMI_INVAL, "type");
    get.type.local = PAMI_TYPE_BYTE;
    get.type.remote = incomplete;
    CHECK_REFUSED(PAMI_Get_typed(job.context[0], &get), PAMI_INVAL, "type");
    get.type.remote = PAMI_TYPE_NULL;
    CHECK_REFUSED(PAMI_Get_typed(job.context[0], &get), PAMI_INVAL, "type");
    job_linger(&job, 0.005);
    CHECK(op.done == 0);
    CHECK_OK(PAMI_Type_destroy(&empty));
    CHECK_OK(PAMI_Type_destroy(&incomplete));
    rma_pending = 0;
}

int main(void)
{
    job_start(&job, "get_typed", 2);
    rma_open(&job);
    next = (job.task + 1) % job.tasks;
    previous = (job.task + job.tasks - 1) % job.tasks;
    for (size_t i = 0; i < BATCHES; i++)
        batch(i);
    uneven();
    refused();
    rma_close(&job);
    return 0;
}
