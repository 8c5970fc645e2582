/*
 * Paths of the shm device: what a port knows of one destination endpoint, and which of its lives it
 * leads to. What goes over them is in port.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "device/shm/shm.h"

void shm_path_free(struct shm_path *path)
{
    if (path->lane.lane != NULL)
        atomic_store_explicit(&path->lane.lane->leaving, 1, memory_order_release);
    free(path);
}

static struct shm_path *path_find(struct shm_port *port, uint32_t endpoint)
{
    struct list *item;

    list_for_each (item, &port->paths) {
        struct shm_path *path = list_entry(item, struct shm_path, link);

        if (path->path.endpoint == endpoint && path->main == NULL)
            return path;
    }
    return NULL;
}

static struct shm_path *path_new(struct shm_port *port, uint32_t endpoint, uint32_t member)
{
    struct shm_device *device = port->device;
    const struct segment_layout *layout = &device->segment->layout;
    const struct segment_member *facts = segment_member(device->segment, member);
    size_t bytes = (sizeof(struct shm_path) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    struct shm_path *path = aligned_alloc(CACHE_LINE, bytes);

    if (path == NULL)
        return NULL;
    memset(path, 0, bytes);
    path->member = member;
    path->pid = facts->pid;
    path->inbox = segment_inbox(device->segment, member, endpoint >> 24);
    path->countdown = LANE_AFTER;
    path->sender = (struct inbox_sender){
        .inbox = path->inbox,
        .slots = layout->slots,
        .self = device->segment->self,
    };
    path->path = (struct path){
        .am = shm_am,
        .am_short = shm_am_short,
        .port = &port->port,
        .endpoint = endpoint,
        .packet_max = layout->chunk_bytes < PACKET_BODY_MAX ? layout->chunk_bytes : PACKET_BODY_MAX,
        .lives = &path->inbox->lives,
        .local = facts->node == device->bootstrap->node,
    };
    path->path.single_copy = path->path.local && shm_copy_probe(device, member);
    path->path.unwatched = path->path.single_copy && shm_copy_is_unwatched(device);
    list_push_back(&port->paths, &path->link);
    return path;
}

static int am_by_main(struct path *path, const struct packet *packet)
{
    return shm_am(&container_of(path, struct shm_path, path)->main->path, packet);
}

/* A path for packets only is another face of the usual one: one order, one way. */
static int packets_only(struct shm_port *port, struct shm_path *main, struct path **out)
{
    struct shm_path *path = path_new(port, main->path.endpoint, main->member);

    if (path == NULL)
        return -ENOMEM;
    path->main = main;
    path->path.am = am_by_main;
    path->path.am_short = NULL;
    path->path.lives = NULL;
    path->path.local = false;
    path->path.single_copy = path->path.unwatched = false;
    *out = &path->path;
    return 0;
}

/* One that is opened although there is no context leads to the life that has ended. */
static void path_renew(struct shm_path *path)
{
    uint32_t lives = atomic_load_explicit(path->path.lives, memory_order_acquire);

    if (lives != 0 && atomic_load_explicit(&path->inbox->closed, memory_order_acquire) != 0)
        lives--;
    path->path.life = lives;
    path->mark = life_mark(lives);
    path->path.closed = false;
    path->leaving = false;
}

int shm_path_open(struct port *base, uint32_t endpoint, unsigned how, struct path **out)
{
    struct shm_port *port = shm_port_of(base);
    struct shm_device *device = port->device;
    int64_t index = shm_member_of(device, endpoint & 0xffffffu);
    struct inbox *inbox;
    struct shm_path *path;
    int error;

    if (index < 0)
        return -EHOSTUNREACH;
    error = shm_watch_member(port, (uint32_t)index);
    if (error != 0)
        return error;
    inbox = segment_inbox(device->segment, (uint32_t)index, endpoint >> 24);
    if (!(how & PATH_EVEN_CLOSED) &&
        (atomic_load_explicit(&inbox->closed, memory_order_acquire) != 0 ||
         shm_member_is_dead(port, (uint32_t)index)))
        return -EPIPE;
    path = path_find(port, endpoint);
    if (path == NULL)
        path = path_new(port, endpoint, (uint32_t)index);
    if (path == NULL)
        return -ENOMEM;
    path_renew(path);
    if (how & PATH_PACKETS_ONLY)
        return packets_only(port, path, out);
    *out = &path->path;
    return 0;
}
