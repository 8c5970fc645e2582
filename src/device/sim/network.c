/*
 * The network as a whole: making it, its time, and whose turn is next. See network.h.
 */
#include "device/sim/network.h"

#include <errno.h>
#include <stdlib.h>

#include "util/log.h"

#define TASK_BITS 24

/* Looks that find nothing come at intervals of this part of the time since they began. */
#define POLL_PART 16

/* When nothing but looks has happened for this long, nothing will: one minute. */
#define PATIENCE (UINT64_C(60) * 1000000000000)

/* ---- making ---- */

/* The tasks that die by seed: drawn until there are enough different ones. */
static void choose_dead(struct sim_network *network, const pamix_sim_config_t *config)
{
    for (size_t i = 0; i < config->dead_count; i++) {
        struct sim_task *task;
        double spread = sim_random_unit(&network->random) * config->dead_spread;

        do {
            uint64_t any = sim_random_up_to(&network->random, network->task_count - 1);

            task = &network->tasks[config->dead != NULL ? config->dead[i] : any];
        } while (config->dead == NULL && task->death.happen != NULL);
        task->death.happen = sim_death;
        sim_schedule_event(network, sim_picoseconds(config->dead_time + spread), &task->death);
    }
}

/* Tables of the size of the job; all else is made when it is mentioned. */
static int allocate(struct sim_network *network)
{
    const struct sim_rules *rules = &network->rules;
    size_t tasks = network->task_count;
    size_t nodes = (tasks + rules->tasks_per_node - 1) / rules->tasks_per_node;

    network->tasks = calloc(tasks, sizeof(*network->tasks));
    network->endpoints = calloc(tasks * rules->contexts, sizeof(*network->endpoints));
    network->nodes = calloc(nodes, sizeof(*network->nodes));
    network->identity = calloc(tasks, sizeof(*network->identity));
    if (network->tasks == NULL || network->endpoints == NULL || network->nodes == NULL ||
        network->identity == NULL)
        return -ENOMEM;
    return 0;
}

int sim_network_create(const struct sim_rules *rules, const pamix_sim_config_t *config,
                       uint32_t tasks, struct sim_network **out)
{
    struct sim_network *network = calloc(1, sizeof(*network));

    if (network == NULL)
        return -ENOMEM;
    network->rules = *rules;
    network->task_count = tasks;
    network->references = 1;
    list_init(&network->ready);
    list_init(&network->crowded);
    atomic_init(&network->woken, NULL);
    pthread_mutex_init(&network->heap_lock, NULL);
    sim_random_seed(&network->random, config->seed);
    for (unsigned i = 0; i < SIM_SIZE_CLASSES; i++)
        pool_init(&network->packets[i], sizeof(struct sim_packet) + ((size_t)64 << i), 0);
    pool_init(&network->copies, sim_copy_size(), 0);
    if (allocate(network) != 0) {
        sim_network_release(network);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < tasks; i++) {
        struct sim_task *task = &network->tasks[i];

        network->identity[i] = i;
        task->network = network;
        task->slow = sim_random_chance(&network->random, config->slow);
        sim_identity_fill(network, i);
    }
    choose_dead(network, config);
    *out = network;
    return 0;
}

static void endpoint_free(struct sim_endpoint *endpoint)
{
    struct list *item;

    while ((item = list_pop_front(&endpoint->links)) != NULL)
        free(list_entry(item, struct sim_link, own));
    u64map_finish(&endpoint->map);
    free(endpoint);
}

void sim_network_release(struct sim_network *network)
{
    size_t count = (size_t)network->task_count * network->rules.contexts;

    if (--network->references != 0)
        return;
    for (size_t i = 0; network->endpoints != NULL && i < count; i++)
        if (network->endpoints[i] != NULL)
            endpoint_free(network->endpoints[i]);
    for (uint32_t i = 0; network->tasks != NULL && i < network->task_count; i++)
        sim_heap_destroy(&network->tasks[i]);
    for (unsigned i = 0; i < SIM_SIZE_CLASSES; i++)
        pool_finish(&network->packets[i]);
    pool_finish(&network->copies);
    sim_queue_finish(&network->queue);
    pthread_mutex_destroy(&network->heap_lock);
    free(network->tasks);
    free(network->endpoints);
    free(network->nodes);
    free(network->identity);
    free(network);
}

/* A scheduled turn is due, unless it has become another one since. */
static void turn_happens(struct sim_network *network, struct sim_event *event)
{
    struct sim_endpoint *endpoint = container_of(event, struct sim_endpoint, turn);

    if (endpoint->is_ready || endpoint->turn_at != network->now)
        return;
    endpoint->is_ready = true;
    list_push_back(&network->ready, &endpoint->ready);
}

