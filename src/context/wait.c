/*
 * Sleeping: PAMIX_Context_wait blocks until its context has something to advance.
 *
 * The order that loses no wake-up: arm the port (its flag becomes visible to every sender and
 * poster before arm returns), look once more at everything, sleep. A sender publishes first and
 * reads the flag afterwards.
 */
#include <pami/pamix.h>

#include "context/advance.h"
#include "context/context.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/yield.h"

/* How long one sleep lasts at most, us: house-keeping must go on. */
#define SLEEP_LONGEST_US 100000u
/* The same while something waits to be tried again: nobody wakes us for that. */
#define SLEEP_RETRY_US 200u
/* ... and only when nothing has been found for so long: what is to be tried again often works
 * soon, as the next piece of a collective does, and such a sleep takes as long. */
#define RETRY_PATIENCE_NS 300000u
/* Looks before the first sleep. */
#define LOOKS_BEFORE_SLEEP 200

bool context_has_events(const struct context *context)
{
    if (!completion_queue_empty(&context->completions) || context->busy)
        return true;
    if (!workqueue_idle(&context->work) && context->work.again.first == NULL)
        return true;
    for (size_t i = 0; i < context->port_count; i++)
        if (context->ports[i]->ops->pending(context->ports[i]))
            return true;
    return false;
}

bool context_has_retries(const struct context *context)
{
    return !list_empty(&context->retries) || context->work.again.first != NULL;
}

void context_arm(struct context *context, bool light)
{
    for (size_t i = 0; i < context->port_count; i++)
        context->ports[i]->ops->arm(context->ports[i], light);
}

/* A helper may rely on being rung: it has to look for itself. */
void context_disarm(struct context *context)
{
    struct port *first = context->ports[0];

    for (size_t i = 1; i < context->port_count; i++)
        context->ports[i]->ops->disarm(context->ports[i]);
    if (unlikely(context_shared(context)))
        first->ops->wake(first);
    else
        first->ops->disarm(first);
}

uint64_t context_sleep_limit(const struct context *context, uint64_t microseconds)
{
    for (size_t i = 0; i < context->port_count; i++) {
        uint32_t limit = context->ports[i]->sleep_us;

        if (limit != 0 && limit < microseconds)
            microseconds = limit;
    }
    return microseconds;
}

/* True when there is something after all. */
static bool sleep_once(struct context *context, uint64_t microseconds)
{
    struct port *port = context->ports[0];
    bool ready;

    context_arm(context, microseconds <= CONTEXT_LIGHT_SLEEP_US);
    ready = context_has_events(context);
    if (!ready) {
        context->counters[COUNTER_SLEEPS]++;
        port->ops->sleep(port, context_sleep_limit(context, microseconds));
        ready = context_has_events(context);
    }
    context_disarm(context);
    return ready;
}

static uint64_t retries_mark(const struct context *context)
{
    struct list *item;
    uint64_t mark = 0;

    list_for_each (item, &context->retries) {
        const struct retry *retry = list_entry(item, struct retry, link);

        mark += retry->mark != NULL ? retry->mark(retry) : 0;
    }
    return mark;
}

/* An advance should try again what has not worked just now. */
static bool should_retry(struct context *context, uint64_t now)
{
    uint32_t passes = context_idle_passes();
    uint64_t mark;

    if (!context_has_retries(context))
        return false;
    mark = retries_mark(context);
    if (passes <= context->wait_passes || mark != context->wait_mark)
        context->wait_began = now;
    context->wait_passes = passes;
    context->wait_mark = mark;
    return now - context->wait_began < RETRY_PATIENCE_NS;
}

/* The owner waits. */
static pami_result_t wait_for_events(struct context *context, size_t maximum_us, uint64_t start)
{
    if (should_retry(context, start))
        return PAMI_SUCCESS;
    for (int i = 0; i < LOOKS_BEFORE_SLEEP; i++) {
        if (context_has_events(context))
            return PAMI_SUCCESS;
        cpu_relax();
    }
    for (;;) {
        uint64_t passed = (clock_now_ns() - start) / 1000;
        uint64_t nap = context_has_retries(context) ? SLEEP_RETRY_US : SLEEP_LONGEST_US;

        if (passed >= maximum_us)
            return PAMI_EAGAIN;
        if (nap > maximum_us - passed)
            nap = maximum_us - passed;
        if (sleep_once(context, nap))
            return PAMI_SUCCESS;
        if (context_has_retries(context))
            return PAMI_SUCCESS;
        context_tend(context);
    }
}

/* What the helper has done since may be what the program waits for. */
static bool was_helped(struct context *context)
{
    uint64_t helped = atomic_load_explicit(&context->share.helped, memory_order_relaxed);

    if (helped == context->share.known)
        return false;
    context->share.known = helped;
    return true;
}

/* The same with a helper, which stays outside while we wait. */
static pami_result_t wait_shared(struct context *context, size_t maximum_us, uint64_t start)
{
    pami_result_t result;
    uint32_t tries = 0;

    if (share_owned(context))
        return wait_for_events(context, maximum_us, start);
    while (!share_enter(context)) {
        atomic_store_explicit(&context->share.wanted, true, memory_order_relaxed);
        if ((clock_now_ns() - start) / 1000 >= maximum_us)
            return PAMI_EAGAIN;
        yield_again(tries++);
    }
    result = was_helped(context) ? PAMI_SUCCESS : wait_for_events(context, maximum_us, start);
    share_leave(context);
    return result;
}

pami_result_t PAMIX_Context_wait(pami_context_t handle, size_t maximum_us)
{
    struct context *context = context_from_handle(handle);

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Context_wait: context: %s", context_fault(handle));
    /* Simulated time does not pass while we sleep. */
    if (context->core->simulated)
        return context_has_events(context) ? PAMI_SUCCESS : PAMI_EAGAIN;
    if (context_shared(context))
        return wait_shared(context, maximum_us, clock_now_ns());
    return wait_for_events(context, maximum_us, clock_now_ns());
}
