/*
 * Ports of the shm device: packets into other contexts' inboxes and out of one's own.
 *
 * A body that fits a slot travels in it; a larger one in one of the sender's chunks, which the
 * slot points at. What arrives is checked against the segment's bounds before anybody looks at it.
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
#include <string.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "device/shm/shm.h"
#include "util/log.h"

/* Packets delivered per advance and ring at most. */
#define ADVANCE_BATCH 32

/* A pool whose chunks are all out costs a look at a line of each: once for so many packets of a
 * path, which may have one where another one has enough. */
#define STARVED_LOOK 8u

static inline uint32_t lives_of(const struct shm_path *path)
{
    return atomic_load_explicit(&path->inbox->lives, memory_order_relaxed);
}

static struct chunk *chunk_of(const struct shm_port *port, const struct slot *slot, uint32_t body);

/* ---- opening and closing ---- */

static void skip(struct shm_port *port, const struct slot *slot)
{
    uint32_t body = packet_body_bytes(&slot->head);
    struct chunk *chunk = body > SLOT_INLINE ? chunk_of(port, slot, body) : NULL;

    if (chunk != NULL)
        chunk_release_late(chunk, slot->use);
}

/* Nobody will read what is there: give the chunks back and step over it. */
static void purge(struct shm_port *port)
{
    struct slot *slot;

    for (uint32_t i = 0; i < port->lane_count; i++) {
        struct lane_reader *reader = &port->lanes[i];

        while ((slot = lane_ready(reader)) != NULL) {
            skip(port, slot);
            lane_consume(reader);
        }
        lane_release(reader);
    }
    while ((slot = inbox_ready(&port->reader)) != NULL) {
        if (slot->head.protocol == PROTOCOL_LANE)
            shm_lane_begin(port, &slot->head, true);
        else
            skip(port, slot);
        inbox_consume(&port->reader);
    }
}

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
        purge(port);
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
    struct shm_port *port = shm_port_of(base->port);
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
    port->port.params.counters[DEVICE_SENT]++;
    port->pacing.armed = true;
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
    struct shm_port *port = shm_port_of(path->path.port);

    if (!port->pacing.armed)
        port->pacing.armed = true;
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

/* ---- receiving ---- */

/* The chunk that a slot points at, or NULL when it points anywhere else than a chunk's place. */
static struct chunk *chunk_of(const struct shm_port *port, const struct slot *slot, uint32_t body)
{
    const struct segment *segment = port->device->segment;
    const struct segment_layout *layout = &segment->layout;
    uint64_t offset = slot->chunk;
    uint64_t rest = offset - SEGMENT_PAGE;

    if (body > layout->chunk_bytes || rest >= layout->members * layout->member_stride)
        return NULL;
    rest %= layout->member_stride;
    if (rest < SEGMENT_PAGE)
        return NULL;
    rest = (rest - SEGMENT_PAGE) % layout->context_stride;
    if (rest < layout->chunk_offset)
        return NULL;
    rest -= layout->chunk_offset;
    if (rest % layout->chunk_stride != 0 || rest / layout->chunk_stride >= layout->chunks)
        return NULL;
    return (struct chunk *)(void *)(segment->base + offset);
}

static void drop(struct shm_port *port, const struct packet_header *head)
{
    if (port->port.params.counters[DEVICE_DROPPED]++ == 0)
        log_warn("dropped a malformed packet from endpoint %u", head->origin);
}

static void deliver_own(struct shm_port *port, const struct packet_header *head)
{
    if (head->protocol != PROTOCOL_LANE)
        joint_invited(port, head);
    else if (shm_lane_begin(port, head, false) != 0)
        drop(port, head);
}

static inline void deliver_chunk(struct shm_port *port, const struct packet_header *head,
                                 const struct slot *slot, uint32_t body)
{
    struct chunk *chunk = chunk_of(port, slot, body);

    if (chunk == NULL) {
        drop(port, head);
        return;
    }
    /* The sender took it back when it saw our predecessor go. */
    if (atomic_load_explicit(&chunk->busy, memory_order_acquire) != slot->use)
        return;
    port->put_back = false;
    port->port.params.deliver(port->port.params.context, head, chunk->data);
    if (likely(!port->put_back))
        chunk_release(chunk, slot->use);
}

