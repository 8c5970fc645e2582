/*
 * A task with a processor of its own gives it up at one of eight idle passes, and only after a long
 * spin: a network that rests between looks is then looked at often enough by a task that sees no
 * events, as those whose memory others read and write.
 *
 * Run: tasks=1 env="PAMI_YIELD=auto"
 */
#define TEST_LIMIT 60
#include "api_test.h"

#include <sched.h>
#include <sys/syscall.h>

enum {
    SPIN = 4096, /* more than the passes before the first yield */
    PASSES = 8000,
    RESTS = PASSES / 8 / 100 + 1 /* at most: where others run, one yield in a hundred is a sleep */
};

static size_t yields;

/* In the place of the system's, for the library. */
__attribute__((visibility("default"))) int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

static void idle(struct job *job, size_t passes)
{
    for (size_t i = 0; i < passes; i++)
        CHECK_RESULT(test_advance(job->context[0], 1), PAMI_EAGAIN);
}

int main(void)
{
    struct job job;

    job_start(&job, "yield_seldom", 1);
    idle(&job, SPIN);
    yields = 0;
    idle(&job, PASSES);
    CHECK(yields >= PASSES / 8 - 1 - RESTS && yields <= PASSES / 8 + 1);
    job_finish(&job);
    return 0;
}
