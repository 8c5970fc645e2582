/*
 * Links: sending to one remote endpoint, in order and within its credits.
 *
 * A link may have so much under way that the receiver has not reported as read; that bounds what a
 * flood can take at a receiver that does not advance. Reports ride on packets of the other
 * direction, or go by themselves when a quarter of the credits is due; they need no credit, so
 * nobody ever waits for a credit in order to give one.
 *
 * The first few packets after an advance go out at once. Short ones that follow them before the
 * next advance gather in a buffer and go together then, or when there is enough of them: a call of
 * the system costs twenty times what a short packet does otherwise. What is sent within a pass is
 * on its way when the pass ends.
 *
 * A packet that was copied into a buffer and which the provider then does not take waits in the
 * link's backlog: one destination's trouble is no other's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/ofi/buffers.h"
#include "device/ofi/door.h"
#include "device/ofi/errors.h"
#include "device/ofi/first.h"
#include "util/cpu.h"
#include "util/log.h"
#include "util/minmax.h"

static int usual_am(struct path *path, const struct packet *packet);
static int packets_am(struct path *path, const struct packet *packet);

/* Short packets to one destination that go by themselves, between two advances. */
#define SINGLES_MAX 4u

/*
 * Fetching data takes a round trip more. A message of this size with its headers goes as one: in
 * two packets of 33 KiB each it had 4.37 GB/s, as one 4.93, libfabric alone 5.24 (loopback, AMD
 * EPYC, 2026-11-24); sent out of the program's memory, without a copy, 4 % more.
 */
#define EAGER_BYTES (64u << 10)

/* With a lead of 64 KiB the half round trip of 256 KiB takes 1.1 times as long. */
#define LEAD_BYTES (33u << 10)

/* ---- being ---- */

/* The word with which `from` shows itself to `to`. */
static uint64_t token(const struct ofi_device *device, uint32_t from, uint32_t to, uint32_t life)
{
    const uint32_t pair[3] = {from, to, UINT32_C(0x70616972) + life};

    return proof_hash(&device->key, pair, sizeof(pair));
}

static void set_life(struct ofi_link *link, uint32_t life)
{
    const struct ofi_slot *slot = link->slot;

    link->life = life;
    link->token_out = token(slot->device, slot->endpoint, link->path.endpoint, life);
    link->token_in = token(slot->device, link->path.endpoint, slot->endpoint, life);
}

static struct ofi_link *link_new(struct ofi_slot *slot, uint32_t endpoint)
{
    struct ofi_link *link = calloc(1, sizeof(*link));

    if (link == NULL)
        return NULL;
    link->slot = slot;
    link->address = FI_ADDR_UNSPEC;
    link->path = (struct path){
        .am = usual_am,
        .endpoint = endpoint,
        .packet_max = (uint32_t)slot->packet_max,
        .eager_bytes = EAGER_BYTES,
        .ahead_bytes = (uint32_t)(slot->gather_frame - sizeof(struct ofi_frame)),
        .lead_bytes = (uint32_t)smaller(slot->packet_max, LEAD_BYTES),
    };
    link->path.lives = &link->lives;
    set_life(link, reception_life(slot->device->reception, endpoint_task(endpoint)));
    link->packets = link->path;
    link->packets.am = packets_am;
    link->path.port = link->packets.port = slot->port != NULL ? &slot->port->port : NULL;
    link->farewell =
        (struct ofi_farewell){.errand.farewell = true, .from = slot->endpoint, .to = endpoint};
    list_init(&link->farewell.errand.link);
    list_init(&link->backlog);
    list_init(&link->owing);
    list_init(&link->blocked);
    list_init(&link->gathering);
    link->burst = slot->pass - 1;
    if (u64map_put(&slot->map, endpoint, link) != 0) {
        free(link);
        return NULL;
    }
    list_push_back(&slot->links, &link->link);
    return link;
}

struct ofi_link *ofi_link_get(struct ofi_slot *slot, uint32_t endpoint)
{
    struct ofi_link *link = u64map_get(&slot->map, endpoint);

