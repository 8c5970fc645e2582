/*
 * A job: its tasks from start to end.
 *
 * job.c starts the tasks, serves them and waits for them; ending.c ends them.
 */
#ifndef PAMIRUN_JOB_H
#define PAMIRUN_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bind.h"
#include "input.h"
#include "launch.h"
#include "loop.h"
#include "options.h"
#include "output.h"
#include "server.h"

struct job;

struct task {
    struct watch pmi; /* the server's end of its PMI socket */
    struct job *job;
    uint32_t number;
    pid_t pid;   /* leads the process group of the same number while live */
    double told; /* when its group had its last TERM, as a time of clock_now; 0: never */
    bool live;
    bool choked; /* it does not take its answers: it may ask no more until it does */
};

enum phase {
    PHASE_RUN,  /* nothing has gone wrong */
    PHASE_TERM, /* the tasks were asked to end, `deadline` is when they are made to */
    PHASE_KILL, /* the tasks are being killed */
};

/*
 * Behind the tasks stand the communication servers, which are processes like them, but whose end is
 * no end of the job.
 *
 * Invariants: `live` counts tasks that are live, no servers; the end of one counts for `status` in
 * PHASE_RUN only, since later ones are of our making.
 */
struct job {
    const struct options *options;
    struct loop loop;
    struct watch signals; /* a signalfd */
    struct launch launch;
    struct bind bind;
    struct server server;
    struct output output;
    struct input input; /* in use when standard input is a terminal */
    struct task *tasks;
    uint32_t live;
    enum phase phase;
    int status;                /* to exit with */
    double limit;              /* --timeout, as a time of clock_now; 0: none */
    double deadline;           /* of the phase; 0: none */
    unsigned interrupts;       /* signals that ask pamirun to end */
    int forwarded;             /* the last such signal, passed on to the tasks */
    bool give_up;              /* output that nobody reads is not waited for */
    bool told;                 /* leftovers have had their TERM */
    char dead[PMI1_VALUE_MAX]; /* "3,2": the tasks that have failed, with --keep-going */
    pid_t *foreign;            /* children of pamirun from before it started anything */
    size_t foreign_count;
};

/* Runs the job to its end; returns the status to exit with. */
int job_run(const struct options *options);

/* ---- ending.c ---- */

/* Tells the tasks to end, and makes them after a second. */
void ending_begin(struct job *job);

/* Kills all that is left, now. */
void ending_kill(struct job *job);

/* A signal to every live task and what it has started. */
void ending_signal_tasks(struct job *job, int signal);

/* To be called after anything happened, and at ending_wake; true when no process is left. */
bool ending_check(struct job *job);

/* When to look again, as a time of clock_now; 0: when something happens. */
double ending_wake(const struct job *job);

/* Remembers the children that pamirun has now: they are not the job's. 0 or -ENOMEM. */
int ending_note_foreign(struct job *job);

#endif
