/*
 * A member that has done its part may leave at once: the root of a broadcast ends while others have
 * not even called yet. The argument is the algorithm's position in the list.
 *
 * Run: tasks=2,3,5 nodes=1,2 args="0" timeout=60
 * Run: tasks=2,5 args="1" timeout=60
 * Run: tasks=2,5 args="4" timeout=60
 * Run: tasks=2,5 args="8" timeout=60
 */
#include "coll.h"

int main(int argc, char **argv)
{
    size_t wanted = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
    struct algorithms all;
    struct told told;
    struct job job;
    pami_xfer_t xfer;
    int value;

    job_start(&job, "coll-leave", 1);
    all = algorithms_of(world_of(&job), PAMI_XFER_BROADCAST);
    xfer = coll_xfer(all.handle[0][wanted % all.count[0]], &told);
    value = job.task == 0 ? 4711 : -1;
    xfer.cmd.xfer_broadcast =
        (pami_broadcast_t){job_endpoint(&job, 0, 0), (char *)&value, PAMI_TYPE_SIGNED_INT, 1};
    if (job.task != 0)
        test_sleep(0.05 * (double)job.task);
    coll_run(&job, job.context[0], &xfer);
    CHECK(value == 4711);
    algorithms_free(&all);
    job_destroy(&job);
    return 0;
}
