/*
 * Sleeping: PAMIX_Context_wait blocks until its context has something to advance.
 *
 * The order that loses no wake-up: arm the port (its flag becomes visible to every sender and
 * poster before arm returns), look once more at everything, sleep. A sender publishes first and
 * reads the flag afterwards. A poster reads it when half of its post is done: the last look must
 * find that, too.
 *
 * Who waits keeps others out as an advance does: by its mark while it looks, and not while it
 * sleeps, or by the gate, also while it sleeps. Others may begin to share the context and the
 * process may end meanwhile, so `guard` is looked at after every sleep.
 */
#include <pami/pamix.h>

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
/* A call that the end of the process or of the context ends takes so much longer. */
#define SLEEP_CLOSING_US 1000
/* Looks before the first sleep. */
#define LOOKS_BEFORE_SLEEP 200

/* Ports that are not advanced, as the context is paused, have nothing. Nor has a post that is half
 * done. */
bool context_has_events(const struct context *context)
{
    if (!completion_queue_empty(&context->completions) || context->busy)
        return true;
    if (!workqueue_idle(&context->work) && context->work.again.first == NULL)
        return true;
    for (size_t i = 0; i < context->port_count && !context->paused; i++)
        if (context->ports[i]->ops->pending(context->ports[i]))
            return true;
    return false;
}

