/*
 * Starting jobs of this program by pamirun.
 */
#ifndef PAMI_TUNE_START_H
#define PAMI_TUNE_START_H

#include <stdbool.h>

#include "results.h"

/* How jobs are started. */
struct start {
    char self[4096], pamirun[4096];
    const char *bind;    /* as pamirun has it, NULL: no option */
    const char *contest; /* of all jobs; NULL: that of the job's type */
    bool quick;
    double seconds; /* time limit of a job */
};

/* Finds this program, and pamirun beside it. 0, or 1 with a message. */
int start_init(struct start *start);

/* Runs a job to its end and gives the lines of its output, without their ends, to `line`. The exit
 * status: 0 when all went well. */
int start_job(const struct start *start, const struct job *job,
              void (*line)(void *cookie, const char *text), void *cookie);

#endif
