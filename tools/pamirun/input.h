/*
 * A terminal's input for one task.
 *
 * Tasks run in process groups of their own, so the one that gets standard input may not read the
 * terminal itself; pamirun copies it into a pipe.  Input that is no terminal is simply inherited.
 */
#ifndef PAMIRUN_INPUT_H
#define PAMIRUN_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "loop.h"

struct input {
    struct loop *loop;
    struct watch terminal; /* -1: ended */
    struct watch pipe;     /* -1: the task takes no more */
    bool background;       /* the terminal cannot be read now */
    size_t have, sent;
    char bytes[4096];
};

/* 0 or a negative errno; *reading is the task's end, to be closed here. */
int input_open(struct input *input, struct loop *loop, int *reading);

/* To be called now and then while `background`: pamirun may have come to the foreground. */
void input_resume(struct input *input);

#endif