bool context_has_retries(const struct context *context)
{
    if (!list_empty(&context->retries) || context->work.again.first != NULL)
        return true;
    for (size_t i = 0; i < context->port_count && !context->paused; i++) {
        struct port *port = context->ports[i];

        if (port->ops->stalled != NULL && port->ops->stalled(port))
            return true;
    }
    return false;
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

/* What keeps others out of the context. */
enum stay {
    STAY_OUTSIDE, /* nothing: the caller must not touch it any more */
    STAY_NESTED,  /* the call is made in a callback, and whoever called that has seen to it */
    STAY_MARK,    /* context_enter, but not while the caller sleeps */
    STAY_GATE,
};

struct wait {
    struct context *context;
    size_t maximum_us;
    uint64_t start; /* ns */
    enum stay stay;
};

static uint64_t passed_us(const struct wait *wait)
{
    return (clock_now_ns() - wait->start) / 1000;
}

/* Who sets it makes all threads pass a barrier, and then looks at what was stored before this. */
static unsigned look_at_guard(const struct context *context)
{
    atomic_signal_fence(memory_order_seq_cst);
    return atomic_load_explicit(&context->guard, memory_order_relaxed);
}

static bool is_nested(const struct context *context)
{
    return share_calls(context) || (context_inside(context) && !context_shared(context));
}

/* False: the time is over, or the context is closing. */
static bool come_in(struct wait *wait)
{
    struct context *context = wait->context;
    uint32_t tries = 0;

    wait->stay = STAY_MARK;
    context_enter(context);
    if (likely(look_at_guard(context) == 0))
        return true;
    context_leave(context);
    wait->stay = STAY_OUTSIDE;
    while ((look_at_guard(context) & GUARD_CLOSING) == 0) {
        if (share_enter(context)) {
            wait->stay = STAY_GATE;
            return true;
        }
        atomic_store_explicit(&context->share.wanted, true, memory_order_relaxed);
        if (passed_us(wait) >= wait->maximum_us)
            return false;
        yield_again(tries++);
    }
    return false;
}

static void go_out(struct wait *wait)
{
    if (wait->stay == STAY_MARK)
        context_leave(wait->context);
    else if (wait->stay == STAY_GATE)
        share_leave(wait->context);
    wait->stay = STAY_OUTSIDE;
}

/* Who closes the context waits until nobody is inside. */
static bool must_go(const struct wait *wait)
{
    return (look_at_guard(wait->context) & GUARD_CLOSING) != 0;
}

/* What the helper has done since may be what the program waits for. */
static bool was_helped(const struct wait *wait)
{
    struct context_share *share = &wait->context->share;
    uint64_t helped;

    if (wait->stay != STAY_GATE)
        return false;
    helped = atomic_load_explicit(&share->helped, memory_order_relaxed);
    if (helped == share->known)
        return false;
    share->known = helped;
    return true;
}

/* False: the context is closing. Until it has left whoever closes it waits. */
static bool sleep_outside(struct wait *wait, uint64_t microseconds)
{
    struct context *context = wait->context;
    struct port *port = context->ports[0];
    bool inside;

    if (wait->stay != STAY_MARK) {
        port->ops->sleep(port, microseconds);
        return true;
    }
    atomic_store_explicit(&context->sleeps, true, memory_order_relaxed);
    context_leave(context); /* E1 */
    port->ops->sleep(port, microseconds);
    inside = come_in(wait);
    atomic_store_explicit(&context->sleeps, false, memory_order_release); /* E2 */
    return inside;
}

/* True when there is something after all. Unless the caller is outside then, the port is as it was:
 * the helper, who may be inside between the two, disarms it by itself. */
static bool sleep_once(struct wait *wait, uint64_t microseconds)
{
    struct context *context = wait->context;
    bool ready;

    context_arm(context, microseconds <= CONTEXT_LIGHT_SLEEP_US);
    ready = context_has_events(context) || workqueue_entered(&context->work);
    if (!ready && !must_go(wait)) {
        context->counters[COUNTER_SLEEPS]++;
        microseconds = context_sleep_limit(context, microseconds);
        if (!sleep_outside(wait, microseconds))
            return false;
        ready = was_helped(wait) || context_has_events(context);
    }
    context_disarm(context);
    return ready;
}

static pami_result_t wait_inside(struct wait *wait)
{
    struct context *context = wait->context;

    if (was_helped(wait) || should_retry(context, wait->start))
        return PAMI_SUCCESS;
    for (int i = 0; i < LOOKS_BEFORE_SLEEP; i++) {
        if (context_has_events(context))
            return PAMI_SUCCESS;
        cpu_relax();
    }
    while (!must_go(wait)) {
        uint64_t passed = passed_us(wait);
        uint64_t nap = context_has_retries(context) ? SLEEP_RETRY_US : SLEEP_LONGEST_US;

        if (passed >= wait->maximum_us)
            break;
        if (nap > wait->maximum_us - passed)
            nap = wait->maximum_us - passed;
        if (sleep_once(wait, nap))
            return PAMI_SUCCESS;
        if (wait->stay == STAY_OUTSIDE)
            break;
        if (context_has_retries(context))
            return PAMI_SUCCESS;
        /* Not around a callback: what ends with somebody who has gone may be what that is for. */
        if (wait->stay != STAY_NESTED)
            context_tend(context);
    }
    return PAMI_EAGAIN;
}

/* Whoever ends the process or the context may need the processor: who calls again and again does so
 * slowly. */
static void sleep_closing(void)
{
    static const struct timespec pause = {.tv_nsec = SLEEP_CLOSING_US * 1000};

    syscall(SYS_nanosleep, &pause, NULL);
}

pami_result_t PAMIX_Context_wait(pami_context_t handle, size_t maximum_us)
{
    struct context *context = context_from_handle(handle);
    struct wait wait = {.context = context, .maximum_us = maximum_us, .stay = STAY_NESTED};
    pami_result_t result;

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMIX_Context_wait: context: %s", context_fault(handle));
    /* Simulated time does not pass while we sleep. */
    if (context->core->simulated)
        return context_has_events(context) ? PAMI_SUCCESS : PAMI_EAGAIN;
    wait.start = clock_now_ns();
    if (is_nested(context) || come_in(&wait))
        result = wait_inside(&wait);
    else
        result = PAMI_EAGAIN;
    go_out(&wait);
    if (unlikely(result == PAMI_EAGAIN && (look_at_guard(context) & GUARD_CLOSING) != 0))
        sleep_closing();
    return result;
}
