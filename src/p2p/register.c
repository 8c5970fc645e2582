/*
 * Dispatch ids: registering a function with its hard hints, and the attributes of an id.
 */
#include "p2p/p2p.h"
#include "util/error.h"

static pami_result_t check_hints(pami_dispatch_hint_t hints)
{
    /* By name: where members of bit-fields lie in a word depends on the processor. */
    const struct {
        const char *name;
        unsigned value;
    } all[] = {
        {"multicontext", hints.multicontext},
        {"long_header", hints.long_header},
        {"recv_contiguous", hints.recv_contiguous},
        {"recv_copy", hints.recv_copy},
        {"recv_immediate", hints.recv_immediate},
        {"consistency", hints.consistency},
        {"buffer_registered", hints.buffer_registered},
        {"remote_async_progress", hints.remote_async_progress},
        {"use_rdma", hints.use_rdma},
        {"use_shmem", hints.use_shmem},
        {"queue_immediate", hints.queue_immediate},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].value == PAMI_HINT_INVALID)
            return error_set(PAMI_INVAL, "PAMI_Dispatch_set: options: %s is PAMI_HINT_INVALID",
                             all[i].name);
    if (hints.buffer_registered == PAMI_HINT_ENABLE && hints.use_rdma == PAMI_HINT_DISABLE)
        return error_set(PAMI_INVAL, "PAMI_Dispatch_set: options: buffer_registered is enabled but "
                                     "use_rdma is disabled");
    return PAMI_SUCCESS;
}

static uint32_t flags_of(pami_dispatch_hint_t hints)
{
    uint32_t flags = 0;

    if (hints.recv_immediate == PAMI_HINT_DISABLE)
        flags |= DISPATCH_NEVER_IMMEDIATE;
    if (hints.recv_immediate == PAMI_HINT_ENABLE)
        flags |= DISPATCH_ALWAYS_IMMEDIATE;
    if (hints.long_header == PAMI_HINT_DISABLE)
        flags |= DISPATCH_SHORT_HEADER;
    if (hints.recv_contiguous == PAMI_HINT_ENABLE)
        flags |= DISPATCH_CONTIGUOUS;
    if (hints.recv_copy == PAMI_HINT_ENABLE)
        flags |= DISPATCH_COPY;
    if (hints.queue_immediate == PAMI_HINT_DISABLE)
        flags |= DISPATCH_NO_QUEUE;
    if (hints.use_shmem == PAMI_HINT_ENABLE)
        flags |= DISPATCH_SHARED_ONLY;
    if (hints.use_shmem == PAMI_HINT_DISABLE)
        flags |= DISPATCH_PACKETS_ONLY;
    if (hints.use_rdma == PAMI_HINT_DISABLE)
        flags |= DISPATCH_NO_RDMA;
    return flags;
}

pami_result_t PAMI_Dispatch_set(pami_context_t handle, size_t dispatch,
                                pami_dispatch_callback_function fn, void *cookie,
                                pami_dispatch_hint_t options)
{
    struct context *context = context_from_handle(handle);
    struct dispatch *row;
    pami_result_t result;

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Dispatch_set: context: %s", context_fault(handle));
    if (dispatch > DISPATCH_ID_MAX)
        return error_set(PAMI_INVAL, "PAMI_Dispatch_set: dispatch: %zu is above %u", dispatch,
                         DISPATCH_ID_MAX);
    if (fn.p2p == NULL)
        return error_set(PAMI_INVAL, "PAMI_Dispatch_set: fn: NULL");
    result = check_hints(options);
    if (result != PAMI_SUCCESS)
        return result;
    row = dispatch_row(&context->dispatch, dispatch);
    if (row == NULL)
        return error_set(PAMI_ENOMEM, "PAMI_Dispatch_set: out of memory");
    row->function = fn.p2p;
    row->cookie = cookie;
    row->hints = options;
    row->flags = flags_of(options) | (context->trace != NULL ? DISPATCH_TRACED : 0);
    atomic_store_explicit(&row->set, true, memory_order_relaxed);
    if (dispatch_has_held(row))
        p2p_release(context->p2p, row);
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Dispatch_query(pami_context_t handle, size_t dispatch,
                                  pami_configuration_t configuration[], size_t num_configs)
{
    struct context *context = context_from_handle(handle);
    pami_result_t result = PAMI_SUCCESS;

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Dispatch_query: context: %s", context_fault(handle));
    if (!dispatch_is_set(&context->dispatch, dispatch))
        return error_set(PAMI_INVAL, "PAMI_Dispatch_query: dispatch: %zu is not registered",
                         dispatch);
    if (configuration == NULL && num_configs != 0)
        return error_set(PAMI_INVAL, "PAMI_Dispatch_query: configuration: NULL");
    for (size_t i = 0; i < num_configs; i++) {
        switch ((int)configuration[i].name) {
        case PAMI_DISPATCH_RECV_IMMEDIATE_MAX:
            configuration[i].value.intval = context->core->recv_immediate_max;
            break;
        case PAMI_DISPATCH_SEND_IMMEDIATE_MAX:
            configuration[i].value.intval = context->core->send_immediate_max;
            break;
        case PAMI_DISPATCH_ATOM_SIZE_MAX:
            configuration[i].value.intval = TYPE_ATOM_MAX;
            break;
        default:
            result = error_set(PAMI_INVAL,
                               "PAMI_Dispatch_query: configuration[%zu].name: attribute %d is not "
                               "one of a dispatch",
                               i, (int)configuration[i].name);
        }
    }
    return result;
}

pami_result_t PAMI_Dispatch_update(pami_context_t handle, size_t dispatch,
                                   pami_configuration_t configuration[], size_t num_configs)
{
    struct context *context = context_from_handle(handle);

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Dispatch_update: context: %s", context_fault(handle));
    if (!dispatch_is_set(&context->dispatch, dispatch))
        return error_set(PAMI_INVAL, "PAMI_Dispatch_update: dispatch: %zu is not registered",
                         dispatch);
    if (num_configs == 0)
        return PAMI_SUCCESS;
    if (configuration == NULL)
        return error_set(PAMI_INVAL, "PAMI_Dispatch_update: configuration: NULL");
    return error_set(PAMI_INVAL,
                     "PAMI_Dispatch_update: configuration[0].name: attribute %d cannot be changed",
                     (int)configuration[0].name);
}
