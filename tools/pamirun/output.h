/*
 * Tagged output: what tasks write comes through pipes and goes out line by line, each with its
 * task in front; lines of different tasks never mix.  pamirun's own messages go the same way, also
 * where the tasks write by themselves.
 *
 * Nothing here blocks: when standard output or standard error takes no more, lines are kept, and
 * from a limit on the tasks that write there are no longer read from.  Standard output and
 * standard error that are one file are treated as one, so that their lines do not mix either.
 */
#ifndef PAMIRUN_OUTPUT_H
#define PAMIRUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

struct output;

/* One of pamirun's own streams. */
struct sink {
    struct watch watch; /* in the loop while `waiting` */
    struct output *output;
    size_t have, room;
    char *bytes;  /* whole lines, the first perhaps partly written */
    bool waiting; /* for the stream to take more */
    bool plain;   /* a file: always takes more, cannot be waited for */
    bool paused;  /* its sources are not read from */
    bool closed;  /* nobody reads it any more */
};

/* One stream of one task. */
struct source {
    struct watch watch; /* the pipe's reading end; -1: at its end */
    struct output *output;
    struct sink *sink;
    uint32_t task;
    size_t have, room;
    char *line; /* not yet complete */
};

struct output {
    struct loop *loop;
    struct sink sinks[2];
    struct source *sources; /* 2 per task, stdout and stderr */
    uint32_t tasks, open;   /* sources not at their end */
    bool failed;            /* some of what tasks wrote could not be written */
};

/* 0 or a negative errno.  pamirun's own messages come this way from now on, and nothing else does
 * if `tasks` is 0. */
int output_open(struct output *output, struct loop *loop, uint32_t tasks);

/* Makes the pipes of a task; the writing ends are for the task, to be closed here. */
int output_pipes(struct output *output, uint32_t task, int *out, int *err);

/* Takes what is in the pipes and closes them: nobody can write there any more. */
void output_finish(struct output *output);

/* Has everything been written? */
bool output_idle(const struct output *output);

void output_close(struct output *output);

#endif
