/*
 * Work queue: hands functions from any thread to the thread that owns a context.
 *
 * Contract
 *   workqueue_post   any number of threads at once, wait-free, no allocation; signal handlers as
 *                    well, whatever they interrupt. The caller's storage holds the queue's node; it
 *                    belongs to the queue until the function's final return, or the queue's drop.
 *                    A post has two steps: enter gives the node its place, link shows it. What the
 *                    caller does in between is over before the function is called, which may end
 *                    the queue; link's store is the last that it has to do with it.
 *   workqueue_run,   one thread at a time, the owner. Never blocked by a lock; a producer that is
 *   workqueue_idle   stopped between its two steps only hides the node before its own, and what was
 *                    posted after it.
 *
 * Order: first invocations in the order of the exchanges in workqueue_enter; what a function posts
 * to the queue that calls it is put in when the run ends. A function that returns
 * PAMI_EAGAIN is kept and called once in every later run. A function that returns anything else is
 * detached before it is called and never looked at again, so it may free the storage or post it
 * once more.
 *
 * Memory order: P1 (release store of next) pairs with C1 (acquire load of next): who sees the link
 * sees the node.
 */
#ifndef LIBPAMI_WORKQUEUE_WORKQUEUE_H
#define LIBPAMI_WORKQUEUE_WORKQUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "util/cpu.h"

struct work_node {
    _Atomic(struct work_node *) next;
    pami_work_function function;
    void *cookie;
};

/* Callers' storage may be aligned to 4 bytes only, and 48 of its 64 bytes are ours. */
_Static_assert(sizeof(struct work_node) + sizeof(uint64_t) - 4 <= 48, "node fits the storage");

/* Of nodes that the owner has taken out. */
struct work_list {
    struct work_node *first, *last;
};

struct workqueue {
    _Alignas(CACHE_LINE) _Atomic(struct work_node *) tail; /* producers: the newest node */
    _Alignas(CACHE_LINE) struct work_node *head;           /* owner: the oldest node or the stub */
    struct work_list again;                     /* owner: returned EAGAIN, oldest first */
    _Atomic(struct work_node *) inside;         /* owner, and handlers that interrupt it: posted by
                                                 * functions of the present run, newest first */
    _Alignas(CACHE_LINE) struct work_node stub; /* keeps the list non-empty */
};

void workqueue_init(struct workqueue *queue);

/* The owner, perhaps inside a function that never returns. What is there is dropped. */
void workqueue_close(struct workqueue *queue);

/* The node inside a caller's storage. */
static inline struct work_node *work_node_of(pami_work_t *storage)
{
    return (struct work_node *)(((uintptr_t)storage + 7u) & ~(uintptr_t)7u);
}

/* `function` and `storage` are not NULL. What is to be passed to workqueue_link. */
struct work_node *workqueue_enter(struct workqueue *queue, pami_work_t *storage,
                                  pami_work_function function, void *cookie);

static inline void workqueue_link(struct work_node *before, pami_work_t *storage)
{
    if (likely(before != NULL))
        atomic_store_explicit(&before->next, work_node_of(storage), memory_order_release); /* P1 */
}

static inline void workqueue_post(struct workqueue *queue, pami_work_t *storage,
                                  pami_work_function function, void *cookie)
{
    workqueue_link(workqueue_enter(queue, storage, function, cookie), storage);
}

/* True when a run would call nothing. */
static inline bool workqueue_idle(const struct workqueue *queue)
{
    const struct work_node *head = queue->head;

    return queue->again.first == NULL &&
           atomic_load_explicit(&queue->inside, memory_order_relaxed) == NULL &&
           atomic_load_explicit(&head->next, memory_order_relaxed) == NULL &&
           (head == &queue->stub ||
            head != atomic_load_explicit(&queue->tail, memory_order_relaxed));
}

/* Of an idle queue: a producer is between its two steps. */
static inline bool workqueue_entered(const struct workqueue *queue)
{
    return atomic_load_explicit(&queue->tail, memory_order_relaxed) != &queue->stub;
}

/*
 * Call what returned EAGAIN before, once each, then up to a fixed number of new items, but none
 * that these have posted: a function that posts itself is called once per run, too. Returns how
 * many calls ended with something other than EAGAIN.
 */
int workqueue_run(struct workqueue *queue, pami_context_t context);

#endif
