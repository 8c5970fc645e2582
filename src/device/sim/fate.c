/*
 * Contexts that close and tasks that die, and how others come to know.
 *
 * Tasks that destroy their contexts and create them again in step do so as often as one another,
 * but not at the same time: each counts how often it has. A destination that is closed, and has not
 * ended more lives than this task, will be there again, and what is sent waits for that. One that
 * has ended fewer is about to do so: its present contexts get nothing, unless they have sent
 * something themselves or keep on for PAMI_BEHIND_TIMEOUT. One that has ended more has gone.
 *
 * Who has a path to a destination that goes is told once: through tend, some time later, and not
 * before everything that came from there has been delivered or lost. Until then sending goes on as
 * if nothing had happened; afterwards am answers -EPIPE.
 */
#include <errno.h>

#include "device/sim/network.h"
#include "util/option.h"

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

/* What was scheduled comes true, unless the destination is there again, or the owner is another. */
static void notice(struct sim_network *network, struct sim_event *event)
{
    struct sim_link *link = container_of(event, struct sim_link, notice);

    link->is_noticed = false;
    if (list_empty(&link->watch) || !sim_link_is_broken(link) || !list_empty(&link->gone))
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

static void tell_watchers(struct sim_endpoint *endpoint)
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

/* The life of the destination that is, or that comes next. */
static uint32_t present_life(const struct sim_endpoint *to)
{
    return to->port != NULL ? to->life : to->life + 1;
}

static bool has_left(const struct sim_endpoint *to, const struct sim_task *from)
{
    return to->task->dead || (to->port == NULL &&
                              (to->task->left || (to->life != 0 && to->task->ended > from->ended)));
}

/* The life that the link leads to has gone, and everybody may know. */
static bool is_known(const struct sim_link *link)
{
    const struct sim_task *task = link->to->task;

    return link->is_reported || (nothing_comes_back(link) && (!task->dead || is_old_news(task)));
}

int sim_link_watch(struct sim_link *link, unsigned how)
{
    struct sim_network *network = link->from->network;
    const struct sim_endpoint *to = link->to;
    const struct sim_task *from = link->from->task;
    bool is_over = (how & PATH_SAME_LIFE) != 0 && to->task->ended > from->ended;

    if (!list_empty(&link->watch)) /* the other one of its paths is in use */
        return 0;
    is_over = is_over || has_left(to, from);
    if (is_over && (how & PATH_EVEN_CLOSED) == 0 && is_known(link))
        return -EPIPE;
    link->life = present_life(to) - is_over;
    if (is_over)
        schedule_notice(link, network->now + (to->task->dead ? detection(network) : goodbye(link)));
    link->waits = !is_over && (how & PATH_HEARD) == 0 && to->task->ended < from->ended;
    if (link->waits) {
        link->life = to->life + 1;
        link->patience = network->now + sim_picoseconds(option_seconds(OPT_BEHIND_TIMEOUT));
    }
    link->is_reported = false;
    list_push_back(&link->to->watchers, &link->watch);
    return 0;
}

bool sim_link_waits(struct sim_link *link)
{
    if (link->waits && (sim_link_is_broken(link) || link->from->network->now >= link->patience)) {
        link->waits = false;
        link->life = present_life(link->to);
    }
    return link->waits;
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

/* ---- lives ---- */

void sim_begins(struct sim_endpoint *endpoint)
{
    endpoint->life++;
    endpoint->task->open++;
}

/* The task has ended its contexts once more: who has waited for that sends to the next ones. */
static void resume_watchers(struct sim_endpoint *endpoint)
{
    struct list *item;

    list_for_each (item, &endpoint->watchers) {
        struct sim_link *link = list_entry(item, struct sim_link, watch);

        if (!link->waits || endpoint->task->ended < link->from->task->ended)
            continue;
        link->waits = false;
        link->life = endpoint->life + 1;
        sim_schedule(link->from, endpoint->network->now, false);
    }
}

static void for_each_of_task(struct sim_task *task, void (*visit)(struct sim_endpoint *endpoint))
{
    for (uint32_t i = 0; i < task->network->rules.contexts; i++) {
        struct sim_endpoint *endpoint = sim_endpoint_find(task->network, task->bootstrap.task, i);

        if (endpoint != NULL)
            visit(endpoint);
    }
}

void sim_ends(struct sim_endpoint *endpoint)
{
    struct sim_task *task = endpoint->task;

    if (--task->open == 0) {
        task->ended++;
        for_each_of_task(task, resume_watchers);
    }
    if (!task->dead)
        tell_watchers(endpoint);
}

static void leaves_at(struct sim_endpoint *endpoint)
{
    if (endpoint->port == NULL)
        tell_watchers(endpoint);
}

void sim_leaves(struct sim_task *task)
{
    task->left = true;
    if (!task->dead)
        for_each_of_task(task, leaves_at);
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
    tell_watchers(endpoint);
}

void sim_kill(struct sim_task *task)
{
    struct sim_network *network = task->network;

    if (task->dead)
        return;
    task->dead = true;
    task->died = network->now;
    network->counters.deaths++;
    for_each_of_task(task, die_at);
}

void sim_death(struct sim_network *network, struct sim_event *event)
{
    (void)network;
    sim_kill(container_of(event, struct sim_task, death));
}
