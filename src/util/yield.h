/*
 * Giving the processor up, again and again, while something is missing.
 *
 * sched_yield alone does not do: Linux 6.18 can leave it to a thread that does nothing else for
 * minutes while threads of other sessions or control groups, and the system's own, wait for it. So
 * who has waited for YIELD_REST_US in a row sleeps for a moment, which takes some 60 us. A program
 * that computes, and polls now and then, does not wait meanwhile: of what lies between two calls
 * YIELD_GAP_US count.
 */
#ifndef LIBPAMI_UTIL_YIELD_H
#define LIBPAMI_UTIL_YIELD_H

#include <stdint.h>

#define YIELD_REST_US 1000
#define YIELD_GAP_US 10

/* Callers count their looks, and do not yield at each. */
#define YIELD_STEP_MOST 64u

/* `tries` grows from call to call of one row, by up to YIELD_STEP_MOST; any other begins a new row.
 * A row is the calling thread's. */
void yield_again(uint32_t tries);

#endif
