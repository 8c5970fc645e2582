/*
 * Who has left: members that died (a pidfd becomes readable) and contexts that were destroyed.
 * Where there is no pidfd, as in some containers, or the member's number is another process's here,
 * the kernel is asked about the member's lock instead, see segment_member_ended. A task that turns
 * into another program by execve goes on as that, and has left when that ends.
 *
 * A destination that has gone is reported once, and only after everything that it sent before has
 * been delivered: either our inbox was seen empty after the event, or a whole lap has been
 * consumed. A claim that a dead member left half-written is stepped over.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device/shm/shm.h"
#include "util/log.h"
#include "util/minmax.h"

/* In place of a descriptor: nothing tells, as the program has closed it; the member is known to be
 * dead; or its lock tells. */
#define MEMBER_UNTOLD (-3)
#define MEMBER_REAPED (-2)
#define MEMBER_LOCKED (-1)

/* Descriptors in a port's watch: none; its member is known to be dead. */
#define WATCH_NONE (-1)
#define WATCH_DEAD (-2)

/* Looked at in one go. The kernel refuses to look at more than a process may have descriptors. */
#define LOOK_MOST 16u

static int32_t pidfd_open_of(const struct shm_device *device, uint32_t index)
{
    return (int32_t)syscall(SYS_pidfd_open, segment_member(device->segment, index)->pid, 0);
}

/* close(3) is a cancellation point. */
static void shut(int32_t fd)
{
    syscall(SYS_close, fd);
}

/* The program may have closed it, and anything may have its number by now. */
static bool is_pidfd(int32_t fd)
{
    return syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0 || errno != EBADF;
}

/* One pidfd per member and process, opened by whoever comes first. */
static int32_t pidfd_of(struct shm_device *device, uint32_t index)
{
    const struct segment_member *member = segment_member(device->segment, index);
    int32_t expected = 0;
    int32_t opened = -1;
    int32_t value = MEMBER_LOCKED;

    if (segment_knows_pid(device->segment, index)) {
        opened = pidfd_open_of(device, index);
        /* Already reaped: a descriptor that is never readable would hide that. */
        if (opened < 0 && errno == ESRCH)
            log_debug("task %u is gone already", member->task);
        else if (opened < 0)
            log_info("the end of task %u is told by its lock: %s", member->task, strerror(errno));
        value = opened >= 0 ? opened + 1 : errno == ESRCH ? MEMBER_REAPED : MEMBER_LOCKED;
    }
    if (opened >= 0 && segment_member_is_other(device->segment, index)) {
        shut(opened);
        opened = -1;
        value = MEMBER_REAPED;
    }
    if (!atomic_compare_exchange_strong(&device->watched[index], &expected, value)) {
        if (opened >= 0)
            shut(opened);
        return expected;
    }
    return value;
}

void shm_watch_end(struct shm_device *device)
{
    for (uint32_t i = 0; device->watched != NULL && i < device->member_count; i++) {
        int32_t watched = atomic_load(&device->watched[i]);

        if (watched > 0 && is_pidfd(watched - 1))
            shut(watched - 1);
    }
    free(device->watched);
}

int shm_watch_member(struct shm_port *port, uint32_t member)
{
    struct shm_device *device = port->device;
    uint32_t count = port->watch_count;
    struct pollfd *watch;
    uint32_t *watch_member;
    int32_t watched;

    if (member == device->segment->self || port->watch_place[member] != 0)
        return 0;
    watched = atomic_load(&device->watched[member]);
    if (watched == 0)
        watched = pidfd_of(device, member);
    watch = realloc(port->watch, (count + 1) * sizeof(*watch));
    if (watch == NULL)
        return -ENOMEM;
    port->watch = watch;
    watch_member = realloc(port->watch_member, (count + 1) * sizeof(*watch_member));
    if (watch_member == NULL)
        return -ENOMEM;
    port->watch_member = watch_member;
    watch[count] = (struct pollfd){.fd = watched > 0 ? watched - 1 : WATCH_NONE, .events = POLLIN};
    watch_member[count] = member;
    port->watch_place[member] = port->watch_count = count + 1;
    return 0;
}

static bool is_dead(const struct shm_port *port, uint32_t place)
{
    return port->watch[place].fd == WATCH_DEAD ||
           atomic_load(&port->device->watched[port->watch_member[place]]) == MEMBER_REAPED;
}

/* As of the last look. */
bool shm_member_is_dead(struct shm_port *port, uint32_t member)
{
    uint32_t place = member < port->device->member_count ? port->watch_place[member] : 0;

    return place != 0 && is_dead(port, place - 1);
}

static void look_at_lock(struct shm_device *device, uint32_t member)
{
    int32_t expected = MEMBER_LOCKED;

    if (atomic_load(&device->watched[member]) == expected &&
        segment_member_ended(device->segment, member))
        atomic_compare_exchange_strong(&device->watched[member], &expected, MEMBER_REAPED);
}

/* How many are ready. Not poll(3): nothing inside an advance may be a cancellation point. */
static long look_now(struct pollfd *watch, uint32_t count)
{
    static const struct timespec now;

    return syscall(SYS_ppoll, watch, count, &now, NULL, (size_t)0);
}

/* Its process lives, as far as another descriptor tells, if there can be one. */
static bool is_alive(const struct shm_device *device, uint32_t index)
{
    struct pollfd fresh = {.fd = pidfd_open_of(device, index), .events = POLLIN};
    bool alive = fresh.fd >= 0 && look_now(&fresh, 1) == 0 &&
                 !segment_member_is_other(device->segment, index);

    if (fresh.fd >= 0)
        shut(fresh.fd);
    return alive;
}