    return link != NULL ? link : link_new(slot, endpoint);
}

void ofi_link_ask(struct ofi_link *link, uint32_t as)
{
    struct ofi_slot *slot = link->slot;

    link->asked_as = as;
    if (reception_ask(slot->device->reception, slot->endpoint, link->path.endpoint, as) == 0)
        link->state = LINK_ASKED;
    else
        slot->changing = true;
}

/* It takes us for gone, and is told that we are back; without memory house-keeping tries again. */
void ofi_link_announce(struct ofi_link *link)
{
    struct ofi_slot *slot = link->slot;

    link->announced =
        reception_announce(slot->device->reception, slot->endpoint, link->path.endpoint) == 0;
    link->unannounced = !link->announced;
    slot->changing = slot->changing || link->unannounced;
}

/* Now that there is somebody to send to. */
static enum link_state up(const struct ofi_link *link)
{
    return link->broken ? LINK_BROKEN : ofi_is_mute(link) ? LINK_MUTE : LINK_UP;
}

/* 0; -ENOMEM: the same again, when there is memory; or -EIO: it counts as dead. The reception sees
 * to that, and meanwhile the name may come once more: nothing is sent even if that is accepted. */
int ofi_link_address(struct ofi_link *link, const struct ofi_name *name)
{
    int cancel = ofi_enter();
    int count = 1;

    if (link->address == FI_ADDR_UNSPEC)
        count = fi_av_insert(link->slot->av, name->name, 1, &link->address, 0, NULL);
    ofi_leave(cancel);
    if (count == 1) {
        ofi_greet(link);
        return 0;
    }
    link->address = FI_ADDR_UNSPEC;
    if (count == -FI_ENOMEM)
        return -ENOMEM;
    log_error("ofi: the address of endpoint %u is not accepted", link->path.endpoint);
    link->broken = true;
    reception_cut(link->slot->device->reception, link->path.endpoint, link->life);
    return -EIO;
}

enum link_state ofi_link_next(const struct ofi_link *link)
{
    return link->dead ? LINK_DEAD : link->back && !link->behind ? up(link) : LINK_CLOSED;
}

/* The remote endpoint's name has come, perhaps not for the first time. As ofi_link_address. */
int ofi_link_named(struct ofi_link *link, const struct ofi_notice *notice)
{
    const struct ofi_name *name = &notice->name;
    int error = ofi_link_address(link, name);

    if (error != 0)
        return error;
    link->key = name->key;
    link->readable = name->readable && link->slot->name.readable;
    link->path.single_copy = link->readable;
    link->path.open_remote = name->heap;
    link->path.open_bytes = link->readable ? name->heap_bytes : 0;
    link->told = false;
    link->mute_since = 0;
    link->back = link->leaving;
    link->behind = false;
    if (link->back) {
        link->ended_back = notice->ended;
    } else {
        ofi_link_set_ended(link, notice->ended);
        link->state = up(link);
    }
    return 0;
}

/*
 * It goes, and nobody has said after how many packets: counts of an earlier time do not matter.
 * What is sent from now on is for the next life, if there is one.
 */
void ofi_link_leaves(struct ofi_link *link)
{
    if (!link->leaving)
        link->leave_known = false;
    if (!link->dead) {
        atomic_store_explicit(&link->lives, link->ended + 1, memory_order_relaxed);
        link->state = LINK_ENDED;
    }
    link->leaving = true;
    link->slot->changing = true;
    link->quiet_since = 0;
}

void ofi_link_forget(struct ofi_link *link)
{
    struct list *item;

    if (link->open != NULL)
        ofi_buffer_put(link->open);
    link->open = NULL;
    list_remove(&link->gathering);
    while ((item = list_pop_front(&link->backlog)) != NULL)
        ofi_buffer_put(ofi_buffer_of(list_entry(item, struct ofi_operation, link)));
    list_remove(&link->blocked);
    list_remove(&link->owing);
}

