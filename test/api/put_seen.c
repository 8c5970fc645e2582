/*
 * When rdone_fn, or a fence behind a put, says that a put is visible, it is: of two tasks that put
 * into one another's shared heap at the same time, are told so, and then look at their own memory,
 * one at least sees the other's put. Processors keep stores for themselves while later loads go on.
 * The same with atomic operations, whose stores some processors treat in this way as well.
 *
 * Run: tasks=2 args="put"
 * Run: tasks=2 args="fence"
 * Run: tasks=2 args="set"
 * Run: tasks=2 args="add"
 */
#include "rma.h"

#include <pamix.h>
#include <stddef.h>

enum {
    ROUNDS = 20000,
    SECONDS = 2, /* at most */
    SPINS = 256
};

/* Far from one another, so that each has to be fetched from the other task. */
struct word {
    _Alignas(256) uint64_t value;
};

struct block {
    struct word put[ROUNDS];
    struct word turn, last; /* rounds that the task has begun, and how many there will be */
    unsigned char seen[ROUNDS];
};

static struct job job;
static struct block *mine, *theirs;
static char *remote;
static bool told;

static void on_told(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    told = true;
}

static void share_blocks(void)
{
    pamix_heap_view_t view = {0};
    uint64_t address, all[2];
    void *memory;

    CHECK_OK(PAMIX_Mem_alloc(job.client, sizeof(struct block), 256, PAMIX_MEM_LOCAL, &memory));
    mine = memset(memory, 0, sizeof *mine);
    address = (uint64_t)(uintptr_t)memory;
    rma_share(&job, &address, sizeof address, all);
    remote = (char *)(uintptr_t)all[!job.task];
    CHECK_OK(PAMIX_Mem_view(job.client, (pami_task_t)!job.task, &view));
    theirs = PAMIX_Mem_cast(&view, remote, sizeof *theirs);
    CHECK(theirs != NULL);
}

/* Both begin the round at the same time, if each has a processor. */
static void begin_round(size_t round)
{
    unsigned spins = 0;

    PAMIX_Mem_put8(&mine->turn, round + 1);
    while (PAMIX_Mem_get8(&theirs->turn) <= round)
        if (++spins % SPINS == 0)
            WAIT(&job, PAMIX_Mem_get8(&theirs->turn) > round || ++spins % SPINS != 0);
}

static void put(void *to, bool fence)
{
    uint64_t one = 1;
    pami_put_simple_t put = {
        .rma = {.dest = job_endpoint(&job, !job.task, 0), .bytes = sizeof one},
        .addr = {.local = &one, .remote = to},
        .put.rdone_fn = fence ? NULL : on_told,
    };

    CHECK_OK(TEST_CALL(PAMI_Put(job.context[0], &put)));
    if (fence)
        CHECK_OK(TEST_CALL(PAMI_Fence_all(job.context[0], on_told, NULL)));
}

static void change(void *to, pami_atomic_t operation)
{
    uint64_t one = 1;
    pami_rmw_t rmw = {
        .dest = job_endpoint(&job, !job.task, 0),
        .remote = to,
        .value = &one,
        .operation = operation,
        .type = PAMI_TYPE_UNSIGNED_LONG,
        .done_fn = on_told,
    };

    CHECK_OK(TEST_CALL(PAMI_Rmw(job.context[0], &rmw)));
}

static void write_round(const char *how, size_t round)
{
    void *to = remote + offsetof(struct block, put[round]);

    told = false;
    if (strcmp(how, "set") == 0)
        change(to, PAMI_ATOMIC_SET);
    else if (strcmp(how, "add") == 0)
        change(to, PAMI_ATOMIC_ADD);
    else
        put(to, strcmp(how, "fence") == 0);
    while (!told)
        test_advance(job.context[0], 1);
}

/* The first task says when it is enough. */
static size_t run(const char *how)
{
    double end = test_now() + SECONDS;
    size_t round, rounds = ROUNDS;

    for (round = 0; round < rounds; round++) {
        if (job.task == 0 && test_now() > end)
            PAMIX_Mem_put8(&mine->last, rounds = round + 1);
        begin_round(round);
        if (job.task != 0 && PAMIX_Mem_get8(&theirs->last) != 0)
            rounds = PAMIX_Mem_get8(&theirs->last);
        write_round(how, round);
        mine->seen[round] = __atomic_load_n(&mine->put[round].value, __ATOMIC_RELAXED) != 0;
    }
    return round;
}

int main(int argc, char **argv)
{
    const char *how = argc == 2 ? argv[1] : "put";
    size_t rounds, missed = 0;

    job_start(&job, "put_seen", 1);
    rma_open(&job);
    if (job.tasks != 2 || client_attribute(job.client, PAMI_CLIENT_NUM_LOCAL_TASKS) != 2)
        test_skip("needs two tasks of one node");
    share_blocks();
    rounds = run(how);
    job_barrier(&job);
    for (size_t i = 0; i < rounds; i++)
        missed += !mine->seen[i] && !theirs->seen[i];
    if (missed != 0)
        FAIL("in %zu of %zu rounds both were told that theirs was visible, and saw none", missed,
             rounds);
    rma_close(&job);
    return 0;
}
