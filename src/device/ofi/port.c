/*
 * Ports: completions, the house-keeping of links, opening and closing.
 */
#include <errno.h>
#include <stdlib.h>

#include "device/ofi/buffers.h"
#include "device/ofi/door.h"
#include "util/clock.h"
#include "util/cpu.h"
#include "util/log.h"

/* Packets delivered per advance, about. */
#define ADVANCE_BATCH (2 * OFI_BATCH)
/* Looks that find nothing before the next ones are spread out, and how far: other devices of the
 * context are looked at more often then. */
#define IDLE_LOOKS 1000u
#define IDLE_REST 8u
/* ... and so far while others are busy: a look is a system call or two, for which neighbours on
 * this node would have to wait. That many passes are for the shortest rest, of rest_ticks; where
 * system calls take long, looks have one part in LOOK_SHARE of the time, up to the longest rest. */
#define BUSY_REST 4096u
#define LOOK_SHARE 80u
#define REST_LONGEST 20u
/* A destination that died, or left without a count, has nothing more under way when nothing has
 * come for so long. One that left with a count is waited for as one that is silent. */
#define QUIET_NS UINT64_C(50000000)
/* Looks of a reception in which accesses through a closed context must get on: each brings on what
 * fits the provider's buffers. */
#define SERVED_LEAST 64u

static struct ofi_port *port_of(struct port *port)
{
    return container_of(port, struct ofi_port, port);
}

/* ---- the queue ---- */

static bool is_receive(const struct ofi_slot *slot, const void *context)
{
    uintptr_t at = (uintptr_t)context;

    return at >= (uintptr_t)slot->receives &&
           at < (uintptr_t)(slot->receives + slot->receive_count);
}

/* All of a message has been taken. */
static void end_receive(struct ofi_slot *slot, const struct fi_cq_data_entry *entry)
{
    if (!slot->multi_receive || (entry->flags & FI_MULTI_RECV) != 0)
        ofi_slot_post(slot, entry->op_context);
}

static int take_completion(struct ofi_slot *slot, const struct fi_cq_data_entry *entry)
{
    bool multi = slot->multi_receive;
    int count = 0;

    if (is_receive(slot, entry->op_context)) {
        const struct ofi_receive *receive = entry->op_context;

        if (entry->len != 0)
            count = ofi_take_message(slot, multi ? entry->buf : receive->memory, entry->len);
        if (likely(!slot->stuck))
            end_receive(slot, entry);
        return count;
    }
    if (entry->op_context != NULL) {
        struct ofi_operation *operation = entry->op_context;

        operation->done(slot, operation, 0);
    }
    return 0;
}

/* Into the stash, like other completions: looking calls nobody. */
static void look_at_error(struct ofi_slot *slot)
{
    struct fi_cq_err_entry entry = {0};

    if (fi_cq_readerr(slot->cq, &entry, 0) != 1)
        return;
    log_debug("ofi: completion with error: %s", fi_strerror(entry.err));
    slot->stash[0] =
        (struct fi_cq_data_entry){.op_context = entry.op_context, .flags = entry.flags};
    slot->stash_error = entry.err;
    slot->stash_count = 1;
}

static void take_error(struct ofi_slot *slot)
{
    const struct fi_cq_data_entry entry = slot->stash[slot->stash_next++];
    int error = slot->stash_error;

    slot->stash_error = 0;
    if (is_receive(slot, entry.op_context)) {
        end_receive(slot, &entry);
    } else if (entry.op_context != NULL) {
        struct ofi_operation *operation = entry.op_context;

        operation->done(slot, operation, error);
    }
}

/* Fills the stash; how many are there. */
static uint32_t look(struct ofi_slot *slot)
{
    ssize_t count;
    int cancel;

    if (slot->stash_count != slot->stash_next)
        return slot->stash_count - slot->stash_next;
    slot->stash_count = slot->stash_next = 0;
    cancel = ofi_enter();
    count = fi_cq_read(slot->cq, slot->stash, OFI_BATCH);
    if (unlikely(count == -FI_EAVAIL))
        look_at_error(slot);
    ofi_leave(cancel);
    if (unlikely(count > 0))
        slot->stash_count = (uint32_t)count;
    return slot->stash_count;
}