/* For a context that was here before. Its sender goes on in a lane all the same. */
static void deliver_stale(struct shm_port *port, const struct slot *slot,
                          const struct packet_header *head)
{
    port->port.params.counters[DEVICE_STALE]++;
    if (head->protocol == PROTOCOL_LANE)
        shm_lane_begin(port, head, true);
    else
        skip(port, slot);
}

HOT static inline void deliver(struct shm_port *port, struct slot *slot)
{
    struct packet_header head; /* ours: checked here, it must not change any more */
    uint32_t body;

    packet_header_copy(&head, &slot->head);
    head.words[1] ^= port->life;
    body = packet_body_bytes(&head);

    if (unlikely(head.origin >> LIFE_SHIFT != 0))
        deliver_stale(port, slot, &head);
    else if (unlikely(body > SLOT_INLINE))
        deliver_chunk(port, &head, slot, body);
    else if (unlikely(head.protocol >= PROTOCOL_JOINT))
        deliver_own(port, &head);
    else
        port->port.params.deliver(port->port.params.context, &head, slot->body);
}

static uint64_t sent_by_lane(const struct shuttle *shuttle)
{
    return container_of(shuttle, struct shm_path, shuttle)->lane.tail;
}

/* The packet is copied: an answer may be written over it before the user has done with it. */
HOT static void deliver_shuttle(struct shm_port *port, struct shuttle *shuttle)
{
    const struct slot *slot = shuttle->slot;
    _Alignas(8) char body[SHUTTLE_BODY];
    struct packet_header head;
    uint32_t bytes;

    packet_header_copy(&head, &slot->head);
    head.words[1] ^= port->life;
    bytes = packet_body_bytes(&head);
    if (unlikely(head.origin >> LIFE_SHIFT != 0 || bytes > SHUTTLE_BODY)) {
        shuttle->mine = true;
        drop(port, &head);
        return;
    }
    packet_copy(body, slot->body, bytes);
    shuttle->mine = true;
    shuttle_heard(shuttle, 1, sent_by_lane(shuttle));
    port->shuttling = shuttle;
    if (unlikely(head.protocol >= PROTOCOL_JOINT))
        deliver_own(port, &head);
    else
        port->port.params.deliver(port->port.params.context, &head, body);
    port->shuttling = NULL;
}

static void deliver_from_lane(struct shm_port *port, struct lane_reader *reader, uint32_t count)
{
    port->delivering = reader;
    for (uint32_t i = 0; i < count; i++) {
        deliver(port, &reader->lane->slots[reader->head % LANE_SLOTS]);
        lane_consume(reader);
    }
    port->delivering = NULL;
}

static int advance_lane(struct shm_port *port, struct lane_reader *reader)
{
    int count = 0;

    while (count < ADVANCE_BATCH) {
        struct lane_found found = lane_find(reader, port->pacing.first);
        uint64_t after = reader->head + found.ready;

        if (found.ready != 0 && reader->shuttle != NULL)
            shuttle_heard(reader->shuttle, found.ready, sent_by_lane(reader->shuttle));
        deliver_from_lane(port, reader, found.ready);
        count += (int)found.ready;
        if (found.shuttles && likely(reader->head == after)) {
            deliver_shuttle(port, reader->shuttle);
            count++;
        }
        if (!reader->streams || found.ready == 0)
            break;
    }
    return count;
}

/* What contexts sent through a lane before they ended comes before what their successors write into
 * the ring: whoever sees that sees the lane as leaving. False: not all of it could be taken. */
static bool advance_leaving(struct shm_port *port, int *count)
{
    bool whole = true;

    for (uint32_t i = 0; i < port->lane_count; i++) {
        struct lane_reader *reader = &port->lanes[i];

        if (likely(atomic_load_explicit(&reader->lane->leaving, memory_order_relaxed) == 0))
            continue;
        while (whole && !lane_is_empty(reader)) {
            uint64_t head = reader->head;
            bool waits = reader->shuttle != NULL && !reader->shuttle->mine;

            *count += advance_lane(port, reader);
            whole = reader->head != head || (waits && reader->shuttle->mine);
        }
    }
    return whole;
}

