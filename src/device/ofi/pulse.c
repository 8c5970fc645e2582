/*
 * Heartbeats of links: whether packets still get through, all of them, to somebody who lives.
 *
 * That a task has died or its host was cut off, the reception hears by itself. A link can be cut
 * alone: fabric and receptions use different networks, a firewall has forgotten a connection that
 * was idle, a provider has lost its connection and says nothing. So a link over which something is
 * under way, and over which nothing has come for a quarter of the peer timeout, is asked for a sign
 * on both planes: by a frame over the link itself, which the other context answers over the link,
 * and by a message over the reception, which that *context* answers as well, from its advance, when
 * its queue is empty. When answers keep coming over the reception, and nothing comes over the link
 * for the peer timeout, the link is cut, and the task counts as dead.
 *
 * Packets can also be lost one way, or some of them, when a provider's connection is reset: it
 * makes another one with the next send. Who sends sees an error at best. Who receives sees a gap:
 * packets that came before their turn, or a number of packets sent that has not come. A gap that
 * does not close counts as silence, whatever else comes over the link. So that there is a number,
 * who has something unread for long says it, also over a link that is not silent.
 *
 * After an error of the provider (link->broken) the only question is whether the other one is
 * leaving: a few answers show that it is not, and the link is cut.
 *
 * A link's rails that are for reads and writes alone count one by one: what is under way through
 * one of them must bring something, whatever the others do. There is no going over to another one,
 * as what was written through the first may still get there after what is written later.
 *
 * Before a link is cut both ends tell each other the ports of their connections, see sever.c.
 *
 * Who does not advance answers neither and is not dead, however long it takes: what proves a cut is
 * that both contexts have looked into empty queues several times meanwhile. A link that never
 * worked in this life has longer: connections are made by processes. Costs nothing where nothing is
 * under way, one frame and one message per round where the other one is slow, and never more than
 * one round at a time.
 */
#include <string.h>

#include "device/ofi/door.h"
#include "util/clock.h"
#include "util/log.h"

/* Looks at the links in a peer timeout; quiet ones before the first question; answers that prove
 * something. */
#define LOOKS 12u
#define LOOKS_QUIET 3u
#define ANSWERS_MIN 5u
/* The question before the last of these and the last one exchange ports: others rarely matter. */
#define ANSWERS_PORTS (ANSWERS_MIN - 2)
/* Answers after an error: the first may be from a context that has begun to leave. */
#define ANSWERS_BROKEN 2u
/* More time for a link that nothing has ever come over. */
#define UNPROVEN_FACTOR 12u

static bool expects_something(const struct ofi_link *link)
{
    return link->pulse.expects || !list_empty(&link->backlog) ||
           (link->sent_read != link->sent_units && link->lost != link->sent_units);
}

static bool has_heard_something(const struct ofi_link *link)
{
    const struct ofi_pulse *pulse = &link->pulse;

    return pulse->heard || pulse->received != link->received ||
           pulse->sent_read != link->sent_read || pulse->held_count != link->held_count;
}

/* Something has not come that was sent before what has come. What there was no memory for counts as
 * come. */
static bool has_gap(const struct ofi_link *link)
{
    return !link->slot->again && !link->slot->stuck && link->pulse.received == link->received &&
           (link->held_count != 0 || (int32_t)(link->wanted - link->received) > 0);
}

static bool is_unread(const struct ofi_link *link)
{
    return link->sent_read != link->sent_units && link->lost != link->sent_units &&
           link->pulse.sent_read == link->sent_read;
}

/* Rails have connections of their own. True when one of them says nothing. */
static bool look_at_rails(struct ofi_pulse *pulse)
{
    uint8_t silent = pulse->rails_waiting & (uint8_t)~pulse->rails_heard;

    pulse->rails_silent = pulse->since == 0 ? silent : pulse->rails_silent & silent;
    pulse->rails_proven |= pulse->rails_heard;
    pulse->rails_waiting = pulse->rails_heard = 0;
    return pulse->rails_silent != 0;
}

static void cut(struct ofi_link *link, uint64_t now)
{
    struct ofi_pulse *pulse = &link->pulse;
    const char *why = link->broken ? "it cannot be sent to"
                      : pulse->rails_silent != 0
                          ? "a rail, for reads and writes, has brought nothing"
                      : has_gap(link) ? "packets that it has sent have not come"
                                      : "no packet has come from it or got there";

    log_warn("ofi: endpoint %u lives, but for %.1f s %s: its task counts as dead",
             link->path.endpoint, 1e-9 * (double)(now - pulse->since), why);
    reception_cut(link->slot->device->reception, link->path.endpoint, link->life);
    memset(pulse, 0, sizeof(*pulse));
}

static int say(struct ofi_link *link, bool answer, bool with_ports)
{
    struct ofi_slot *slot = link->slot;
    struct ofi_ports ports;

    if (with_ports)
        ofi_ports_find(link, &ports);
    return reception_pulse(slot->device->reception, slot->endpoint, link->path.endpoint, answer,
                           with_ports ? &ports : NULL);
}

static void question(struct ofi_link *link)
{
    bool last = link->broken || link->pulse.answers >= ANSWERS_PORTS;

    ofi_link_report(link, true);
    link->pulse.asked = say(link, false, last) == 0;
}

