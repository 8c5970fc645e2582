/*
 * The checks of misuse.h.
 */
#include "context/misuse.h"

#ifdef PAMI_MISUSE_CHECKS

#include <pthread.h>

#include "context/context.h"
#include "util/log.h"

void misuse_check(struct context *context, const char *function)
{
    uintptr_t inside = atomic_load_explicit(&context->misuse.inside, memory_order_relaxed);

    if (inside != 0 && inside != context_lock_self())
        log_error("%s: context %u: another thread is advancing it; a context has one owner at a "
                  "time",
                  function, context->offset);
}

void misuse_enter(struct context *context, const char *function)
{
    misuse_check(context, function);
    atomic_store_explicit(&context->misuse.inside, context_lock_self(), memory_order_relaxed);
}

void misuse_leave(struct context *context)
{
    atomic_store_explicit(&context->misuse.inside, 0, memory_order_relaxed);
}

void misuse_nested(struct context *context, const char *function)
{
    if (atomic_load_explicit(&context->misuse.inside, memory_order_relaxed) == context_lock_self())
        log_error("%s: context %u: called from one of its own callbacks, where it does nothing",
                  function, context->offset);
    else
        misuse_check(context, function);
}

/* The dead, so that leak checkers find them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context *buried;

void misuse_bury(struct context *context)
{
    context->magic = MISUSE_DESTROYED;
    pthread_mutex_lock(&lock);
    context->misuse.buried = buried; /* threads that leave an advance still look at the rest */
    buried = context;
    pthread_mutex_unlock(&lock);
}

#else

/* A file is never empty. */
typedef int misuse_checks_are_off;

#endif
