/*
 * Systematic exploration of how threads interleave: what scenarios are written with.
 *
 * A scenario is a few threads of a few operations each on the library's own code, which has been
 * compiled so that every access to memory comes here first (see hooks.c). They run one at a time,
 * and at every atomic operation another one may go on, a load may see an older value than the
 * newest, as far as C11 allows that (memory.c), and a weak compare-and-exchange may fail. All
 * combinations are tried that deviate from the plainest run so many times at most (engine.c).
 *
 * What is found: what a scenario or its check requires and is not so, plain accesses that race, use
 * of memory after free, threads that can never go on (a lost wake-up), and those that never end.
 */
#ifndef LIBPAMI_TEST_UNIT_EXPLORE_H
#define LIBPAMI_TEST_UNIT_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EXPLORE_THREADS = 3
};

/* Deviations of a run at most: */
struct explore_bounds {
    unsigned total;
    unsigned preemptions; /* switches to another thread although this one could go on */
    unsigned stale;       /* loads of a value that is not the newest, and spurious failures */
};

struct explore_scenario {
    const char *name;
    void (*setup)(void); /* all memory as it is to be in the beginning, at the same addresses */
    void (*threads[EXPLORE_THREADS])(void);
    void (*check)(void); /* when all have ended; or NULL */
    /* Counted from 1, 0: none; a deviation: this thread may die before any store that others see,
     * and does this instead of the rest, as the kernel would tell them. */
    unsigned mortal;
    void (*died)(void);
    struct explore_bounds bounds;
    unsigned orders; /* memory orders, barriers and atomicities that it finds missing, at least */
    bool broken;     /* is to fail */
    bool timeouts;   /* who sleeps for a limited time wakes up when nobody can go on */
};

/* A suite ends with an entry without a name. */
extern const struct explore_scenario explore_workqueue[], explore_device[], explore_share[],
    explore_arena[], explore_deaths[], explore_joint[], explore_regions[], explore_servers[];

/* In a thread: nothing to do until another one has stored something. */
void explore_yield(void);

/* The same, for a limited time. */
void explore_nap(void);

/* Any number below `count`. Each is tried. */
unsigned explore_choose(unsigned count);

/* In a thread: which one; elsewhere -1. */
int explore_self(void);

/* In setup, or as what malloc gives in threads: the same addresses in each run, zeros. */
void *explore_alloc(size_t bytes, size_t alignment);
bool explore_owns(const void *memory);

/* The run has failed. */
void explore_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define REQUIRE(condition)                                                                         \
    ((condition) ? (void)0 : explore_fail("%s:%d: required: %s", __FILE__, __LINE__, #condition))

#endif
