/*
 * The numbers of processes and threads that /proc shows, and those that this process knows them by.
 *
 * They differ where /proc is that of a namespace of processes further out, as under
 * `unshare --pid` and in sandboxes that keep the host's /proc: a number from there is somebody
 * else's here. What /proc/self leads to is this process all the same.
 */
#ifndef LIBPAMI_UTIL_PROCFS_H
#define LIBPAMI_UTIL_PROCFS_H

#include <sys/types.h>

/*
 * How many namespaces this process is in, from that of /proc on. 1: numbers mean the same here and
 * there; 0: not known, there is no /proc or no way to read it. Asks the system each time.
 */
unsigned procfs_depth(void);

/*
 * The number of the process or thread whose directory that is, as it is in the namespace `depth`
 * counted so: 1 is that of /proc, procfs_depth() that of this process. 0: there is none, or it
 * cannot be read.
 */
pid_t procfs_number(const char *directory, unsigned depth);

#endif
