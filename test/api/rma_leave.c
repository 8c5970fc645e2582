/*
 * Puts that were accepted before their task destroyed its context, or just left, still arrive: the
 * last one goes over all of the others' memory, and must not overtake them; also when it waits for
 * one of which nothing is left to do but to hear that it has arrived.
 *
 * Run: tasks=2 args="destroy"
 * Run: tasks=2 args="return"
 * Run: tasks=2 nodes=2 args="destroy"
 * Run: tasks=2 nodes=2 args="return"
 * Run: tasks=2 args="packets"
 * Run: tasks=2 args="behind"
 * Run: tasks=2 args="behind_return"
 * Run: tasks=2 args="destroy" env="PAMI_SHM_SINGLE_COPY=off PAMI_SHM_RING_SLOTS=8"
 */
#include "rma.h"

enum {
    PIECES = 24,
    PIECE = 1 << 20,
    EARLY = 5,
    LAST = 7
};

static struct job job;

static void put(unsigned char *local, unsigned char *remote, size_t bytes, bool packets)
{
    pami_put_simple_t parameters = {
        .rma = {.dest = job_endpoint(&job, 1, 0), .bytes = bytes},
        .addr = {local, remote},
    };

    if (packets)
        parameters.rma.hints.use_shmem = PAMI_HINT_DISABLE;
    CHECK_OK(TEST_CALL(PAMI_Put(job.context[0], &parameters)));
}

/* The last one's bytes, everywhere. */
static bool has_arrived(const unsigned char *memory)
{
    const volatile unsigned char *look = memory;

    for (size_t i = 1; i <= PIECES; i++)
        if (look[i * PIECE - 1] != LAST)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "destroy";
    bool packets = strcmp(how, "packets") == 0;
    bool behind = strncmp(how, "behind", 6) == 0;
    static unsigned char *mine, *volatile last; /* in use until the end of the process */
    unsigned char *all[2];

    mine = test_alloc((size_t)PIECES * PIECE);
    job_start(&job, "rma_leave", 1);
    CHECK(job.tasks == 2);
    rma_open(&job);
    memset(mine, 0, (size_t)PIECES * PIECE);
    rma_share(&job, &mine, sizeof mine, all);
    if (job.task == 1) {
        if (behind)
            test_sleep(0.2);
        WAIT(&job, has_arrived(mine));
        CHECK(test_all(mine, (size_t)PIECES * PIECE, LAST));
        return 0;
    }
    memset(mine, EARLY, (size_t)PIECES * PIECE);
    for (size_t i = 0; i < PIECES && !behind; i++)
        put(mine + i * PIECE, all[1] + i * PIECE, PIECE, packets);
    if (behind)
        put(mine, all[1], 8, true);
    last = test_alloc((size_t)PIECES * PIECE);
    memset(last, LAST, (size_t)PIECES * PIECE);
    put(last, all[1], (size_t)PIECES * PIECE, packets);
    if (strstr(how, "return") != NULL)
        return 0;
    CHECK_OK(PAMI_Context_destroyv(job.context, 1));
    CHECK_OK(PAMI_Client_destroy(&job.client));
    return 0;
}
