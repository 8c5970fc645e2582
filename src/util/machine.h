/*
 * The processors and caches of this machine, from hwloc.
 */
#ifndef LIBPAMI_UTIL_MACHINE_H
#define LIBPAMI_UTIL_MACHINE_H

#include <hwloc.h>

/*
 * All of the machine, also what the control group of this process keeps from it: tasks that have
 * groups of their own are to agree on what is where. The caller's to destroy; NULL: hwloc cannot
 * tell. Takes some milliseconds, and is no cancellation point.
 */
hwloc_topology_t machine_topology(void);

#endif
