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

/* How long one sleep lasts at most, us: house-keeping must go on. */
#define SLEEP_LONGEST_US 100000u
/* The same while something waits to be tried again: nobody wakes us for that. */
#define SLEEP_RETRY_US 200u
/* Looks before the first sleep. */
#define LOOKS_BEFORE_SLEEP 200

/* An advance would do something now. */
static bool has_events(const struct context *context)
{
    if (!completion_queue_empty(&context->completions))
        return true;
    if (!workqueue_idle(&context->work) && context->work.again_first == NULL)
        return true;
    for (size_t i = 0; i < context->port_count; i++)
        if (context->ports[i]->ops->pending(context->ports[i]))
            return true;
    return false;
}

static bool has_retries(const struct context *context)
{
    return !list_empty(&context->retries) || context->work.again_first != NULL;
}

/* True when there is something after all. */
static bool sleep_once(struct context *context, uint64_t microseconds)
{
    struct port *port = context->ports[0];
    bool ready;

    port->ops->arm(port);
    ready = has_events(context);
    if (!ready) {
        context->counters[COUNTER_SLEEPS]++;
        port->ops->sleep(port, microseconds);
        ready = has_events(context);
    }
    port->ops->disarm(port);
    return ready;
}

pami_result_t PAMIX_Context_wait(pami_context_t handle, size_t maximum_us)
{
    struct context *context = context_from_handle(handle);
    uint64_t start;

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Context_wait: context: %s", context_fault(handle));
    /* Simulated time does not pass while we sleep. */
    if (context->core->simulated)
        return has_events(context) ? PAMI_SUCCESS : PAMI_EAGAIN;
    for (int i = 0; i < LOOKS_BEFORE_SLEEP; i++) {
        if (has_events(context))
            return PAMI_SUCCESS;
        cpu_relax();
    }
    start = clock_now_ns();
    for (;;) {
        uint64_t passed = (clock_now_ns() - start) / 1000;
        uint64_t nap = has_retries(context) ? SLEEP_RETRY_US : SLEEP_LONGEST_US;

        if (passed >= maximum_us)
            return PAMI_EAGAIN;
        if (nap > maximum_us - passed)
            nap = maximum_us - passed;
        if (sleep_once(context, nap))
            return PAMI_SUCCESS;
        if (has_retries(context))
            return PAMI_SUCCESS;
        context_tend(context);
    }
}
