/*
 * Packets of the simulated network: out of one port, through time, into another's inbox.
 *
 * LogGP: a packet takes the sender's processor for o, its port for max(g, G * bytes), travels for L
 * and what the configuration adds, takes the receiver's port for max(g, G * bytes) and, when it is
 * delivered, its processor for o. Packets of one link never overtake one another; of others they
 * may. A packet counts against the destination's limit from its acceptance to its delivery.
 */
#include <errno.h>
#include <string.h>

#include "device/sim/network.h"
#include "util/cpu.h"
#include "util/minmax.h"

/* Packets delivered per advance at most. */
#define ADVANCE_BATCH 32
/* Before a packet that found no memory is tried again, ps. */
#define NO_MEMORY_PAUSE 1000000u

_Static_assert(sizeof(struct sim_packet) % 8 == 0, "bodies are aligned to 8");

static struct sim_path *path_of(struct path *path)
{
    return (struct sim_path *)(void *)path; /* path is the first member */
}

static char *body_of(struct sim_packet *packet)
{
    return (char *)(packet + 1);
}

unsigned sim_level_between(const struct sim_rules *rules, uint32_t a, uint32_t b)
{
    if (a / rules->tasks_per_core == b / rules->tasks_per_core)
        return PAMIX_SIM_CORE;
    a /= rules->tasks_per_node;
    b /= rules->tasks_per_node;
    if (a == b)
        return PAMIX_SIM_NODE;
    return a / rules->nodes_per_switch == b / rules->nodes_per_switch ? PAMIX_SIM_SWITCH
                                                                      : PAMIX_SIM_SYSTEM;
}

/* 0: memory, 1: the network. */
static unsigned kind_of(unsigned level)
{
    return level >= PAMIX_SIM_SWITCH;
}

/* The port through which the endpoint's packets of this level go and come. */
static struct sim_wire *wire_of(struct sim_endpoint *endpoint, unsigned level)
{
    struct sim_network *network = endpoint->network;

    if (kind_of(level) == 0)
        return &endpoint->memory;
    if (!network->rules.node_ports)
        return &endpoint->network_port;
    return &network->nodes[endpoint->task->bootstrap.node];
}

/* How long `bytes` of a body occupy a port. */
static uint64_t transfer_time(const struct sim_level *level, uint32_t bytes)
{
    return (uint64_t)((double)(bytes + sizeof(struct packet_header)) * level->gap_per_byte);
}

/* ---- memory ---- */

/* Room for a body of this size, from the pool of the next power of two; NULL without memory. */
static struct sim_packet *packet_new(struct sim_network *network, uint32_t body)
{
    struct sim_packet *packet;
    unsigned size_class = 0;

    while ((UINT32_C(64) << size_class) < body)
        size_class++;
    packet = pool_get(&network->packets[size_class]);
    if (packet != NULL)
        packet->size_class = (uint8_t)size_class;
    return packet;
}

static void packet_free(struct sim_network *network, struct sim_packet *packet)
{
    pool_put(&network->packets[packet->size_class], packet);
}

/* ---- room ---- */

/*
 * A packet to this endpoint does not count any more: somebody else's may. One waiter is called per
 * packet, the one that has waited longest. Should it not come, because it has nothing to send any
 * more, the others are called before the run ends (sim_wake_waiters).
 */
static void make_room(struct sim_endpoint *to)
{
    struct list *item;
    struct sim_link *link;

    to->held--;
    item = list_pop_front(&to->waiters);
    if (item == NULL)
        return;
    link = list_entry(item, struct sim_link, wait);
    link->from->waiting--;
    sim_schedule(link->from, to->clock, false);
    if (list_empty(&to->waiters))
        list_remove(&to->crowded);
}

/* The link's owner gets a turn when a packet leaves the destination. */
static void wait_for_room(struct sim_link *link)
{
    struct sim_endpoint *to = link->to;

    if (!list_empty(&link->wait))
        return;
    if (list_empty(&to->waiters))
        list_push_back(&to->network->crowded, &to->crowded);
    list_push_back(&to->waiters, &link->wait);
    link->from->waiting++;
}

/* 0, or why the packet cannot be taken now. */
static int refuse(struct sim_link *link, uint32_t body)
{
    struct sim_endpoint *from = link->from;
    struct sim_network *network = from->network;
    uint64_t *counters = from->port->params.counters;

    /* Outside of a run contexts drain, as often as the real clock allows: nothing is drawn. */
    if (network->is_inside && sim_random_chance(&network->random, network->rules.refuse)) {
        network->counters.refused++;
        counters[DEVICE_REFUSED]++;
        sim_schedule(from, larger(from->clock, network->now) + network->rules.retry, false);
        return body > PACKET_SMALL && (sim_random_next(&network->random) & 1) ? -ENOBUFS : -EAGAIN;
    }
    if (network->rules.queue != 0 && link->to->held >= network->rules.queue) {
        network->counters.full++;
        counters[DEVICE_REFUSED]++;
        wait_for_room(link);
        return -EAGAIN;
    }
    return 0;
}

