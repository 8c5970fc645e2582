/*
 * The sim device: tasks of one process, through a simulated network (network.h).
 *
 * Not in the device table: only clients that PAMIX_Sim_create makes have it. Its private parameter
 * is the struct sim_task of the client.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/sim/network.h"

/* Relative cost for reach: there is no other device. */
#define COST 1

struct sim_device {
    struct device device;
    struct sim_task *task;
};

struct sim_port {
    struct port port;
    struct sim_endpoint *endpoint;
};

struct sim_endpoint *sim_endpoint_of(struct port *port)
{
    return container_of(port, struct sim_port, port)->endpoint;
}

struct sim_task *sim_task_of(const struct device *device)
{
    if (device->ops != &sim_device_ops)
        return NULL;
    return ((const struct sim_device *)(const void *)device)->task; /* device is the first member */
}

static int sim_open(const struct device_params *params, struct device **out, char *why, size_t size)
{
    struct sim_device *device = calloc(1, sizeof(*device));

    if (device == NULL) {
        snprintf(why, size, "out of memory");
        return -ENOMEM;
    }
    device->device.ops = &sim_device_ops;
    /* The device's own parameter, made for it: const on the way here only. */
    device->task = (struct sim_task *)(uintptr_t)params->private_params;
    device->task->network->references++;
    *out = &device->device;
    return 0;
}

static void sim_close(struct device *base)
{
    struct sim_device *device = container_of(base, struct sim_device, device);

    sim_heap_close(device->task);
    sim_network_release(device->task->network);
    free(device);
}

static int sim_reach(struct device *base, uint32_t task)
{
    const struct sim_device *device = container_of(base, struct sim_device, device);

    return task < device->task->network->task_count ? COST : 0;
}

static int sim_port_open(struct device *base, const struct port_params *params, struct port **out)
{
    struct sim_device *device = container_of(base, struct sim_device, device);
    struct sim_endpoint *endpoint = sim_endpoint_get(device->task->network, params->endpoint);
    struct sim_port *port = endpoint != NULL ? calloc(1, sizeof(*port)) : NULL;

    if (port == NULL)
        return -ENOMEM;
    port->port = (struct port){.ops = base->ops, .device = base, .params = *params};
    port->endpoint = endpoint;
    endpoint->port = &port->port;
    sim_begins(endpoint);
    if (sim_inbox_ready(endpoint) != SIM_NEVER)
        sim_schedule(endpoint, sim_inbox_ready(endpoint), false);
    *out = &port->port;
    return 0;
}

static void sim_port_close(struct port *base)
{
    struct sim_port *port = container_of(base, struct sim_port, port);
    struct sim_endpoint *endpoint = port->endpoint;
    struct list *item;

    sim_copies_cancel(endpoint);
    list_for_each (item, &endpoint->links)
        sim_link_rest(list_entry(item, struct sim_link, own));
    endpoint->port = NULL;
    sim_inbox_flush(endpoint);
    sim_ends(endpoint);
    free(port);
}

static void sim_leave(struct device *base)
{
    sim_leaves(container_of(base, struct sim_device, device)->task);
}

static unsigned level_of(const struct sim_link *link, bool packets_only)
{
    unsigned level =
        sim_level_between(&link->from->network->rules, link->from->task->bootstrap.task,
                          link->to->task->bootstrap.task);

    /* As far as the sender is concerned, the other one may be anywhere. */
    return packets_only && level < PAMIX_SIM_SWITCH ? PAMIX_SIM_SWITCH : level;
}

static struct sim_link *link_new(struct sim_endpoint *from, struct sim_endpoint *to)
{
    struct sim_link *link = calloc(1, sizeof(*link));

    if (link == NULL)
        return NULL;
    if (u64map_put(&from->map, to->endpoint, link) != 0) {
        free(link);
        return NULL;
    }
    link->from = from;
    link->to = to;
    link->usual.link = link;
    link->packets.link = link;
    link->usual.level = (uint8_t)level_of(link, false);
    link->packets.level = (uint8_t)level_of(link, true);
    list_init(&link->watch);
    list_init(&link->wait);
    list_init(&link->gone);
    list_push_back(&from->links, &link->own);
    return link;
}

static void open_one(struct sim_path *path, struct port *port)
{
    const struct sim_rules *rules = &path->link->from->network->rules;

    path->path = (struct path){
        .am = sim_am,
        .port = port,
        .endpoint = path->link->to->endpoint,
        .packet_max = rules->packet_bytes,
        .local = path->level < PAMIX_SIM_SWITCH,
        .single_copy = rules->level[path->level].single_copy,
    };
}

static int sim_path_open(struct port *port, uint32_t number, unsigned how, struct path **path)
{
    struct sim_endpoint *from = sim_endpoint_of(port);
    struct sim_endpoint *to = sim_endpoint_get(from->network, number);
    bool packets_only = (how & PATH_PACKETS_ONLY) != 0;
    struct sim_link *link;
    int error;

    if (to == NULL)
        return -EHOSTUNREACH;
    link = u64map_get(&from->map, number);
    if (link == NULL)
        link = link_new(from, to);
    if (link == NULL)
        return -ENOMEM;
    error = sim_link_watch(link, how);
    if (error != 0)
        return error;
    open_one(packets_only ? &link->packets : &link->usual, port);
    *path = packets_only ? &link->packets.path : &link->usual.path;
    return 0;
}

/* One thread drives everything: it never sleeps, and need not be woken from it. */
static void sim_arm(struct port *port, bool light)
{
    (void)port, (void)light;
}

static void sim_disarm(struct port *port)
{
    (void)port;
}

static void sim_sleep(struct port *port, uint64_t microseconds)
{
    (void)port;
    (void)microseconds;
}

static void sim_port_wake(struct port *port)
{
    sim_wake(sim_endpoint_of(port));
}

const struct device_ops sim_device_ops = {
    .name = "sim",
    .description = "a simulated network between tasks of one process, in virtual time",
    .open = sim_open,
    .close = sim_close,
    .reach = sim_reach,
    .port_open = sim_port_open,
    .port_close = sim_port_close,
    .path_open = sim_path_open,
    .get = sim_get,
    .put = sim_put,
    .heap_alloc = sim_heap_alloc,
    .heap_free = sim_heap_free,
    .heap_view = sim_heap_view,
    .advance = sim_advance,
    .put_back = sim_put_back,
    .pending = sim_pending,
    .arm = sim_arm,
    .disarm = sim_disarm,
    .sleep = sim_sleep,
    .wake = sim_port_wake,
    .tend = sim_tend,
    .leave = sim_leave,
};
