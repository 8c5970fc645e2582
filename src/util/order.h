/*
 * Memory order of one-sided transfers. Messages, stamps and atomic operations have theirs, but a
 * copy has none, whether it is made by plain loads and stores or by the kernel, which promises
 * nothing: other processors than x86 let a later one overtake it, and all of them keep stores for
 * themselves while later loads go on; others than x86 also those of atomic operations.
 */
#ifndef LIBPAMI_UTIL_ORDER_H
#define LIBPAMI_UTIL_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>

#if defined(__SANITIZE_THREAD__) && defined(__GNUC__) && __GNUC__ >= 11
#pragma GCC diagnostic push /* the sanitizer does not see fences, and says so */
#pragma GCC diagnostic ignored "-Wtsan"
#endif

/* Before the stores of a put: who sees them sees all that was done here before, other puts as well.
 * Nothing on x86. */
static inline void order_before_put(void)
{
    atomic_thread_fence(memory_order_release);
}

/* Behind the loads of a get: what is read later is not older. Nothing on x86. */
static inline void order_after_get(void)
{
    atomic_thread_fence(memory_order_acquire);
}

/* All stores before it can be seen by everybody before a load behind it. */
static inline void order_all(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

/* Has a sequentially consistent atomic operation that writes the effect of order_all, so that plain
 * loads do not overtake it? */
static inline bool order_all_by_atomics(void)
{
#if defined(__x86_64__)
    return true;
#else
    return false;
#endif
}

#if defined(__SANITIZE_THREAD__) && defined(__GNUC__) && __GNUC__ >= 11
#pragma GCC diagnostic pop
#endif

#endif
