/*
 * A task dies while others work on its words: every operation ends once, those that cannot reach it
 * any more with an error; its heap stays readable, and the others go on among themselves.
 *
 * The last task of several dies; atomics.sh runs that and looks at what is left.
 *
 * Run: tasks=1 timeout=30
 */
#include "api/rma.h"

#include <pamix.h>
#include <signal.h>

enum {
    WINDOW = 50,
    TASKS_MAX = 16,
    SERVED = 3000 /* what the victim has seen when it dies */
};

struct told {
    uint64_t heap, fixed;
};

static struct job job;
static struct told told[TASKS_MAX];
static size_t issued, succeeded, failed;
static uint64_t fixed, *heap;

struct call {
    int done;
    uint64_t old;
};

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct call *call = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && call->done == 0);
    call->done = 1;
    if (result == PAMI_SUCCESS)
        succeeded++;
    else
        failed++;
}

static void add(size_t target, uint64_t address, struct call *call)
{
    uint64_t one = 1;
    pami_rmw_t rmw = {.dest = job_endpoint(&job, target, 0),
                      .cookie = call,
                      .done_fn = on_done,
                      .local = &call->old,
                      .remote = (void *)(uintptr_t)address,
                      .value = &one,
                      .operation = PAMI_ATOMIC_FETCH_ADD,
                      .type = PAMI_TYPE_UNSIGNED_LONG};

    *call = (struct call){0};
    issued++;
    CHECK_OK(TEST_CALL(PAMI_Rmw(job.context[0], &rmw)));
}

/* Adds to words at the victim until operations fail, and some more. */
static void outlive(size_t victim)
{
    struct call call[2 * WINDOW];
    pamix_heap_view_t view;
    uint64_t *cast;
    size_t after = 0;

    CHECK_OK(PAMIX_Mem_view(job.client, (pami_task_t)victim, &view));
    cast = PAMIX_Mem_cast(&view, (void *)(uintptr_t)told[victim].heap, 8);
    CHECK(cast != NULL);
    while (after < 5) {
        size_t before = failed;

        for (size_t i = 0; i < WINDOW; i++) {
            add(victim, told[victim].fixed, &call[2 * i]);
            add(victim, told[victim].heap, &call[2 * i + 1]);
        }
        WAIT(&job, succeeded + failed == issued);
        after += failed != before;
    }
    job_linger(&job, 0.1);
    CHECK(succeeded + failed == issued);
    CHECK(PAMIX_Mem_get8(cast) != 0);
    CHECK(PAMIX_Mem_local_address(job.client, (pami_task_t)victim,
                                  (void *)(uintptr_t)told[victim].heap, 8) == cast);
}

/* The survivors meet by counting at task 0. */
static void meet(size_t survivors)
{
    struct call call;

    add(0, told[0].heap, &call);
    WAIT(&job, call.done);
    WAIT(&job, PAMIX_Mem_get8(PAMIX_Mem_local_address(
                   job.client, 0, (void *)(uintptr_t)told[0].heap, 8)) == survivors);
}

int main(void)
{
    struct told mine;
    size_t victim;

    job_start(&job, "atomics", 1);
    victim = job.tasks - 1;
    rma_open(&job);
    CHECK_OK(PAMIX_Mem_alloc(job.client, 8, 8, PAMIX_MEM_LOCAL, (void **)&heap));
    *heap = 0;
    mine = (struct told){.heap = (uint64_t)(uintptr_t)heap, .fixed = (uint64_t)(uintptr_t)&fixed};
    job_barrier(&job);
    rma_share(&job, &mine, sizeof mine, told);
    job_barrier(&job);
    if (job.task == victim && job.tasks > 1) {
        WAIT(&job, fixed >= SERVED);
        raise(SIGKILL);
    }
    if (job.tasks > 1)
        outlive(victim);
    meet(job.tasks > 1 ? victim : 1);
    CHECK_OK(PAMIX_Mem_free(job.client, heap));
    job_destroy(&job);
    puts("done");
    return 0;
}