/* Up to `most` packets that were claimed before this life, whatever their marks say. */
__attribute__((noinline)) static uint32_t drop_from_ring(struct shm_port *port, uint32_t most)
{
    uint32_t lanes = port->lane_count;
    uint32_t count = 0;

    while (count < most && port->lane_count == lanes && port->reader.head < port->stale) {
        struct slot *slot = inbox_head(&port->reader);
        struct packet_header head;

        packet_header_copy(&head, &slot->head);
        head.origin &= (UINT32_C(1) << LIFE_SHIFT) - 1;
        deliver_stale(port, slot, &head);
        inbox_consume(&port->reader);
        count++;
    }
    return count;
}

/* Up to `most` packets, or to one by which a lane begins. Returns how many. */
static uint32_t deliver_from_ring(struct shm_port *port, uint32_t most)
{
    uint32_t lanes = port->lane_count;
    uint32_t count = 0;

    if (unlikely(port->reader.head < port->stale))
        return drop_from_ring(port, most);
    port->delivering_ring = true;
    while (count < most && port->lane_count == lanes) {
        deliver(port, inbox_head(&port->reader));
        inbox_consume(&port->reader);
        count++;
    }
    port->delivering_ring = false;
    return count;
}

/* What is ready is counted before the lanes are looked at, and no more than that is delivered. */
static int advance_ring(struct shm_port *port)
{
    uint32_t ready = inbox_ready_ahead(&port->reader, ADVANCE_BATCH);
    int count = 0;

    while (unlikely(ready != 0) && advance_leaving(port, &count)) {
        count += (int)deliver_from_ring(port, ready);
        ready = count < ADVANCE_BATCH ? inbox_ready_ahead(&port->reader, ADVANCE_BATCH) : 0;
    }
    return count;
}

void shm_interrupt(struct port *base)
{
    struct shm_port *port = shm_port_of(base);

    if (port->delivering != NULL)
        lane_consume(port->delivering);
    if (port->delivering_ring)
        inbox_consume(&port->reader);
    port->delivering = NULL;
    port->shuttling = NULL;
    port->delivering_ring = false;
}

/* Whoever delivers is about to step over the packet, and then stands before it again. */
bool shm_put_back(struct port *base)
{
    struct shm_port *port = shm_port_of(base);

    if (port->delivering != NULL)
        port->delivering->head--;
    else if (port->shuttling != NULL)
        shuttle_put_back(port->shuttling);
    else if (port->delivering_ring)
        port->reader.head--;
    else
        return false;
    port->put_back = true;
    base->params.counters[DEVICE_RECEIVED]--;
    return true;
}

/* Nothing has come: tell the senders of all the room there is. */
static void release_all(struct shm_port *port)
{
    inbox_release(&port->reader);
    for (uint32_t i = 0; i < port->lane_count; i++)
        lane_release(&port->lanes[i]);
}

HOT int shm_advance(struct port *base)
{
    struct shm_port *port = shm_port_of(base);
    int count = 0;

    pacing_before(&port->pacing);
    for (uint32_t i = 0; i < port->lane_count; i++)
        count += advance_lane(port, &port->lanes[i]);
    count += advance_ring(port);
    pacing_after(&port->pacing, count != 0);
    if (count == 0)
        release_all(port);
    base->params.counters[DEVICE_RECEIVED] += (uint64_t)count;
    if (unlikely(!joint_is_idle(&port->joint)))
        count += joint_advance(port);
    return count;
}

bool shm_pending(struct port *base)
{
    const struct shm_port *port = shm_port_of(base);

    for (uint32_t i = 0; i < port->lane_count; i++)
        if (!lane_is_empty(&port->lanes[i]))
            return true;
    return inbox_ready(&port->reader) != NULL || !joint_is_idle(&port->joint);
}
