/*
 * Crowded tasks spread over their processors: a thread that has given its processor up often enough
 * is sent to the one whose turn it is, and may run on all of them again, however it advances. One
 * that the program has bound meanwhile stays where it is, and so does everybody where too many
 * share a processor.
 *
 * Run: tasks=3,8,9
 */
#define TEST_LIMIT 60
#include "api_test.h"

#include <sched.h>
#include <sys/syscall.h>

enum {
    PROCESSORS = 2,
    CROWD = 4 * PROCESSORS, /* more do not spread */
    MANY_YIELDS = 512,
    MORE_YIELDS = 66000 /* it happens once in so many at least */
};

static int processor[PROCESSORS];
static size_t yields, moves, returns;
static cpu_set_t own; /* what this thread may use */

static cpu_set_t mask(void)
{
    cpu_set_t cpus;

    CHECK(sched_getaffinity(0, sizeof cpus, &cpus) == 0);
    return cpus;
}

static void bind_to(const cpu_set_t *cpus)
{
    CHECK(syscall(SYS_sched_setaffinity, 0, sizeof *cpus, cpus) == 0);
    own = *cpus;
}

/* ---- in the place of the system's, for the library ---- */

__attribute__((visibility("default"))) int sched_yield(void)
{
    yields++;
    return (int)syscall(SYS_sched_yield);
}

__attribute__((visibility("default"))) int sched_setaffinity(pid_t pid, size_t size,
                                                             const cpu_set_t *cpus)
{
    CHECK(pid == 0 && size == sizeof *cpus);
    if (CPU_EQUAL(cpus, &own)) {
        CHECK_SIZE(++returns, moves);
    } else {
        CHECK(CPU_COUNT(cpus) == 1 && CPU_ISSET(processor[test_task % PROCESSORS], cpus));
        CHECK_SIZE(++moves, returns + 1);
    }
    return (int)syscall(SYS_sched_setaffinity, pid, size, cpus);
}

/* ---- the test ---- */

static void begin(void)
{
    cpu_set_t all = mask(), two;
    int count = 0;

    CPU_ZERO(&two);
    for (int cpu = 0; cpu < CPU_SETSIZE && count < PROCESSORS; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &two);
            processor[count++] = cpu;
        }
    bind_to(&two);
}

static void idle(struct job *job, size_t count)
{
    yields = 0;
    WAIT(job, yields >= count);
    CHECK_SIZE(returns, moves);
}

static void idle_with_lock(struct job *job, size_t count)
{
    yields = moves = returns = 0;
    WAIT_WITH(test_trylock_advance(job->context, 1, 1), yields >= count);
    CHECK((moves != 0) == (job->tasks <= CROWD));
    CHECK_SIZE(returns, moves);
}

int main(void)
{
    struct job job;
    cpu_set_t one, now;

    begin();
    job_start(&job, "spread", 1);
    if (client_attribute(job.client, PAMI_CLIENT_HWTHREADS_AVAILABLE) < PROCESSORS)
        test_skip("fewer than two processors");
    idle(&job, MANY_YIELDS);
    CHECK((moves != 0) == (job.tasks <= CROWD)); /* it may have waited for long at the start */
    now = mask();
    CHECK(CPU_EQUAL(&now, &own));
    idle_with_lock(&job, MORE_YIELDS);
    job_barrier(&job);

    job_destroy_contexts(&job);
    job_create_contexts(&job, 1);
    CPU_ZERO(&one);
    CPU_SET(processor[(job.task + 1) % PROCESSORS], &one);
    bind_to(&one);
    moves = returns = 0;
    idle(&job, MORE_YIELDS);
    CHECK_SIZE(moves, 0);
    now = mask();
    CHECK(CPU_EQUAL(&now, &own));
    job_finish(&job);
    return 0;
}
