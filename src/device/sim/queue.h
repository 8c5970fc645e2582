/*
 * The event queue: what happens next in a simulated network.
 *
 * A heap of degree 4 over (time, order of insertion), so events of one instant happen in the order
 * in which they were scheduled. Events cannot be taken out again; one that has become pointless is
 * recognised when it happens. The queue does not own the events.
 */
#ifndef LIBPAMI_DEVICE_SIM_QUEUE_H
#define LIBPAMI_DEVICE_SIM_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct sim_network;

/* The first member of whatever happens. */
struct sim_event {
    void (*happen)(struct sim_network *network, struct sim_event *event);
};

struct sim_queue_row {
    uint64_t time; /* ps */
    uint64_t order;
    struct sim_event *event;
};

/* Zeroed: empty. */
struct sim_queue {
    struct sim_queue_row *rows;
    size_t count, room;
    uint64_t order;
};

/* 0 or -ENOMEM. */
int sim_queue_push(struct sim_queue *queue, uint64_t time, struct sim_event *event);

/* Time of the next event, UINT64_MAX when there is none. */
static inline uint64_t sim_queue_time(const struct sim_queue *queue)
{
    return queue->count != 0 ? queue->rows[0].time : UINT64_MAX;
}

/* Takes the next event out. The queue is not empty. */
struct sim_event *sim_queue_pop(struct sim_queue *queue);

void sim_queue_finish(struct sim_queue *queue);

#endif
