/*
 * What arrives for a context: messages of frames.
 *
 * A frame is looked at only after its length and its sender's token are right; what is not is
 * counted and dropped. Frames of a link are delivered by number, whatever order they come in.
 */
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "device/ofi/first.h"
#include "util/cpu.h"
#include "util/log.h"

struct held {
    bool first;
    struct ofi_frame frame;
};

static void drop(struct ofi_slot *slot)
{
    if (slot->port->port.params.counters[DEVICE_DROPPED]++ == 0)
        log_warn("ofi: dropped what is no packet of this job");
}

static void owe(struct ofi_link *link)
{
    if (list_empty(&link->owing))
        list_push_back(&link->slot->owing, &link->owing);
}

/* What is read next has been sent by a context that has the place of the one which left, whether
 * its name has come or has to be asked for. What the user sends when he has it goes to that one, so
 * he hears first that the other one is gone. */
static bool is_early(const struct ofi_link *link)
{
    return link->leaving && !link->path.closed && link->slot->open && ofi_link_has_left(link);
}

/* The next packet of the link; `first` of its message. False: nothing has come of it, and it comes
 * again later. */
static bool deliver(struct ofi_link *link, struct ofi_frame *frame, bool first)
{
    struct ofi_slot *slot = link->slot;
    const struct port_params *params = &slot->port->port.params;
    uint32_t units = ofi_units(packet_body_bytes(&frame->head), first);
    uint32_t origin = frame->head.origin;

    if (unlikely(is_early(link))) {
        slot->port->port.tend_soon = true;
        return false;
    }
    link->received++;
    link->received_units += units;
    if (link->received_units - link->reported >= slot->credits / 4 ||
        link->received == link->wanted)
        owe(link);
    if (!slot->open || ((slot->ended << OFI_LIFE_SHIFT) ^ origin) & ~OFI_ORIGIN_MASK)
        return true;
    frame->head.origin &= OFI_ORIGIN_MASK;
    params->counters[DEVICE_RECEIVED]++;
    slot->from = link;
    params->deliver(params->context, &frame->head, frame + 1);
    slot->from = NULL;
    if (likely(!slot->put_back))
        return true;
    slot->put_back = false;
    frame->head.origin = origin;
    params->counters[DEVICE_RECEIVED]--;
    link->received--;
    link->received_units -= units;
    return false;
}

/* False: no memory. */
static bool hold(struct ofi_link *link, const struct ofi_frame *frame, size_t bytes, bool first)
{
    struct ofi_slot *slot = link->slot;
    struct held **place;

    if (link->held == NULL)
        link->held = calloc(slot->window, sizeof(struct held *));
    if (link->held == NULL)
        return false;
    place = &link->held[frame->sequence % slot->window];
    if (*place != NULL)
        return true; /* a duplicate */
    *place = malloc(sizeof(**place) + bytes);
    if (*place == NULL)
        return false;
    (*place)->first = first;
    memcpy(&(*place)->frame, frame, bytes);
    link->held_count++;
    return true;
}

static int deliver_held(struct ofi_link *link)
{
    int count = 0;

    while (link->held_count != 0) {
        struct held **place = &link->held[link->received % link->slot->window];
        struct held *held = *place;

        if (held == NULL)
            break;
        *place = NULL;
        link->held_count--;
        if (!deliver(link, &held->frame, held->first)) {
            *place = held;
            link->held_count++;
            link->slot->again = true;
            break;
        }
        free(held);
        count++;
    }
    return count;
}

static int take_packet(struct ofi_link *link, struct ofi_frame *frame, size_t bytes, bool first)
{
    uint32_t ahead = frame->sequence - link->received;

    if (likely(ahead == 0)) {
        if (unlikely(!deliver(link, frame, first))) {
            link->slot->stuck = !hold(link, frame, bytes, first);
            link->slot->again = true;
            return 0;
        }
        return unlikely(link->held_count != 0) ? 1 + deliver_held(link) : 1;
    }
    if (ahead < link->slot->credits)
        link->slot->stuck = !hold(link, frame, bytes, first);
    else
        drop(link->slot);
    return 0;
}

