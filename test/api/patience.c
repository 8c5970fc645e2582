/*
 * Who has a processor to itself, and in a crowded job waits in a collective for tasks on others,
 * keeps it for a while, however the program advances: one context, several, or with their locks.
 *
 * Run: tasks=3,5
 */
#define TEST_LIMIT 60
#include "coll.h"

#include <sched.h>
#include <sys/syscall.h>

enum {
    PROCESSORS = 2,
    CONTEXTS = 2,
    WARM = 100,
    TRIES = 20,
    KEPT = 16 /* passes at least; without patience they are fewer than 4 */
};

static size_t yields;
static struct job job;

/* In the place of the system's, for the library. */
__attribute__((visibility("default"))) int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

static void advance_one(void)
{
    PAMI_Context_advance(job.context[0], 1);
}

static void advance_all(void)
{
    PAMI_Context_advancev(job.context, CONTEXTS, 1);
}

static void advance_locked(void)
{
    PAMI_Context_trylock_advancev(job.context, CONTEXTS, 1);
}

static void (*const ways[])(void) = {advance_one, advance_all, advance_locked};

/* Task 0 has the first processor, the others share the second one. */
static bool divide(void)
{
    cpu_set_t all, one;
    int wanted = job.task == 0 ? 0 : 1, cpu = 0;

    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    if (CPU_COUNT(&all) < PROCESSORS)
        return false;
    while (!CPU_ISSET(cpu, &all) || wanted-- > 0)
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    *(bool *)cookie = true;
}

/* The passes of a barrier that kept the processor; 0: nothing made it wait for long enough. */
static size_t barrier(pami_algorithm_t algorithm, void (*advance)(void))
{
    bool done = false;
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = &done, .algorithm = algorithm};
    size_t passes = 0, kept = 0;

    yields = 0;
    CHECK_OK(PAMI_Collective(job.context[0], &xfer));
    while (!done) {
        test_advancing++;
        advance();
        test_advancing--;
        passes++;
        if (kept == 0 && yields != 0)
            kept = passes;
    }
    return kept;
}

static void try_way(pami_algorithm_t algorithm, void (*advance)(void))
{
    size_t most = 0;

    for (int i = 0; i < TRIES; i++) {
        size_t kept;

        for (int j = 0; j < WARM; j++)
            barrier(algorithm, advance);
        if (job.task != 0)
            test_sleep(0.01);
        kept = barrier(algorithm, advance);
        most = kept > most ? kept : most;
    }
    if (job.task == 0 && most < KEPT)
        FAIL("the processor was given up after %zu passes", most);
}

int main(void)
{
    pami_geometry_t world;

    job_start(&job, "patience", CONTEXTS);
    if (client_attribute(job.client, PAMI_CLIENT_HWTHREADS_AVAILABLE) < PROCESSORS || !divide())
        test_skip("fewer than two processors");
    CHECK_OK(PAMI_Geometry_world(job.client, &world));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        try_way(algorithm_of(world, PAMI_XFER_BARRIER), ways[i]);
    job_finish(&job);
    return 0;
}
