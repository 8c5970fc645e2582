/*
 * Paths of the shm device: what a port knows of one destination endpoint, and which of its lives it
 * leads to. What goes over them is in port.c.
 *
 * Tasks that destroy their contexts and create them again do so as often as one another, but not at
 * the same time. So each counts how often it has. Where there is no context, and the destination
 * has not destroyed its contexts more often than this task, another one is waited for: the path
 * leads to that, and what is sent stays in the inbox. And a destination that has destroyed them
 * less often is behind: it is about to do so, and what is sent is for the context after that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "device/shm/shm.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/minmax.h"
#include "util/option.h"

/* Messages up to this go in one packet: in two they are no sooner there, and fewer of them come
 * through. */
#define WHOLE_MOST 16384u

/* Up to here a question first costs more than it gives: see struct path. */
#define EAGER_BYTES (64u << 10)

void shm_paths_free(struct shm_port *port)
{
    struct list *item;

    while ((item = list_pop_front(&port->paths)) != NULL) {
        struct shm_path *path = list_entry(item, struct shm_path, link);

        if (path->lane.lane != NULL)
            atomic_store_explicit(&path->lane.lane->leaving, 1, memory_order_release);
        free(path);
    }
    u64map_finish(&port->by_endpoint);
}

struct shm_path *shm_path_find(struct shm_port *port, uint32_t endpoint)
{
    return u64map_get(&port->by_endpoint, endpoint);
}

static struct shm_path *path_new(struct shm_port *port, uint32_t endpoint, uint32_t member,
                                 struct shm_path *main)
{
    struct shm_device *device = port->device;
    const struct segment_layout *layout = &device->segment->layout;
    const struct segment_member *facts = segment_member(device->segment, member);
    size_t bytes = (sizeof(struct shm_path) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    struct shm_path *path = aligned_alloc(CACHE_LINE, bytes);

    if (path == NULL)
        return NULL;
    if (main == NULL && u64map_put(&port->by_endpoint, endpoint, path) != 0) {
        free(path);
        return NULL;
    }
    memset(path, 0, bytes);
    path->main = main;
    path->member = member;
    path->inbox = segment_inbox(device->segment, member, endpoint_offset(endpoint));
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
        .packet_max = (uint32_t)smaller(layout->chunk_bytes, WHOLE_MOST + CACHE_LINE),
        .eager_bytes = EAGER_BYTES,
        .bulk_max = (uint32_t)smaller(layout->chunk_bytes, PACKET_BODY_MAX),
        .closed = true,
        .own = endpoint == port->port.params.endpoint,
        .local = facts->node == device->bootstrap->node,
    };
    path->path.single_copy = path->path.local && shm_copy_probe(device, member);
    path->path.may_push = path->path.single_copy && shm_copy_may_push(device, member);
    path->path.unwatched = path->path.single_copy && shm_copy_is_unwatched(device);
    list_push_back(&port->paths, &path->link);
    return path;
}

static int am_by_main(struct path *path, const struct packet *packet)
{
    return shm_am(&container_of(path, struct shm_path, path)->main->path, packet);
}

/* A path for packets only is another face of the usual one: one order, one way. It stays the same
 * whatever life that leads to. */
static int packets_only(struct shm_port *port, struct shm_path *main, struct path **out)
{
    struct shm_path *path = main->face;

    if (path != NULL) {
        *out = &path->path;
        return 0;
    }
    path = path_new(port, main->path.endpoint, main->member, main);
    if (path == NULL)
        return -ENOMEM;
    main->face = path;
    path->path.am = am_by_main;
    path->path.am_short = NULL;
    path->path.closed = false;
    path->path.local = path->path.own = false;
    path->path.single_copy = path->path.unwatched = path->path.may_push = false;
    *out = &path->path;
    return 0;
}

static bool is_closed(const struct inbox *inbox)
{
    return atomic_load_explicit(&inbox->closed, memory_order_acquire) != 0;
}

/* How often the destination's contexts have been destroyed. What a server destroys does not come
 * again. */
static uint32_t ended_of(const struct shm_port *port, uint32_t index)
{
    const struct segment_member *member = segment_member(port->device->segment, index);

    if (member->task >= port->device->bootstrap->tasks)
        return UINT32_MAX;
    return atomic_load_explicit(&member->ended, memory_order_acquire);
}

