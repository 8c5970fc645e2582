/*
 * May a word of this process's memory be accessed? Asked of the kernel, for addresses that came
 * from elsewhere.
 *
 * The answer holds as long as nothing is unmapped. One system call per question.
 */
#ifndef LIBPAMI_UTIL_PROBE_H
#define LIBPAMI_UTIL_PROBE_H

#include <stdbool.h>

/* `address` is a multiple of 4 and stands for the naturally aligned word that it begins. */
bool probe_writable(void *address);
bool probe_readable(const void *address);

#endif