bool ofi_slot_has_arrivals(struct ofi_slot *slot)
{
    return look(slot) != 0;
}

/* What is in the stash now, each gone from it before the user hears of it. */
static int take_stash(struct ofi_slot *slot)
{
    int events = 0;

    if (unlikely(slot->stash_error != 0))
        take_error(slot);
    if (unlikely(slot->stuck)) {
        const struct fi_cq_data_entry entry = slot->stash[slot->stash_next++];

        events = ofi_take_stuck(slot);
        if (!slot->stuck)
            end_receive(slot, &entry);
    }
    for (uint32_t i = slot->stash_count;
         i != 0 && slot->stash_next != slot->stash_count && !slot->stuck; i--) {
        struct fi_cq_data_entry entry = slot->stash[slot->stash_next++];

        events += take_completion(slot, &entry);
    }
    return events;
}

static void report_all(struct ofi_slot *slot)
{
    struct list *item, *following;

    list_for_each_safe (item, following, &slot->owing)
        if (ofi_link_report(list_entry(item, struct ofi_link, owing), false))
            list_remove(item);
}

static int send_blocked(struct ofi_slot *slot)
{
    struct list *item, *following;
    int count = 0;

    list_for_each_safe (item, following, &slot->blocked)
        count += ofi_link_backlog(list_entry(item, struct ofi_link, blocked));
    return count;
}

/* What follows from what has come, and what could not be done before. */
static int follow_up(struct ofi_slot *slot)
{
    int events = 0;

    if (unlikely(slot->again))
        events += ofi_take_again(slot);
    if (unlikely(!list_empty(&slot->blocked)))
        events += send_blocked(slot);
    if (unlikely(!list_empty(&slot->remotes)))
        events += ofi_remotes_progress(slot);
    if (!list_empty(&slot->gathering))
        ofi_links_flush(slot);
    if (!list_empty(&slot->owing))
        report_all(slot);
    return events;
}

/* After a look in vain that began then. */
static void rest(struct port *base, uint64_t began)
{
    uint64_t shortest = port_of(base)->slot->device->rest_ticks;
    uint64_t now, times;

    base->rest = IDLE_REST;
    if (base->others == 0)
        return;
    now = clock_ticks();
    times = (now - began) * LOOK_SHARE / shortest;
    times = times < 1 ? 1 : times > REST_LONGEST ? REST_LONGEST : times;
    base->rest = BUSY_REST * (uint32_t)times;
    base->rest_until = now + times * shortest;
}

int ofi_advance(struct port *base)
{
    struct ofi_slot *slot = port_of(base)->slot;
    uint64_t began = slot->idle >= IDLE_LOOKS ? clock_ticks() : 0;
    int events = 0;

    slot->pass++;
    if (!list_empty(&slot->gathering))
        ofi_links_flush(slot);
    for (int looked = 0; looked < (int)ADVANCE_BATCH; looked += (int)OFI_BATCH) {
        uint32_t count = look(slot);

        /* That a context has gone is known before the first packet of the next one is sent. */
        if (unlikely(atomic_load_explicit(&slot->news, memory_order_acquire) != 0))
            ofi_news(slot);
        if (count == 0)
            break;
        events += take_stash(slot);
        slot->idle = slot->false_alarms = 0;
        if (count < OFI_BATCH)
            break;
    }
    events += follow_up(slot) + slot->completed;
    slot->completed = 0;
    if (events == 0 && ++slot->idle > IDLE_LOOKS)
        rest(base, began);
    base->others = 0;
    return events;
}

void ofi_interrupt(struct port *base)
{
    ofi_take_rest(port_of(base)->slot);
}

/* The context's other ports have been asked before: a packet of this one is being delivered. */
bool ofi_put_back(struct port *base)
{
    port_of(base)->slot->put_back = true;
    return true;
}

void ofi_flush(struct port *base)
{
    ofi_links_flush(port_of(base)->slot);
}