/* The same, from the moment on when the first of them is. */
static uint32_t ending_of(const struct shm_port *port, uint32_t index)
{
    const struct segment_member *member = segment_member(port->device->segment, index);

    if (member->task >= port->device->bootstrap->tasks)
        return UINT32_MAX;
    return atomic_load_explicit(&member->ending, memory_order_acquire);
}

static bool task_has_left(const struct shm_port *port, uint32_t index)
{
    const struct segment_member *member = segment_member(port->device->segment, index);

    return atomic_load_explicit(&member->left, memory_order_acquire) != 0;
}

static bool has_left(struct shm_port *port, const struct inbox *inbox, uint32_t member)
{
    if (shm_member_is_dead(port, member))
        return true;
    return is_closed(inbox) &&
           (ending_of(port, member) > port->ended || task_has_left(port, member));
}

bool shm_path_has_left(struct shm_port *port, const struct shm_path *path)
{
    return has_left(port, path->inbox, path->member);
}

static bool is_behind(const struct shm_port *port, uint32_t member)
{
    return ended_of(port, member) < port->ended;
}

static bool is_ahead(const struct shm_port *port, uint32_t member)
{
    uint32_t ended = ended_of(port, member);

    return ended > port->ended && ended != UINT32_MAX;
}

/* It leads to the context that there is, or to the next one; `over`: to the one before. A shuttle
 * leads to where it did, and the lane whose end takes it away may not have ended yet. */
static void path_renew(struct shm_path *path, bool over)
{
    uint32_t lives = atomic_load_explicit(&path->inbox->lives, memory_order_acquire);

    if (over)
        lives--;
    if (lives != path->path.life)
        path->shuttle = (struct shuttle){.slot = NULL};
    path->path.lives = &path->inbox->lives;
    path->path.life = lives;
    path->mark = life_mark(lives);
    path->path.closed = false;
    path->leaving = false;
}

static bool waits(const struct shm_path *path)
{
    return path->path.lives == NULL && path->main == NULL && !path->path.closed;
}

/* To a task that is behind nothing can be sent: there is no such life. */
static void path_wait(struct shm_path *path)
{
    double seconds = option_seconds(OPT_BEHIND_TIMEOUT);

    path->path.lives = NULL;
    path->path.life = atomic_load_explicit(&path->inbox->lives, memory_order_acquire) - 1;
    path->path.closed = false;
    path->leaving = false;
    path->patience = clock_now_ns() + (uint64_t)(seconds * 1e9);
}

bool shm_path_waits(struct shm_path *path)
{
    struct shm_port *port = shm_port_of(path->path.port);

    if (!waits(path))
        return false;
    if (is_behind(port, path->member)) {
        if (clock_now_ns() < path->patience)
            return true;
        log_info("task %u still has contexts of an earlier life: what waited goes there",
                 endpoint_task(path->path.endpoint));
    }
    path_renew(path, false);
    return false;
}

int shm_path_open(struct port *base, uint32_t endpoint, unsigned how, struct path **out)
{
    struct shm_port *port = shm_port_of(base);
    struct shm_device *device = port->device;
    int64_t index = shm_member_of(device, endpoint_task(endpoint));
    struct inbox *inbox;
    struct shm_path *path;
    bool is_over;
    int error;

    if (index < 0)
        return -EHOSTUNREACH;
    error = shm_watch_member(port, (uint32_t)index);
    if (error != 0)
        return error;
    inbox = segment_take_inbox(device->segment, (uint32_t)index, endpoint_offset(endpoint), true);
    if (inbox == NULL)
        return -ENOMEM;
    is_over = (how & PATH_SAME_LIFE) && is_ahead(port, (uint32_t)index);
    if (!(how & PATH_EVEN_CLOSED) && (is_over || has_left(port, inbox, (uint32_t)index)))
        return -EPIPE;
    path = shm_path_find(port, endpoint);
    if (path == NULL)
        path = path_new(port, endpoint, (uint32_t)index, NULL);
    if (path == NULL)
        return -ENOMEM;
    if (!path->path.closed && (how & PATH_PACKETS_ONLY))
        return packets_only(port, path, out);
    if (!(how & PATH_HEARD) && is_behind(port, path->member))
        path_wait(path);
    else
        path_renew(path, is_over || (is_closed(inbox) && has_left(port, inbox, path->member)));
    if (how & PATH_PACKETS_ONLY)
        return packets_only(port, path, out);
    *out = &path->path;
    return 0;
}
