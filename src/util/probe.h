/*
 * May a word of this process's memory be accessed? Asked of the kernel, for addresses that came
 * from elsewhere.
 *
 * The answer holds as long as nothing is unmapped. One system call per question.
 */
#ifndef LIBPAMI_UTIL_PROBE_H
#define LIBPAMI_UTIL_PROBE_H

#include <stdbool.h>
#include <stdint.h>

/* `address` is a multiple of 4 and stands for the naturally aligned word that it begins. */
bool probe_writable(void *address);
bool probe_readable(const void *address);

/*
 * The same for all of an area, whose pages are made where they were not there yet: some 30 us for
 * each MiB. False also where the kernel cannot tell (Linux before 5.14): probe_area_works.
 */
bool probe_area(bool write, uint64_t start, uint64_t bytes);
bool probe_area_works(void);

/* Addresses that need no question. */
struct probe_range {
    uint64_t start, end;
};

/* The variables of the program itself, which stay writable as long as it runs. Not those of
 * libraries, which may be closed. Empty when they cannot be found. */
struct probe_range probe_program(void);

#endif
