/*
 * Creating and destroying the contexts of a client.
 *
 * Before a context goes, what it owes to others is sent (p2p_drain); messages that arrive from then
 * on are not delivered, their senders get an answer that says so.
 */
#include <unistd.h>

#include "client/async.h"
#include "client/client.h"
#include "coll/coll.h"
#include "context/registry.h"
#include "geometry/geometry.h"
#include "p2p/p2p.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/option.h"
#include "util/yield.h"

/* How long the end of the process waits for other threads to leave an advance. That of contexts
 * waits at least as long, and as for peers. */
#define LEAVE_ADVANCE_SECONDS 0.2

/* What floors above give to a context. */
static int attach(struct context *context)
{
    int error = p2p_attach(context);

    if (error != 0)
        return error;
    error = coll_attach(context);
    if (error == 0)
        error = geometry_attach(context);
    if (error == 0) {
        error = registry_add(context, context->core);
        if (error == 0)
            return 0;
        geometry_detach(context);
    }
    coll_detach(context);
    p2p_detach(context);
    return error;
}

static int make_context(struct client *client, uint32_t offset)
{
    struct context *context;
    int error = context_create(&client->core, offset, &context);

    if (error != 0)
        return error;
    error = attach(context);
    if (error != 0) {
        context_unmake(context);
        return error;
    }
    client->contexts[offset] = context;
    client->context_count++;
    return 0;
}

static void tell_devices(const struct client_core *core)
{
    for (size_t i = 0; i < core->device_count; i++)
        if (core->devices[i]->ops->made != NULL)
            core->devices[i]->ops->made(core->devices[i]);
}

static void detach(struct client *client, struct context *context)
{
    trace_close(context, client->name, client->instance);
    registry_remove(context);
    geometry_detach(context);
    coll_detach(context);
    p2p_detach(context);
}

/* Those that have been made, when others cannot. */
static void unmake_contexts(struct client *client)
{
    while (client->context_count != 0) {
        struct context *context = client->contexts[--client->context_count];

        detach(client, context);
        context_unmake(context);
        client->contexts[client->context_count] = NULL;
    }
}

/* In a child forked from the client's process: what is behind the handles is the parent's. */
static void forget_contexts(struct client *client)
{
    while (client->context_count != 0) {
        registry_remove(client->contexts[--client->context_count]);
        client->contexts[client->context_count] = NULL;
    }
}

static bool is_used(const struct context *context)
{
    return atomic_load_explicit(&context->advancing, memory_order_acquire) != 0 || /* E1 */
           atomic_load_explicit(&context->sleeps, memory_order_acquire);           /* E2 */
}

/* Programs destroy contexts while threads of theirs still advance them, or wait for something
 * there. These leave, and do not come in again. */
static void send_away(struct context *context, double end)
{
    struct port *port = context->ports[0];
    uint32_t tries = 0;

    if (share_calls(context) || context_calls(context))
        return;
    port->ops->wake(port); /* who sleeps has to leave the gate */
    while (is_used(context) && clock_now() < end) {
        yield_again(tries++);
        port->ops->wake(port); /* it may have gone to sleep just then */
    }
    while (context_shared(context) && !share_enter(context) && clock_now() < end)
        yield_again(tries++);
}

static void send_all_away(struct client *client, double seconds)
{
    double end = clock_now() + (seconds > LEAVE_ADVANCE_SECONDS ? seconds : LEAVE_ADVANCE_SECONDS);

    for (size_t i = 0; i < client->context_count; i++)
        atomic_fetch_or_explicit(&client->contexts[i]->guard, GUARD_CLOSING, memory_order_seq_cst);
    share_barrier(); /* as in take_over */
    for (size_t i = 0; i < client->context_count; i++)
        send_away(client->contexts[i], end);
}

void client_destroy_contexts(struct client *client)
{
    double seconds = client->clock.now != NULL ? 0 : option_seconds(OPT_DRAIN_TIMEOUT);
    size_t count = client->context_count;

    if (client->pid != getpid()) {
        forget_contexts(client);
        return;
    }
    async_finish(client);
    if (count != 0 && !client->core.simulated)
        send_all_away(client, seconds);
    /* All drain before the first goes: they may owe to one another. */
    if (count != 0)
        p2p_drain(client->contexts, count, seconds);
    client->context_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (option_bool(OPT_STATS))
            stats_print(client->contexts[i]);
        detach(client, client->contexts[i]);
        context_destroy(client->contexts[i]);
        client->contexts[i] = NULL;
    }
}

