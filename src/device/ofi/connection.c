/*
 * The conversation of connection.h over a non-blocking socket.
 */
#include "device/ofi/connection.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "bootstrap/bootstrap.h"
#include "util/clock.h"
#include "util/log.h"

struct transcript {
    struct hello hello;
    uint8_t nonce[16];
};

static struct proof prove(const struct ofi_device *device, const struct connection *connection,
                          uint64_t purpose)
{
    struct transcript transcript = {.hello = connection->hello};

    memcpy(transcript.nonce, connection->challenge.nonce, sizeof(transcript.nonce));
    return proof_make(&device->key, purpose, &transcript, sizeof(transcript));
}

static void set_option(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof(value));
}

/* The kernel asks the other's kernel for a sign of life, whatever the two processes do. */
void connection_set_heartbeat(const struct ofi_device *device, int fd)
{
    uint32_t timeout_ms = device->peer_timeout_ms;
    int interval = timeout_ms < 5000 ? 1 : (int)(timeout_ms / 5000);

    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, interval);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)timeout_ms);
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/* With a socket or, -1, without. NULL: no memory. */
static struct connection *connection_new(const struct ofi_device *device, int fd,
                                         enum connection_state state)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL)
        return NULL;
    list_init(&connection->link);
    connection->fd = fd;
    connection->epoll = -1;
    connection->state = state;
    connection->since = connection->heard = clock_now_ns();
    connection->deadline = connection->since + connection_greeting_ns(device);
    if (fd >= 0)
        connection_set_heartbeat(device, fd);
    return connection;
}

/* A child that the process has just made may have the socket, too, and keep it in the set. */
void connection_hang_up(struct connection *connection)
{
    if (connection->fd < 0)
        return;
    epoll_ctl(connection->epoll, EPOLL_CTL_DEL, connection->fd, NULL);
    socket_close(connection->fd);
    connection->fd = -1;
}

void connection_free(struct connection *connection)
{
    list_remove(&connection->link);
    connection_hang_up(connection);
    free(connection->out);
    free(connection);
}

struct connection *connection_over(const struct ofi_device *device, uint32_t task, uint32_t life,
                                   int fd)
{
    struct connection *connection = connection_new(device, fd, CONNECTION_CONNECTING);

    if (connection == NULL)
        return NULL;
    connection->task = task;
    connection->hello = (struct hello){
        .magic = HELLO_MAGIC, .from = device->bootstrap->task, .to = task, .life = life};
    return connection;
}

struct connection *connection_from(const struct ofi_device *device, int fd)
{
    return connection_new(device, fd, CONNECTION_GREETED);
}

/* ---- output ---- */

static int put(struct connection *connection, const void *data, size_t bytes)
{
    if (connection->out_room - connection->out_bytes < bytes) {
        size_t room = 2 * (connection->out_bytes + bytes);
        char *out = realloc(connection->out, room);

        if (out == NULL)
            return -ENOMEM;
        connection->out = out;
        connection->out_room = room;
    }
    memcpy(connection->out + connection->out_bytes, data, bytes);
    connection->out_bytes += bytes;
    return 0;
}

int connection_send(struct connection *connection, const struct message *message)
{
    return put(connection, message, sizeof(*message));
}

int connection_hand_over(const struct connection *connection, struct connection *other)
{
    return connection->out_bytes == 0 ? 0 : put(other, connection->out, connection->out_bytes);
}

/* Messages queued early wait until the proofs are through. */
static bool may_say(const struct connection *connection)
{
    return connection->state == CONNECTION_OPEN || connection->state == CONNECTION_WAITING;
}

bool connection_has_output(const struct connection *connection)
{
    return connection->state == CONNECTION_CONNECTING || connection->state == CONNECTION_KNOCKING ||
           (may_say(connection) && connection->said != connection->out_bytes);
}

/* Until a client is welcome it may have to say all of it again. */
static void flush(const struct ofi_device *device, struct connection *connection)
{
    size_t left = connection->out_bytes - connection->said;
    ssize_t count = 0;

    if (!may_say(connection) || connection->out_bytes == 0)
        return;
    if (left != 0)
        count = send(connection->fd, connection->out + connection->said, left, MSG_NOSIGNAL);
    if (count < 0) {
        if (errno != EAGAIN && errno != EINTR)
            greeting_lost(device, connection, errno);
        return;
    }
    connection->said += (size_t)count;
    if (connection->state != CONNECTION_OPEN)
        return;
    connection->out_bytes -= connection->said;
    memmove(connection->out, connection->out + connection->said, connection->out_bytes);
    connection->said = 0;
}

