/*
 * The conversation of connection.h over a non-blocking socket.
 */
#include "device/ofi/connection.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
static void set_heartbeat(int fd, uint32_t timeout_ms)
{
    int interval = timeout_ms < 5000 ? 1 : (int)(timeout_ms / 5000);

    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, interval);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)timeout_ms);
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/*
 * How long a connection may take: to be made, a peer's silence; through the proofs much longer, for
 * there a process has to answer. Where the tasks outnumber the processors by far it may not run for
 * seconds, and is not dead; of a host that is gone the heartbeats tell.
 */
#define HANDSHAKE_FACTOR 12u

static void set_deadline(const struct ofi_device *device, struct connection *connection)
{
    uint64_t factor = connection->state == CONNECTION_CONNECTING ? 1 : HANDSHAKE_FACTOR;

    connection->deadline = clock_now_ns() + factor * device->peer_timeout_ms * 1000000u;
}

static struct connection *connection_new(const struct ofi_device *device, int fd,
                                         enum connection_state state)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL)
        return NULL;
    list_init(&connection->link);
    connection->fd = fd;
    connection->state = state;
    connection->since = clock_now_ns();
    set_deadline(device, connection);
    set_heartbeat(fd, device->peer_timeout_ms);
    return connection;
}

void connection_free(struct connection *connection)
{
    list_remove(&connection->link);
    close(connection->fd);
    free(connection->out);
    free(connection);
}

/* From the address of the interface that we use. The port is chosen when it is known where to: one
 * that is bound before serves this connection only, and a host has some 28000 for all its tasks. */
static int connect_from(const struct sockaddr_storage *from, const struct sockaddr_storage *to)
{
    socklen_t bytes =
        to->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = 0;

    if (fd < 0)
        return -errno;
    set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    if (from->ss_family == to->ss_family)
        error = bind(fd, (const struct sockaddr *)(const void *)from, bytes);
    if (error == 0)
        error = connect(fd, (const struct sockaddr *)(const void *)to, bytes);
    if (error == 0 || errno == EINPROGRESS)
        return fd;
    error = -errno;
    close(fd);
    return error;
}

struct connection *connection_to(const struct ofi_device *device, uint32_t task, uint32_t life,
                                 const struct sockaddr_storage *address)
{
    int fd = connect_from(&device->interface, address);
    struct connection *connection = fd >= 0 ? connection_over(device, task, life, fd) : NULL;

    if (connection != NULL)
        return connection;
    if (fd >= 0) {
        close(fd);
        fd = -ENOMEM;
    } else {
        log_at(ofi_is_lack(-fd) ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO,
               "ofi: task %u cannot be connected to: %s", task, strerror(-fd));
    }
    errno = -fd;
    return NULL;
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
    if (!proof_random(connection->hello.nonce, sizeof(connection->hello.nonce)))
        connection->state = CONNECTION_FAILED;
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

/* Messages queued early wait until the proofs are through. */
bool connection_has_output(const struct connection *connection)
{
    return connection->state == CONNECTION_CONNECTING ||
           (connection->state == CONNECTION_OPEN && connection->out_bytes != 0);
}

static void flush(struct connection *connection)
{
    ssize_t count;

    if (connection->state != CONNECTION_OPEN || connection->out_bytes == 0)
        return;
    count = send(connection->fd, connection->out, connection->out_bytes, MSG_NOSIGNAL);
    if (count < 0) {
        if (errno != EAGAIN && errno != EINTR)
            connection->state = CONNECTION_FAILED;
        return;
    }
    connection->out_bytes -= (size_t)count;
    memmove(connection->out, connection->out + count, connection->out_bytes);
}

/* The few bytes of a proof always fit into an empty socket's buffer. */
static void say(struct connection *connection, const void *data, size_t bytes,
                enum connection_state next)
{
    connection->state = send(connection->fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes
                            ? next
                            : CONNECTION_FAILED;
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
        return sizeof(struct proof);
    case CONNECTION_OPEN:
        return sizeof(struct message);
    default:
        return 0;
    }
}

static void connected(const struct ofi_device *device, struct connection *connection)
{
    int error = 0;
    socklen_t bytes = sizeof(error);

    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error != 0) {
        log_info("ofi: task %u cannot be connected to: %s", connection->task, strerror(error));
        connection->state = CONNECTION_FAILED;
        return;
    }
    say(connection, &connection->hello, sizeof(connection->hello), CONNECTION_CHALLENGED);
    set_deadline(device, connection);
}

static void opened(struct connection *connection)
{
    connection->state = CONNECTION_OPEN;
    connection->deadline = 0;
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
    say(connection, &connection->challenge, sizeof(connection->challenge), CONNECTION_CHECKING);
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
    say(connection, &right, sizeof(right), CONNECTION_OPEN);
    if (connection->state == CONNECTION_OPEN)
        opened(connection);
}

static void take_proof(const struct ofi_device *device, struct connection *connection)
{
    struct proof right = prove(device, connection, PURPOSE_CLIENT);

    if (!proof_equal(&right, &connection->in.proof)) {
        connection->state = CONNECTION_FAILED;
        return;
    }
    connection->task = connection->hello.from;
    opened(connection);
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
    while (wanted_bytes(connection) != 0) {
        size_t wanted = wanted_bytes(connection);
        ssize_t count = recv(connection->fd, connection->in.bytes + connection->in_bytes,
                             wanted - connection->in_bytes, 0);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EAGAIN)
            break;
        if (count <= 0) {
            connection->state = CONNECTION_FAILED;
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
    flush(connection);
}
