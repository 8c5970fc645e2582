/*
 * A thread of asynchronous progress keeps away from the processor that its program was last on,
 * when nobody has said where it is to run; and does not, when somebody has.
 *
 * Run: tasks=1
 * Run: tasks=1 env="PAMI_ASYNC_CPUS=any"
 */
#include "async.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 20
};

static struct job job;
static size_t done;
static int seen;
static cpu_set_t may_use;

static pami_result_t look(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    seen = sched_getcpu();
    CHECK(sched_getaffinity(0, sizeof may_use, &may_use) == 0);
    __atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
    return PAMI_SUCCESS;
}

static void ask(void)
{
    static pami_work_t work;
    size_t before = load(&done);

    CHECK_OK(PAMI_Context_post(job.context[0], &work, look, NULL));
    WAIT_WITH(test_sleep(1e-4), load(&done) == before + 1);
}

/* The program is there, and says so by a call. */
static void be_on(size_t cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK_OK(PAMI_Context_lock(job.context[0]));
    CHECK_OK(PAMI_Context_unlock(job.context[0]));
    test_sleep(3e-3); /* a thread does not move all the time */
}

int main(void)
{
    const char *option = getenv("PAMI_ASYNC_CPUS");
    bool any = option != NULL && strcmp(option, "any") == 0;
    size_t cpu[2], found = 0;
    cpu_set_t all;

    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    for (size_t i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET(i, &all))
            cpu[found++] = i;
    if (found < 2) {
        printf("SKIP: one processor only\n");
        return 77;
    }
    job_start(&job, "async_place", 1);
    job.driven = 0;
    CHECK_OK(PAMIX_Context_async_enable(job.context, 1, NULL));
    ask();
    CHECK(CPU_EQUAL(&may_use, &all)); /* nothing is known of the program yet */
    for (int i = 0; i < ROUNDS; i++) {
        be_on(cpu[i % 2]);
        ask();
        if (any)
            CHECK(CPU_EQUAL(&may_use, &all));
        else
            CHECK(seen != (int)cpu[i % 2] && CPU_COUNT(&may_use) == CPU_COUNT(&all) - 1);
    }
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    CHECK_OK(PAMIX_Client_async_place(job.client, "any"));
    be_on(cpu[0]);
    ask();
    CHECK(CPU_EQUAL(&may_use, &all));
    CHECK_OK(PAMIX_Context_async_disable(job.context, 1));
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
    job_finish(&job);
    return 0;
}
