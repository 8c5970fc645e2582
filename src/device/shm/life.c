/*
 * How the life of a context ends: what its successors are to know of it. What a life is, and how
 * packets are marked by it, is in port.c.
 *
 * The mark tells four lives apart, and a packet may be later than that: its sender claims a slot
 * and then fills it, which may take a data function's time, and holds up what is behind. So the
 * sender looks at the count of lives again when it has filled the slot, and marks what is late for
 * the life before the one that it sees. And what has been claimed in the ring when a life ends is
 * for that one or an earlier one, whatever its mark is. Left is a sender in a lane that is stopped
 * between the last look and the store after it while exactly four lives pass, or eight.
 */
#include "device/shm/shm.h"

static void count_life(const struct segment *segment, struct inbox *inbox)
{
    inbox->stale = inbox_end(inbox, segment->layout.slots);
    atomic_fetch_add_explicit(&inbox->lives, 1, memory_order_release);
}

/* The task's contexts end. Those that it had before, but not this time, have missed a life: what
 * waits for them has been reported as lost. */
static void end_last(struct shm_device *device)
{
    struct segment *segment = device->segment;
    uint64_t missed = device->ever & ~device->used;

    for (uint32_t i = 0; i < segment->layout.contexts; i++)
        if ((missed >> i & 1) != 0)
            count_life(segment, segment_inbox(segment, segment->self, i));
    device->used = 0;
    atomic_fetch_add_explicit(&segment_member(segment, segment->self)->ended, 1,
                              memory_order_release);
}

void shm_life_end(struct shm_port *port)
{
    struct shm_device *device = port->device;
    struct segment_member *self = segment_member(device->segment, device->segment->self);
    uint32_t ended = atomic_load_explicit(&self->ended, memory_order_relaxed);

    inbox_release(&port->reader);
    atomic_store_explicit(&self->ending, ended + 1, memory_order_release);
    atomic_store_explicit(&port->reader.inbox->closed, 1, memory_order_release);
    count_life(device->segment, port->reader.inbox);
    if (device->open == 0)
        end_last(device);
}