static struct sim_endpoint *endpoint_new(struct sim_network *network, uint32_t number)
{
    struct sim_endpoint *endpoint = calloc(1, sizeof(*endpoint));

    if (endpoint == NULL)
        return NULL;
    endpoint->turn.happen = turn_happens;
    endpoint->network = network;
    endpoint->task = &network->tasks[number & ((1u << TASK_BITS) - 1)];
    endpoint->endpoint = number;
    endpoint->turn_at = SIM_NEVER;
    endpoint->poll_from = SIM_NEVER;
    list_init(&endpoint->ready);
    list_init(&endpoint->links);
    list_init(&endpoint->watchers);
    list_init(&endpoint->waiters);
    list_init(&endpoint->crowded);
    list_init(&endpoint->gone);
    list_init(&endpoint->transfers);
    list_init(&endpoint->finished);
    atomic_init(&endpoint->is_woken, false);
    return endpoint;
}

struct sim_endpoint *sim_endpoint_get(struct sim_network *network, uint32_t number)
{
    uint32_t task = number & ((1u << TASK_BITS) - 1);
    uint32_t offset = number >> TASK_BITS;
    struct sim_endpoint **place;

    if (task >= network->task_count || offset >= network->rules.contexts)
        return NULL;
    place = &network->endpoints[(size_t)task * network->rules.contexts + offset];
    if (*place == NULL)
        *place = endpoint_new(network, number);
    return *place;
}

/* ---- time ---- */

/* Its contexts may be at different times; the task as a whole never goes back. */
double sim_task_now(void *cookie)
{
    struct sim_task *task = cookie;
    const struct sim_network *network = task->network;
    const struct sim_endpoint *running = network->running;
    uint64_t now = network->now;

    if (running != NULL && running->task == task && running->clock > now)
        now = running->clock;
    if (now > task->latest)
        task->latest = now;
    return (double)task->latest * 1e-12;
}

void sim_schedule_event(struct sim_network *network, uint64_t time, struct sim_event *event)
{
    if (sim_queue_push(&network->queue, time < network->now ? network->now : time, event) == 0)
        return;
    log_error("simulation: out of memory: something happens too early");
    event->happen(network, event);
}

static void make_ready(struct sim_endpoint *endpoint)
{
    endpoint->is_ready = true;
    list_push_back(&endpoint->network->ready, &endpoint->ready);
}

/*
 * At most one turn is valid per endpoint: the one at turn_at. A row of the queue that says
 * otherwise is left over from a later appointment. Turns of this very instant go to the list of the
 * ready, which is looked at when everything else that happens now has happened: a context then
 * finds all packets of the instant at once.
 */
void sim_schedule(struct sim_endpoint *endpoint, uint64_t time, bool soft)
{
    struct sim_network *network = endpoint->network;

    if (endpoint->port == NULL || endpoint->task->dead)
        return;
    if (time < endpoint->clock)
        time = endpoint->clock;
    if (time < network->now)
        time = network->now;
    if (endpoint->turn_at <= time) {
        endpoint->soft = endpoint->soft && soft;
        return;
    }
    endpoint->soft = soft;
    endpoint->turn_at = time;
    if (endpoint->is_ready)
        return;
    if (time == network->now || sim_queue_push(&network->queue, time, &endpoint->turn) != 0)
        make_ready(endpoint);
}

void sim_wake(struct sim_endpoint *endpoint)
{
    struct sim_network *network = endpoint->network;
    struct sim_endpoint *top;

    if (atomic_exchange_explicit(&endpoint->is_woken, true, memory_order_acq_rel))
        return;
    top = atomic_load_explicit(&network->woken, memory_order_relaxed);
    do {
        endpoint->next_woken = top;
    } while (!atomic_compare_exchange_weak_explicit(&network->woken, &top, endpoint,
                                                    memory_order_release, /* W1 */
                                                    memory_order_relaxed));
}

/* Schedules those that were woken, oldest first. W2 pairs with W1. */
static void take_woken(struct sim_network *network)
{
    struct sim_endpoint *stack =
        atomic_exchange_explicit(&network->woken, NULL, memory_order_acquire); /* W2 */
    struct sim_endpoint *first = NULL;

    while (stack != NULL) {
        struct sim_endpoint *next = stack->next_woken;

        stack->next_woken = first;
        first = stack;
        stack = next;
    }
    while (first != NULL) {
        struct sim_endpoint *endpoint = first;

        first = endpoint->next_woken;
        atomic_store_explicit(&endpoint->is_woken, false, memory_order_release);
        sim_schedule(endpoint, network->now, false);
    }
}

/* ---- turns ---- */

