/*
 * What the parts of the explorer know of one another: the engine (engine.c), the model of memory
 * (memory.c, races.c), and what compiled code calls (hooks.c).
 */
#ifndef LIBPAMI_TEST_UNIT_EXPLORE_INTERNAL_H
#define LIBPAMI_TEST_UNIT_EXPLORE_INTERNAL_H

#include "explore.h"

/* ---- engine.c ---- */

enum choice_kind {
    CHOICE_NEXT,    /* which thread begins, or goes on when one has ended: free */
    CHOICE_PREEMPT, /* ... where this one could, or waits */
    CHOICE_DEATH,   /* whether the thread does nothing more */
    CHOICE_STALE,   /* which value a load sees, whether a weak exchange fails */
    CHOICE_USER,
};

/* The thread that runs, -1: none of the scenario's. */
extern _Thread_local int engine_self;

/* It is in the explorer itself, whose accesses to memory do not count. */
extern _Thread_local bool engine_inside;

/* From the beginning of a setup to the end of the check. */
extern bool engine_in_run;

/* The first one of `count` is the plainest. */
unsigned engine_choose(enum choice_kind kind, unsigned count);
bool engine_may_choose(enum choice_kind kind);

/* Before an operation that others can see: another thread may go on. */
void engine_point(void);

/* Until one of the addresses is woken: futexes. False: by the time. */
enum {
    SLEEP_MOST = 8
};
bool engine_sleep(const void *const *addresses, unsigned count, bool limited);
void engine_wake(const void *address);

void engine_yield(void);

/* Passes with the steps of a run. */
uint64_t engine_time(void);

/* Of the thread that runs. */
long __real_syscall(long number, ...); /* hooks.c */

bool engine_on_stack(const void *address);

/* Something has been stored, which who has yielded may be waiting for. */
void engine_stored(void);

/* The thread has seen a value that is not the newest. */
void engine_missed(void);

/* The run goes on for too long, or not. */
void engine_step(void);

/* Before a store that others see: a thread that is mortal may die. */
void engine_last_chance(void);

/* notes.c: an event for the record of a run that fails. `what` is a literal. */
void engine_note(const char *what, const void *address, uint64_t value, const void *pc);

/* "file:line" of code in this program, as addr2line knows it; until the next call. */
const char *engine_place(const void *pc);

void engine_forget_notes(void);
void engine_show_run(void);

/* What an exploration came to. */
struct engine_result {
    uint64_t runs;
    bool failed, cut;
    char text[400];
};

/* Explores in a child process. `loud`: a run that fails is shown. */
void engine_explore(const struct explore_scenario *scenario, const struct explore_bounds *bounds,
                    bool loud, struct engine_result *result);

/* ---- memory.c ---- */

/* A weaker operation than the code asks for, to see whether that is found. */
enum mutant_kind {
    MUTANT_NONE,
    MUTANT_ORDER, /* another memory order */
    MUTANT_SPLIT, /* a read-modify-write that is a load and a store */
    MUTANT_SKIP,  /* a fence, or a barrier of all threads, that is none */
};

struct mutant {
    enum mutant_kind kind;
    const void *pc;
    int order;
};

extern struct mutant memory_mutant;

/* Where operations are that could be weaker, as far as they have been met. */
enum {
    SITES_MOST = 512
};

struct memory_site {
    const void *pc;
    int order;
    bool rmw, fence, barrier;
};

struct memory_sites {
    unsigned count;
    struct memory_site site[SITES_MOST];
};

extern struct memory_sites *memory_sites; /* shared with the child */

enum rmw {
    RMW_EXCHANGE,
    RMW_ADD,
    RMW_SUB,
    RMW_AND,
    RMW_OR,
    RMW_XOR,
    RMW_NAND,
};

void memory_begin_run(void);

/* Several threads have to do with it, and one stores, or it is no atomic location. */
bool memory_is_shared(const void *address);
bool memory_new_shared(void); /* locations turned out to be shared since it was asked last */

uint64_t memory_load(const void *address, unsigned size, int order, const void *pc);
void memory_store(void *address, unsigned size, uint64_t value, int order, const void *pc);
uint64_t memory_rmw(void *address, unsigned size, enum rmw how, uint64_t operand, int order,
                    const void *pc);
bool memory_cas(void *address, unsigned size, uint64_t *expected, uint64_t desired, int order,
                int failure, bool weak, const void *pc);
void memory_fence(int order, const void *pc);
void memory_barrier_all(const void *pc);

/* The newest value, as the kernel sees it. */
uint32_t memory_newest(const void *address);

/* The thread has yielded: it sees what has been stored. */
void memory_catch_up(void);

/* How much of the doings of thread `of` happened before what the one that runs does now. */
uint16_t memory_clock(unsigned of);

static inline size_t memory_hash(const void *address)
{
    return (size_t)(((uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

/* ---- races.c ---- */

void races_begin_run(void);
void races_touch(const void *address, size_t size, bool write, bool atomic, const void *pc);
void races_plain(const void *address, size_t size, bool write, const void *pc);
void races_freed(const void *address, size_t size);

#endif