/* So many answers, that long after the silence began, prove a cut. */
static bool is_proven(const struct ofi_link *link, bool rails, uint64_t silence_ns,
                      uint64_t look_ns)
{
    const struct ofi_pulse *pulse = &link->pulse;
    bool worked = rails ? (pulse->rails_silent & pulse->rails_proven) != 0
                        : link->received != 0 || link->sent_read != 0;

    if (link->broken)
        return pulse->answers >= ANSWERS_BROKEN;
    return pulse->answers >= ANSWERS_MIN &&
           silence_ns >= LOOKS * look_ns * (worked ? 1 : UNPROVEN_FACTOR);
}

/* What there is to look at; updates what was known before. */
static bool is_quiet(struct ofi_link *link, bool rails)
{
    struct ofi_pulse *pulse = &link->pulse;
    bool quiet = has_gap(link) || link->broken;

    if (link->state == LINK_UP)
        quiet = quiet || rails || (expects_something(link) && !has_heard_something(link));
    if (link->leaving || link->state == LINK_CLOSED || link->state == LINK_DEAD)
        quiet = false;
    pulse->unread = is_unread(link) ? pulse->unread + 1 : 0;
    if ((int32_t)(link->wanted - link->received) < 0)
        link->wanted = link->received; /* or it were ahead 2^31 packets on */
    pulse->received = link->received;
    pulse->sent_read = link->sent_read;
    pulse->held_count = link->held_count;
    pulse->heard = pulse->expects = false;
    return quiet;
}

/* A provider may have no room for remote accesses as long as a connection of theirs (a rail's) does
 * not come, and packets get through all the same: then they have to do. */
static void look_at_refusals(struct ofi_link *link)
{
    struct ofi_pulse *pulse = &link->pulse;

    pulse->refusals += pulse->refused;
    if (link->taken != pulse->taken || link->taken != link->pieces)
        pulse->refusals = 0;
    pulse->taken = link->taken;
    pulse->refused = false;
    pulse->hopeless = pulse->refusals > LOOKS;
    if (pulse->hopeless)
        ofi_remotes_give_up(link->slot, link, -EIO);
}

/* `empty`: our queue holds nothing that has not been looked at. */
static void examine(struct ofi_link *link, uint64_t now, uint64_t look_ns, bool empty)
{
    struct ofi_pulse *pulse = &link->pulse;
    bool rails = look_at_rails(pulse);
    bool quiet = is_quiet(link, rails);

    look_at_refusals(link);
    if (link->state != LINK_UP || link->leaving)
        pulse->asked = pulse->asked && quiet;
    if (!quiet && pulse->unread >= LOOKS_QUIET && link->state == LINK_UP && !link->leaving)
        ofi_link_report(link, true);
    if (!quiet || pulse->since == 0) {
        pulse->since = quiet ? now : 0;
        pulse->answers = 0;
        pulse->answered = false;
    }
    if (!quiet)
        return;
    if (pulse->answered && (empty || link->broken)) {
        pulse->answers++;
        pulse->answered = false;
    }
    if (pulse->asked || (now - pulse->since < LOOKS_QUIET * look_ns && !link->broken))
        return;
    if (is_proven(link, rails, now - pulse->since, look_ns))
        cut(link, now);
    else
        question(link);
}

/* Our queue is empty, and what was in it has been looked at. */
static void answer_all(struct ofi_slot *slot)
{
    struct list *item;

    slot->pulse_owed = false;
    list_for_each (item, &slot->links) {
        struct ofi_link *link = list_entry(item, struct ofi_link, link);

        if (!link->pulse.owed)
            continue;
        say(link, true, link->pulse.owed_ports);
        link->pulse.owed = link->pulse.owed_ports = false;
    }
}

void ofi_pulse_tend(struct ofi_slot *slot)
{
    uint64_t look_ns = slot->device->peer_timeout_ms * UINT64_C(1000000) / LOOKS;
    uint64_t now = clock_now_ns();
    struct list *item;
    bool empty;

    if (!slot->pulse_owed && now < slot->pulse_at)
        return;
    empty = !ofi_slot_has_arrivals(slot);
    if (slot->pulse_owed && empty)
        answer_all(slot);
    if (now < slot->pulse_at)
        return;
    slot->pulse_at = now + look_ns;
    ofi_remotes_expect(slot);
    list_for_each (item, &slot->links)
        examine(list_entry(item, struct ofi_link, link), now, look_ns, empty);
}

static void take_ports(struct ofi_link *link, const struct ofi_name *name)
{
    struct ofi_ports *ports = &link->ports;
    size_t bytes = name->bytes < sizeof(ports->port) ? name->bytes : sizeof(ports->port);

    ports->known_at = clock_now_ns();
    ports->count = (uint32_t)(bytes / sizeof(ports->port[0]));
    memcpy(ports->port, name->name, ports->count * sizeof(ports->port[0]));
}

void ofi_pulse_take(struct ofi_slot *slot, const struct ofi_notice *notice)
{
    struct ofi_link *link = u64map_get(&slot->map, notice->endpoint);

    if (link == NULL || notice->life != link->life)
        return;
    if (notice->count != 0)
        take_ports(link, &notice->name);
    if (notice->kind == NOTICE_PULSE) {
        link->pulse.owed = true;
        link->pulse.owed_ports = link->pulse.owed_ports || notice->count != 0;
        slot->pulse_owed = true;
        return;
    }
    link->pulse.asked = false;
    link->pulse.answered = true;
    link->pulse.beats++;
}