/* The few bytes of a proof always fit into an empty socket's buffer. */
static void say(const struct ofi_device *device, struct connection *connection, const void *data,
                size_t bytes, enum connection_state next)
{
    if (send(connection->fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
        connection->state = next;
    else
        greeting_lost(device, connection, errno);
}

/* ---- input ---- */

static size_t wanted_bytes(const struct connection *connection)
{
    switch (connection->state) {
    case CONNECTION_CHALLENGED:
        return sizeof(struct challenge);
    case CONNECTION_GREETED:
        return sizeof(struct hello);
    case CONNECTION_CHECKING:
    case CONNECTION_WAITING:
        return sizeof(struct proof);
    case CONNECTION_OPEN:
        return sizeof(struct message);
    default:
        return 0;
    }
}

int connection_error(const struct connection *connection)
{
    int error = 0;
    socklen_t bytes = sizeof(error);

    return getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

static void connected(const struct ofi_device *device, struct connection *connection)
{
    int error = connection_error(connection);

    if (error != 0) {
        greeting_lost(device, connection, error);
        return;
    }
    if (!proof_random(connection->hello.nonce, sizeof(connection->hello.nonce))) {
        connection->state = CONNECTION_FAILED;
        return;
    }
    greeting_heard(device, connection);
    say(device, connection, &connection->hello, sizeof(connection->hello), CONNECTION_CHALLENGED);
}

static void take_hello(const struct ofi_device *device, struct connection *connection)
{
    connection->hello = connection->in.hello;
    if (connection->hello.magic != HELLO_MAGIC || connection->hello.to != device->bootstrap->task ||
        connection->hello.from >= device->bootstrap->tasks + device->bootstrap->servers ||
        !proof_random(connection->challenge.nonce, sizeof(connection->challenge.nonce))) {
        connection->state = CONNECTION_FAILED;
        return;
    }
    connection->challenge.proof = prove(device, connection, PURPOSE_SERVER);
    say(device, connection, &connection->challenge, sizeof(connection->challenge),
        CONNECTION_CHECKING);
}

static void take_challenge(const struct ofi_device *device, struct connection *connection)
{
    struct proof right;

    connection->challenge = connection->in.challenge;
    right = prove(device, connection, PURPOSE_SERVER);
    if (!proof_equal(&right, &connection->challenge.proof)) {
        log_warn("ofi: who listens in place of task %u does not belong to this job",
                 connection->task);
        connection->state = CONNECTION_FAILED;
        return;
    }
    right = prove(device, connection, PURPOSE_CLIENT);
    connection->deadline = connection->since + connection_greeting_ns(device);
    say(device, connection, &right, sizeof(right), CONNECTION_WAITING);
}

/* Not to be welcome is the end: the other one has taken us for dead. */
static void take_welcome(const struct ofi_device *device, struct connection *connection)
{
    struct proof welcome = prove(device, connection, PURPOSE_WELCOME);
    bool right = proof_equal(&welcome, &connection->in.proof);

    connection->state = right ? CONNECTION_OPEN : CONNECTION_FAILED;
}

static void take_proof(const struct ofi_device *device, struct connection *connection)
{
    struct proof right = prove(device, connection, PURPOSE_CLIENT);

    if (!proof_equal(&right, &connection->in.proof)) {
        connection->state = CONNECTION_FAILED;
        return;
    }
    connection->task = connection->hello.from;
    connection->state = CONNECTION_PROVEN;
}

void connection_open(const struct ofi_device *device, struct connection *connection, bool welcome)
{
    struct proof word = prove(device, connection, welcome ? PURPOSE_WELCOME : PURPOSE_REFUSAL);

    if (connection->state == CONNECTION_PROVEN)
        say(device, connection, &word, sizeof(word), CONNECTION_OPEN);
    if (!welcome)
        connection->state = CONNECTION_FAILED;
    connection->deadline = 0;
}

static void take_whole(const struct ofi_device *device, struct connection *connection,
                       connection_message_function *take, void *cookie)
{
    switch (connection->state) {
    case CONNECTION_GREETED:
        take_hello(device, connection);
        break;
    case CONNECTION_CHALLENGED:
        take_challenge(device, connection);
        break;
    case CONNECTION_CHECKING:
        take_proof(device, connection);
        break;
    case CONNECTION_WAITING:
        take_welcome(device, connection);
        break;
    default:
        take(cookie, connection, &connection->in.message);
        break;
    }
}

void connection_progress(const struct ofi_device *device, struct connection *connection,
                         connection_message_function *take, void *cookie)
{
    if (connection->state == CONNECTION_CONNECTING)
        connected(device, connection);
    else if (connection->state == CONNECTION_KNOCKING)
        greeting_knocked(device, connection);
    while (wanted_bytes(connection) != 0) {
        size_t wanted = wanted_bytes(connection);
        ssize_t count = recv(connection->fd, connection->in.bytes + connection->in_bytes,
                             wanted - connection->in_bytes, 0);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            break;
        if (count <= 0) {
            greeting_lost(device, connection, count == 0 ? 0 : errno);
            break;
        }
        connection->in_bytes += (size_t)count;
        if (connection->in_bytes == wanted) {
            bool open = connection->state == CONNECTION_OPEN;

            connection->in_bytes = 0;
            take_whole(device, connection, take, cookie);
            if (!open && connection->state == CONNECTION_OPEN)
                break;
        }
    }
    flush(device, connection);
}