bool ofi_pending(struct port *base)
{
    struct ofi_slot *slot = port_of(base)->slot;

    return atomic_load_explicit(&slot->news, memory_order_relaxed) != 0 ||
           !list_empty(&slot->gathering) || slot->again || slot->completed != 0 || look(slot) != 0;
}

bool ofi_stalled(struct port *base)
{
    const struct ofi_slot *slot = port_of(base)->slot;

    return !list_empty(&slot->blocked) || !list_empty(&slot->owing) ||
           (slot->remotes_refused && !list_empty(&slot->remotes));
}

/* ---- house-keeping ---- */

/* All that came from a destination which leaves has been delivered, as far as one can tell. */
static bool read_up(struct ofi_link *link)
{
    uint64_t timeout = link->slot->device->peer_timeout_ms * UINT64_C(1000000);
    uint64_t now = clock_now_ns();

    if (ofi_link_has_left(link))
        return true;
    if (link->quiet_since == 0 || link->quiet_number != link->received ||
        (link->quiet_pass == link->slot->pass && ofi_slot_has_arrivals(link->slot))) {
        link->quiet_since = now;
        link->quiet_number = link->received;
        link->quiet_pass = link->slot->pass;
        return false;
    }
    return now - link->quiet_since > (link->leave_known && !link->dead ? timeout : QUIET_NS);
}

/*
 * Reads and writes through a context that has closed: its task's reception brings them on, as long
 * as it is asked to. They would go on when the context is created again, with memory that is in
 * other use. If its task is dead, the provider gives them back when it finds the end of their
 * connection, behind what has come through that. False: none is under way, or they do not get on,
 * though they were looked after often enough: who has no processor for longer than the timeout is
 * not to blame.
 */
static bool is_served(struct ofi_link *link)
{
    const struct ofi_slot *slot = link->slot;
    uint64_t now;

    if (likely(!ofi_remotes_under_way(link))) {
        link->served_since = 0;
        return false;
    }
    now = clock_now_ns();
    if (link->served_since == 0 && link->dead)
        ofi_sever(link, false);
    if (link->served_since == 0 || link->served_pieces != link->pieces) {
        link->served_since = now;
        link->served_pieces = link->pieces;
        link->served_beats = link->pulse.beats;
    }
    if (link->dead)
        link->pulse.beats++;
    else if (!link->pulse.asked)
        link->pulse.asked = reception_pulse(slot->device->reception, slot->endpoint,
                                            link->path.endpoint, false, NULL) == 0;
    return now - link->served_since < slot->device->peer_timeout_ms * UINT64_C(1000000) ||
           link->pulse.beats - link->served_beats < SERVED_LEAST;
}

/* There was no memory to ask for its name when the path was opened. */
static bool is_to_be_asked(const struct ofi_link *link)
{
    return link->used && !link->leaving && !link->path.closed &&
           (link->state == LINK_NEW || link->state == LINK_CLOSED);
}

/* It has left, and all that it sent has been delivered. */
static void end_link(struct ofi_link *link)
{
    if (link->leave_known && !link->dead && !ofi_link_has_left(link))
        log_info("ofi: endpoint %u has left after %u packets, %u have come", link->path.endpoint,
                 link->leave_count, link->received);
    link->path.closed = link->packets.closed = true;
    link->leaving = link->dead;
    link->state = ofi_link_next(link);
    link->told = link->used && !link->back;
    ofi_link_set_ended(link, ofi_link_ended(link));
    link->used = link->back = false;
    link->lost = link->sent_units;
    link->served_since = 0;
    if (link->dead) {
        ofi_link_forget(link);
        link->severing = !ofi_sever(link, false);
        link->slot->changing = link->slot->changing || link->severing;
    }
    ofi_remotes_give_up(link->slot, link, -EPIPE);
}

