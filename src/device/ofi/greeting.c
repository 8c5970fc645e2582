/*
 * Greeting another task: attempts to get through to its reception.
 *
 * Who lives may not take up the first one. A door that is full of strangers sends those away who
 * are slow, as a task is that gets no processor; and before a task that is stopped, or has too many
 * to let in, only so many can queue: of others its kernel drops what they send. Until the client is
 * welcome nobody has read what it has to say, so it begins anew, with another nonce:
 *
 *   a socket has ended      the host has just shown that it lives. After a pause, as the door may
 *                           be as full as before
 *   nothing is heard of     for a part of the peer timeout: the client knocks where nobody listens,
 *   the door                which the kernel of a host that lives refuses. The door has not
 *                           refused, so somebody has it open still
 *   no way to the host      says the network, as for a moment after that was away. After a pause
 *
 * The other one counts as dead when its door refuses, when its host has been silent for the peer
 * timeout, and when the greeting has taken too long. Nobody without the key can make it last longer
 * than that, and who knocks does not use up anything of the other task's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "device/ofi/connection.h"
#include "device/ofi/errors.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/minmax.h"

/* A third of the peer timeout without a word from the door, and the client knocks; where that is
 * long, sooner. Somebody may open the door between two knocks. */
#define SILENCE_PART 3u
#define SILENCE_NS UINT64_C(10000000000)
/* The first pause; each is twice as long as the one before, up to this. */
#define PAUSE_NS UINT64_C(50000000)
#define PAUSE_DOUBLINGS 4u

static uint64_t timeout_ns(const struct ofi_device *device)
{
    return device->peer_timeout_ms * UINT64_C(1000000);
}

static uint64_t silence_ns(const struct ofi_device *device)
{
    return smaller(timeout_ns(device) / SILENCE_PART, SILENCE_NS);
}

static struct place beside(const struct place *place)
{
    struct place other = *place;

    if (other.door.any.sa_family == AF_INET)
        other.door.v4.sin_port = place->closed;
    else
        other.door.v6.sin6_port = place->closed;
    return other;
}

/* From the address of the interface that we use. The port is chosen when it is known where to: one
 * that is bound before serves this connection only, and a host has some 28000 for all its tasks. */
static int connect_from(const union ofi_address *from, const union ofi_address *to)
{
    const int on = 1;
    int fd = socket_new(to->any.sa_family);
    int error = 0;

    if (fd < 0)
        return fd;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    if (from->any.sa_family == to->any.sa_family)
        error = bind(fd, &from->any, ofi_address_bytes(from));
    if (error == 0)
        error = connect(fd, &to->any, ofi_address_bytes(to));
    if (error == 0 || errno == EINPROGRESS)
        return fd;
    error = -errno;
    socket_close(fd);
    return error;
}

static void hang_up(struct connection *connection)
{
    connection_hang_up(connection);
    connection->in_bytes = connection->said = 0;
}

static void pause_for(struct connection *connection, uint64_t ns)
{
    hang_up(connection);
    connection->deadline = clock_now_ns() + ns;
    connection->state = CONNECTION_PAUSED;
}

/* Longer from time to time. */
static void pause_again(const struct ofi_device *device, struct connection *connection)
{
    uint64_t ns = PAUSE_NS << smaller(connection->pauses, PAUSE_DOUBLINGS);

    connection->pauses++;
    pause_for(connection, smaller(ns, silence_ns(device)));
}

/* When there is no way to its host. */
static bool waits_for_way(const struct ofi_device *device, struct connection *connection, int error)
{
    if (!ofi_is_no_way(error) || clock_now_ns() >= connection->heard + timeout_ns(device))
        return false;
    if (connection->pauses == 0)
        log_warn("ofi: task %u cannot be connected to: %s; is tried again for %u ms "
                 "(PAMI_PEER_TIMEOUT)",
                 connection->task, strerror(error), device->peer_timeout_ms);
    pause_again(device, connection);
    return true;
}

