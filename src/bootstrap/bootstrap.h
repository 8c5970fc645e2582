/*
 * Who am I, who else is in the job, and an exchange of short texts ("cards") with the others.
 *
 * bootstrap_open gives the process's one connection to its launcher; every client shares it.  The
 * back ends are rows of a table in bootstrap.c: pmix (Open MPI's mpirun, prterun, srun --mpi=pmix),
 * pmi1 (pamirun, mpiexec.hydra, srun --mpi=pmi2) and single (no launcher: one task).  Whoever
 * simulates a launcher fills in a struct bootstrap of its own instead; everything below works on
 * it, a NULL operation is an operation it does not have.
 *
 * Errors are negative errno.  Failures of the launcher or its environment leave a text in
 * error_set that names the variable or the request at fault, at most once per failure; answers
 * that a caller may expect (-ENOENT of a get) leave none.  Nothing here raises SIGPIPE, and
 * nothing waits longer than the option PAMI_BOOTSTRAP_TIMEOUT.
 *
 * Thread-safe.  A child made by fork has no connection: its calls fail with -ECHILD.
 */
#ifndef LIBPAMI_BOOTSTRAP_BOOTSTRAP_H
#define LIBPAMI_BOOTSTRAP_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

/* Room for a job id with its NUL. */
#define BOOTSTRAP_JOB_MAX 64
/* Longest key and value, without NUL. */
#define BOOTSTRAP_KEY_MAX 48
#define BOOTSTRAP_VALUE_MAX 65535
/* Room for bootstrap_host_proof's text with its NUL. */
#define BOOTSTRAP_PROOF_MAX 40

struct bootstrap;

/* Any member but name may be NULL. */
struct bootstrap_ops {
    const char *name;
    int (*put)(struct bootstrap *bootstrap, const char *key, const char *value);
    int (*fence)(struct bootstrap *bootstrap);
    int (*get)(struct bootstrap *bootstrap, const char *key, char *value, size_t size);
    int (*node_of)(struct bootstrap *bootstrap, uint32_t task, uint32_t *node);
    void (*abort)(struct bootstrap *bootstrap, int code, const char *why);
    void (*close)(struct bootstrap *bootstrap);
};

/*
 * Constant between open and close.
 * A job may have server processes: `servers` processes that have numbers and cards like tasks, from
 * `tasks` on, but which no program knows (doc/servers.md).
 * Invariants: task < tasks + servers; node < nodes <= tasks; local_tasks holds the ids of this
 * node, ascending: local_count of tasks, then local_servers; local_tasks[local_index] == task.
 */
struct bootstrap {
    const struct bootstrap_ops *ops;
    uint32_t task, tasks, servers;
    uint32_t node, nodes; /* as the launcher says; numbered by first task from 0 */
    uint32_t run;         /* not 0: the node of each task is task / run % nodes */
    uint32_t *local_tasks;
    uint32_t local_count, local_servers, local_index;
    uint32_t *node_map;          /* of tasks, then servers; NULL: ask ops->node_of */
    char job[BOOTSTRAP_JOB_MAX]; /* the same on all tasks, of no other job; [A-Za-z0-9._-] */
};

/*
 * Connects at the first call, later calls return the same object.  Each needs a bootstrap_close.
 * With PMI_process_mapping missing from the launcher's answers this is collective over the job.
 * -EINVAL: environment; -EPROTO: the launcher's answer makes no sense; -ECONNRESET: it has gone;
 * -ETIMEDOUT; -ECHILD: forked from the process that is connected.
 */
int bootstrap_open(struct bootstrap **out);

/* The process stays known to its launcher until it exits, whatever the number of closes. */
void bootstrap_close(struct bootstrap *bootstrap);

/*
 * Publishes value under key, visible to the others after the next fence.  Keys are put once per
 * job.  Key: 1..BOOTSTRAP_KEY_MAX of [A-Za-z0-9._-]; when a number ends it, that is the task which
 * puts it, otherwise task 0 does, as some launchers file cards by task.  Value: up to
 * BOOTSTRAP_VALUE_MAX printable ASCII characters other than space; cheap below about 800.
 * -EINVAL, -ENAMETOOLONG, -E2BIG, -EEXIST, or a failure of the connection.
 */
int bootstrap_put(struct bootstrap *bootstrap, const char *key, const char *value);

/* Returns when all tasks of the job have called it; fails when one of them no longer can. */
int bootstrap_fence(struct bootstrap *bootstrap);

/* Writes value with its NUL.  -ENOENT: nobody put it; -ENOBUFS: larger than size. */
int bootstrap_get(struct bootstrap *bootstrap, const char *key, char *value, size_t size);

/* Node of a task as the launcher says; -EINVAL for a task outside the job. */
int bootstrap_node_of(struct bootstrap *bootstrap, uint32_t task, uint32_t *node);

/*
 * Asks the launcher to end the whole job with exit status code, for the reason given (one line, is
 * logged).  Returns, also when there is no launcher: the caller decides how to end itself.
 */
void bootstrap_abort(struct bootstrap *bootstrap, int code, const char *why);

/*
 * A text that two processes have in common exactly if they run on the same boot of the same kernel
 * and in the same uts, ipc, net and pid namespaces.  -ENOENT without /proc; -ENOBUFS.
 */
int bootstrap_host_proof(char *buf, size_t size);

#endif
