/*
 * Progress: one pass over what a context owns, and the public advance functions around it.
 *
 * A pass runs, in this order: completions that are due, posted work, the ports, what is to be tried
 * again, and completions that the pass itself made. An idle pass reads a handful of cache lines
 * that this thread owns or shares, and makes no system call until the waiting policy yields.
 *
 * How long a thread has found nothing is counted per thread, not per context: a thread that drives
 * sixteen contexts of which one is busy must not yield for the other fifteen.
 */
#include "context/advance.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/order.h"
#include "util/yield.h"

/* Who has died is looked at every so often, and the clock is looked at every few passes; where time
 * is simulated, passes are counted instead. */
#define TEND_LOOK_PASSES 16u
#define TEND_PASSES 4096u

/* Where every task has a processor, yields are for other programs and come every so many passes: a
 * network that rests for 8 passes is then looked at as often as one yields. */
#define SELDOM_PASSES 8u
/* A yield that finds others to run takes the time of about so many passes. */
#define YIELD_PASSES 64u
/* ... and a caller at work is let go: most ask for fewer. */
#define BUSY_PASSES 1024u
/* Passes that have found completions, a few, and have nothing else at hand look at the ports so
 * often. */
#define PORTS_PASSES 4u
#define FEW_COMPLETIONS 8
/* A port's rest is counted in passes: an event takes about as long as so many. */
#define EVENT_PASSES 8u

/*
 * Threads that give their processors up to each other stay where they are, three of four on one of
 * two: the system moves those that sleep. So they spread now and then, by how often they yielded.
 */
static bool is_spread(uint64_t count)
{
    return count == 256 || count == 4096 || count % 65536 == 0;
}

static _Thread_local uint32_t idle_passes __attribute__((tls_model("initial-exec")));
static _Thread_local uint64_t yields __attribute__((tls_model("initial-exec")));

uint32_t context_idle_passes(void)
{
    return idle_passes;
}

static void gone(void *context, uint32_t endpoint)
{
    p2p_endpoint_gone(context, endpoint);
}

void context_tend(struct context *context)
{
    for (size_t i = 0; i < context->port_count; i++) {
        struct port *port = context->ports[i];

        if (port->ops->tend != NULL)
            port->ops->tend(port, gone);
    }
    if (context->tended != NULL && !context->core->simulated)
        context->tended(context);
}

static int run_retry(struct list *item, struct context *context)
{
    struct retry *retry = list_entry(item, struct retry, link);

    return retry->run(retry, context);
}

/* Each once: what puts itself or others on again has its turn in the next pass. */
static int run_retries(struct context *context)
{
    struct list *item, due;
    int events = 0;

    if (likely(context->retries.next == context->retries.prev)) /* there is one */
        return run_retry(context->retries.next, context);
    list_init(&due);
    list_splice_back(&due, &context->retries);
    while ((item = list_pop_front(&due)) != NULL) {
        list_push_back(&context->retries, item);
        events += run_retry(item, context);
    }
    return events;
}

/* The same as completion_queue_run, recorded. */
static int run_traced(struct completion_queue *queue, struct context *context)
{
    size_t end = queue->tail;
    int count = 0;

    for (; queue->head != end; count++) {
        struct completion due = completion_take(queue);
        uint64_t begin = clock_now_ns();

        due.function(context, due.cookie, due.result);
        trace_callback(context, "completion", begin);
    }
    return count;
}

HOT __attribute__((noinline)) static int run_due(struct context *context)
{
    int events;

    if (unlikely(context->unseen)) {
        context->unseen = false;
        order_all();
    }
    if (unlikely(context->trace != NULL))
        events = run_traced(&context->completions, context);
    else
        events = completion_queue_run(&context->completions, context);
    context->counters[COUNTER_CALLBACKS] += (uint64_t)events;
    return events;
}

/* Mostly none is due, and then there is no call. */
static inline int run_completions(struct context *context)
{
    return completion_queue_empty(&context->completions) ? 0 : run_due(context);
}

