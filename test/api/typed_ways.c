/*
 * By which way a typed put goes is a matter of what its target's layout mostly is, not of how it
 * begins: many small pieces behind a long one go by packets, a long one behind a short one by
 * single copy. What PAMI_STATS says of a context's puts shows it. Skipped where the kernel refuses
 * copies between processes.
 *
 * Run: tasks=2 env="PAMI_STATS=1"
 */
#include "rma.h"
#include "stats.h"

enum {
    SHORT = 8,
    LONG = 1 << 20,
    HEAD = 2000,
    PIECES = 4000
};

/* `bytes`, then `pieces` of SHORT with as much between them. */
static pami_type_t layout(size_t bytes, size_t pieces)
{
    pami_type_t type;

    CHECK_OK(PAMI_Type_create(&type));
    CHECK_OK(PAMI_Type_add_simple(type, bytes, 0, 1, bytes));
    CHECK_OK(PAMI_Type_add_simple(type, SHORT, SHORT, pieces, 2 * SHORT));
    CHECK_OK(PAMI_Type_complete(type, 1));
    return type;
}

/* Each task puts an instance of the layout into the other one's memory. Returns the bytes that went
 * by single copy. */
static unsigned long long copied(pami_type_t type, size_t bytes, size_t room)
{
    unsigned char *source, *window, *all[2];
    pami_put_typed_t put = {.type = {type, type}};
    struct rma op = {0};
    struct job job;

    job_start(&job, "typed_ways", 1);
    rma_open(&job);
    source = test_alloc(room);
    window = memset(test_alloc(room), RMA_GUARD_BYTE, room);
    test_fill(source, room, job.task, 0);
    rma_share(&job, &window, sizeof window, all);
    put.rma = rma_head(&op, true, job.context[0], job_endpoint(&job, 1 - job.task, 0), bytes);
    put.rma.hints = (pami_send_hint_t){0}; /* one of them asks for packets */
    put.addr = (pami_rma_addr_t){source, all[1 - job.task]};
    put.put = rma_tail(&op);
    CHECK_OK(PAMI_Put_typed(job.context[0], &put));
    rma_wait(&job);
    job_barrier(&job);
    for (size_t i = 0; i < SHORT; i++)
        CHECK(window[i] == test_byte(1 - job.task, i));
    job_barrier(&job);
    free(source), free(window);
    return stats_at_end(&job, rma_close, "puts: single copy: bytes");
}

int main(void)
{
    pami_type_t plain = layout(LONG, 0), fine = layout(HEAD, PIECES), coarse;

    if (copied(plain, LONG, LONG) != LONG) {
        printf("SKIP: no copies between processes\n");
        return 77;
    }
    if (copied(fine, HEAD + PIECES * SHORT, HEAD + PIECES * 2 * SHORT) != 0)
        FAIL("small pieces behind %d bytes went by single copy", HEAD);
    CHECK_OK(PAMI_Type_create(&coarse));
    CHECK_OK(PAMI_Type_add_simple(coarse, SHORT, 0, 1, 8 * SHORT));
    CHECK_OK(PAMI_Type_add_simple(coarse, LONG, 0, 1, LONG));
    CHECK_OK(PAMI_Type_complete(coarse, 1));
    if (copied(coarse, SHORT + LONG, 8 * SHORT + LONG) != SHORT + LONG)
        FAIL("%d bytes behind %d went by packets", LONG, SHORT);
    CHECK_OK(PAMI_Type_destroy(&plain));
    CHECK_OK(PAMI_Type_destroy(&fine));
    CHECK_OK(PAMI_Type_destroy(&coarse));
    return 0;
}
