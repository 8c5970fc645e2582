/*
 * The processors and caches of this machine, from hwloc.
 */
#ifndef LIBPAMI_UTIL_MACHINE_H
#define LIBPAMI_UTIL_MACHINE_H

#include <hwloc.h>

/* The caller's to destroy; NULL: hwloc cannot tell. Takes some milliseconds, and is no cancellation
 * point. */
hwloc_topology_t machine_topology(void);

#endif
