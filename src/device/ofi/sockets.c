/*
 * The sockets of receptions, which children made by fork do not keep: the end of a task is the end
 * of its connections, and a copy in a child would hide it from the others.
 *
 * Numbers of descriptors, so that the child has no lists to look through that were just being
 * changed. Under the lock, which a fork takes as well, they are those of open sockets.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/ofi/connection.h"

static struct {
    pthread_mutex_t lock;
    bool *open; /* by descriptor */
    size_t room;
} sockets = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void lock(void)
{
    pthread_mutex_lock(&sockets.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&sockets.lock);
}

static void close_all(void)
{
    for (size_t fd = 0; fd < sockets.room; fd++)
        if (sockets.open[fd])
            close((int)fd);
    free(sockets.open);
    sockets.open = NULL;
    sockets.room = 0;
    unlock();
}

static void watch_forks(void)
{
    pthread_atfork(lock, unlock, close_all);
}

static bool make_room(size_t room)
{
    bool *open = realloc(sockets.open, room * sizeof(*open));

    if (open == NULL)
        return false;
    memset(open + sockets.room, 0, (room - sockets.room) * sizeof(*open));
    sockets.open = open;
    sockets.room = room;
    return true;
}

/* Under the lock. */
static int keep(int fd)
{
    if (fd < 0)
        return -errno;
    if ((size_t)fd >= sockets.room && !make_room(2 * ((size_t)fd + 1))) {
        close(fd);
        return -ENOMEM;
    }
    sockets.open[fd] = true;
    return fd;
}

int socket_new(int family)
{
    int fd;

    pthread_once(&once, watch_forks);
    lock();
    fd = keep(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    unlock();
    return fd;
}

int socket_accept(int listener)
{
    int fd;

    lock();
    fd = keep(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    unlock();
    return fd;
}

void socket_close(int fd)
{
    lock();
    if (fd >= 0 && (size_t)fd < sockets.room)
        sockets.open[fd] = false;
    if (fd >= 0)
        close(fd);
    unlock();
}