/* Keep other threads out of the context from now on. False: one does not leave. A callback, or a
 * signal handler, that ends the process may have it already. */
static bool take_over(struct context *context)
{
    double end = clock_now() + LEAVE_ADVANCE_SECONDS;
    uint32_t tries = 0;

    if (share_calls(context)) {
        atomic_fetch_or_explicit(&context->guard, GUARD_CLOSING, memory_order_relaxed);
        return true;
    }
    atomic_fetch_or_explicit(&context->guard, GUARD_CLOSING, memory_order_seq_cst);
    share_barrier(); /* whoever enters an advance now sees it; whoever was quicker is seen below */
    context->ports[0]->ops->wake(context->ports[0]); /* who sleeps has to leave the gate */
    while (atomic_load_explicit(&context->advancing, memory_order_acquire) /* E1 */) {
        if (clock_now() > end)
            return false;
        yield_again(tries++);
    }
    if (!context_lock_until(&context->lock, end))
        return false;
    while (!share_enter(context)) {
        if (clock_now() > end)
            return false;
        yield_again(tries++);
    }
    return true;
}

void client_leave(struct client *client)
{
    double seconds = option_seconds(OPT_DRAIN_TIMEOUT);
    struct context *ours[ENDPOINT_OFFSETS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < client->context_count; i++)
        if (take_over(client->contexts[i]))
            ours[count++] = client->contexts[i];
    if (count != 0)
        p2p_drain(ours, count, seconds);
    for (size_t i = 0; i < count; i++) {
        if (option_bool(OPT_STATS))
            stats_print(ours[i]);
        trace_close(ours[i], client->name, client->instance);
    }
}

pami_result_t PAMI_Context_createv(pami_client_t handle, pami_configuration_t configuration[],
                                   size_t num_configs, pami_context_t context[], size_t ncontexts)
{
    struct client *client = client_from_handle(handle);

    (void)configuration;
    (void)num_configs; /* accepted and without effect, as programs expect */
    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMI_Context_createv: client: not a client");
    if (ncontexts != 0 && context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Context_createv: context: NULL");
    if (ncontexts == 0 || ncontexts > client->core.contexts_max)
        return error_set(PAMI_INVAL,
                         "PAMI_Context_createv: ncontexts: %zu is not in 1..%u (PAMI_NUM_CONTEXTS)",
                         ncontexts, client->core.contexts_max);
    if (client->context_count != 0)
        return error_set(PAMI_ERROR, "PAMI_Context_createv: client: has %zu contexts already",
                         client->context_count);
    for (uint32_t i = 0; i < ncontexts; i++) {
        int error = make_context(client, i);

        if (error != 0) {
            unmake_contexts(client);
            return error_set(error_from_errno(error),
                             "PAMI_Context_createv: context %u cannot be made: %s", i,
                             strerror(-error));
        }
    }
    tell_devices(&client->core);
    for (size_t i = 0; i < ncontexts; i++)
        context[i] = client->contexts[i];
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Context_destroyv(pami_context_t *contexts, size_t ncontexts)
{
    struct client *client;

    if (contexts == NULL || ncontexts == 0)
        return error_set(PAMI_INVAL, "PAMI_Context_destroyv: contexts: NULL or none");
    client = client_of_context(contexts[0]);
    if (client == NULL)
        return error_set(PAMI_INVAL, "PAMI_Context_destroyv: contexts[0]: not a context");
    if (ncontexts != client->context_count)
        return error_set(PAMI_INVAL,
                         "PAMI_Context_destroyv: ncontexts: %zu, but the client has %zu contexts",
                         ncontexts, client->context_count);
    for (size_t i = 0; i < ncontexts; i++)
        if (contexts[i] != client->contexts[i])
            return error_set(PAMI_INVAL,
                             "PAMI_Context_destroyv: contexts[%zu]: not context %zu of the client",
                             i, i);
    client_destroy_contexts(client);
    for (size_t i = 0; i < ncontexts; i++)
        contexts[i] = NULL;
    return PAMI_SUCCESS;
}
