/*
 * The work queue of workqueue.h: an intrusive multi-producer single-consumer linked list. A
 * producer exchanges itself into `tail` and then links its predecessor to itself; the owner follows
 * the
 * links. The stub stands for the empty list and is put back whenever the last node leaves.
 *
 * Depends on nothing but atomics: no context, no lock, no allocation.
 */
#include "workqueue/workqueue.h"

/* New items per run: however many were posted, the devices are looked at in between. */
#define WORK_BATCH 256

void workqueue_init(struct workqueue *queue)
{
    atomic_init(&queue->stub.next, NULL);
    atomic_init(&queue->tail, &queue->stub);
    queue->head = &queue->stub;
    queue->again_first = NULL;
    queue->again_last = NULL;
}

static void push(struct workqueue *queue, struct work_node *node)
{
    struct work_node *previous;

    atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
    previous = atomic_exchange_explicit(&queue->tail, node, memory_order_acq_rel);
    /* Until the next line the list is cut in two here, and the owner stops at `previous`. */
    atomic_store_explicit(&previous->next, node, memory_order_release); /* P1 */
}

void workqueue_post(struct workqueue *queue, pami_work_t *storage, pami_work_function function,
                    void *cookie)
{
    struct work_node *node = work_node_of(storage);

    node->function = function;
    node->cookie = cookie;
    push(queue, node);
}

static struct work_node *next_of(struct work_node *node)
{
    return atomic_load_explicit(&node->next, memory_order_acquire); /* C1 */
}

/* Detach and return the oldest node, NULL when there is none or its link is not yet written. */
static struct work_node *pop(struct workqueue *queue)
{
    struct work_node *node = queue->head;
    struct work_node *next = next_of(node);

    if (node == &queue->stub) {
        if (next == NULL)
            return NULL;
        queue->head = node = next;
        next = next_of(node);
    }
    if (next == NULL) {
        if (node != atomic_load_explicit(&queue->tail, memory_order_acquire))
            return NULL;
        push(queue, &queue->stub);
        next = next_of(node);
        if (next == NULL)
            return NULL;
    }
    queue->head = next;
    return node;
}

static void keep(struct workqueue *queue, struct work_node *node)
{
    atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
    if (queue->again_last != NULL)
        atomic_store_explicit(&queue->again_last->next, node, memory_order_relaxed);
    else
        queue->again_first = node;
    queue->again_last = node;
}

/* Call a detached node's function; returns 1 unless it wants to be called again. */
static int call(struct workqueue *queue, struct work_node *node, pami_context_t context)
{
    if (node->function(context, node->cookie) != PAMI_EAGAIN)
        return 1;
    keep(queue, node);
    return 0;
}

/* Everything before the stub has been called, and the stub was the newest node. */
static bool is_at_stub(const struct workqueue *queue, const struct work_node *last)
{
    return last == &queue->stub && queue->head == last;
}

int workqueue_run(struct workqueue *queue, pami_context_t context)
{
    /* What is posted from here on, also by what is called, is for the next run. */
    const struct work_node *last = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    struct work_node *again = queue->again_first;
    struct work_node *node;
    bool ends = false;
    int done = 0;

    queue->again_first = NULL;
    queue->again_last = NULL;
    while (again != NULL) {
        node = again;
        again = atomic_load_explicit(&node->next, memory_order_relaxed);
        done += call(queue, node, context);
    }
    for (int i = 0; i < WORK_BATCH && !ends && !is_at_stub(queue, last); i++) {
        node = pop(queue);
        if (node == NULL)
            break;
        ends = node == last;
        done += call(queue, node, context);
    }
    return done;
}
