/*
 * PAMI_Context_post: the door through which other threads reach a context.
 */
#include "context/context.h"
#include "util/error.h"

pami_result_t PAMI_Context_post(pami_context_t handle, pami_work_t *work, pami_work_function fn,
                                void *cookie)
{
    struct context *context = context_from_handle(handle);

    if (unlikely(context == NULL))
        return error_set(PAMI_INVAL, "PAMI_Context_post: context: %s", context_fault(handle));
    if (unlikely(work == NULL))
        return error_set(PAMI_INVAL, "PAMI_Context_post: work: NULL");
    if (unlikely(fn == NULL))
        return error_set(PAMI_INVAL, "PAMI_Context_post: fn: NULL");
    workqueue_post(&context->work, work, fn, cookie);
    /* The owner may sleep; what a sender pays is one load (see device_ops.wake). */
    context->ports[0]->ops->wake(context->ports[0]);
    return PAMI_SUCCESS;
}