/* Another node's task has the address of this one: who asks there asks this host. */
static bool is_own(const struct ofi_device *device, const struct place *place)
{
    const union ofi_address *own = &device->interface;
    bool loopback = own->any.sa_family == AF_INET
                        ? ntohl(own->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
                        : IN6_IS_ADDR_LOOPBACK(&own->v6.sin6_addr);

    return !loopback && ofi_address_same_host(&place->door, own);
}

static void say_refused(const struct ofi_device *device, const struct connection *connection,
                        int error)
{
    if (error == ECONNREFUSED && is_own(device, &connection->place))
        log_warn("ofi: task %u cannot be connected to: %s; it says that its address is what this "
                 "task's is, too (PAMI_OFI_INTERFACE)",
                 connection->task, strerror(error));
    else
        log_at(ofi_is_lack(error) ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO,
               "ofi: task %u cannot be connected to: %s", connection->task, strerror(error));
}

/* A negative errno leaves the connection failed. */
static int begin(const struct ofi_device *device, struct connection *connection,
                 const struct place *place, enum connection_state state)
{
    int fd = connect_from(&device->interface, &place->door);

    if (fd < 0 && waits_for_way(device, connection, -fd))
        return 0;
    connection->fd = fd >= 0 ? fd : -1;
    connection->state = fd >= 0 ? state : CONNECTION_FAILED;
    if (fd >= 0)
        connection_set_heartbeat(device, fd);
    else if (state == CONNECTION_CONNECTING || fd != -ECONNREFUSED)
        say_refused(device, connection, -fd);
    return fd >= 0 ? 0 : fd;
}

static int greet(const struct ofi_device *device, struct connection *connection)
{
    connection->deadline = clock_now_ns() + silence_ns(device);
    return begin(device, connection, &connection->place, CONNECTION_CONNECTING);
}

/* The host lives, so there is no room before the door. */
static void answered(struct connection *connection)
{
    log_info("ofi: task %u lets nobody in, but its host lives", connection->task);
    connection->heard = clock_now_ns();
    pause_for(connection, 0);
}

static void knock(const struct ofi_device *device, struct connection *connection)
{
    struct place place = beside(&connection->place);

    hang_up(connection);
    connection->deadline = connection->heard + timeout_ns(device);
    if (begin(device, connection, &place, CONNECTION_KNOCKING) == -ECONNREFUSED)
        answered(connection);
}

struct connection *connection_to(const struct ofi_device *device, uint32_t task, uint32_t life,
                                 const struct place *place)
{
    struct connection *connection = connection_over(device, task, life, -1);
    int error;

    if (connection == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    connection->place = *place;
    error = greet(device, connection);
    if (error == 0)
        return connection;
    connection_free(connection);
    errno = -error;
    return NULL;
}

/* The other's kernel has it: there is room before the door. */
static bool is_taken(const struct connection *connection)
{
    int left = 0;

    return ioctl(connection->fd, SIOCOUTQ, &left) == 0 && left == 0;
}

void greeting_late(const struct ofi_device *device, struct connection *connection)
{
    uint64_t end = connection->since + connection_greeting_ns(device);

    if (clock_now_ns() >= end)
        connection->state = CONNECTION_FAILED;
    else if (connection->state == CONNECTION_PAUSED)
        greet(device, connection);
    else if (connection->state == CONNECTION_CHALLENGED && is_taken(connection))
        connection->deadline = end;
    else if (connection->state == CONNECTION_CONNECTING ||
             connection->state == CONNECTION_CHALLENGED)
        knock(device, connection);
    else
        connection->state = CONNECTION_FAILED;
}

/* The kernel gives up after some two minutes, whatever the peer timeout is. */
void greeting_knocked(const struct ofi_device *device, struct connection *connection)
{
    int error = connection_error(connection);

    if (error == 0 || error == ECONNREFUSED)
        answered(connection);
    else if (error == ETIMEDOUT && clock_now_ns() < connection->deadline)
        pause_for(connection, 0);
    else if (!waits_for_way(device, connection, error))
        connection->state = CONNECTION_FAILED;
}

void greeting_heard(const struct ofi_device *device, struct connection *connection)
{
    connection->heard = clock_now_ns();
    connection->deadline = connection->heard + silence_ns(device);
}

void greeting_lost(const struct ofi_device *device, struct connection *connection, int error)
{
    bool connecting = connection->state == CONNECTION_CONNECTING;
    bool greeting = connecting || connection->state == CONNECTION_CHALLENGED ||
                    connection->state == CONNECTION_WAITING;

    if (greeting && waits_for_way(device, connection, error))
        return;
    if (!greeting || (error != 0 && error != ECONNRESET && error != EPIPE)) {
        if (connecting)
            say_refused(device, connection, error);
        connection->state = CONNECTION_FAILED;
        return;
    }
    log_info("ofi: task %u has hung up before we were welcome: is greeted again", connection->task);
    connection->heard = clock_now_ns();
    pause_again(device, connection);
}
