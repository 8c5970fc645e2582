/*
 * Completions that are due: callbacks to run from the next advance, first in, first out.
 *
 * No callback runs inside the call that started an operation, and none nests in another, so
 * programs may start new operations from callbacks without growing the stack. A growing ring of
 * plain records; single owner.
 *
 * A callback that tells of a failure finds the text that its finder has left, whichever thread that
 * was and whatever has failed since.
 *
 * It grows when an operation starts, never when one ends: for each callback that is to come room is
 * promised, so that none is lost for want of memory. records >= those queued + those promised.
 */
#ifndef LIBPAMI_CONTEXT_COMPLETION_H
#define LIBPAMI_CONTEXT_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>

#include <pami/pami.h>

#include "util/cpu.h"
#include "util/error.h"

struct completion {
    pami_event_function function;
    void *cookie;
    pami_result_t result;
    char *text; /* error_copy; not set with PAMI_SUCCESS */
};

struct completion_queue {
    struct completion *ring;
    size_t promised;   /* records to come for which there is room */
    size_t mask;       /* records - 1; records is a power of two */
    size_t head, tail; /* monotonic */
};

int completion_queue_init(struct completion_queue *queue);
void completion_queue_finish(struct completion_queue *queue);

/* Doubles the ring; 0 or -ENOMEM. */
int completion_queue_grow(struct completion_queue *queue);

static inline bool completion_queue_empty(const struct completion_queue *queue)
{
    return queue->head == queue->tail;
}

/* Room for `count` more, so that as many pushes succeed; 0 or -ENOMEM. */
static inline int completion_reserve(struct completion_queue *queue, size_t count)
{
    while (unlikely(queue->tail - queue->head + queue->promised + count > queue->mask + 1)) {
        int error = completion_queue_grow(queue);

        if (error != 0)
            return error;
    }
    return 0;
}

/* The same until as many have been kept. */
static inline int completion_promise(struct completion_queue *queue, size_t count)
{
    int error = completion_reserve(queue, count);

    if (likely(error == 0))
        queue->promised += count;
    return error;
}

static inline void completion_add(struct completion_queue *queue, pami_event_function function,
                                  void *cookie, pami_result_t result)
{
    struct completion *due = &queue->ring[queue->tail++ & queue->mask];

    due->function = function;
    due->cookie = cookie;
    due->result = result;
    if (unlikely(result != PAMI_SUCCESS))
        due->text = error_copy();
}

/* The oldest, to be called: there is one. */
static inline struct completion completion_take(struct completion_queue *queue)
{
    struct completion due = queue->ring[queue->head++ & queue->mask];

    if (unlikely(due.result != PAMI_SUCCESS))
        error_recall(due.text);
    return due;
}

/* One for which nothing was promised; 0 or -ENOMEM. */
static inline int completion_push(struct completion_queue *queue, pami_event_function function,
                                  void *cookie, pami_result_t result)
{
    int error = completion_reserve(queue, 1);

    if (likely(error == 0))
        completion_add(queue, function, cookie, result);
    return error;
}

/* One that was promised. */
static inline void completion_keep(struct completion_queue *queue, pami_event_function function,
                                   void *cookie, pami_result_t result)
{
    queue->promised--;
    completion_add(queue, function, cookie, result);
}

/* Runs those that are due now, not those that they add. Returns how many. */
int completion_queue_run(struct completion_queue *queue, pami_context_t context);

#endif