/* The first of those whose turn is now and who can take it. */
static struct sim_endpoint *take_ready(struct sim_network *network)
{
    struct list *item;

    while ((item = list_pop_front(&network->ready)) != NULL) {
        struct sim_endpoint *endpoint = list_entry(item, struct sim_endpoint, ready);
        bool soft = endpoint->soft;

        endpoint->is_ready = false;
        endpoint->turn_at = SIM_NEVER;
        if (endpoint->port == NULL || endpoint->task->dead)
            continue;
        if (endpoint->clock < network->now)
            endpoint->clock = network->now;
        endpoint->active = false;
        network->running = endpoint;
        network->counters.events++;
        network->counters.turns++;
        if (!soft)
            network->progress = network->now;
        return endpoint;
    }
    return NULL;
}

/* True when something other than looks is still to come. */
static bool expects_more(const struct sim_network *network)
{
    for (size_t i = 0; i < network->queue.count; i++) {
        struct sim_event *event = network->queue.rows[i].event;
        const struct sim_endpoint *endpoint;

        if (event->happen != turn_happens)
            return true;
        endpoint = container_of(event, struct sim_endpoint, turn);
        if (!endpoint->soft && endpoint->turn_at == network->queue.rows[i].time)
            return true;
    }
    return false;
}

/* Looks go on for ever by themselves. */
static bool is_out_of_patience(struct sim_network *network)
{
    if (network->now - network->progress < PATIENCE)
        return false;
    if (!expects_more(network))
        return true;
    network->progress = network->now;
    return false;
}

enum sim_next sim_next(struct sim_network *network, uint64_t until, uint64_t events,
                       struct sim_endpoint **endpoint)
{
    for (;;) {
        struct sim_event *event;
        uint64_t time;

        if (network->counters.events >= events)
            return SIM_NEXT_LIMIT;
        if (atomic_load_explicit(&network->woken, memory_order_relaxed) != NULL)
            take_woken(network);
        time = sim_queue_time(&network->queue);
        if (time > network->now) {
            *endpoint = take_ready(network);
            if (*endpoint != NULL)
                return SIM_NEXT_TURN;
        }
        if (time == SIM_NEVER || is_out_of_patience(network))
            return SIM_NEXT_QUIET;
        if (time > until) {
            network->now = until;
            return SIM_NEXT_LIMIT;
        }
        if (time > network->now)
            network->now = time;
        network->counters.events++;
        event = sim_queue_pop(&network->queue);
        event->happen(network, event);
    }
}

/* The next look at something that nobody will announce: the longer it takes, the rarer. */
static void schedule_look(struct sim_endpoint *endpoint)
{
    uint64_t pause;

    if (endpoint->poll_from == SIM_NEVER)
        endpoint->poll_from = endpoint->clock;
    pause = (endpoint->clock - endpoint->poll_from) / POLL_PART;
    if (pause < SIM_LEAST_PAUSE)
        pause = SIM_LEAST_PAUSE;
    else if (pause > PATIENCE) /* or time runs out where many runs end with somebody waiting */
        pause = PATIENCE;
    sim_schedule(endpoint, endpoint->clock + pause, true);
}

void sim_turn_end(struct sim_endpoint *endpoint, const struct sim_turn *turn)
{
    struct sim_network *network = endpoint->network;
    uint64_t ready;

    network->running = NULL;
    if (endpoint->task->slow)
        endpoint->clock += sim_random_up_to(&network->random, network->rules.slow_delay);
    if (turn->events != 0 || endpoint->active) {
        endpoint->poll_from = SIM_NEVER;
        network->progress = network->now;
    }
    /* Time must pass, or a function that posts itself for ever would stop the others. */
    if (turn->wants_more) {
        sim_schedule(endpoint, endpoint->clock + (endpoint->active ? 0 : SIM_LEAST_PAUSE), false);
        return;
    }
    ready = sim_inbox_ready(endpoint);
    if (ready != SIM_NEVER && !turn->is_deaf)
        sim_schedule(endpoint, ready, false);
    if (turn->looks && endpoint->turn_at == SIM_NEVER && endpoint->waiting == 0 &&
        list_empty(&endpoint->transfers))
        schedule_look(endpoint);
}

size_t sim_wake_waiters(struct sim_network *network)
{
    struct list *crowd, *item;
    size_t count = 0;

    while ((crowd = list_pop_front(&network->crowded)) != NULL) {
        struct sim_endpoint *to = list_entry(crowd, struct sim_endpoint, crowded);

        while ((item = list_pop_front(&to->waiters)) != NULL) {
            struct sim_endpoint *from = list_entry(item, struct sim_link, wait)->from;

            from->waiting--;
            sim_schedule(from, network->now, false);
            count++;
        }
    }
    return count;
}
