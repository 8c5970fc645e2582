/*
 * Groups of plain processes over shared memory: the frame in which the limits of the machine are
 * measured, with no library in between.
 *
 * A role runs in every process of the group, after all of them are there, and process 0's return
 * value is the result. A role that fails ends its process with a non-zero status, which ends the
 * program that measures; one that skips (bench_skip) ends it as skipped.
 */
#ifndef LIBPAMI_BENCH_PAIR_H
#define LIBPAMI_BENCH_PAIR_H

#include "bench.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Where the processes of a group run: on two cores, all on the first, or where the system likes. */
enum pair_placement {
    PAIR_APART,
    PAIR_TOGETHER,
    PAIR_ANYWHERE
};

#define PAIR_MOST 64

struct pair {
    BENCH_ALIGNED _Atomic uint64_t arrived;
    BENCH_ALIGNED _Atomic int32_t pid[PAIR_MOST];
    double result;
};

typedef double pair_role(int rank, int count, struct pair *group, void *shared);

static inline void pair_enter(struct pair *group, int rank, int count, enum pair_placement where)
{
    if (where != PAIR_ANYWHERE) {
        bench_pin(where == PAIR_APART ? rank : 0);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Lets the others read this process's memory where the system asks for permission. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    atomic_store(&group->pid[rank], getpid());
    atomic_fetch_add(&group->arrived, 1);
    while (atomic_load(&group->arrived) < (uint64_t)count) {
        sched_yield();
    }
}

static inline double pair_run(pair_role *role, void *shared, int count, enum pair_placement where)
{
    struct pair *group = bench_shared(sizeof(*group));
    double result;

    if (count > PAIR_MOST) {
        bench_die("at most %d processes", PAIR_MOST);
    }
    fflush(stdout);
    for (int rank = 0; rank < count; rank++) {
        pid_t pid = fork();
        if (pid < 0) {
            bench_die("fork: %s", strerror(errno));
        }
        if (pid == 0) {
            double value;
            pair_enter(group, rank, count, where);
            value = role(rank, count, group, shared);
            if (rank == 0) {
                group->result = value;
            }
            _exit(0);
        }
    }
    for (int i = 0; i < count; i++) {
        int status = -1;
        wait(&status);
        if (WIFEXITED(status) && WEXITSTATUS(status) == BENCH_SKIP) {
            _exit(BENCH_SKIP); /* the reason is out; what is left of the group ends with us */
        }
        if (status != 0) {
            bench_die("a process that measures a limit failed");
        }
    }
    result = group->result;
    munmap(group, sizeof(*group));
    return result;
}

#endif
