/*
 * The recursive lock of lock.h, and the public lock functions.
 */
#include "context/lock.h"

#include <sched.h>

#include "context/context.h"
#include "util/clock.h"
#include "util/cpu.h"
#include "util/error.h"
#include "util/yield.h"

/* Tries before a waiter starts to yield; about 2 us. */
#define LOCK_SPINS 128

_Thread_local char context_lock_mark __attribute__((tls_model("initial-exec")));

/* How often in a row the calling thread was refused. */
static _Thread_local uint32_t refusals __attribute__((tls_model("initial-exec")));

void context_lock_init(struct context_lock *lock)
{
    atomic_init(&lock->owner, 0);
    atomic_init(&lock->waiters, 0);
    lock->depth = 0;
}

bool context_lock_try(struct context_lock *lock)
{
    uintptr_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);

    if (owner == 0 &&
        atomic_compare_exchange_strong_explicit(&lock->owner, &owner, context_lock_self(),
                                                memory_order_acquire, memory_order_relaxed)) {
        lock->depth = 1;
        return true;
    }
    if (owner != context_lock_self())
        return false;
    lock->depth++;
    return true;
}

void context_lock_acquire(struct context_lock *lock)
{
    if (context_lock_try(lock))
        return;
    atomic_fetch_add_explicit(&lock->waiters, 1, memory_order_relaxed);
    for (unsigned tries = 0; !context_lock_try(lock); tries++) {
        if (tries < LOCK_SPINS)
            cpu_relax();
        else
            yield_again(tries);
    }
    atomic_fetch_sub_explicit(&lock->waiters, 1, memory_order_relaxed);
}

bool context_lock_until(struct context_lock *lock, double end)
{
    uint32_t tries = 0;
    bool taken;

    atomic_fetch_add_explicit(&lock->waiters, 1, memory_order_relaxed);
    while (!(taken = context_lock_try(lock)) && clock_now() <= end)
        yield_again(tries++);
    atomic_fetch_sub_explicit(&lock->waiters, 1, memory_order_relaxed);
    return taken;
}

bool context_lock_release(struct context_lock *lock)
{
    if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != context_lock_self())
        return false;
    if (--lock->depth != 0)
        return true;
    atomic_store_explicit(&lock->owner, 0, memory_order_release);
    if (unlikely(atomic_load_explicit(&lock->waiters, memory_order_relaxed) != 0)) {
        atomic_fetch_and_explicit(&lock->waiters, ~CONTEXT_LOCK_REFUSED, memory_order_relaxed);
        sched_yield();
    }
    return true;
}

/* The calling thread has tried in vain, and may do so again at once. */
static void refused(struct context_lock *lock)
{
    if (!(atomic_load_explicit(&lock->waiters, memory_order_relaxed) & CONTEXT_LOCK_REFUSED))
        atomic_fetch_or_explicit(&lock->waiters, CONTEXT_LOCK_REFUSED, memory_order_relaxed);
    if (++refusals > LOCK_SPINS)
        yield_again(refusals);
}

bool context_try(struct context *context)
{
    if (context_lock_try(&context->lock))
        return true;
    if (unlikely(context_shared(context)))
        atomic_store_explicit(&context->share.wanted, true, memory_order_relaxed);
    return false;
}

bool context_unlock(struct context *context)
{
    bool left_work;

    if (likely(!context_shared(context)))
        return context_lock_release(&context->lock);
    if (!context_lock_held(&context->lock))
        return false;
    share_note_place(context);
    left_work = context->lock.depth == 1 && share_left_work(context);
    context_lock_release(&context->lock);
    if (unlikely(left_work))
        share_ring(context);
    return true;
}

pami_result_t PAMI_Context_lock(pami_context_t handle)
{
    struct context *context = context_from_handle(handle);

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Context_lock: context: %s", context_fault(handle));
    context_lock_acquire(&context->lock);
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Context_trylock(pami_context_t handle)
{
    struct context *context = context_from_handle(handle);

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Context_trylock: context: %s", context_fault(handle));
    if (unlikely(!context_try(context))) {
        refused(&context->lock);
        return PAMI_EAGAIN;
    }
    refusals = 0;
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Context_unlock(pami_context_t handle)
{
    struct context *context = context_from_handle(handle);

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Context_unlock: context: %s", context_fault(handle));
    if (!context_unlock(context))
        return error_set(PAMI_INVAL,
                         "PAMI_Context_unlock: context: the calling thread does not hold its lock");
    return PAMI_SUCCESS;
}
