/*
 * What other files of this floor and above need of the progress loop.
 */
#ifndef LIBPAMI_CONTEXT_ADVANCE_H
#define LIBPAMI_CONTEXT_ADVANCE_H

#include "context/context.h"

/* Slow house-keeping: let the devices look for peers that have gone. */
void context_tend(struct context *context);

/*
 * Sleeping (wait.c), for whoever owns the context: an advance would do something now; something is
 * to be tried again although nobody will ring; the ports ring from now on, or no longer. If they
 * are armed lightly, the sleep must not be longer than CONTEXT_LIGHT_SLEEP_US.
 */
#define CONTEXT_LIGHT_SLEEP_US 200u
bool context_has_events(const struct context *context);
bool context_has_retries(const struct context *context);
void context_arm(struct context *context, bool light);
void context_disarm(struct context *context);

/* What has been sent goes out, instead of waiting for more to go with. */
static inline void context_flush(struct context *context)
{
    for (size_t i = 0; i < context->port_count; i++)
        if (unlikely(context->ports[i]->unsent))
            context->ports[i]->ops->flush(context->ports[i]);
}

/* Passes of this thread, in whatever contexts, since one found something. */
uint32_t context_idle_passes(void);

/* How long a sleep may be: not all ports that are armed can end it. */
uint64_t context_sleep_limit(const struct context *context, uint64_t microseconds);

/* The word that the port's ringing changes. */
static inline atomic_uint *context_doorbell(struct context *context)
{
    return context->ports[0]->doorbell;
}

#endif
