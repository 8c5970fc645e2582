/*
 * Stopping a task right before its n-th store to memory that it shares with other tasks.
 *
 * What others can see of a task are its stores to shared memory. So a death between the same two of
 * them is the same death, and all of its deaths are as many as there are stores. The memory is
 * write-protected; each store faults, is counted, and is then executed alone, by the processor's
 * single-step flag. Nothing is compiled into the library for that. Stores that fill a piece of
 * memory which is not announced yet count as one.
 *
 * One thread, x86-64 only: stores_work() says whether it works here. What a system call writes to
 * such memory fails with EFAULT.
 */
#ifndef LIBPAMI_FAULT_STORES_H
#define LIBPAMI_FAULT_STORES_H

#include <stdbool.h>

enum store_kind {
    STORE_SIGNAL, /* others may act on it */
    STORE_DATA,   /* together with those to such a place before and after it, it is one */
    STORE_FILL,   /* the same, and so is what goes to the same page */
};

/* What a store goes to. */
struct store_place {
    const char *name;
    enum store_kind kind;
};

bool stores_work(void);

/* From now on: `reached` is called before store `stop`, counting from 1, and what follows is not
 * watched any more. 0: never. */
void stores_watch(long stop, struct store_place (*place)(const void *address),
                  void (*reached)(const char *name));

/* Something else that others may see counts as well. True: it is the one to stop at, and the caller
 * does so by stores_reach. False, when nothing is watched, or another one is. */
bool stores_count(void);
void stores_reach(const char *name);

/* Not any more. How many there were. */
long stores_unwatch(void);

#endif
