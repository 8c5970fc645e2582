/*
 * The heap of queue.h.
 */
#include "device/sim/queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define ROWS_AT_FIRST 256u
#define DEGREE 4u

static bool is_before(const struct sim_queue_row *a, const struct sim_queue_row *b)
{
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static int grow(struct sim_queue *queue)
{
    size_t room = queue->room != 0 ? 2 * queue->room : ROWS_AT_FIRST;
    struct sim_queue_row *rows = realloc(queue->rows, room * sizeof(*rows));

    if (rows == NULL)
        return -ENOMEM;
    queue->rows = rows;
    queue->room = room;
    return 0;
}

int sim_queue_push(struct sim_queue *queue, uint64_t time, struct sim_event *event)
{
    const struct sim_queue_row row = {.time = time, .order = queue->order, .event = event};
    struct sim_queue_row *rows;
    size_t at = queue->count;

    if (queue->count == queue->room && grow(queue) != 0)
        return -ENOMEM;
    queue->order++;
    queue->count++;
    rows = queue->rows;
    while (at != 0) {
        size_t parent = (at - 1) / DEGREE;

        if (!is_before(&row, &rows[parent]))
            break;
        rows[at] = rows[parent];
        at = parent;
    }
    rows[at] = row;
    return 0;
}

/* The earliest of the children of `at`, or `count` when it has none. */
static size_t earliest_child(const struct sim_queue_row *rows, size_t count, size_t at)
{
    size_t child = at * DEGREE + 1;
    size_t end = child + DEGREE < count ? child + DEGREE : count;
    size_t best = child;

    if (child >= count)
        return count;
    while (++child < end)
        if (is_before(&rows[child], &rows[best]))
            best = child;
    return best;
}

struct sim_event *sim_queue_pop(struct sim_queue *queue)
{
    struct sim_queue_row *rows = queue->rows;
    struct sim_event *event = rows[0].event;
    size_t count = --queue->count;
    const struct sim_queue_row last = rows[count];
    size_t at = 0;

    for (;;) {
        size_t child = earliest_child(rows, count, at);

        if (child == count || !is_before(&rows[child], &last))
            break;
        rows[at] = rows[child];
        at = child;
    }
    rows[at] = last;
    return event;
}

void sim_queue_finish(struct sim_queue *queue)
{
    free(queue->rows);
    *queue = (struct sim_queue){0};
}