/* The device's own frames. */
static void take_report(struct ofi_link *link, const struct ofi_frame *frame)
{
    link->pulse.heard = true;
    if (frame->head.aux == 0)
        return;
    link->wanted = frame->sequence;
    if ((int32_t)(link->received - link->wanted) >= 0)
        owe(link);
}

/* The link that a frame shows to be from; NULL: somebody else's, or the slot is stuck. */
static struct ofi_link *link_of(struct ofi_slot *slot, const struct ofi_frame *frame)
{
    struct ofi_link *link = slot->last;
    uint32_t origin = ofi_frame_origin(frame);

    if (likely(link != NULL && link->path.endpoint == origin))
        return likely(link->token_in == frame->token) ? link : NULL;
    link = u64map_get(&slot->map, origin);
    if (link == NULL) {
        /* Its name may be on its way to us still; the token shows that it exists. */
        const struct bootstrap *job = slot->device->bootstrap;

        if (endpoint_task(origin) >= job->tasks + job->servers ||
            endpoint_offset(origin) >= slot->device->contexts)
            return NULL;
        if (!ofi_link_is_from(slot, frame))
            return NULL;
        link = ofi_link_get(slot, origin);
        slot->stuck = link == NULL;
    }
    if (link == NULL || link->token_in != frame->token)
        return NULL;
    slot->last = link;
    if (unlikely(!link->heard))
        ofi_heard(link);
    return link;
}

static int take_frame(struct ofi_link *link, struct ofi_frame *frame, size_t bytes, bool first)
{
    uint32_t read = frame->read - link->sent_read;

    if (unlikely(read > link->sent_units - link->sent_read))
        read = 0;
    link->sent_read += read;
    if (unlikely(frame->head.protocol == PROTOCOL_READ)) {
        take_report(link, frame);
        return read != 0;
    }
    return take_packet(link, frame, bytes, first);
}

/* Frames one behind the other; the first of them of a message, or what is behind that. */
static int take_frames(struct ofi_slot *slot, char *at, size_t left, bool first)
{
    int count = 0;

    do {
        struct ofi_frame *frame = (struct ofi_frame *)(void *)at;
        struct ofi_link *link;
        size_t bytes = sizeof(*frame);

        if (likely(left >= bytes))
            bytes = ofi_frame_bytes(packet_body_bytes(&frame->head));
        if (unlikely(bytes > left || (link = link_of(slot, frame)) == NULL)) {
            if (slot->stuck)
                goto stuck;
            drop(slot);
            break;
        }
        slot->rest_at = at + bytes;
        slot->rest_left = left - bytes;
        count += take_frame(link, frame, bytes, first);
        if (unlikely(slot->stuck))
            goto stuck;
        at += bytes;
        left -= bytes;
        first = false;
    } while (left != 0);
    slot->rest_left = 0;
    return count;
stuck:
    slot->rest_at = at;
    slot->rest_left = left;
    slot->stuck_first = first;
    slot->stash_next--; /* the message stays there */
    return count;
}

int ofi_take_stuck(struct ofi_slot *slot)
{
    slot->stuck = false;
    return take_frames(slot, slot->rest_at, slot->rest_left, slot->stuck_first);
}

int ofi_take_message(struct ofi_slot *slot, char *at, size_t left)
{
    if (unlikely(left > slot->message_max)) {
        drop(slot);
        return 0;
    }
    if (unlikely(((uintptr_t)at & 7) != 0))
        at = memcpy(slot->straight, at, left);
    return take_frames(slot, at, left, true);
}

int ofi_take_again(struct ofi_slot *slot)
{
    struct list *item;
    int count = 0;

    slot->again = false;
    list_for_each (item, &slot->links)
        count += deliver_held(list_entry(item, struct ofi_link, link));
    return count;
}

void ofi_take_rest(struct ofi_slot *slot)
{
    if (slot->rest_left != 0 && !slot->stuck)
        take_frames(slot, slot->rest_at, slot->rest_left, false);
    ofi_take_again(slot);
}
