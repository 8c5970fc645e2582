/*
 * What the machine allows collectives at best, with no library in between:
 *   barrier_central,N    a barrier of N processes by one counter; who waits gives its processor up
 *                        (with a processor each: spins). Microseconds.
 *   barrier_futex,N      the same, but who waits sleeps in the kernel until it is woken (--futex).
 *   copy_cross,BYTES     memcpy of data that the other processor has written last, which is what a
 *                        broadcast to one member must do. Microseconds.
 *
 *     limit_barrier [--tasks N] [--loop [--futex]]
 *
 * Both are measured by the loops of collloop.h, as the collectives are: the barrier is "barrier",
 * the copy "broadcast", and processes are found by pair.h.
 */
#include "collloop.h"

#include "pair.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#define COPY_MOST (1 << 20)

struct central {
    BENCH_ALIGNED _Atomic uint32_t arrived;
    BENCH_ALIGNED _Atomic uint32_t turn;
    BENCH_ALIGNED _Atomic uint64_t told;
    BENCH_ALIGNED char data[COPY_MOST];
};

static struct {
    struct central *central;
    bool spins, sleeps;
    int argc;
    char **argv;
    char *recv;
} limit;

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void pause_here(uint32_t turn)
{
    if (limit.sleeps) {
        futex(&limit.central->turn, FUTEX_WAIT, turn);
    } else if (limit.spins) {
        bench_relax();
    } else {
        sched_yield();
    }
}

static void port_meet(void)
{
    struct central *c = limit.central;
    uint32_t turn = atomic_load_explicit(&c->turn, memory_order_relaxed);

    if (atomic_fetch_add(&c->arrived, 1) + 1 == (uint32_t)coll_port.size) {
        atomic_store_explicit(&c->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&c->turn, turn + 1, memory_order_release);
        if (limit.sleeps) {
            futex(&c->turn, FUTEX_WAKE, INT_MAX);
        }
        return;
    }
    while (atomic_load_explicit(&c->turn, memory_order_acquire) == turn) {
        pause_here(turn);
    }
}

static uint64_t port_tell(uint64_t value)
{
    if (coll_port.rank == 0) {
        atomic_store(&limit.central->told, value);
    }
    port_meet();
    return atomic_load(&limit.central->told);
}

static void port_start(const struct coll_call *call)
{
    (void)call;
    port_meet();
}

static void port_wait(unsigned count)
{
    (void)count;
}

/* Everybody times the copy of what its neighbour has rewritten; the median of rank 0. */
static double copy_time(size_t bytes)
{
    double took[101] = {0};
    const size_t rounds = sizeof(took) / sizeof(took[0]);

    for (size_t round = 0; round < rounds; round++) {
        if (coll_port.rank != 0) {
            bench_fill(limit.central->data, bytes, round);
        }
        port_meet();
        if (coll_port.rank == 0) {
            uint64_t start = bench_now();
            memcpy(limit.recv, limit.central->data, bytes);
            took[round] = (double)(bench_now() - start) / 1000;
            bench_check(limit.recv, bytes, round, "copy");
        }
        port_meet();
    }
    return coll_port.rank == 0 ? bench_median(took, rounds) : 0;
}

static double role(int rank, int count, struct pair *group, void *shared)
{
    (void)group;
    limit.central = shared;
    limit.recv = bench_alloc(COPY_MOST);
    coll_port.rank = rank;
    coll_port.size = count;
    coll_port.start = port_start;
    coll_port.wait = port_wait;
    coll_port.tell = port_tell;
    coll_port.meet = port_meet;
    coll_open_shared();
    if (bench_flag(limit.argc, limit.argv, "--loop")) {
        coll_in_loop(limit.sleeps ? "barrier_futex" : "barrier_central", COLL_BARRIER,
                     (size_t)count, 1000, 1);
        return 0;
    }
    coll_apart(COLL_BARRIER, (size_t)count, 2000);
    for (size_t bytes = 4096; bytes <= COPY_MOST; bytes *= 4) {
        double us = copy_time(bytes);
        if (rank == 0) {
            bench_emit("copy_cross", bytes, "us", us);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    size_t tasks = bench_option(argc, argv, "--tasks", 2);
    struct central *central = bench_shared(sizeof(*central));

    if (tasks <= 2 && !bench_pin_default()) {
        bench_skip("one processor");
    }
    limit.argc = argc;
    limit.argv = argv;
    limit.spins = tasks <= 2;
    limit.sleeps = bench_flag(argc, argv, "--futex");
    pair_run(role, central, (int)tasks, tasks <= 2 ? PAIR_APART : PAIR_ANYWHERE);
    return 0;
}