static void tend_if_due(struct context *context)
{
    bool soon = false;
    uint64_t ticks;

    if (context->core->simulated) {
        if (context->passes % TEND_PASSES == 0)
            context_tend(context);
        return;
    }
    ticks = clock_ticks();
    for (size_t i = 0; i < context->port_count; i++) {
        struct port *port = context->ports[i];

        if (port->rest != 0 && ticks >= port->rest_until)
            port->rest = 0;
        soon = soon || port->tend_soon;
        port->tend_soon = false;
    }
    if (!soon && ticks < context->tend_at)
        return;
    context->tend_at = ticks + context->core->tend_ticks;
    context_tend(context);
}

static int run_posted(struct context *context)
{
    uint64_t begin = unlikely(context->trace != NULL) ? clock_now_ns() : 0;
    int posted = workqueue_run(&context->work, context);

    context->counters[COUNTER_POSTED] += (uint64_t)posted;
    if (unlikely(begin != 0) && posted != 0)
        trace_callback(context, "posted work", begin);
    return posted;
}

/* A pass in which `events` have come by others: whether the port's rest is over with it. */
static bool rested(struct port *port, uint32_t events)
{
    uint32_t passes = 1 + events * EVENT_PASSES;

    port->others += events;
    port->rest -= port->rest < passes ? port->rest : passes;
    return port->rest == 0;
}

/*
 * Whether a pass that has run completions may end at that: who starts operations that are over at
 * once, and waits for each or for a few, then does not pay for a look at what others have sent. One
 * of PORTS_PASSES looks.
 */
static inline bool is_enough(const struct context *context)
{
    if ((context->passes + 1) % PORTS_PASSES == 0 || !workqueue_idle(&context->work) ||
        !list_empty(&context->retries))
        return false;
    for (size_t i = 0; i < context->port_count; i++)
        if (context->ports[i]->unsent)
            return false;
    return true;
}

HOT int context_pass(struct context *context)
{
    int events = run_completions(context);

    if (events != 0 && events < FEW_COMPLETIONS && is_enough(context)) {
        context->passes++;
        return events;
    }
    if (!workqueue_idle(&context->work))
        events += run_posted(context);
    for (size_t i = 0; i < context->port_count && likely(!context->paused); i++)
        if (likely(context->ports[i]->rest == 0) || rested(context->ports[i], (uint32_t)events))
            events += context->ports[i]->ops->advance(context->ports[i]);
    if (unlikely(!list_empty(&context->retries)))
        events += run_retries(context);
    events += run_completions(context);
    context_flush(context);
    if (unlikely(++context->passes % TEND_LOOK_PASSES == 0))
        tend_if_due(context);
    return events;
}

/* What a call has learnt from passes that found nothing. */
struct look {
    bool sent;    /* something was sent since the last look */
    bool patient; /* what is missing runs elsewhere: the last pass keeps the processor */
};

/*
 * What a call does after a pass that found nothing; returns how many of its passes that counts for.
 * Giving the processor up takes as long as many passes and counts as so many: the caller may have
 * other work to do. A caller that has sent since its last call is at work; it keeps the processor,
 * but is not kept waiting here either. `context` was entered last, and may be another thread's now
 * unless `owned`.
 */
HOT static size_t idle(struct context *context, struct look *look, bool owned)
{
    const struct client_core *core = context->core;
    bool patient = look->patient;

    look->patient = false;
    if (++idle_passes < core->spin_passes || core->yield == YIELD_NEVER || patient)
        return 1;
    if (look->sent) {
        look->sent = false;
        return BUSY_PASSES;
    }
    if (core->yield == YIELD_SELDOM && idle_passes % SELDOM_PASSES != 0)
        return 1;
    if (!context_shared(context)) {
        if (owned)
            context->counters[COUNTER_YIELDS]++;
        if (is_spread(++yields) && core->spread != NULL)
            core->spread(core, context->offset);
    }
    yield_again(idle_passes); /* the context, and its client, may be gone after that */
    return YIELD_PASSES;
}

/* Nobody lets us in: who keeps us out may wait for this processor. */
static void turned_away(const struct client_core *core)
{
    if (++idle_passes >= core->spin_passes && core->yield != YIELD_NEVER)
        yield_again(idle_passes);
}

/* A pass has found nothing. The caller is still inside. */
static void note(struct context *context, struct look *look)
{
    uint64_t sends;

    if (unlikely(context->patient)) {
        context->patient = false;
        look->patient = true;
    }
    sends = context->counters[COUNTER_SEND_IMMEDIATE];
    if (sends == context->sends)
        return;
    context->sends = sends;
    idle_passes = 0;
    look->sent = true;
}

