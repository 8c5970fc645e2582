/*
 * Which processors each task may use.
 */
#ifndef PAMIRUN_BIND_H
#define PAMIRUN_BIND_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"

/* One set of processors per core or NUMA node that pamirun itself may use. */
struct bind {
    char *sets; /* `count` cpu_set_t of `size` bytes each; NULL: no binding */
    size_t size;
    unsigned count;
    unsigned *place; /* [tasks]: index of the set */
};

/* 0, or -1 after having said why. */
int bind_open(struct bind *bind, const struct options *options);
void bind_close(struct bind *bind);

/* The set of a task, or NULL. */
const cpu_set_t *bind_of(const struct bind *bind, uint32_t task);

/* "0-1,4" */
char *bind_text(const struct bind *bind, uint32_t task, char *text, size_t size);

#endif