static void drop_held(struct ofi_link *link)
{
    for (uint32_t i = 0; link->held != NULL && i < link->slot->window; i++)
        free(link->held[i]);
    free(link->held);
    link->held = NULL;
    link->held_count = 0;
}

void ofi_link_free(struct ofi_link *link)
{
    drop_held(link);
    free(link->races);
    free(link);
}

/* Numbers begin anew. Nobody shall hear of that before he has heard that the last life is over, nor
 * in the middle of what came in that. */
bool ofi_link_live(struct ofi_link *link, uint32_t life)
{
    if (link->life == life)
        return true;
    if ((!link->path.closed && link->used) || link->slot->from == link)
        return false;
    ofi_link_forget(link);
    drop_held(link);
    link->state = LINK_NEW;
    link->leaving = link->leave_known = link->dead = link->told = link->back = false;
    link->marked = link->broken = link->heard = false;
    link->wanted = link->mark = link->lost = link->asked = 0;
    link->sent = link->sent_units = link->sent_read = 0;
    link->received = link->received_units = link->reported = 0;
    link->pulse = (struct ofi_pulse){0};
    link->slot->last = NULL;
    ofi_link_set_ended(link, link->ended);
    set_life(link, life);
    return true;
}

/* ---- sending ---- */

static void write_frame(char *to, struct ofi_link *link, const struct packet *packet)
{
    struct ofi_frame frame = {
        .token = link->token_out,
        .sequence = link->sent,
        .read = link->received_units,
        .head = packet->head,
    };

    frame.head.origin |= link->ended << OFI_LIFE_SHIFT;
    /* The padding; a body ends after or in it. */
    memset(to + ofi_frame_bytes(packet_body_bytes(&packet->head)) - 8, 0, 8);
    memcpy(to, &frame, sizeof(frame));
    packet_write_body(to + sizeof(frame), packet);
}

/* A packet has been accepted. */
static void count_packet(struct ofi_link *link, size_t body, bool first)
{
    uint64_t *counters = link->path.port->params.counters;

    link->sent++;
    link->sent_units += ofi_units(body, first);
    link->reported = link->received_units;
    list_remove(&link->owing);
    counters[DEVICE_SENT]++;
    counters[DEVICE_SENT_BYTES] += body;
}

static int refuse(struct ofi_link *link, int error)
{
    link->path.port->params.counters[DEVICE_REFUSED]++;
    return error;
}

/*
 * Who has ended says so by the reception. Who lives and cannot be reached from here counts as dead,
 * at both ends: it would wait for what we cannot send. Where that is not sure (pulse.c finds out)
 * nothing more is sent meanwhile, nor ever in this life, for numbers are missing.
 */
static void give_up(struct ofi_link *link, int error)
{
    bool lack = ofi_is_lack(error);

    if (link->leaving || link->broken)
        return;
    log_at(lack ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, "ofi: endpoint %u cannot be sent to: %s",
           link->path.endpoint, fi_strerror(error));
    link->broken = true;
    link->pulse.since = 0; /* answers from before prove nothing */
    if (link->state == LINK_UP)
        link->state = LINK_BROKEN;
    if (lack)
        reception_cut(link->slot->device->reception, link->path.endpoint, link->life);
}

/* The provider's trouble with a peer is either -EAGAIN, or that it has no way to connect to it as
 * yet, or the end of the peer. */
static int provider_error(struct ofi_link *link, ssize_t error)
{
    if (ofi_is_no_way((int)-error))
        link->pulse.expects = true;
    else if (error != -FI_EAGAIN && error != -FI_ENOMEM)
        give_up(link, (int)-error);
    return -EAGAIN;
}

/* A program may not advance again for long: what it has sent shall be on its way. */
static inline void push(const struct ofi_slot *slot)
{
    if (unlikely(slot->device->provider.lazy))
        fi_cq_read(slot->cq, NULL, 0);
}

