/*
 * The first put to a neighbour's heap takes no page fault for each page: no more of them than a
 * get from as much that was never touched here, which the kernel maps many pages at a time for.
 *
 * Run: tasks=2
 */
#include "rma.h"

#include <pamix.h>
#include <sys/resource.h>

enum {
    BLOCK = 8 << 20,
    PIECE = 1 << 20
};

static struct job job;
static size_t ended;

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    ended++;
}

static long faults(void)
{
    struct rusage usage;

    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

static void put_piece(char *from, char *to)
{
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, 1, 0), .bytes = PIECE},
        .addr = {.local = from, .remote = to},
        .put = {.rdone_fn = on_end},
    };

    CHECK_OK(TEST_CALL(PAMI_Put(job.context[0], &put)));
}

static void get_piece(char *to, char *from)
{
    pami_get_simple_t get = {
        .rma = {.dest = job_endpoint(&job, 1, 0), .bytes = PIECE, .done_fn = on_end},
        .addr = {.local = to, .remote = from},
    };

    CHECK_OK(TEST_CALL(PAMI_Get(job.context[0], &get)));
}

/* How many faults it takes to move a block of task 1's, `move` piece by piece. */
static long moves(char *block, char *local, void (*move)(char *local, char *remote))
{
    long before = faults();

    ended = 0;
    for (size_t at = 0; at < BLOCK; at += PIECE) {
        move(local, block + at);
        WAIT(&job, ended == at / PIECE + 1);
    }
    return faults() - before;
}

int main(void)
{
    char *blocks[3], *all[2][3], *local;

    job_start(&job, "mem_fresh", 1);
    rma_open(&job);
    for (size_t i = 0; i < 3; i++) {
        CHECK_OK(PAMIX_Mem_alloc(job.client, BLOCK, 0, PAMIX_MEM_LOCAL, (void **)&blocks[i]));
        test_fill(blocks[i], BLOCK, i, 0);
    }
    rma_share(&job, blocks, sizeof blocks, all);
    local = test_alloc(PIECE);
    test_fill(local, PIECE, 7, 0);
    job_barrier(&job);
    if (job.task == 0) {
        long got, put;

        moves(all[1][2], local, get_piece); /* whatever else is done once */
        got = moves(all[1][0], local, get_piece);
        test_fill(local, PIECE, 7, 0);
        put = moves(all[1][1], local, put_piece);
        if (put > 2 * got + 64)
            FAIL("%ld faults of puts, %ld of gets", put, got);
    }
    job_barrier(&job);
    for (size_t at = 0; at < BLOCK && job.task == 1; at += PIECE)
        CHECK_SIZE(test_differs(blocks[1] + at, PIECE, 7, 0), PIECE);
    free(local);
    rma_close(&job);
    return 0;
}
