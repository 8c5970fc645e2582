/*
 * Where pages lie: NUMA nodes by their numbers in the operating system.
 *
 * By system calls of its own rather than a topology library: two of them are all that is needed,
 * and every process that links this one would pay for loading the other. On a machine with one node
 * nothing is ever called.
 */
#ifndef LIBPAMI_UTIL_NUMA_H
#define LIBPAMI_UTIL_NUMA_H

#include <stdbool.h>
#include <stddef.h>

#define NUMA_LOCAL (-1) /* the node the calling thread runs on */
#define NUMA_ANY (-2)   /* wherever a page is touched first */

/* Does the machine have memory on more than one node? */
bool numa_is_worthwhile(void);

/* Is there memory on this node? */
bool numa_has_memory(unsigned node);

/* How many nodes with smaller numbers have memory; *count: all that have. Numbers may have gaps. */
unsigned numa_rank(unsigned node, unsigned *count);

/*
 * Pages of this range that are not there yet shall come from `node` (a number, or NUMA_*), or from
 * elsewhere when it has none left. Address and length are multiples of the page size. 0 or
 * negative errno.
 */
int numa_place(void *address, size_t bytes, int node);

#endif
