/*
 * Ports of the shm device: packets into other contexts' inboxes. How they come out of one's own is
 * in receive.c.
 *
 * A body that fits a slot travels in it; a larger one in one of the sender's chunks, which the
 * slot points at.
 *
 * Lives: an inbox outlives its context and may get another. It counts those that were destroyed; a
 * path knows the count as of its opening, and packets carry the low bits of that where no endpoint
 * has any. What was meant for an earlier life is dropped, however late it comes (life.c). A sender
 * that sees the count change stops, until tend has told the floors above (watch.c).
 *
 * Packets to one endpoint take one way at a time, the inbox's ring or a lane, so their order is
 * kept; beside a lane, answers take a shuttle. How these ways begin and end is in lanes.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "device/shm/shm.h"
#include "util/tsan.h"

/* A pool whose chunks are all out costs a look at a line of each: once for so many packets of a
 * path, which may have one where another one has enough. */
#define STARVED_LOOK 8u

static inline uint32_t lives_of(const struct shm_path *path)
{
    return atomic_load_explicit(&path->inbox->lives, memory_order_relaxed);
}

/* ---- opening and closing ---- */

int shm_port_open(struct device *base, const struct port_params *params, struct port **out)
{
    struct shm_device *device = container_of(base, struct shm_device, device);
    struct segment *segment = device->segment;
    struct inbox *inbox = segment_take_inbox(segment, segment->self, params->offset, true);
    struct shm_port *port = calloc(1, sizeof(*port));
    int error;

    if (port == NULL || inbox == NULL) {
        free(port);
        return -ENOMEM;
    }
    port->port = (struct port){.ops = base->ops, .device = base, .params = *params};
    port->device = device;
    gauge_init(&port->chunk_gauge, CHUNK_DEAR_NS);
    list_init(&port->joint.guests);
    list_init(&port->paths);
    port->reader = (struct inbox_reader){
        .inbox = inbox,
        .head = atomic_load_explicit(&inbox->head, memory_order_relaxed),
        .slots = segment->layout.slots,
    };
    port->reader.published = port->reader.head;
    shm_sleep_open(port);
    port->ended =
        atomic_load_explicit(&segment_member(segment, segment->self)->ended, memory_order_relaxed);
    port->port.life = atomic_load_explicit(&inbox->lives, memory_order_relaxed);
    port->life = life_mark(port->port.life);
    port->stale = inbox->stale;
    port->watch_place = calloc(device->member_count, sizeof(*port->watch_place));
    error = port->watch_place != NULL ? shm_lanes_init(port) : -ENOMEM;
    if (error == 0)
        error = chunk_pool_init(&port->chunks, segment, params->offset);
    if (error != 0) {
        free(port->watch_place);
        free(port->lanes);
        free(port);
        return error;
    }
    port->was_closed = atomic_exchange_explicit(&inbox->closed, 0, memory_order_acq_rel);
    device->open |= UINT64_C(1) << params->offset;
    *out = &port->port;
    return 0;
}

void shm_port_close(struct port *base)
{
    struct shm_port *port = shm_port_of(base);

    joint_close(port);
    port->device->open &= ~(UINT64_C(1) << base->params.offset);
    if (base->unused) {
        atomic_store_explicit(&port->reader.inbox->closed, port->was_closed, memory_order_release);
    } else {
        port->device->used |= UINT64_C(1) << base->params.offset;
        port->device->ever |= port->device->used;
        shm_purge(port);
        shm_life_end(port);
    }
    shm_paths_free(port);
    chunk_pool_finish(&port->chunks);
    free(port->lanes);
    free(port->watch);
    free(port->watch_member);
    free(port->watch_place);
    free(port);
}

/* ---- sending ---- */

static int refused(struct shm_path *path)
{
    path->path.port->params.counters[DEVICE_REFUSED]++;
    return path->path.closed ? -EPIPE : -EAGAIN;
}

/* The life that the path was opened for is over, or has not come. */
static bool leads_nowhere(struct shm_path *path)
{
    return shm_path_waits(path) || lives_of(path) != path->path.life;
}

/* Where the next packet goes; NULL: no room. */
static inline struct slot *claim(struct shm_path *path)
{
    struct slot *slot =
        likely(path->lane.lane != NULL) ? lane_claim(&path->lane) : inbox_claim(&path->sender);

    TSAN_ACQUIRE(slot);
    return slot;
}

/* The life that it is for has ended, four or more ago perhaps. */
__attribute__((noinline)) static void mark_late(const struct shm_path *path, struct slot *slot)
{
    slot->head.words[1] ^= path->mark ^ life_mark(lives_of(path) - 1);
}

static inline void publish(struct shm_path *path, struct slot *slot)
{
    if (unlikely(lives_of(path) != path->path.life))
        mark_late(path, slot);
    TSAN_RELEASE(slot);
    if (likely(path->lane.lane != NULL)) {
        lane_publish(&path->lane, slot);
        return;
    }
    inbox_publish(&path->sender, slot);
    if (--path->countdown == 0)
        shm_lane_ask(path);
}