/* A pass by a caller that may be nested in another or come after the end; -1: it is nested, or the
 * context is about to go. */
HOT static inline int guarded_pass(struct context *context, struct look *look)
{
    int events;

    if (unlikely(context_inside(context)) && share_nested(context))
        return -1;
    context_enter(context);
    atomic_signal_fence(memory_order_seq_cst); /* what guard's setter orders by its barrier */
    if (unlikely(atomic_load_explicit(&context->guard, memory_order_relaxed) != 0)) {
        context_leave(context);
        return context_shared(context) ? share_pass(context) : -1;
    }
    misuse_enter(context, "PAMI_Context_advance");
    events = context_pass(context);
    if (events == 0)
        note(context, look);
    misuse_leave(context);
    context_leave(context);
    return events;
}

HOT pami_result_t PAMI_Context_advance(pami_context_t handle, size_t maximum)
{
    struct context *context = context_from_handle(handle);
    struct look look = {0};

    if (unlikely(context == NULL))
        return error_set(PAMI_INVAL, "PAMI_Context_advance: context: %s", context_fault(handle));
    if (unlikely(context_inside(context)) && share_nested(context)) {
        misuse_nested(context, "PAMI_Context_advance");
        return PAMI_EAGAIN;
    }
    for (size_t pass = 0; pass < maximum;) {
        int events = guarded_pass(context, &look);

        if (events > 0) {
            idle_passes = 0;
            return PAMI_SUCCESS;
        }
        if (unlikely(events < 0)) {
            turned_away(context->core);
            break;
        }
        pass += idle(context, &look, true);
    }
    return PAMI_EAGAIN;
}

/* All handles are contexts, or error_set and PAMI_INVAL. */
static pami_result_t check_set(const char *function, pami_context_t handles[], size_t count)
{
    if (handles == NULL && count != 0)
        return error_set(PAMI_INVAL, "%s: context: NULL", function);
    for (size_t i = 0; i < count; i++)
        if (context_from_handle(handles[i]) == NULL)
            return error_set(PAMI_INVAL, "%s: context[%zu]: %s", function, i,
                             context_fault(handles[i]));
    return PAMI_SUCCESS;
}

/* The same with the context's lock; -1 also when another thread holds that. */
static int pass_locked(struct context *context, struct look *look)
{
    int events;

    if (!context_try(context))
        return -1;
    events = guarded_pass(context, look);
    context_unlock(context);
    return events;
}

/* Passes over all contexts, until one finds something or none of them lets us in. Who destroys them
 * meanwhile may clear this very array. */
static pami_result_t passes(pami_context_t handles[], size_t count, size_t maximum,
                            int (*one)(struct context *context, struct look *look))
{
    struct look look = {0};

    for (size_t pass = 0; pass < maximum;) {
        struct context *last = NULL, *entered = NULL;
        int events = 0;

        for (size_t i = 0; i < count; i++) {
            struct context *context = context_from_handle(handles[i]);
            int found = context != NULL ? one(context, &look) : -1;

            if (context != NULL)
                last = context;
            if (found >= 0)
                entered = context;
            events += found > 0 ? found : 0;
        }
        if (events != 0) {
            idle_passes = 0;
            return PAMI_SUCCESS;
        }
        if (last == NULL)
            break;
        if (entered == NULL) {
            turned_away(last->core);
            break;
        }
        pass += idle(entered, &look, one == guarded_pass);
    }
    return PAMI_EAGAIN;
}

pami_result_t PAMI_Context_advancev(pami_context_t handles[], size_t count, size_t maximum)
{
    pami_result_t result = check_set("PAMI_Context_advancev", handles, count);

    return result == PAMI_SUCCESS ? passes(handles, count, maximum, guarded_pass) : result;
}

pami_result_t PAMI_Context_trylock_advancev(pami_context_t handles[], size_t count, size_t maximum)
{
    pami_result_t result = check_set("PAMI_Context_trylock_advancev", handles, count);

    return result == PAMI_SUCCESS ? passes(handles, count, maximum, pass_locked) : result;
}
