/*
 * Bodies of packets into chunks; apart from chunk.c, which knows nothing of clocks.
 */
#include <string.h>

#include "device/packet.h"
#include "device/shm/chunk.h"
#include "util/gauge.h"
#include "util/stream.h"

/* Payloads from here on may go past the cache. */
#define STREAM_LEAST 2048u

void chunk_write(struct chunk_pool *pool, struct chunk *chunk, const struct packet *packet,
                 struct gauge *gauge)
{
    uint32_t payload = packet->head.payload_bytes;
    const char *from = packet->payload;
    struct packet front = *packet;
    uint64_t start;
    char *to, *room;

    /* What gathers may send, which gathers as well. */
    if (payload < STREAM_LEAST || (packet->fill != NULL && pool->gathering)) {
        packet_write_body(chunk->data, packet);
        return;
    }
    front.head.payload_bytes = 0;
    packet_write_body(chunk->data, &front);
    to = chunk->data + packet_body_bytes(&front.head);
    if (packet->fill != NULL) {
        room = (char *)pool->sent + chunk_ring_bytes(pool->count);
        pool->gathering = true;
        packet->fill(room, packet);
        pool->gathering = false;
        from = room;
    }
    if (gauge_pays(gauge)) {
        stream_copy(to, from, payload);
        return;
    }
    start = clock_ticks();
    memcpy(to, from, payload);
    if (chunk->uses > 1 && gauge_measures(gauge))
        gauge_note(gauge, clock_ticks() - start, payload);
}
