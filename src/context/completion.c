/*
 * The ring of completion.h: growing it and running it.
 */
#include "context/completion.h"

#include <errno.h>
#include <stdlib.h>

#define COMPLETIONS_AT_FIRST 64

int completion_queue_init(struct completion_queue *queue)
{
    queue->ring = malloc(COMPLETIONS_AT_FIRST * sizeof(*queue->ring));
    queue->mask = COMPLETIONS_AT_FIRST - 1;
    queue->head = 0;
    queue->tail = 0;
    queue->promised = 0;
    return queue->ring != NULL ? 0 : -ENOMEM;
}

void completion_queue_finish(struct completion_queue *queue)
{
    for (; !completion_queue_empty(queue); queue->head++) {
        const struct completion *due = &queue->ring[queue->head & queue->mask];

        if (due->result != PAMI_SUCCESS)
            free(due->text);
    }
    free(queue->ring);
    queue->ring = NULL;
}

int completion_queue_grow(struct completion_queue *queue)
{
    size_t size = queue->mask + 1;
    struct completion *ring = malloc(2 * size * sizeof(*ring));

    if (ring == NULL)
        return -ENOMEM;
    for (size_t i = queue->head; i != queue->tail; i++)
        ring[i & (2 * size - 1)] = queue->ring[i & queue->mask];
    free(queue->ring);
    queue->ring = ring;
    queue->mask = 2 * size - 1;
    return 0;
}

HOT int completion_queue_run(struct completion_queue *queue, pami_context_t context)
{
    size_t end = queue->tail;
    int count = 0;

    while (queue->head != end) {
        struct completion due = completion_take(queue);

        due.function(context, due.cookie, due.result);
        count++;
    }
    return count;
}