/* There may be as many links as endpoints in the job; mostly none of them changes. */
static void tend_links(struct port *base, void (*gone)(void *context, uint32_t endpoint))
{
    struct ofi_slot *slot = port_of(base)->slot;
    struct list *item;

    if (likely(!slot->changing))
        return;
    slot->changing = false;
    list_for_each (item, &slot->links) {
        struct ofi_link *link = list_entry(item, struct ofi_link, link);

        if (unlikely(link->unannounced))
            ofi_link_announce(link);
        if (unlikely(is_to_be_asked(link)))
            ofi_link_ask(link, link->asked_as);
        if (unlikely(link->severing)) {
            link->severing = link->dead && !ofi_sever(link, true);
            slot->changing = slot->changing || link->severing;
        }
        if (!link->leaving || link->path.closed)
            continue;
        if (!read_up(link) || is_served(link)) {
            slot->changing = true;
            continue;
        }
        end_link(link);
        gone(base->params.context, link->path.endpoint);
    }
}

void ofi_tend(struct port *base, void (*gone)(void *context, uint32_t endpoint))
{
    struct ofi_slot *slot = port_of(base)->slot;

    ofi_slot_listen(slot);
    ofi_links_flush(slot);
    ofi_buffers_tend(slot);
    ofi_pulse_tend(slot);
    tend_links(base, gone);
    for (uint32_t i = 0; i < slot->receive_count; i++)
        if (!slot->receives[i].posted)
            ofi_slot_post(slot, &slot->receives[i]);
}

bool ofi_settled(struct port *base)
{
    struct ofi_slot *slot = port_of(base)->slot;
    bool settled = slot->remotes_open == 0;
    struct list *item;

    list_for_each (item, &slot->links) {
        struct ofi_link *link = list_entry(item, struct ofi_link, link);

        if (link->state != LINK_UP || link->leaving)
            continue;
        if (!link->marked) {
            link->marked = true;
            link->mark = link->sent_units;
        }
        ofi_link_flush(link);
        if ((int32_t)(link->sent_read - link->mark) >= 0 || link->mark == link->lost)
            continue;
        settled = false;
        if (link->asked != link->mark && list_empty(&link->backlog) && ofi_link_report(link, true))
            link->asked = link->mark;
    }
    return settled;
}

/* ---- opening and closing ---- */

static void set_port(struct ofi_slot *slot, struct port *port)
{
    struct list *item;

    list_for_each (item, &slot->links) {
        struct ofi_link *link = list_entry(item, struct ofi_link, link);

        link->path.port = link->packets.port = port;
        link->used = link->marked = link->told = link->back = false;
        link->announced = link->unannounced = false;
        /* The others take us for gone, and must be told that we are back. */
        if (port == NULL && link->state != LINK_CLOSED && link->state != LINK_DEAD)
            link->state = LINK_NEW;
        else if (port != NULL && link->state == LINK_NEW && link->address != FI_ADDR_UNSPEC)
            ofi_link_announce(link);
    }
}

int ofi_port_open(struct device *base, const struct port_params *params, struct port **out)
{
    struct ofi_device *device = container_of(base, struct ofi_device, device);
    struct ofi_port *port = calloc(1, sizeof(*port));
    struct ofi_slot *slot = device->slots[params->offset];
    int error = port == NULL ? -ENOMEM : 0;

    if (error == 0 && slot == NULL)
        error = ofi_slot_new(device, params->offset, &slot);
    if (error != 0) {
        free(port);
        return error;
    }
    slot->endpoint = params->endpoint;
    slot->no_rails = false;
    port->port = (struct port){.ops = base->ops, .device = base, .params = *params};
    port->slot = slot;
    pthread_mutex_lock(&device->lock);
    slot->port = port;
    slot->open = true;
    slot->ended = port->port.life = device->ended;
    device->slots[params->offset] = slot;
    pthread_mutex_unlock(&device->lock);
    set_port(slot, &port->port);
    reception_look_again(device->reception);
    *out = &port->port;
    return 0;
}

/* Nobody will read what is there. */
static void purge(struct ofi_slot *slot)
{
    for (unsigned i = 0; i < 64 && look(slot) != 0; i++)
        take_stash(slot);
    ofi_take_again(slot);
}

static uint32_t packets_of(struct list *waiting)
{
    struct ofi_operation *operation = list_entry(waiting, struct ofi_operation, link);

    return ofi_buffer_of(operation)->packets;
}

