/*
 * Which processes are our children, whoever started them.
 *
 * pamirun is a subreaper: what a task leaves behind becomes its child and can be found here.
 */
#ifndef PAMIRUN_CHILDREN_H
#define PAMIRUN_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Up to `room` children that are not among `except`, the dead ones that have not been reaped too;
 * returns how many. */
size_t children_list(pid_t *list, size_t room, const pid_t *except, size_t except_count);

bool children_contain(const pid_t *list, size_t count, pid_t pid);

/* Is there any child, without looking at /proc? */
bool children_exist(void);

#endif
