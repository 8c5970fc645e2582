/*
 * Two clocks that never go back.
 *
 * clock_ticks: raw and cheap (about 10 ns), for intervals: the time stamp counter where it runs at
 * a constant rate and the kernel trusts it, nanoseconds of CLOCK_MONOTONIC elsewhere.  Comparable
 * between threads of one process.
 * clock_now: seconds of CLOCK_MONOTONIC; comparable between processes of one node.
 */
#ifndef LIBPAMI_UTIL_CLOCK_H
#define LIBPAMI_UTIL_CLOCK_H

#include <stdint.h>

enum clock_source {
    CLOCK_SOURCE_UNKNOWN,
    CLOCK_SOURCE_TSC,
    CLOCK_SOURCE_MONOTONIC,
};

/* Decided at first use, constant from then on. */
extern int clock_source;

uint64_t clock_ticks_slow(void);

static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
    if (__builtin_expect(__atomic_load_n(&clock_source, __ATOMIC_RELAXED) == CLOCK_SOURCE_TSC, 1))
        return __builtin_ia32_rdtsc();
#endif
    return clock_ticks_slow();
}

/* Rate of clock_ticks.  The first call measures it and may take 2 ms. */
double clock_ticks_per_us(void);

/* Seconds since an arbitrary moment, the same for all processes of the node. */
double clock_now(void);

/* The same in nanoseconds. */
uint64_t clock_now_ns(void);

#endif
