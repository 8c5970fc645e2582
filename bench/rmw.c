/*
 * Fetch-and-add of 8 bytes at another task, nanoseconds per operation.
 *
 *     pamirun -n 2 rmw [--operations N]
 *
 * The word lies in task 1's shared heap. `hot`: only task 0 works on it; `contended`: both do at
 * once, and the figure is the time one task needs for each of its own. Each of
 *
 *     rmw_inline_*   PAMIX_Mem_fetch_add8: the processor's instruction and what a loop costs
 *     rmw_single_*   PAMI_Rmw with a callback, advancing until it has been called
 *     rmw_*          the same, BURST calls between two advances
 *
 * in turns, so that their differences mean something. rmw_packets is a word outside of the heap,
 * which the target's advance has to add to. Sums are checked.
 */
#include "job.h"

#include <pami/pamix.h>

#define BURST 64
#define BATCHES 9

enum {
    ADDRESS = JOB_USER
};

static struct {
    struct job job;
    uint64_t heap, plain; /* where task 1 has the words */
    uint64_t *cast;
    uint64_t called;
    uint64_t old[BURST];
} rmw;

BENCH_ALIGNED static uint64_t plain_word[BENCH_LINE / 8];

static void on_address(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    uint64_t address[2];

    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(address, data, sizeof(address));
    rmw.heap = address[0];
    rmw.plain = address[1];
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    if (result != PAMI_SUCCESS) {
        bench_die("rmw: result %d", (int)result);
    }
    rmw.called++;
}

static void by_inline(uint64_t address, size_t operations)
{
    (void)address;
    for (size_t i = 0; i < operations; i++) {
        rmw.old[0] = PAMIX_Mem_fetch_add8(rmw.cast, 1);
    }
}

static void by_calls(uint64_t address, size_t operations, size_t burst)
{
    pami_context_t context = rmw.job.contexts[0];
    uint64_t one = 1;
    pami_rmw_t parameters = {
        .dest = job_endpoint(&rmw.job, 1, 0),
        .done_fn = on_done,
        .remote = (void *)(uintptr_t)address,
        .value = &one,
        .operation = PAMI_ATOMIC_FETCH_ADD,
        .type = PAMI_TYPE_UNSIGNED_LONG,
    };
    uint64_t expected = rmw.called;

    for (size_t i = 0; i < operations; i += burst) {
        for (size_t b = 0; b < burst; b++) {
            parameters.local = &rmw.old[b];
            PAMI_OK(PAMI_Rmw(context, &parameters));
        }
        expected += burst;
        do {
            PAMI_Context_advance(context, 1);
        } while (rmw.called < expected);
    }
}

static void by_bursts(uint64_t address, size_t operations)
{
    by_calls(address, operations, BURST);
}

static void by_single(uint64_t address, size_t operations)
{
    by_calls(address, operations, 1);
}

static const struct {
    const char *name;
    void (*run)(uint64_t address, size_t operations);
    bool both, packets;
} measures[] = {
    {"rmw_inline_hot", by_inline, false, false},
    {"rmw_single_hot", by_single, false, false},
    {"rmw_hot", by_bursts, false, false},
    {"rmw_inline_contended", by_inline, true, false},
    {"rmw_single_contended", by_single, true, false},
    {"rmw_contended", by_bursts, true, false},
    {"rmw_packets", by_single, false, true},
    {"rmw_packets_burst", by_bursts, false, true},
};

#define MEASURES (sizeof(measures) / sizeof(measures[0]))

static void introduce(void)
{
    struct job *j = &rmw.job;
    uint64_t address[2];
    void *block;

    if (j->task == 1) {
        PAMI_OK(PAMIX_Mem_alloc(j->client, BENCH_LINE, BENCH_LINE, PAMIX_MEM_LOCAL, &block));
        memset(block, 0, BENCH_LINE);
        address[0] = (uint64_t)(uintptr_t)block;
        address[1] = (uint64_t)(uintptr_t)plain_word;
        job_send(j, 0, ADDRESS, job_endpoint(j, 0, 0), address, sizeof(address));
        job_send(j, 0, ADDRESS, job_endpoint(j, 1, 0), address, sizeof(address));
    }
    while (rmw.heap == 0) {
        job_poll(j);
    }
    rmw.cast = PAMIX_Mem_local_address(j->client, 1, (void *)(uintptr_t)rmw.heap, 8);
    if (rmw.cast == NULL) {
        bench_skip("the two tasks share no memory");
    }
}

/* Nanoseconds for each operation of task 0. */
static double one_batch(size_t m, size_t operations)
{
    struct job *j = &rmw.job;
    uint64_t address = measures[m].packets ? rmw.plain : rmw.heap;
    uint64_t start;
    double ns;

    job_meet(j);
    start = bench_now();
    if (j->task == 0 || (measures[m].both && j->task == 1)) {
        measures[m].run(address, operations);
    }
    ns = (double)(bench_now() - start) / (double)operations;
    job_meet(j);
    return ns;
}

int main(int argc, char **argv)
{
    struct job *j = &rmw.job;
    size_t operations = bench_option(argc, argv, "--operations", 128 * 1024);
    double ns[MEASURES][BATCHES];
    uint64_t heap_sum = 0, plain_sum = 0;

    job_open(j, 1);
    job_need_tasks(j, 2);
    job_dispatch(j, ADDRESS, on_address, NULL);
    operations -= operations % BURST;
    job_meet(j);
    introduce();
    for (int b = 0; b < BATCHES; b++) {
        for (size_t m = 0; m < MEASURES; m++) {
            size_t count = measures[m].packets ? operations / 16 / BURST * BURST : operations;

            ns[m][b] = one_batch(m, count);
            *(measures[m].packets ? &plain_sum : &heap_sum) += measures[m].both ? 2 * count : count;
        }
    }
    if (*rmw.cast != heap_sum || (j->task == 1 && plain_word[0] != plain_sum)) {
        bench_die("rmw: a sum is wrong");
    }
    for (size_t m = 0; j->task == 0 && m < MEASURES; m++) {
        bench_emit(measures[m].name, 8, "ns", bench_median(ns[m], BATCHES));
    }
    job_close(j);
    return 0;
}
