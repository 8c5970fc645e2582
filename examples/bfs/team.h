/*
 * team.h - the tasks of the job as a team: start-up, barrier and all-reduce over active messages.
 *
 * One client, one context. All functions that are marked collective must be called by every task
 * in the same order, and never from a callback: they advance the context until they are done, so
 * that dispatch functions of any kind may run meanwhile.
 *
 * Anything that goes wrong in a PAMI call ends the task with a message and status 1; the launcher
 * then ends the job.
 */
#ifndef LIBPAMI_BFS_TEAM_H
#define LIBPAMI_BFS_TEAM_H

#include <pami.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    TEAM_WORDS = 4,   /* the widest all-reduce */
    TEAM_ROUNDS = 32, /* of a tree or a dissemination: enough for 2^32 tasks */
};

/* Dispatch ids of the program. */
enum {
    DISPATCH_TOKEN = 1,
    DISPATCH_WORDS,
    DISPATCH_EDGES,
    DISPATCH_VISITS,
    DISPATCH_RESULTS
};

/* The words of one all-reduce on their way along one edge of the tree. */
struct team_slot {
    uint64_t word[TEAM_WORDS];
    bool full;
};

struct team {
    pami_client_t client;
    pami_context_t context;
    uint32_t task, tasks;                /* mine, all */
    uint32_t nodes;                      /* on which the tasks run */
    uint64_t barriers;                   /* entered so far */
    uint64_t tokens[TEAM_ROUNDS];        /* received in each round of all barriers so far */
    struct team_slot child[TEAM_ROUNDS]; /* from the child at distance 2^i */
    struct team_slot result;             /* from the parent */
};

enum team_op {
    TEAM_SUM,
    TEAM_MAX
};

/* Collective. Connects to the job; `team` must stay where it is until team_finish. */
void team_start(struct team *team);

/* Collective. Waits for all tasks, then leaves the job. */
void team_finish(struct team *team);

/* Collective. Nobody leaves before everybody has entered. */
void team_barrier(struct team *team);

/* Collective. Replaces `count` <= TEAM_WORDS words by their sums or maxima over all tasks. */
void team_reduce(struct team *team, enum team_op op, uint64_t *words, size_t count);

/* Collective. The lowest task for which `is` holds, or -1 when there is none. */
int64_t team_first(struct team *team, bool is);

/* One step of progress: callbacks may run. Not from a callback. */
void team_advance(const struct team *team);

/* Registers a dispatch function on the context of the team. */
void team_dispatch(const struct team *team, size_t id, pami_dispatch_p2p_function fn, void *cookie,
                   pami_dispatch_hint_t hints);

/* Context 0 of a task. */
pami_endpoint_t team_endpoint(const struct team *team, uint32_t task);

/* Seconds since some instant. */
double team_time(const struct team *team);

/* Ends this task with status 1 and a message when `result` is not PAMI_SUCCESS. */
void team_check(const struct team *team, pami_result_t result, const char *call);

/* Ends this task with status 1 and a message. */
void team_die(const struct team *team, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* malloc and realloc that end the task when there is no memory; 0 bytes are allowed. */
void *team_alloc(const struct team *team, void *old, size_t bytes);

#endif
