/*
 * Completions that are due: callbacks to run from the next advance, first in, first out.
 *
 * No callback runs inside the call that started an operation, and none nests in another, so
 * programs may start new operations from callbacks without growing the stack. A growing ring of
 * plain records; single owner.
 */
#ifndef LIBPAMI_CONTEXT_COMPLETION_H
#define LIBPAMI_CONTEXT_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "util/cpu.h"

struct completion {
    pami_event_function function;
    void *cookie;
    pami_result_t result;
};

struct completion_queue {
    struct completion *ring;
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

static inline int completion_push(struct completion_queue *queue, pami_event_function function,
                                  void *cookie, pami_result_t result)
{
    if (unlikely(queue->tail - queue->head > queue->mask)) {
        int error = completion_queue_grow(queue);

        if (error != 0)
            return error;
    }
    queue->ring[queue->tail++ & queue->mask] =
        (struct completion){.function = function, .cookie = cookie, .result = result};
    return 0;
}

/* Room for `count` more, so that as many pushes succeed; 0 or -ENOMEM. */
static inline int completion_reserve(struct completion_queue *queue, size_t count)
{
    while (unlikely(queue->tail - queue->head + count > queue->mask + 1)) {
        int error = completion_queue_grow(queue);

        if (error != 0)
            return error;
    }
    return 0;
}

/* Runs those that are due now, not those that they add. Returns how many. */
int completion_queue_run(struct completion_queue *queue, pami_context_t context);

#endif
