/*
 * Contexts that close and tasks that die, and how others come to know.
 *
 * Who has a path to a destination that goes is told once: through tend, some time later, and not
 * before everything that came from there has been delivered or lost. Until then sending goes on as
 * if nothing had happened; afterwards am answers -EPIPE.
 */
#include <errno.h>

#include "device/sim/network.h"

/* Others know of a death between once and twice the time of detection later. */
static uint64_t detection(struct sim_network *network)
{
    uint64_t detect = network->rules.detect;

    return detect + sim_random_up_to(&network->random, detect);
}

/* An orderly end is known after the time that a packet takes. */
static uint64_t goodbye(const struct sim_link *link)
{
    return link->from->network->rules.level[link->usual.level].latency;
}

/* What was scheduled comes true, unless the destination is there again. */
static void notice(struct sim_network *network, struct sim_event *event)
{
    struct sim_link *link = container_of(event, struct sim_link, notice);

    link->is_noticed = false;
    if (link->from->port == NULL || !sim_link_is_broken(link) || !list_empty(&link->gone) ||
        link->is_reported)
        return;
    list_push_back(&link->from->gone, &link->gone);
    sim_schedule(link->from, network->now, false);
}

/* One notice per link at a time: the first one says it all. */
static void schedule_notice(struct sim_link *link, uint64_t time)
{
    if (link->is_noticed)
        return;
    link->is_noticed = true;
    link->notice.happen = notice;
    sim_schedule_event(link->from->network, time, &link->notice);
}

void sim_tell_watchers(struct sim_endpoint *endpoint)
{
    struct sim_network *network = endpoint->network;
    struct list *item;

    if (network->is_ending)
        return;
    list_for_each (item, &endpoint->watchers) {
        struct sim_link *link = list_entry(item, struct sim_link, watch);

        schedule_notice(link,
                        network->now + (endpoint->task->dead ? detection(network) : goodbye(link)));
    }
}

/* Everything that the destination has sent along the other direction has been seen. */
static bool nothing_comes_back(const struct sim_link *link)
{
    const struct sim_link *back = u64map_get(&link->to->map, link->from->endpoint);

    return back == NULL || back->in_flight == 0;
}

/* Enough time has passed for everybody to know that the task is dead. */
static bool is_old_news(const struct sim_task *task)
{
    return task->network->now - task->died >= 2 * task->network->rules.detect;
}

int sim_link_watch(struct sim_link *link, unsigned how)
{
    struct sim_network *network = link->from->network;
    const struct sim_endpoint *to = link->to;
    bool is_dead = to->task->dead;
    bool is_closed = to->life != 0 && to->port == NULL;

    link->life = to->life != 0 ? to->life : 1;
    if (is_dead || is_closed) {
        bool is_known =
            link->is_reported || (nothing_comes_back(link) && (!is_dead || is_old_news(to->task)));

        if (is_known && (how & PATH_EVEN_CLOSED) == 0)
            return -EPIPE;
        schedule_notice(link, network->now + (is_dead ? detection(network) : goodbye(link)));
    }
    link->is_reported = false;
    if (list_empty(&link->watch))
        list_push_back(&link->to->watchers, &link->watch);
    return 0;
}

void sim_link_rest(struct sim_link *link)
{
    if (!list_empty(&link->wait)) {
        list_remove(&link->wait);
        link->from->waiting--;
        if (list_empty(&link->to->waiters))
            list_remove(&link->to->crowded);
    }
    list_remove(&link->watch);
    list_remove(&link->gone);
}

/* A link whose destination has gone and from where nothing is to come any more. */
static struct sim_link *first_to_report(const struct sim_endpoint *endpoint)
{
    struct list *item;

    list_for_each (item, &endpoint->gone) {
        struct sim_link *link = list_entry(item, struct sim_link, gone);

        if (nothing_comes_back(link))
            return link;
    }
    return NULL;
}

void sim_tend(struct port *port, void (*gone)(void *context, uint32_t endpoint))
{
    struct sim_endpoint *endpoint = sim_endpoint_of(port);
    struct sim_link *link;

    while ((link = first_to_report(endpoint)) != NULL) {
        sim_link_rest(link);
        link->is_reported = true;
        link->usual.path.closed = true;
        link->packets.path.closed = true;
        endpoint->active = true;
        gone(port->params.context, link->to->endpoint);
    }
}

/* ---- death ---- */

/* What the task's death means to one of its endpoints. Its inbox stays as it is, unread. */
static void die_at(struct sim_endpoint *endpoint)
{
    struct sim_network *network = endpoint->network;
    struct list *item;

    list_for_each (item, &endpoint->links) {
        struct sim_link *link = list_entry(item, struct sim_link, own);

        link->cut = (sim_random_next(&network->random) & 1) != 0;
        sim_link_rest(link);
    }
    sim_tell_watchers(endpoint);
}

void sim_kill(struct sim_task *task)
{
    struct sim_network *network = task->network;

    if (task->dead)
        return;
    task->dead = true;
    task->died = network->now;
    network->counters.deaths++;
    for (uint32_t i = 0; i < network->rules.contexts; i++) {
        struct sim_endpoint *endpoint = sim_endpoint_find(network, task->bootstrap.task, i);

        if (endpoint != NULL)
            die_at(endpoint);
    }
}

void sim_death(struct sim_network *network, struct sim_event *event)
{
    (void)network;
    sim_kill(container_of(event, struct sim_task, death));
}