static void say_goodbye(struct ofi_slot *slot)
{
    struct list *item, *waiting;

    list_for_each (item, &slot->links) {
        struct ofi_link *link = list_entry(item, struct ofi_link, link);
        uint32_t count = link->sent;

        if (link->state == LINK_DEAD || (link->state == LINK_NEW && !link->announced))
            continue;
        ofi_link_flush(link);
        list_for_each (waiting, &link->backlog)
            count -= packets_of(waiting);
        if (link->received_units != link->reported)
            ofi_link_report(link, false);
        reception_leave(slot->device->reception, &link->farewell, count);
    }
}

/* Under device->lock. */
static bool is_in_use(const struct ofi_device *device)
{
    for (uint32_t i = 0; i < device->contexts; i++)
        if (device->slots[i] != NULL && device->slots[i]->port != NULL)
            return true;
    return false;
}

/* No context has come of it, but others may have its name by now: what they send waits for the next
 * attempt. */
static void leave_open(struct ofi_slot *slot)
{
    set_port(slot, NULL);
    pthread_mutex_lock(&slot->device->lock);
    slot->port = NULL;
    pthread_mutex_unlock(&slot->device->lock);
}

void ofi_port_close(struct port *base)
{
    struct ofi_port *port = port_of(base);
    struct ofi_slot *slot = port->slot;

    if (base->unused) {
        leave_open(slot);
        free(port);
        return;
    }
    pthread_mutex_lock(&slot->device->lock);
    slot->open = false;
    slot->armed = false;
    pthread_mutex_unlock(&slot->device->lock);
    /* Whom a transfer's end would be told has gone already. */
    ofi_remotes_give_up(slot, NULL, 0);
    if (unlikely(!list_empty(&slot->orphans))) /* their memory is the program's again */
        ofi_rails_close(slot);
    ofi_news(slot);
    purge(slot);
    say_goodbye(slot);
    set_port(slot, NULL);
    pthread_mutex_lock(&slot->device->lock);
    slot->port = NULL;
    if (!is_in_use(slot->device))
        slot->device->ended++;
    pthread_mutex_unlock(&slot->device->lock);
    reception_look_again(slot->device->reception);
    free(port);
}

int ofi_path_open(struct port *base, uint32_t endpoint, unsigned how, struct path **out)
{
    struct ofi_slot *slot = port_of(base)->slot;
    struct ofi_link *link = ofi_link_get(slot, endpoint);

    if (link == NULL)
        return -ENOMEM;
    ofi_slot_listen(slot);
    if (!(how & PATH_EVEN_CLOSED) && link->dead)
        return -EPIPE;
    /* Whoever left before anybody was interested may be back: the answer will tell. */
    if (!link->used && link->leaving && !link->dead) {
        link->state = ofi_link_next(link);
        ofi_link_set_ended(link, ofi_link_ended(link));
        link->leaving = link->back = false;
    }
    if (link->state == LINK_NEW || link->state == LINK_CLOSED)
        ofi_link_ask(link, how & PATH_HEARD ? 0 : slot->ended);
    if (!(how & PATH_EVEN_CLOSED) &&
        (link->told || ((how & PATH_SAME_LIFE) && ofi_link_ended(link) > slot->ended)))
        return -EPIPE;
    if (!link->used)
        link->path.closed = link->packets.closed = false;
    link->used = true;
    slot->changing = slot->changing || link->leaving;
    *out = (how & PATH_PACKETS_ONLY) ? &link->packets : &link->path;
    return 0;
}

/* Its task counts as dead, and everybody here has heard of it. */
int ofi_revive(struct port *base, uint32_t endpoint)
{
    struct ofi_slot *slot = port_of(base)->slot;
    struct ofi_link *link = ofi_link_get(slot, endpoint);
    uint32_t life;

    if (link == NULL)
        return -ENOMEM;
    if (!link->dead || !link->path.closed)
        return 0;
    life = reception_revive(slot->device->reception, endpoint_task(endpoint));
    if (life != link->life && ofi_link_live(link, life))
        ofi_link_ask(link, slot->ended);
    return 0;
}
