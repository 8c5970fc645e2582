/*
 * Memory order of one-sided transfers that are plain loads and stores. Messages, stamps and atomic
 * operations have theirs, but a copy has none: other processors than x86 let a later one overtake
 * it, and all of them keep stores for themselves while later loads go on.
 */
#ifndef LIBPAMI_UTIL_ORDER_H
#define LIBPAMI_UTIL_ORDER_H

#include <stdatomic.h>

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

#if defined(__SANITIZE_THREAD__) && defined(__GNUC__) && __GNUC__ >= 11
#pragma GCC diagnostic pop
#endif

#endif
