/*
 * PAMI_Context_post: the door through which other threads reach a context.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "context/context.h"
#include "util/error.h"

/* The owner may sleep; what a poster pays is one load. True: it is to be rung. */
static inline bool rouse(atomic_uint *doorbell)
{
    /* Entered before, looked at after, as a sender does (see device/shm/sleep.c). */
    atomic_signal_fence(memory_order_seq_cst);
    return unlikely(atomic_load_explicit(doorbell, memory_order_relaxed) != 0) &&
           atomic_exchange_explicit(doorbell, 0, memory_order_relaxed) != 0;
}

pami_result_t PAMI_Context_post(pami_context_t handle, pami_work_t *work, pami_work_function fn,
                                void *cookie)
{
    struct context *context = context_from_handle(handle);
    struct work_node *before;
    struct port *port;
    atomic_uint *doorbell;
    bool ring;

    if (unlikely(context == NULL))
        return error_set(PAMI_INVAL, "PAMI_Context_post: context: %s", context_fault(handle));
    if (unlikely(work == NULL))
        return error_set(PAMI_INVAL, "PAMI_Context_post: work: NULL");
    if (unlikely(fn == NULL))
        return error_set(PAMI_INVAL, "PAMI_Context_post: fn: NULL");
    port = context->ports[0];
    doorbell = port->doorbell;
    before = workqueue_enter(&context->work, work, fn, cookie);
    if (unlikely(doorbell == NULL)) { /* simulated: nobody else runs */
        workqueue_link(before, work);
        port->ops->wake(port);
        return PAMI_SUCCESS;
    }
    ring = rouse(doorbell);
    /* From here on fn may have been called, and the context, or its client, may be gone. */
    workqueue_link(before, work);
    if (unlikely(ring)) /* an address by now; where nothing is, the kernel wakes nobody */
        syscall(SYS_futex, doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    return PAMI_SUCCESS;
}
