/*
 * Starting one task: a process in a group of its own that dies with pamirun.
 */
#ifndef PAMIRUN_LAUNCH_H
#define PAMIRUN_LAUNCH_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "options.h"

/* What all tasks have in common. */
struct launch {
    char **environment; /* with room for the variables of one task at `own` */
    size_t own;
    char servers[24]; /* PMI_SERVERS=... */
    char size[24];    /* PMI_SIZE=... */
    char *server[2];  /* the program of communication servers */
    char path[4096];  /* where that lies */
    bool no_aslr;
    sigset_t mask;       /* to give back */
    struct rlimit files; /* to give back */
};

/* What is a task's own.  Descriptors are close-on-exec here. */
struct launch_task {
    uint32_t task, local_index, local_count;
    char **program; /* its arguments, NULL at the end */
    int pmi, in, out, err;
    const cpu_set_t *cpus; /* NULL: not bound */
    size_t cpus_size;
};

/* 0 or -ENOMEM. */
int launch_open(struct launch *launch, const struct options *options);
void launch_close(struct launch *launch);

/*
 * Starts the task.  Returns 0, or a negative errno with `step` set to what failed; "run" means that
 * the program cannot be executed.
 */
int launch_start(struct launch *launch, const struct launch_task *task, pid_t *pid,
                 const char **step);

#endif
