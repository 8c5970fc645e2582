/*
 * The client's end of the PMI-1 socket, see pmi1_channel.h.
 *
 * send with MSG_NOSIGNAL and poll with a deadline throughout: a launcher that has died or does not
 * answer is an error code here, never a signal or a hang.  The socket's own mode (blocking or not)
 * is left as it is, because the process may share it with its launcher.
 */
#include "bootstrap/pmi1_channel.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/backend.h"
#include "util/clock.h"

/* Longest part of a request or an answer quoted in a message. */
#define QUOTE 120

static int quote_length(const char *text, size_t length)
{
    const char *newline = memchr(text, '\n', length);

    if (newline != NULL)
        length = (size_t)(newline - text);
    return (int)(length < QUOTE ? length : QUOTE);
}

/* Waits until `events` hold; deadline in clock_now seconds. */
static int channel_wait(const struct pmi1_channel *channel, short events, double deadline)
{
    struct pollfd poller = {.fd = channel->fd, .events = events};

    for (;;) {
        double left = (deadline - clock_now()) * 1000.0;
        int timeout = left <= 0 ? 0 : left < INT_MAX - 1 ? (int)left + 1 : INT_MAX;
        int ready = poll(&poller, 1, timeout);

        if (ready > 0)
            return 0;
        if (ready == 0 && timeout == 0)
            return -ETIMEDOUT;
        if (ready < 0 && errno != EINTR)
            return -errno;
    }
}

static int channel_send(struct pmi1_channel *channel, const char *text, double deadline)
{
    size_t length = strlen(text), done = 0;
    int err;

    while (done < length) {
        ssize_t sent = send(channel->fd, text + done, length - done, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent >= 0) {
            done += (size_t)sent;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            return -ECONNRESET;
        err = channel_wait(channel, POLLOUT, deadline);
        if (err != 0)
            return err;
    }
    return 0;
}

/* Receives until the buffer starts with a whole line; sets taken to its length with newline. */
static int channel_receive(struct pmi1_channel *channel, double deadline)
{
    for (;;) {
        char *newline = memchr(channel->buffer, '\n', channel->have);
        ssize_t got;
        int err;

        if (newline != NULL) {
            channel->taken = (size_t)(newline - channel->buffer) + 1;
            return 0;
        }
        if (channel->have == sizeof channel->buffer)
            return -EPROTO;
        got = recv(channel->fd, channel->buffer + channel->have,
                   sizeof channel->buffer - channel->have, MSG_DONTWAIT);
        if (got > 0) {
            channel->have += (size_t)got;
            continue;
        }
        if (got == 0)
            return -ECONNRESET;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            return -ECONNRESET;
        err = channel_wait(channel, POLLIN, deadline);
        if (err != 0)
            return err;
    }
}

static int channel_fail(struct pmi1_channel *channel, int err, const char *request)
{
    int quoted = quote_length(request, strlen(request));

    channel->failed = err;
    if (err == -ETIMEDOUT)
        return bootstrap_fail(err, "no answer to '%.*s' within %g s (%s)", quoted, request,
                              channel->seconds, channel->limit);
    if (err == -EBADF)
        return bootstrap_fail(err, "the launcher's socket was closed here before '%.*s'", quoted,
                              request);
    if (err == -EPROTO)
        return bootstrap_fail(err, "the answer to '%.*s' is not PMI-1: '%.*s'", quoted, request,
                              quote_length(channel->buffer, channel->have), channel->buffer);
    return bootstrap_fail(err, "the connection was closed before the answer to '%.*s'", quoted,
                          request);
}

/* Into *answer what comes next; `err` is that of the sending before. */
static int channel_take(struct pmi1_channel *channel, int err, const char *request,
                        const char *expected, double deadline, struct pmi1_line *answer)
{
    if (err == 0)
        err = channel_receive(channel, deadline);
    if (err == 0 && (pmi1_line_parse(channel->buffer, channel->taken - 1, answer) != 0 ||
                     !pmi1_line_is(answer, "cmd", expected)))
        err = -EPROTO;
    return err == 0 ? 0 : channel_fail(channel, err, request);
}

static void channel_forget_taken(struct pmi1_channel *channel)
{
    channel->have -= channel->taken;
    memmove(channel->buffer, channel->buffer + channel->taken, channel->have);
    channel->taken = 0;
}

int pmi1_channel_ask(struct pmi1_channel *channel, const char *request, const char *expected,
                     struct pmi1_line *answer)
{
    double deadline = clock_now() + channel->seconds;
    int err;

    if (channel->failed != 0)
        return channel->failed;
    channel_forget_taken(channel);
    err = pmi1_channel_is_open(channel) ? channel_send(channel, request, deadline) : -EBADF;
    return channel_take(channel, err, request, expected, deadline, answer);
}

int pmi1_channel_next(struct pmi1_channel *channel, const char *request, const char *expected,
                      struct pmi1_line *line)
{
    if (channel->failed != 0)
        return channel->failed;
    channel_forget_taken(channel);
    return channel_take(channel, 0, request, expected, clock_now() + channel->seconds, line);
}

/* The connection is made without blocking; the socket is ours, and no other program's. */
static int dial_one(struct pmi1_channel *channel, const struct addrinfo *place, double deadline)
{
    int err = 0;
    socklen_t length = sizeof err;

    channel->fd = socket(place->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (channel->fd < 0)
        return -errno;
    if (connect(channel->fd, place->ai_addr, place->ai_addrlen) != 0)
        err = -errno;
    if (err == -EINPROGRESS || err == -EINTR) {
        err = channel_wait(channel, POLLOUT, deadline);
        if (err == 0 && getsockopt(channel->fd, SOL_SOCKET, SO_ERROR, &err, &length) == 0)
            err = -err;
    }
    if (err != 0)
        close(channel->fd);
    return err;
}

int pmi1_channel_dial(struct pmi1_channel *channel, const char *address)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    const char *colon = strrchr(address, ':');
    struct addrinfo *places, *place;
    struct stat status;
    char host[256];
    double deadline;
    int err;

    if (colon == NULL || colon == address || (size_t)(colon - address) >= sizeof host)
        return bootstrap_fail(-EINVAL, "PMI_PORT='%.80s' is not a host and a port", address);
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    err = getaddrinfo(host, colon + 1, &wanted, &places);
    if (err != 0)
        return bootstrap_fail(-EINVAL, "PMI_PORT='%.80s': %s", address, gai_strerror(err));
    err = -EINVAL;
    deadline = clock_now() + channel->seconds; /* names have the resolver's own limits */
    for (place = places; place != NULL && err != 0; place = place->ai_next)
        err = dial_one(channel, place, deadline);
    freeaddrinfo(places);
    if (err != 0)
        return bootstrap_fail(err, "no connection to the launcher at PMI_PORT='%.80s': %s", address,
                              strerror(-err));
    if (fstat(channel->fd, &status) != 0)
        return -errno;
    channel->device = status.st_dev;
    channel->inode = status.st_ino;
    return 0;
}

bool pmi1_channel_is_open(const struct pmi1_channel *channel)
{
    struct stat status;

    return fstat(channel->fd, &status) == 0 && status.st_dev == channel->device &&
           status.st_ino == channel->inode;
}

void pmi1_channel_tell(const struct pmi1_channel *channel, const char *text)
{
    if (pmi1_channel_is_open(channel))
        (void)!send(channel->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}
