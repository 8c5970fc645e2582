/*
 * How packets come to take a lane, or a shuttle, and when that ends.
 *
 * A sender that has used the ring for a while takes a lane and puts a marker into the ring. The
 * receiver opens the lane when it reads that, and closes it when the sender has left and all has
 * been read. Lanes outlive the receiver's context.
 */
#include <errno.h>
#include <stdlib.h>

#include "device/shm/shm.h"
#include "util/tsan.h"

/* ---- opening and closing ---- */

static struct lane_reader *lane_open(struct shm_port *port, struct lane *lane, uint32_t origin)
{
    struct lane_reader *reader = &port->lanes[port->lane_count++];
    uint64_t head = atomic_load_explicit(&lane->head, memory_order_relaxed);

    *reader = (struct lane_reader){.lane = lane,
                                   .origin = origin,
                                   .head = head,
                                   .published = head,
                                   .own = origin == port->port.params.endpoint,
                                   .streams = origin == port->port.params.endpoint};
    return reader;
}

void shm_lane_close(struct shm_port *port, uint32_t index)
{
    struct lane_reader *reader = &port->lanes[index];

    if (reader->shuttle != NULL)
        *reader->shuttle = (struct shuttle){.slot = NULL};
    lane_give_back(reader);
    *reader = port->lanes[--port->lane_count];
}

/* There are lanes both ways now, of these lives of both contexts: see shuttle.h. */
static void begin_shuttle(struct shm_path *path, struct lane_reader *reader)
{
    const struct lane *lane = reader->lane;
    uint32_t self = shm_port_of(path->path.port)->port.params.endpoint;
    bool is_higher = self > path->path.endpoint;

    if (path->shuttled || path->path.closed || path->lane.lane == NULL ||
        path->lane_life != path->path.life || lane->life != path->path.life ||
        atomic_load_explicit(&lane->owner, memory_order_relaxed) != path->member + 1 ||
        self == path->path.endpoint)
        return;
    path->shuttled = true;
    shuttle_open(&path->shuttle, is_higher ? &reader->lane->shuttle : &path->lane.lane->shuttle,
                 is_higher);
    reader->shuttle = &path->shuttle;
}

int shm_lanes_init(struct shm_port *port)
{
    const struct segment *segment = port->device->segment;

    port->lanes = calloc(segment->layout.lanes + 1, sizeof(*port->lanes));
    if (port->lanes == NULL)
        return -ENOMEM;
    /* In the first life there are none, and a look would make their pages. */
    for (uint32_t i = 0; port->port.life != 0 && i < segment->layout.lanes; i++) {
        struct lane *lane = segment_lane(segment, segment->self, port->port.params.offset, i);

        if (atomic_load_explicit(&lane->active, memory_order_relaxed) != 0)
            lane_open(port, lane, UINT32_MAX);
    }
    return 0;
}

/* ---- beginning ---- */

void shm_lane_ask(struct shm_path *path)
{
    struct shm_port *port = shm_port_of(path->path.port);
    struct segment *segment = port->device->segment;
    struct lane_sender sender = {0};
    struct packet_header head;
    struct slot *slot;
    uint32_t index = 0;

    path->countdown = 8 * LANE_AFTER;
    while (
        index < segment->layout.lanes &&
        !lane_take(&sender,
                   segment_lane(segment, path->member, endpoint_offset(path->path.endpoint), index),
                   segment->self))
        index++;
    if (sender.lane == NULL)
        return;
    slot = inbox_claim(&path->sender);
    if (slot == NULL) {
        atomic_store_explicit(&sender.lane->owner, 0, memory_order_release); /* L5 */
        return;
    }
    sender.lane->life = port->port.life;
    TSAN_ACQUIRE(slot);
    head = (struct packet_header){
        .protocol = PROTOCOL_LANE, .origin = port->port.params.endpoint, .aux = index};
    shm_head_write(slot, &head, path->mark);
    TSAN_RELEASE(slot);
    inbox_publish(&path->sender, slot);
    path->lane = sender;
    path->lane_life = path->path.life;
    for (uint32_t i = 0; i < port->lane_count; i++)
        if (port->lanes[i].origin == path->path.endpoint)
            begin_shuttle(path, &port->lanes[i]);
}

int shm_lane_begin(struct shm_port *port, const struct packet_header *head, bool stale)
{
    const struct segment *segment = port->device->segment;
    struct lane_reader *reader;
    struct shm_path *path;
    struct lane *lane;
    uint32_t owner;

    if (head->aux >= segment->layout.lanes)
        return -EINVAL;
    lane = segment_lane(segment, segment->self, port->port.params.offset, head->aux);
    owner = atomic_load_explicit(&lane->owner, memory_order_acquire);
    if (owner == 0 || owner > segment->layout.members ||
        atomic_exchange_explicit(&lane->active, 1, memory_order_relaxed) != 0)
        return -EINVAL;
    reader = lane_open(port, lane, stale ? UINT32_MAX : head->origin);
    path = shm_path_find(port, reader->origin);
    if (path != NULL)
        begin_shuttle(path, reader);
    return 0;
}
