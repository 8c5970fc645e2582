/*
 * The segments of a long allreduce that is composed of others use the memory of the segments before
 * them: large memory is allocated a few times, not for each segment. The result is right, also in
 * the last segment, which is shorter.
 *
 * Run: tasks=2,3,5 timeout=60
 * Run: tasks=4 nodes=2 timeout=60
 */
#include "coll.h"

static int large; /* blocks that were allocated; 0 where the sanitizer has the memory */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern void *__libc_memalign(size_t alignment, size_t bytes);

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes)
{
    large += bytes >= (size_t)64 << 10;
    return __libc_memalign(alignment, bytes);
}
#endif

enum {
    WORDS = (8 << 20) / 8 + 3, /* 64 segments */
    LARGE_MOST = 12            /* of a task: three segments are under way at a time */
};

static struct job job;
static uint64_t source[WORDS], target[WORDS];

int main(void)
{
    pami_algorithm_t algorithm;
    struct told told;
    pami_xfer_t xfer;

    job_start(&job, "coll-segments", 1);
    algorithm = algorithm_named(world_of(&job), PAMI_XFER_ALLREDUCE, "PipelinedReduceBroadcast");
    CHECK(algorithm != PAMI_ALGORITHM_NULL);
    for (size_t i = 0; i < WORDS; i++)
        source[i] = (job.task + 1) * (i + 1);
    xfer = coll_xfer(algorithm, &told);
    xfer.cmd.xfer_allreduce = coll_sum(source, target, PAMI_TYPE_UNSIGNED_LONG, WORDS);
    large = 0;
    coll_run(&job, job.context[0], &xfer);
    if (large > LARGE_MOST)
        FAIL("%d large blocks were allocated for one allreduce", large);
    for (size_t i = 0; i < WORDS; i++)
        CHECK(target[i] == job.tasks * (job.tasks + 1) / 2 * (i + 1));
    job_finish(&job);
    return 0;
}