static int send_buffer(struct ofi_link *link, struct ofi_buffer *buffer)
{
    struct ofi_slot *slot = link->slot;
    ssize_t error;
    int cancel;

    if (unlikely(link->broken))
        return -EAGAIN;
    ofi_slot_rouse(slot);
    buffer->life = link->life;
    cancel = ofi_enter();
    error = fi_send(slot->ep, buffer->memory, buffer->bytes, buffer->descriptor, link->address,
                    &buffer->operation.context);
    push(slot);
    ofi_leave(cancel);
    return error == 0 ? 0 : provider_error(link, error);
}

void ofi_buffer_done(struct ofi_slot *slot, struct ofi_operation *operation, int error)
{
    struct ofi_buffer *buffer = ofi_buffer_of(operation);

    (void)slot;
    if (error != 0 && operation->to->life == buffer->life)
        give_up(operation->to, error);
    ofi_buffer_put(buffer);
}

/* Nothing of the link waits, or it waits behind what does. */
static void send_or_wait(struct ofi_link *link, struct ofi_buffer *buffer)
{
    if (list_empty(&link->backlog) && send_buffer(link, buffer) == 0)
        return;
    if (list_empty(&link->backlog))
        list_push_back(&link->slot->blocked, &link->blocked);
    list_push_back(&link->backlog, &buffer->operation.link);
}

static void add_frame(struct ofi_link *link, struct ofi_buffer *buffer, const struct packet *packet,
                      size_t body)
{
    write_frame(buffer->memory + buffer->bytes, link, packet);
    buffer->bytes += ofi_frame_bytes(body);
    buffer->packets++;
}

static int send_copy(struct ofi_link *link, const struct packet *packet, size_t body)
{
    struct ofi_buffer *buffer = ofi_buffer_get(link);

    if (buffer == NULL)
        return refuse(link, -EAGAIN);
    add_frame(link, buffer, packet, body);
    send_or_wait(link, buffer);
    count_packet(link, body, true);
    return 0;
}

void ofi_link_flush(struct ofi_link *link)
{
    struct ofi_buffer *buffer = link->open;

    if (buffer == NULL)
        return;
    link->open = NULL;
    list_remove(&link->gathering);
    send_or_wait(link, buffer);
}

void ofi_links_flush(struct ofi_slot *slot)
{
    struct list *item, *following;

    if (slot->port != NULL)
        slot->port->port.unsent = false;
    list_for_each_safe (item, following, &slot->gathering)
        ofi_link_flush(list_entry(item, struct ofi_link, gathering));
}

static int gather(struct ofi_link *link, const struct packet *packet, size_t body)
{
    if (link->open == NULL) {
        link->open = ofi_buffer_get(link);
        if (link->open == NULL)
            return refuse(link, -EAGAIN);
        list_push_back(&link->slot->gathering, &link->gathering);
        link->path.port->unsent = true;
    }
    add_frame(link, link->open, packet, body);
    count_packet(link, body, link->open->packets == 1);
    if (link->open->bytes + link->slot->gather_frame > link->slot->gather_max)
        ofi_link_flush(link);
    return 0;
}

static int send_injected(struct ofi_link *link, const struct packet *packet, size_t body)
{
    struct ofi_slot *slot = link->slot;
    /* 8 more than the largest body that comes here, for the padding. */
    _Alignas(8) char memory[sizeof(struct ofi_frame) + PACKET_SMALL + 8];
    ssize_t error;
    int cancel;

    ofi_slot_rouse(slot);
    write_frame(memory, link, packet);
    cancel = ofi_enter();
    error = fi_inject(slot->ep, memory, ofi_frame_bytes(body), link->address);
    push(slot);
    ofi_leave(cancel);
    if (unlikely(error != 0))
        return refuse(link, provider_error(link, error));
    count_packet(link, body, true);
    return 0;
}