static int send_in_chunk(struct shm_path *path, const struct packet *packet)
{
    struct shm_port *port = shm_port_of(path->path.port);
    struct chunk *chunk = NULL;
    struct slot *slot;

    if (likely(path->starved == 0)) {
        chunk = chunk_get(&port->chunks, path->path.endpoint);
        path->starved = chunk == NULL ? STARVED_LOOK : 0;
    } else {
        path->starved--;
    }
    if (chunk == NULL)
        return path->path.closed ? -EPIPE : -ENOBUFS;
    slot = claim(path);
    if (slot == NULL) {
        chunk_unget(&port->chunks, chunk);
        return refused(path);
    }
    path->filling = packet->fill != NULL;
    chunk_write(&port->chunks, chunk, packet, &port->chunk_gauge);
    path->filling = false;
    shm_head_write(slot, &packet->head, path->mark);
    slot->chunk = (uint64_t)((char *)chunk - port->device->segment->base);
    slot->use = chunk->uses;
    publish(path, slot);
    return 0;
}

static inline int send_in_shuttle(struct shm_path *path, const struct packet *packet)
{
    struct slot *slot = path->shuttle.slot;

    TSAN_ACQUIRE(slot);
    shm_head_write(slot, &packet->head, path->mark);
    shm_body_write(path, slot, packet);
    if (unlikely(lives_of(path) != path->path.life))
        mark_late(path, slot);
    TSAN_RELEASE(slot);
    shuttle_publish(&path->shuttle, path->lane.tail);
    return 0;
}

static inline int send_in_slot(struct shm_path *path, const struct packet *packet)
{
    struct slot *slot = claim(path);

    if (unlikely(slot == NULL))
        return refused(path);
    shm_head_write(slot, &packet->head, path->mark);
    shm_body_write(path, slot, packet);
    publish(path, slot);
    return 0;
}

HOT int shm_am(struct path *base, const struct packet *packet)
{
    struct shm_path *path = container_of(base, struct shm_path, path);
    uint32_t body = packet_body_bytes(&packet->head);
    int error;

    if (unlikely(lives_of(path) != base->life && leads_nowhere(path)))
        error = refused(path);
    else if (path->shuttle.answers && body <= SHUTTLE_BODY)
        error = send_in_shuttle(path, packet);
    else if (likely(body <= SLOT_INLINE))
        error = send_in_slot(path, packet);
    else if (body <= base->bulk_max)
        error = send_in_chunk(path, packet);
    else
        return -EMSGSIZE;
    if (unlikely(error != 0))
        return error;
    base->port->params.counters[DEVICE_SENT]++;
    shm_wake_if_asleep(path->inbox);
    if (path->lane.lane != NULL)
        cpu_prefetch_write(&path->lane.lane->slots[(path->lane.tail + LANE_PREFETCH) % LANE_SLOTS]);
    return 0;
}

static inline void write_short(struct slot *slot, uint64_t word0, uint64_t word1,
                               const struct iovec *header, const struct iovec *data)
{
    TSAN_ACQUIRE(slot);
    slot->head.words[0] = word0;
    slot->head.words[1] = word1;
    packet_copy_short(slot->body, header->iov_base, header->iov_len);
    packet_copy_short(slot->body + header->iov_len, data->iov_base, data->iov_len);
    TSAN_RELEASE(slot);
}

static inline void sent_short(struct shm_path *path)
{
    path->path.port->params.counters[DEVICE_SENT]++;
    shm_wake_if_asleep(path->inbox);
}

HOT int shm_am_short(struct path *base, uint64_t word0, uint64_t word1, const struct iovec *header,
                     const struct iovec *data)
{
    struct shm_path *path = container_of(base, struct shm_path, path);
    struct lane *lane = path->lane.lane;
    uint64_t tail = path->lane.tail;
    struct slot *slot;

    if (unlikely(lane == NULL || tail - path->lane.head >= LANE_SLOTS ||
                 header->iov_len > PACKET_COPY_SHORT || data->iov_len > PACKET_COPY_SHORT ||
                 lives_of(path) != base->life))
        return -EAGAIN;
    if (path->shuttle.answers && header->iov_len + data->iov_len <= SHUTTLE_BODY) {
        write_short(path->shuttle.slot, word0, word1 | path->mark, header, data);
        shuttle_publish(&path->shuttle, tail);
        sent_short(path);
        return 0;
    }
    slot = &lane->slots[tail % LANE_SLOTS];
    write_short(slot, word0, word1 | path->mark, header, data);
    path->lane.tail = tail + 1;
    atomic_store_explicit(&slot->word, tail + 1, memory_order_release); /* L1 */
    sent_short(path);
    cpu_prefetch_write(&lane->slots[(tail + LANE_PREFETCH) % LANE_SLOTS]);
    return 0;
}
