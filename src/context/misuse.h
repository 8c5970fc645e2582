/*
 * Checks of how programs use contexts, in builds made with DEBUG=1 or a sanitizer
 * (-DPAMI_MISUSE_CHECKS); elsewhere every one of them is nothing.
 *
 *   two threads at once      a send or an advance while another thread advances the context
 *   advance in a callback    answers EAGAIN anyway, but a program that waits this way never ends
 *   use after destroy        destroyed contexts are kept, and named when used again
 *
 * A finding is logged as an error and the call goes on; programs that own a context properly see
 * nothing.
 */
#ifndef LIBPAMI_CONTEXT_MISUSE_H
#define LIBPAMI_CONTEXT_MISUSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct context;

/* Which thread is inside an advance; part of every context, so that its layout is one. */
struct misuse {
    atomic_uintptr_t inside;
    struct context *buried; /* destroyed: the one before */
};

#ifdef PAMI_MISUSE_CHECKS

/* The magic of a context that was destroyed, and kept. */
#define MISUSE_DESTROYED UINT64_C(0x64656164636f6e74)

void misuse_enter(struct context *context, const char *function);
void misuse_leave(struct context *context);
void misuse_check(struct context *context, const char *function);
void misuse_nested(struct context *context, const char *function);

/* Keep instead of free. */
void misuse_bury(struct context *context);

#else

static inline void misuse_enter(struct context *context, const char *function)
{
    (void)context;
    (void)function;
}

static inline void misuse_leave(struct context *context)
{
    (void)context;
}

static inline void misuse_check(struct context *context, const char *function)
{
    (void)context;
    (void)function;
}

static inline void misuse_nested(struct context *context, const char *function)
{
    (void)context;
    (void)function;
}

#endif
#endif