/* Short ones open a buffer, and any that fits goes along. */
static inline bool gathers(const struct ofi_link *link, const struct packet *packet, size_t bytes)
{
    const struct ofi_slot *slot = link->slot;

    if (link->open != NULL)
        return link->open->bytes + bytes <= slot->message_max;
    return bytes <= slot->gather_frame && (link->singles >= SINGLES_MAX || packet->more);
}

static inline int am(struct ofi_link *link, const struct packet *packet)
{
    struct ofi_slot *slot = link->slot;
    size_t body = packet_body_bytes(&packet->head);
    size_t bytes = ofi_frame_bytes(body);

    if (unlikely(body > slot->packet_max))
        return -EMSGSIZE;
    ofi_slot_listen(slot);
    if (unlikely(link->state != LINK_UP)) {
        if (link->path.closed)
            return -EPIPE;
        if (link->state == LINK_NEW)
            ofi_link_ask(link, slot->ended);
        if (link->state != LINK_MUTE || !ofi_may_speak(link))
            return refuse(link, -EAGAIN);
    }
    if (unlikely(link->sent_units - link->sent_read >= slot->credits ||
                 !list_empty(&link->backlog)))
        return refuse(link, -EAGAIN);
    if (link->burst != slot->pass) {
        link->burst = slot->pass;
        link->singles = 0;
    }
    if (gathers(link, packet, bytes))
        return gather(link, packet, body);
    link->singles++;
    if (unlikely(link->open != NULL)) {
        ofi_link_flush(link);
        if (!list_empty(&link->backlog))
            return refuse(link, -EAGAIN);
    }
    if (body <= PACKET_SMALL && bytes <= slot->inject_max && packet->fill == NULL)
        return send_injected(link, packet, body);
    return send_copy(link, packet, body);
}

static int usual_am(struct path *path, const struct packet *packet)
{
    return am(container_of(path, struct ofi_link, path), packet);
}

static int packets_am(struct path *path, const struct packet *packet)
{
    return am(container_of(path, struct ofi_link, packets), packet);
}

/* What waits; returns how much went. */
int ofi_link_backlog(struct ofi_link *link)
{
    struct list *item;
    int count = 0;

    while ((item = list_first(&link->backlog)) != NULL) {
        struct ofi_operation *operation = list_entry(item, struct ofi_operation, link);

        if (send_buffer(link, ofi_buffer_of(operation)) != 0)
            return count;
        list_remove(item);
        count++;
    }
    list_remove(&link->blocked);
    return count;
}

/* Say how much has been read, `ask`: and want to be told the same. False: not now. */
bool ofi_link_report(struct ofi_link *link, bool ask)
{
    struct ofi_slot *slot = link->slot;
    struct ofi_frame frame = {
        .token = link->token_out,
        .sequence = link->sent,
        .read = link->received_units,
        .head = {.protocol = PROTOCOL_READ, .origin = slot->endpoint, .aux = ask},
    };
    struct ofi_buffer *buffer;

    if (link->address == FI_ADDR_UNSPEC || link->state == LINK_DEAD || link->broken ||
        ofi_is_mute(link))
        return true;
    if (sizeof(frame) <= slot->inject_max) {
        int cancel = ofi_enter();
        ssize_t error = fi_inject(slot->ep, &frame, sizeof(frame), link->address);

        ofi_leave(cancel);
        if (error != 0)
            return false;
    } else {
        buffer = ofi_buffer_get(link);
        if (buffer == NULL)
            return false;
        buffer->bytes = sizeof(frame);
        memcpy(buffer->memory, &frame, sizeof(frame));
        if (send_buffer(link, buffer) != 0) {
            ofi_buffer_put(buffer);
            return false;
        }
    }
    link->reported = link->received_units;
    return true;
}

/* The frame is from whom it names, whether there is a link or not. */
bool ofi_link_is_from(const struct ofi_slot *slot, const struct ofi_frame *frame)
{
    uint32_t origin = ofi_frame_origin(frame);
    uint32_t life = reception_life(slot->device->reception, endpoint_task(origin));

    return frame->token == token(slot->device, origin, slot->endpoint, life);
}
