/*
 * Two tasks that take turns without advancing: what one of them does between two turns, the other
 * one finds done, and has done nothing meanwhile.
 */
#ifndef LIBPAMI_API_TURNS_H
#define LIBPAMI_API_TURNS_H

#include <signal.h>

#include "rma.h"

static volatile sig_atomic_t turns_mine;
static pid_t turns_other;

static inline void turns_on_signal(int number)
{
    (void)number;
    turns_mine = 1;
}

/* Collective, after rma_open. */
static inline void turns_open(struct job *job)
{
    struct sigaction action = {.sa_handler = turns_on_signal};
    pid_t pids[2] = {getpid(), getpid()};

    CHECK(job->tasks == 2 && sigaction(SIGUSR1, &action, NULL) == 0);
    rma_share(job, &pids[job->task], sizeof pids[0], pids);
    turns_other = pids[1 - job->task];
}

static inline void turns_give(void)
{
    CHECK(kill(turns_other, SIGUSR1) == 0);
}

static inline void turns_wait(void)
{
    while (!turns_mine)
        test_sleep(0.0001);
    turns_mine = 0;
}

/* So many looks, whatever each of them finds. */
static inline void turns_look(pami_context_t context, int looks)
{
    while (looks-- > 0)
        test_advance(context, 1);
}

#endif