/* ---- arriving ---- */

static void inbox_push(struct sim_inbox *inbox, struct sim_packet *packet)
{
    packet->next = NULL;
    if (inbox->last != NULL)
        inbox->last->next = packet;
    else
        inbox->first = packet;
    inbox->last = packet;
}

/* The packet is dropped. The report that its sender has gone may have waited for this. */
static void lose(struct sim_network *network, struct sim_packet *packet)
{
    struct sim_endpoint *to = packet->link->to;

    network->counters.lost++;
    packet->link->in_flight--;
    make_room(to);
    packet_free(network, packet);
    if (!list_empty(&to->gone))
        sim_schedule(to, network->now, false);
}

/* At the receiver's port, which takes packets in the order of their arrival. */
static void arrives(struct sim_network *network, struct sim_event *event)
{
    struct sim_packet *packet = container_of(event, struct sim_packet, event);
    struct sim_link *link = packet->link;
    struct sim_endpoint *to = link->to;
    const struct sim_level *level = &network->rules.level[packet->level];
    struct sim_wire *wire = wire_of(to, packet->level);
    uint64_t start = larger(network->now, wire->in);
    uint64_t time = transfer_time(level, packet_body_bytes(&packet->head));

    if (link->cut || to->task->dead || to->life > packet->life ||
        (to->life == packet->life && to->port == NULL)) {
        lose(network, packet);
        return;
    }
    wire->in = start + larger(time, level->gap);
    packet->ready = larger(start + time, link->last_ready);
    packet->order = network->arrivals++;
    link->last_ready = packet->ready;
    inbox_push(&to->inbox[kind_of(packet->level)], packet);
    sim_schedule(to, packet->ready, false);
}

/* ---- sending ---- */

/*
 * Hands a packet to the wire: the processor is busy first, then the port as soon as it is free.
 * Whatever delay was drawn, a link keeps its order. 0, or -ENOMEM with nothing changed.
 */
static int submit(struct sim_packet *packet, unsigned level_name)
{
    struct sim_link *link = packet->link;
    struct sim_endpoint *from = link->from;
    struct sim_network *network = from->network;
    const struct sim_rules *rules = &network->rules;
    const struct sim_level *level = &rules->level[level_name];
    struct sim_wire *wire = wire_of(from, level_name);
    uint64_t start = larger(larger(from->clock, network->now) + level->overhead, wire->out);
    uint64_t arrival = start + level->latency;

    arrival += sim_random_up_to(&network->random, rules->jitter);
    if (sim_random_chance(&network->random, rules->reorder)) {
        arrival += sim_random_up_to(&network->random, rules->reorder_delay);
        network->counters.reordered++;
    }
    arrival = larger(arrival, link->last_arrival);
    packet->event.happen = arrives;
    packet->level = (uint8_t)level_name;
    packet->life = link->life;
    if (sim_queue_push(&network->queue, arrival, &packet->event) != 0)
        return -ENOMEM;
    from->clock = larger(from->clock, network->now) + level->overhead;
    wire->out = start + larger(transfer_time(level, packet_body_bytes(&packet->head)), level->gap);
    link->last_arrival = arrival;
    link->in_flight++;
    link->to->held++;
    return 0;
}

/* A dead task's context is still inside its last turn, or the simulation ends. */
static bool goes_nowhere(const struct sim_endpoint *from)
{
    return from->task->dead || from->network->is_ending;
}

/* The body is written last: a packet's fill function is called for accepted packets only. */
static int accept_packet(struct sim_path *path, const struct packet *packet, uint32_t body)
{
    struct sim_network *network = path->link->from->network;
    struct sim_packet *copy = packet_new(network, body);
    int error;

    if (copy == NULL) {
        sim_schedule(path->link->from, network->now + NO_MEMORY_PAUSE, false);
        return -EAGAIN;
    }
    copy->link = path->link;
    copy->head = packet->head;
    error = submit(copy, path->level);
    if (error != 0) {
        packet_free(network, copy);
        return error;
    }
    packet_write_body(body_of(copy), packet);
    return 0;
}

int sim_am(struct path *base, const struct packet *packet)
{
    struct sim_path *path = path_of(base);
    struct sim_link *link = path->link;
    struct sim_endpoint *from = link->from;
    uint32_t body = packet_body_bytes(&packet->head);
    int error;

    if (body > base->packet_max)
        return -EMSGSIZE;
    if (base->closed)
        return -EPIPE;
    if (goes_nowhere(from))
        return 0;
    error = sim_link_waits(link) ? -EAGAIN : refuse(link, body);
    if (error == 0)
        error = accept_packet(path, packet, body);
    if (error != 0)
        return error;
    from->port->params.counters[DEVICE_SENT]++;
    from->port->params.counters[DEVICE_SENT_BYTES] += body;
    from->active = true;
    if (from != from->network->running)
        sim_schedule(from, from->clock, false);
    return 0;
}

