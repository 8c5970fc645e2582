/*
 * Making and unmaking a context: its tables, and a port on every device of the client.
 */
#include "context/context.h"

#include <errno.h>
#include <stdlib.h>

#include "util/keep.h"
#include "util/log.h"
#include "util/option.h"

/* A device's upward call: find the protocol of a packet that arrived. */
static void deliver(void *arg, const struct packet_header *head, void *body)
{
    struct context *context = arg;

    if (unlikely(head->protocol >= PROTOCOL_COUNT ||
                 endpoint_task(head->origin) >= context->core->tasks + context->core->servers ||
                 endpoint_offset(head->origin) >= context->core->contexts_max)) {
        if (context->counters[COUNTER_FOREIGN]++ == 0)
            log_warn("refused a malformed packet: protocol %u, origin %u", head->protocol,
                     head->origin);
        return;
    }
    context->protocols[head->protocol](context, head, body);
}

void context_put_back(struct context *context)
{
    for (size_t i = 0; i < context->port_count; i++) {
        struct port *port = context->ports[i];

        if (port->ops->put_back != NULL && port->ops->put_back(port))
            return;
    }
}

static void refuse(struct context *context, const struct packet_header *head, void *body)
{
    (void)head;
    (void)body;
    context->counters[COUNTER_FOREIGN]++;
}

static void wake(void *arg)
{
    struct context *context = arg;

    context->ports[0]->ops->wake(context->ports[0]);
}

/* The first one last: until they are closed the others may wake it, from threads of theirs. */
static void close_ports(struct context *context)
{
    for (size_t i = context->port_count; i-- > 0;)
        if (context->ports[i] != NULL)
            context->ports[i]->ops->port_close(context->ports[i]);
    context->port_count = 0;
}

static void mark_unused(struct context *context)
{
    for (size_t i = 0; i < context->port_count; i++)
        context->ports[i]->unused = true;
}

static int open_ports(struct context *context)
{
    struct client_core *core = context->core;
    const struct port_params params = {
        .endpoint = context->endpoint,
        .offset = context->offset,
        .context = context,
        .deliver = deliver,
        .wake = wake,
        .counters = context->counters,
    };

    for (size_t i = 0; i < core->device_count; i++) {
        struct device *device = core->devices[i];
        int error = device->ops->port_open(device, &params, &context->ports[i]);

        if (error != 0) {
            mark_unused(context);
            close_ports(context);
            return error;
        }
        context->port_count = i + 1;
    }
    return 0;
}

/* For threads of the program that were about to advance one that is destroyed. Of simulated ones
 * there may be very many, and no such threads. */
static struct keep contexts = KEEP_OF(struct context);

static struct context *memory_get(const struct client_core *core)
{
    size_t bytes = sizeof(struct context);
    struct context *context;

    if (!core->simulated)
        return keep_get(&contexts);
    context = aligned_alloc(CACHE_LINE, bytes);
    if (context != NULL)
        memset(context, 0, bytes);
    return context;
}

static void memory_put(struct context *context)
{
    if (context->core->simulated)
        free(context);
    else
        keep_put(&contexts, context);
}

int context_create(struct client_core *core, uint32_t offset, struct context **out)
{
    struct context *context = memory_get(core);
    int error;

    if (context == NULL)
        return -ENOMEM;
    context->core = core;
    context->offset = offset;
    context->endpoint = endpoint_make(core->task, offset);
    atomic_init(&context->guard, 0);
    atomic_init(&context->plain_of, &context->plain_of); /* no servers, and no handle */
    atomic_init(&context->short_of, &context->short_of);
    list_init(&context->retries);
    stash_init(&context->stash, core->simulated ? 0 : option_bytes(OPT_SCRATCH_BYTES));
    context_lock_init(&context->lock);
    workqueue_init(&context->work);
    for (size_t i = 0; i < PROTOCOL_COUNT; i++)
        context->protocols[i] = refuse;
    error = completion_queue_init(&context->completions);
    if (error == 0)
        error = open_ports(context);
    if (error != 0) {
        completion_queue_finish(&context->completions);
        memory_put(context);
        return error;
    }
    trace_open(context);
    context->magic = CONTEXT_MAGIC;
    *out = context;
    return 0;
}

void context_unmake(struct context *context)
{
    mark_unused(context);
    context_destroy(context);
}

void context_destroy(struct context *context)
{
    context->magic = 0;
    atomic_store_explicit(&context->short_of, &context->short_of, memory_order_relaxed);
    workqueue_close(&context->work);
    close_ports(context);
    dispatch_table_finish(&context->dispatch);
    completion_queue_finish(&context->completions);
    stash_finish(&context->stash);
#ifdef PAMI_MISUSE_CHECKS
    misuse_bury(context);
#else
    memory_put(context);
#endif
}
