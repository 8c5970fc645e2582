/*
 * Single copies: get and put between the memories of two tasks, which here is one memory.
 *
 * The bytes move when the copy completes, never before, so that a protocol which lets go of either
 * side too early is found out. A copy towards a task that has died meanwhile moves nothing.
 */
#include <errno.h>
#include <string.h>

#include "device/sim/network.h"

struct sim_copy {
    struct sim_event event;
    struct sim_endpoint *from; /* who asked; NULL: does not want to know any more */
    struct sim_link *link;
    void *target;
    const void *source;
    size_t bytes;
    struct transfer *transfer;
    int error; /* to be reported instead of copying */
    struct list list;
};

size_t sim_copy_size(void)
{
    return sizeof(struct sim_copy);
}

static void count_copy(struct sim_endpoint *from, size_t bytes)
{
    from->network->counters.copies++;
    from->network->counters.copied += bytes;
    from->port->params.counters[DEVICE_COPIED] += bytes;
    from->active = true;
}

static void completes(struct sim_network *network, struct sim_event *event)
{
    struct sim_copy *copy = container_of(event, struct sim_copy, event);

    if (copy->from == NULL) {
        pool_put(&network->copies, copy);
        return;
    }
    list_remove(&copy->list);
    list_push_back(&copy->from->finished, &copy->list);
    sim_schedule(copy->from, network->now, false);
}

/* The copy completes by an event, then in a turn of the one who asked. */
static int later(struct sim_link *link, const struct sim_level *level, const struct sim_copy *what)
{
    struct sim_endpoint *from = link->from;
    struct sim_network *network = from->network;
    uint64_t start = from->clock > network->now ? from->clock : network->now;
    struct sim_copy *copy = pool_get(&network->copies);
    struct sim_wire *wire = &from->memory;
    uint64_t end;

    if (copy == NULL)
        return -ENOMEM;
    *copy = *what;
    copy->event.happen = completes;
    copy->from = from;
    copy->link = link;
    start += level->overhead;
    from->clock = start;
    if (start < wire->out)
        start = wire->out;
    wire->out = start + (uint64_t)((double)what->bytes * level->gap_per_byte);
    end = wire->out + 2 * level->latency;
    end += sim_random_up_to(&network->random, network->rules.jitter);
    list_push_back(&from->transfers, &copy->list);
    sim_schedule_event(network, end, &copy->event);
    from->active = true;
    return -EINPROGRESS;
}

/* Inside the call, as a copy by the processor would be. */
static int at_once(struct sim_link *link, const struct sim_level *level,
                   const struct sim_copy *what, size_t *moved)
{
    struct sim_endpoint *from = link->from;
    struct sim_network *network = from->network;
    size_t bytes = what->bytes;

    if (sim_link_is_broken(link))
        return -EPIPE;
    if (what->error != 0)
        return what->error;
    /* Every fourth moves a part only. */
    if (bytes > 1 && (sim_random_next(&network->random) & 3) == 0)
        bytes = 1 + (size_t)sim_random_up_to(&network->random, bytes - 1);
    memcpy(what->target, what->source, bytes);
    if (from->clock < network->now)
        from->clock = network->now;
    from->clock += level->overhead + (uint64_t)((double)bytes * level->gap_per_byte);
    count_copy(from, bytes);
    *moved = bytes;
    return 0;
}

/* Checks and dice of both directions. Errors as device.h has them. */
static int start(struct path *base, struct sim_copy *what, size_t *moved)
{
    struct sim_path *path = (struct sim_path *)(void *)base; /* path is the first member */
    struct sim_link *link = path->link;
    struct sim_network *network = link->from->network;
    const struct sim_rules *rules = &network->rules;
    const struct sim_level *level = &rules->level[path->level];
    struct sim_random *random = &network->random;
    int error;

    if (base->closed || link->from->task->dead)
        return -EPIPE;
    if (!base->single_copy)
        return -ENOSYS;
    if (network->is_inside && sim_random_chance(random, rules->refuse)) {
        network->counters.refused++;
        sim_schedule(link->from, link->from->clock + rules->retry, false);
        return -EAGAIN;
    }
    what->error = sim_random_chance(random, rules->copy_failure) ? -EPERM : 0;
    if (rules->copy == PAMIX_SIM_COPY_NOW ||
        (rules->copy == PAMIX_SIM_COPY_MIXED && (sim_random_next(random) & 1)))
        error = at_once(link, level, what, moved);
    else
        error = later(link, level, what);
    if (link->from != network->running)
        sim_schedule(link->from, link->from->clock, false);
    return error;
}

int sim_get(struct path *path, void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer)
{
    struct sim_copy what = {
        .target = local,
        .source = (const void *)(uintptr_t)remote,
        .bytes = bytes,
        .transfer = transfer,
    };

    return start(path, &what, moved);
}

int sim_put(struct path *path, const void *local, uint64_t remote, size_t bytes, size_t *moved,
            struct transfer *transfer)
{
    struct sim_copy what = {
        .target = (void *)(uintptr_t)remote,
        .source = local,
        .bytes = bytes,
        .transfer = transfer,
    };

    return start(path, &what, moved);
}

int sim_copies_finish(struct sim_endpoint *endpoint)
{
    struct list *item;
    int count = 0;

    while (!endpoint->task->dead && (item = list_pop_front(&endpoint->finished)) != NULL) {
        struct sim_copy *copy = list_entry(item, struct sim_copy, list);
        struct transfer *transfer = copy->transfer;
        int error = sim_link_is_broken(copy->link) ? -EPIPE : copy->error;

        if (error == 0) {
            memcpy(copy->target, copy->source, copy->bytes);
            count_copy(endpoint, copy->bytes);
        }
        pool_put(&endpoint->network->copies, copy);
        endpoint->active = true;
        transfer->done(transfer, error);
        count++;
    }
    return count;
}

void sim_copies_cancel(struct sim_endpoint *endpoint)
{
    struct list *item;

    while ((item = list_pop_front(&endpoint->finished)) != NULL)
        pool_put(&endpoint->network->copies, list_entry(item, struct sim_copy, list));
    while ((item = list_pop_front(&endpoint->transfers)) != NULL)
        list_entry(item, struct sim_copy, list)->from = NULL;
}
