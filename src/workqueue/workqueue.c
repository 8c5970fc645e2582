/*
 * The work queue of workqueue.h: an intrusive multi-producer single-consumer linked list. A
 * producer exchanges itself into `tail` and then links its predecessor to itself; the owner follows
 * the links. The stub stands for the empty list and is put back whenever the last node leaves.
 *
 * Depends on nothing but atomics: no context, no lock, no allocation.
 */
#include "workqueue/workqueue.h"

/* New items per run: however many were posted, the devices are looked at in between. */
#define WORK_BATCH 256

/* The queue whose functions this thread is calling. */
static _Thread_local struct workqueue *running __attribute__((tls_model("initial-exec")));

void workqueue_init(struct workqueue *queue)
{
    atomic_init(&queue->stub.next, NULL);
    atomic_init(&queue->tail, &queue->stub);
    queue->head = &queue->stub;
    atomic_init(&queue->inside, NULL);
    queue->again = (struct work_list){NULL, NULL};
}

static void list_add(struct work_list *list, struct work_node *node)
{
    atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
    if (list->last != NULL)
        atomic_store_explicit(&list->last->next, node, memory_order_relaxed);
    else
        list->first = node;
    list->last = node;
}

/* Takes all; the nodes are linked. */
static struct work_node *list_take(struct work_list *list)
{
    struct work_node *first = list->first;

    *list = (struct work_list){NULL, NULL};
    return first;
}

/* Until its result is linked to the node the list is cut in two there, and the owner stops. */
static struct work_node *enter(struct workqueue *queue, struct work_node *node)
{
    atomic_store_explicit(&node->next, NULL, memory_order_relaxed);
    return atomic_exchange_explicit(&queue->tail, node, memory_order_acq_rel);
}

static void push(struct workqueue *queue, struct work_node *node)
{
    struct work_node *before = enter(queue, node);

    atomic_store_explicit(&before->next, node, memory_order_release); /* P1 */
}

/* For the end of the run. A signal handler that interrupts this may do the same. */
static void put_aside(struct workqueue *queue, struct work_node *node)
{
    struct work_node *before = atomic_load_explicit(&queue->inside, memory_order_relaxed);

    do
        atomic_store_explicit(&node->next, before, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&queue->inside, &before, node,
                                                  memory_order_release, memory_order_relaxed));
}

struct work_node *workqueue_enter(struct workqueue *queue, pami_work_t *storage,
                                  pami_work_function function, void *cookie)
{
    struct work_node *node = work_node_of(storage);

    node->function = function;
    node->cookie = cookie;
    if (likely(running != queue))
        return enter(queue, node);
    put_aside(queue, node);
    return NULL;
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

/* Call a detached node's function; returns 1 unless it wants to be called again. */
static int call(struct workqueue *queue, struct work_node *node, pami_context_t context)
{
    if (node->function(context, node->cookie) != PAMI_EAGAIN)
        return 1;
    list_add(&queue->again, node);
    return 0;
}

/* What functions have posted here becomes new. */
static void push_inside(struct workqueue *queue)
{
    struct work_node *next = atomic_exchange_explicit(&queue->inside, NULL, memory_order_acquire);
    struct work_node *node, *oldest = NULL;

    while ((node = next) != NULL) {
        next = atomic_load_explicit(&node->next, memory_order_relaxed);
        atomic_store_explicit(&node->next, oldest, memory_order_relaxed);
        oldest = node;
    }
    while ((node = oldest) != NULL) {
        oldest = atomic_load_explicit(&node->next, memory_order_relaxed);
        push(queue, node);
    }
}

void workqueue_close(struct workqueue *queue)
{
    if (running == queue)
        running = NULL;
}

int workqueue_run(struct workqueue *queue, pami_context_t context)
{
    struct workqueue *outer = running;
    struct work_node *node, *next;
    int done = 0;

    /* What is called here may post there, too, and comes later. */
    if (unlikely(outer != NULL))
        push_inside(outer);
    running = queue;
    next = list_take(&queue->again);
    while ((node = next) != NULL) {
        next = atomic_load_explicit(&node->next, memory_order_relaxed);
        done += call(queue, node, context);
    }
    for (int i = 0; i < WORK_BATCH && (node = pop(queue)) != NULL; i++)
        done += call(queue, node, context);
    running = outer;
    if (unlikely(atomic_load_explicit(&queue->inside, memory_order_relaxed) != NULL))
        push_inside(queue);
    return done;
}