/* ---- delivering ---- */

/* The inbox whose first packet is the next one, or NULL. */
static struct sim_inbox *next_inbox(struct sim_endpoint *endpoint)
{
    struct sim_inbox *memory = &endpoint->inbox[0];
    struct sim_inbox *network = &endpoint->inbox[1];

    if (memory->first == NULL)
        return network->first != NULL ? network : NULL;
    if (network->first == NULL)
        return memory;
    if (memory->first->ready != network->first->ready)
        return memory->first->ready < network->first->ready ? memory : network;
    return memory->first->order < network->first->order ? memory : network;
}

static struct sim_packet *inbox_pop(struct sim_inbox *inbox)
{
    struct sim_packet *packet = inbox->first;

    inbox->first = packet->next;
    if (inbox->first == NULL)
        inbox->last = NULL;
    return packet;
}

uint64_t sim_inbox_ready(const struct sim_endpoint *endpoint)
{
    uint64_t ready = SIM_NEVER;

    for (unsigned i = 0; i < 2; i++)
        if (endpoint->inbox[i].first != NULL && endpoint->inbox[i].first->ready < ready)
            ready = endpoint->inbox[i].first->ready;
    return ready;
}

void sim_inbox_flush(struct sim_endpoint *endpoint)
{
    struct sim_inbox *inbox;

    while ((inbox = next_inbox(endpoint)) != NULL)
        lose(endpoint->network, inbox_pop(inbox));
}

static void inbox_push_front(struct sim_inbox *inbox, struct sim_packet *packet)
{
    packet->next = inbox->first;
    inbox->first = packet;
    if (inbox->last == NULL)
        inbox->last = packet;
}

/* Everything that a test may want to be the same in two runs goes into the digest. */
static void record(struct sim_network *network, const struct sim_packet *packet, uint64_t time)
{
    const struct sim_link *link = packet->link;
    uint64_t pair = (uint64_t)link->from->endpoint << 32 | link->to->endpoint;
    uint64_t what = (uint64_t)packet->head.protocol << 48 |
                    (uint64_t)packet->head.header_bytes << 32 | packet_body_bytes(&packet->head);
    uint64_t digest = network->digest;

    digest = sim_mix(digest ^ time);
    digest = sim_mix(digest ^ pair);
    network->digest = sim_mix(digest ^ what);
    network->counters.packets++;
    network->counters.bytes += packet_body_bytes(&packet->head);
}

/* False: the inbox's first packet stays there. */
static bool deliver(struct sim_endpoint *endpoint, struct sim_inbox *inbox)
{
    struct sim_packet *packet = inbox_pop(inbox);
    struct sim_network *network = endpoint->network;
    const struct port_params *params = &endpoint->port->params;

    endpoint->clock += network->rules.level[packet->level].overhead;
    endpoint->active = true;
    record(network, packet, endpoint->clock);
    make_room(endpoint);
    /* Still in flight: a path opened by the handler must not find its sender gone already. */
    endpoint->put_back = false;
    endpoint->delivering = true;
    params->deliver(params->context, &packet->head, body_of(packet));
    endpoint->delivering = false;
    if (unlikely(endpoint->put_back)) {
        endpoint->held++;
        inbox_push_front(inbox, packet);
        return false;
    }
    packet->link->in_flight--;
    packet_free(network, packet);
    return true;
}

bool sim_put_back(struct port *base)
{
    struct sim_endpoint *endpoint = sim_endpoint_of(base);

    endpoint->put_back = endpoint->delivering;
    return endpoint->delivering;
}

int sim_advance(struct port *base)
{
    struct sim_endpoint *endpoint = sim_endpoint_of(base);
    struct sim_inbox *inbox;
    int packets = 0;
    int count;

    if (endpoint->task->dead)
        return 0;
    if (endpoint->clock < endpoint->network->now)
        endpoint->clock = endpoint->network->now;
    count = sim_copies_finish(endpoint);
    /* The clock moves with each delivery, so packets that become ready meanwhile are taken too. */
    while (packets < ADVANCE_BATCH && !endpoint->task->dead &&
           (inbox = next_inbox(endpoint)) != NULL && inbox->first->ready <= endpoint->clock) {
        if (!deliver(endpoint, inbox))
            break;
        packets++;
    }
    base->params.counters[DEVICE_RECEIVED] += (uint64_t)packets;
    return count + packets;
}

bool sim_pending(struct port *base)
{
    const struct sim_endpoint *endpoint = sim_endpoint_of(base);

    return !list_empty(&endpoint->finished) || sim_inbox_ready(endpoint) <= endpoint->clock;
}
