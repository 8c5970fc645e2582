/*
 * A task with a processor of its own gives it up at one of eight idle passes, and only after a long
 * spin: a network that rests between looks is then looked at often enough by a task that sees no
 * events, as those whose memory others read and write. The spin takes about as long over a network,
 * where passes take longer: there are fewer of them.
 *
 * Run: tasks=1 env="PAMI_YIELD=auto"
 * Run: tasks=2 nodes=2 args="network" env="PAMI_YIELD=auto PAMI_NETWORK=ofi"
 */
#define TEST_LIMIT 60
#include "api_test.h"

#include <sched.h>
#include <sys/syscall.h>

enum {
    SPIN = 4096, /* more than the passes before the first yield */
    PASSES = 8000,
    RESTS = PASSES / 8 / 100 + 1, /* at most: where others run, one yield in a hundred is a sleep */
    SPIN_NETWORK = 256,
    TRIES = 50
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

static pami_result_t nothing(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    return PAMI_SUCCESS;
}

/* Idle passes after an event until the first yield; SPIN: something has come meanwhile. */
static size_t passes_to_yield(struct job *job)
{
    pami_work_t work;
    size_t passes = 0;

    CHECK_OK(PAMI_Context_post(job->context[0], &work, nothing, NULL));
    CHECK_RESULT(test_advance(job->context[0], 1), PAMI_SUCCESS);
    yields = 0;
    while (yields == 0 && passes < SPIN)
        passes = test_advance(job->context[0], 1) == PAMI_EAGAIN ? passes + 1 : SPIN;
    return passes;
}

static void check_network(struct job *job)
{
    size_t least = SPIN;

    for (int i = 0; i < TRIES; i++) {
        size_t passes = passes_to_yield(job);

        least = passes < least ? passes : least;
    }
    if (least > SPIN_NETWORK)
        FAIL("no yield within %d idle passes, but after %zu", SPIN_NETWORK, least);
}

int main(int argc, char **argv)
{
    struct job job;

    job_start(&job, "yield_seldom", 1);
    if (argc > 1 && strcmp(argv[1], "network") == 0) {
        job_barrier(&job);
        check_network(&job);
        job_barrier(&job);
        job_finish(&job);
        return 0;
    }
    idle(&job, SPIN);
    yields = 0;
    idle(&job, PASSES);
    CHECK(yields >= PASSES / 8 - 1 - RESTS && yields <= PASSES / 8 + 1);
    job_finish(&job);
    return 0;
}