/* The descriptor is ready: the member is dead, unless the program has closed the descriptor, and
 * something else, or what tells of another process, has its number by now. */
static void hear(struct shm_port *port, uint32_t place)
{
    struct pollfd *watch = &port->watch[place];
    uint32_t member = port->watch_member[place];
    int32_t expected = watch->fd + 1;

    if ((watch->revents & POLLNVAL) == 0 && is_pidfd(watch->fd) &&
        !is_alive(port->device, member)) {
        watch->fd = WATCH_DEAD;
        return;
    }
    atomic_compare_exchange_strong(&port->device->watched[member], &expected, MEMBER_UNTOLD);
    watch->fd = WATCH_NONE;
}

/* Ask the kernel about some members at once. */
static void look_at(struct shm_port *port, uint32_t first, uint32_t count)
{
    struct pollfd *watch = &port->watch[first];
    bool ready = look_now(watch, count) > 0;

    for (uint32_t i = 0; i < count; i++) {
        if (watch[i].fd == WATCH_NONE)
            look_at_lock(port->device, port->watch_member[first + i]);
        else if (unlikely(ready && watch[i].revents != 0))
            hear(port, first + i);
        port->deaths = port->deaths || is_dead(port, first + i);
    }
}

/* About all watched ones. */
static void look(struct shm_port *port)
{
    port->deaths = false;
    for (uint32_t i = 0; i < port->watch_count; i += LOOK_MOST)
        look_at(port, i, (uint32_t)smaller(port->watch_count - i, LOOK_MOST));
}

/* All that the path's destination sent before it left has been delivered. */
static bool read_up(const struct shm_port *port, const struct shm_path *path)
{
    for (uint32_t i = 0; i < port->lane_count; i++) {
        const struct lane_reader *reader = &port->lanes[i];

        if (atomic_load_explicit(&reader->lane->owner, memory_order_relaxed) == path->member + 1 &&
            !lane_is_empty(reader))
            return false;
    }
    return port->reader.head >= path->leave_head ||
           (inbox_ready(&port->reader) == NULL && inbox_stuck(&port->reader) < 0);
}

static void tend_path(struct shm_port *port, struct shm_path *path,
                      void (*gone)(void *context, uint32_t endpoint))
{
    if (path->path.closed || path->main != NULL)
        return;
    if (!path->leaving) {
        shm_path_waits(path); /* or no longer */
        if (!path_is_stale(&path->path) && !shm_path_has_left(port, path))
            return;
        path->leaving = true;
        path->leave_head = port->reader.head + port->reader.slots;
    }
    if (!read_up(port, path))
        return;
    path->path.closed = true;
    /* A context that is there again may be giving back what came for the one before. */
    if (atomic_load_explicit(&path->inbox->closed, memory_order_acquire) != 0 ||
        shm_member_is_dead(port, path->member))
        chunk_reclaim(&port->chunks, path->path.endpoint);
    gone(port->port.params.context, path->path.endpoint);
}

/* The sender that holds up our inbox may be a task that no path of ours leads to. */
static void step_over_dead(struct shm_port *port)
{
    int64_t stuck = inbox_stuck(&port->reader);

    if (stuck < 0 || (uint64_t)stuck >= port->device->member_count ||
        (uint32_t)stuck == port->device->segment->self)
        return;
    if (shm_watch_member(port, (uint32_t)stuck) != 0)
        return;
    look(port);
    if (!shm_member_is_dead(port, (uint32_t)stuck) || inbox_stuck(&port->reader) != stuck)
        return;
    log_warn("task %u died while it wrote a packet to us", port->device->members[stuck]);
    inbox_skip(&port->reader);
}

/* Lanes whose senders have gone, and which have been read, are free for others. Where there is no
 * memory for watching one it is tried again. */
static void tend_lanes(struct shm_port *port)
{
    for (uint32_t i = port->lane_count; i-- > 0;) {
        const struct lane_reader *reader = &port->lanes[i];
        uint32_t owner = atomic_load_explicit(&reader->lane->owner, memory_order_relaxed);
        bool leaving = atomic_load_explicit(&reader->lane->leaving, memory_order_acquire) != 0;

        if (owner - 1 < port->device->member_count)
            shm_watch_member(port, owner - 1);
        if ((leaving || shm_member_is_dead(port, owner - 1)) && lane_is_empty(reader))
            shm_lane_close(port, i);
    }
}

/* A task that died between taking a lane and saying so. Only looked at when one is known as dead:
 * lanes that nobody uses have no pages. */
static void tend_orphans(struct shm_port *port)
{
    const struct segment *segment = port->device->segment;

    for (uint32_t i = 0; i < segment->layout.lanes; i++) {
        struct lane *lane = segment_lane(segment, segment->self, port->port.params.offset, i);
        uint32_t owner = atomic_load_explicit(&lane->owner, memory_order_acquire);

        if (owner == 0 || atomic_load_explicit(&lane->active, memory_order_relaxed) != 0 ||
            !shm_member_is_dead(port, owner - 1))
            continue;
        if (inbox_ready(&port->reader) == NULL && inbox_stuck(&port->reader) < 0)
            atomic_compare_exchange_strong(&lane->owner, &owner, 0);
    }
}

void shm_tend(struct port *base, void (*gone)(void *context, uint32_t endpoint))
{
    struct shm_port *port = shm_port_of(base);
    struct list *item;

    look(port);
    step_over_dead(port);
    tend_lanes(port);
    if (unlikely(port->deaths))
        tend_orphans(port);
    list_for_each (item, &port->paths)
        tend_path(port, list_entry(item, struct shm_path, link), gone);
}
