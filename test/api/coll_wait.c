/*
 * PAMIX_Context_wait between the pieces of a long collective: a task that waits whenever an advance
 * finds nothing does not sleep while the other one goes on. Nobody rings for a piece, so a sleep
 * would last its full time, for each of them.
 *
 * How often it slept the system knows. On a busy machine the other task may not run for longer than
 * the patience of the wait, so one broadcast in which one of them did not sleep is enough; where
 * they sleep for each piece there is none.
 *
 * Run: tasks=2 timeout=60
 */
#include <sys/resource.h>

#include <pamix.h>

#include "coll.h"

enum {
    BYTES = 1 << 20
};

static struct job job;

static long sleeps(void)
{
    struct rusage usage;

    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_nvcsw;
}

static void wait_for(const struct told *told)
{
    double end = test_now() + test_limit();

    while (told->count == 0) {
        pami_result_t result;

        test_advancing++;
        result = PAMI_Context_advance(job.context[0], 1);
        test_advancing--;
        if (result == PAMI_EAGAIN)
            (void)PAMIX_Context_wait(job.context[0], 10000);
        CHECK(test_now() < end);
    }
    CHECK(told->result == PAMI_SUCCESS);
}

static void broadcast(void *buffer, size_t bytes)
{
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_BROADCAST), &told);

    xfer.cmd.xfer_broadcast =
        (pami_broadcast_t){job_endpoint(&job, 0, 0), buffer, PAMI_TYPE_BYTE, bytes};
    coll_start(job.context[0], &xfer);
    wait_for(&told);
}

int main(void)
{
    char *data = test_zalloc(BYTES);
    double end;
    unsigned char found = 0;

    job_start(&job, "coll-wait", 1);
    end = test_now() + test_limit() / 2;
    for (unsigned round = 0; found == 0; round++) {
        struct told told;
        pami_xfer_t xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_ALLREDUCE), &told);
        unsigned char own;
        long before;

        job_barrier(&job);
        before = sleeps();
        broadcast(data, BYTES);
        own = sleeps() == before;
        xfer.cmd.xfer_allreduce = (pami_allreduce_t){(char *)&own,
                                                     PAMI_TYPE_UNSIGNED_CHAR,
                                                     1,
                                                     (char *)&found,
                                                     PAMI_TYPE_UNSIGNED_CHAR,
                                                     1,
                                                     PAMI_DATA_MAX,
                                                     NULL,
                                                     1};
        coll_run(&job, job.context[0], &xfer);
        if (test_now() > end && found == 0)
            FAIL("%u broadcasts, and both tasks slept in each of them", round + 1);
    }
    job_barrier(&job);
    job_finish(&job);
    free(data);
    return 0;
}
