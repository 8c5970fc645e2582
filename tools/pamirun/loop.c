/*
 * The event loop, see loop.h.
 */
#include "loop.h"

#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BATCH 64

int loop_open(struct loop *loop)
{
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    return loop->epoll < 0 ? -errno : 0;
}

static int control(struct loop *loop, int operation, struct watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    return epoll_ctl(loop->epoll, operation, watch->fd, &event) == 0 ? 0 : -errno;
}

int loop_add(struct loop *loop, struct watch *watch, uint32_t events)
{
    return control(loop, EPOLL_CTL_ADD, watch, events);
}

int loop_change(struct loop *loop, struct watch *watch, uint32_t events)
{
    return control(loop, EPOLL_CTL_MOD, watch, events);
}

void loop_remove(struct loop *loop, struct watch *watch)
{
    control(loop, EPOLL_CTL_DEL, watch, 0);
}

void loop_close(struct loop *loop, struct watch *watch)
{
    if (watch->fd < 0)
        return;
    loop_remove(loop, watch);
    close(watch->fd);
    watch->fd = -1;
}

int loop_wait(struct loop *loop, double seconds)
{
    struct epoll_event events[BATCH];
    int timeout = seconds < 0 ? -1 : seconds < INT_MAX / 1000 ? (int)(seconds * 1e3) + 1 : INT_MAX;
    int count = epoll_wait(loop->epoll, events, BATCH, timeout);
    int i;

    if (count < 0)
        return errno == EINTR ? 0 : -errno;
    for (i = 0; i < count; i++) {
        struct watch *watch = events[i].data.ptr;

        if (watch->fd >= 0)
            watch->ready(watch, events[i].events);
    }
    return 0;
}
