/*
 * The context lock, which is the user's. Of the library only the thread of asynchronous progress
 * takes it (share.h), and gives it up as soon as somebody waits for it.
 *
 * Recursive for its owner. Waiters spin, then yield; who releases it while others wait yields, so
 * that a thread that takes it again at once does not keep them out. The same holds for programs
 * that wait by PAMI_Context_trylock: one that advances in vain gives its processor up inside the
 * advance, with the lock, so who shares that processor would find it taken for ever. No system call
 * happens while nobody waits, and nothing here is a cancellation point.
 */
#ifndef LIBPAMI_CONTEXT_LOCK_H
#define LIBPAMI_CONTEXT_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct context_lock {
    atomic_uintptr_t owner; /* 0: free, else a value unique to the owning thread */
    uint32_t depth;         /* how often the owner holds it */
    atomic_uint waiters;    /* threads that want it, and CONTEXT_LOCK_REFUSED */
};

/* Since it was last released a program's trylock has failed. */
#define CONTEXT_LOCK_REFUSED (1u << 31)

/* Its address names the thread. */
extern _Thread_local char context_lock_mark __attribute__((tls_model("initial-exec")));

/* A value unique to the calling thread, never 0 or 1. */
static inline uintptr_t context_lock_self(void)
{
    return (uintptr_t)&context_lock_mark;
}

void context_lock_init(struct context_lock *lock);
void context_lock_acquire(struct context_lock *lock);
bool context_lock_try(struct context_lock *lock);

/* Waits for it until `end`, as a time of clock_now; false: it was not to be had. */
bool context_lock_until(struct context_lock *lock, double end);

/* Does the calling thread hold it? */
static inline bool context_lock_held(const struct context_lock *lock)
{
    return atomic_load_explicit(&lock->owner, memory_order_relaxed) == context_lock_self();
}

/* False when the calling thread does not hold it. */
bool context_lock_release(struct context_lock *lock);

#endif
