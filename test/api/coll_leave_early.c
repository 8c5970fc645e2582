/*
 * Everybody leaves as soon as its part of a collective is done, and one member looks much later: it
 * finds all that it needs in the memory that they share, and ends well although they have gone.
 * Afterwards a collective that they do not come to fails.
 *
 * Run: tasks=2,3,5 args="barrier" timeout=60
 * Run: tasks=2,5 args="allreduce 1" timeout=60
 * Run: tasks=2,3,5 args="allreduce 100" timeout=60
 * Run: tasks=2,5 args="broadcast 1" timeout=60
 * Run: tasks=3 args="broadcast 1000" timeout=60
 * Run: tasks=2,5 args="allgather 100" timeout=60
 * Run: tasks=4 nodes=2 args="allreduce 100" timeout=60
 */
#include "coll.h"

enum {
    WORDS = 1000
};

static struct job job;
static uint64_t from[WORDS], to[8 * WORDS];

static pami_xfer_t prepare(const char *type, size_t words, struct told *told)
{
    pami_endpoint_t root = job_endpoint(&job, 1, 0);
    bool barrier = strcmp(type, "barrier") == 0, broadcast = strcmp(type, "broadcast") == 0;
    bool allreduce = strcmp(type, "allreduce") == 0;
    struct algorithms all = algorithms_of(world_of(&job), barrier     ? PAMI_XFER_BARRIER
                                                          : broadcast ? PAMI_XFER_BROADCAST
                                                          : allreduce ? PAMI_XFER_ALLREDUCE
                                                                      : PAMI_XFER_ALLGATHER);
    pami_xfer_t xfer = coll_xfer(all.handle[0][0], told);

    if (broadcast)
        xfer.cmd.xfer_broadcast = (pami_broadcast_t){root, (char *)(job.task == 1 ? from : to),
                                                     PAMI_TYPE_UNSIGNED_LONG, words};
    else if (allreduce)
        xfer.cmd.xfer_allreduce = coll_sum(from, to, PAMI_TYPE_UNSIGNED_LONG, words);
    else if (!barrier)
        xfer.cmd.xfer_allgather = (pami_allgather_t){(char *)from, PAMI_TYPE_UNSIGNED_LONG, words,
                                                     (char *)to,   PAMI_TYPE_UNSIGNED_LONG, words};
    algorithms_free(&all);
    return xfer;
}

static void check(const char *type, size_t words)
{
    for (size_t i = 0; i < words && strcmp(type, "allreduce") == 0; i++)
        CHECK_SIZE(to[i], job.tasks * i + job.tasks * (job.tasks - 1) / 2);
    for (size_t i = 0; i < words && strcmp(type, "broadcast") == 0; i++)
        CHECK_SIZE((job.task == 1 ? from : to)[i], 1 + i);
    for (size_t i = 0; i < words * job.tasks && strcmp(type, "allgather") == 0; i++)
        CHECK_SIZE(to[i], i / words + i % words);
}

int main(int argc, char **argv)
{
    const char *type = argc > 1 ? argv[1] : "barrier";
    size_t words = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
    struct told told;
    pami_xfer_t xfer;

    job_start(&job, "coll-leave-early", 1);
    xfer = prepare("barrier", 0, &told);
    coll_run(&job, job.context[0], &xfer);
    for (size_t i = 0; i < words; i++)
        from[i] = job.task + i;
    xfer = prepare(type, words, &told);
    coll_start(job.context[0], &xfer);
    if (job.task == 0)
        test_sleep(0.3);
    WAIT(&job, told.count != 0);
    if (told.result != PAMI_SUCCESS)
        FAIL("a collective ended with %d: %s", (int)told.result, test_text());
    check(type, words);
    if (job.task == 0 && job.tasks > 1) {
        test_sleep(0.3);
        xfer = prepare("barrier", 0, &told);
        coll_start(job.context[0], &xfer);
        WAIT(&job, told.count != 0);
        CHECK_RESULT(told.result, PAMI_ERROR);
    }
    job_destroy(&job);
    return 0;
}
