/*
 * What arrives at a port of the shm device: packets out of its inbox's ring, lanes and shuttles.
 *
 * Everything is checked against the segment's bounds before anybody looks at it. What was meant for
 * an earlier life of the inbox is dropped, see port.c.
 */
#include "device/shm/shm.h"
#include "util/log.h"

/* Packets delivered per advance, from a lane or the ring; as many as a lane holds where LANE_BURST
 * have been sent since the last advance: two that go on like that, and read less than they send,
 * would keep each other's lanes full. */
#define ADVANCE_BATCH 32

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

static void skip(struct shm_port *port, const struct slot *slot)
{
    uint32_t body = packet_body_bytes(&slot->head);
    struct chunk *chunk = body > SLOT_INLINE ? chunk_of(port, slot, body) : NULL;

    if (chunk != NULL)
        chunk_release_late(chunk, slot->use);
}

/* Nobody will read what is there: give the chunks back and step over it. */
void shm_purge(struct shm_port *port)
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

static inline int batch(const struct shm_port *port)
{
    return port->pacing.sent_before >= LANE_BURST ? (int)LANE_SLOTS : ADVANCE_BATCH;
}

static int advance_lane(struct shm_port *port, struct lane_reader *reader)
{
    int most = batch(port);
    int count = 0;

    while (count < most) {
        struct lane_found found = lane_find(reader, port->pacing.sent_before);
        uint64_t after = reader->head + found.ready;

        if (found.ready != 0 && reader->shuttle != NULL)
            shuttle_heard(reader->shuttle, found.ready, sent_by_lane(reader->shuttle));
        deliver_from_lane(port, reader, found.ready);
        count += (int)found.ready;
        if (found.shuttles && likely(reader->head == after)) {
            deliver_shuttle(port, reader->shuttle);
            count++;
        }
        /* To a lane from oneself only handlers add meanwhile: the next pass will do for these. */
        if (!reader->streams || found.ready < (reader->own ? LANE_AHEAD : 1))
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
        ready = count < batch(port) ? inbox_ready_ahead(&port->reader, ADVANCE_BATCH) : 0;
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

HOT int shm_advance(struct port *base)
{
    struct shm_port *port = shm_port_of(base);
    int count = 0;

    pacing_before(&port->pacing, base->params.counters[DEVICE_SENT]);
    for (uint32_t i = 0; i < port->lane_count; i++) {
        struct lane_reader *reader = &port->lanes[i];

        if (likely(lane_is_empty(reader)))
            lane_rest(reader);
        else
            count += advance_lane(port, reader);
    }
    count += advance_ring(port);
    pacing_after(&port->pacing, count != 0);
    if (count == 0)
        inbox_release(&port->reader);
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
