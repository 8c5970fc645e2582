/*
 * Connections between receptions: proving that one belongs to the job, then messages.
 *
 *   client                       server
 *   hello (who, to whom, nonce)  ->
 *                                <-  challenge (nonce, server's proof over all so far)
 *   client's proof over the same ->
 *                                <-  that the client is welcome, or is not (a proof as well)
 *   from here on messages, both ways; the client's may follow its proof at once
 *
 * Everything has a fixed size, so there is nothing to parse before the proofs are checked. Until
 * the client is welcome it keeps what it has said, for nobody may have read that, and can begin
 * anew (greeting.c): a connection is one conversation, and may have several sockets before it is
 * open.
 */
#ifndef LIBPAMI_DEVICE_OFI_CONNECTION_H
#define LIBPAMI_DEVICE_OFI_CONNECTION_H

#include "device/ofi/ofi.h"

#define HELLO_MAGIC UINT64_C(0x70616d692d6f6669)
/* Who makes a proof, or what the server says by it. */
#define PURPOSE_SERVER UINT64_C(1)
#define PURPOSE_CLIENT UINT64_C(2)
#define PURPOSE_WELCOME UINT64_C(3)
#define PURPOSE_REFUSAL UINT64_C(4)

enum message_kind {
    MESSAGE_ASK = 1, /* what is the name of `to`? Here is that of `from`. */
    MESSAGE_NAME,    /* the answer: the name of `from` */
    MESSAGE_CLOSED,  /* the other answer: `from` has closed */
    MESSAGE_BACK,    /* `from` is there again */
    MESSAGE_HEARD,   /* the answer, by the reception */
    MESSAGE_LEAVE,   /* `from` closes, after `count` packets to `to` */
    MESSAGE_PULSE,   /* is `to` there? With `count` 1 `name` is ports, here and in the answer */
    MESSAGE_BEAT,    /* the answer, by `from` itself when it next advances */
    MESSAGE_CUT,     /* never sent: packets to `to` do not get through, in life `count` */
};

struct message {
    uint32_t kind;
    uint32_t from, to; /* endpoints */
    uint32_t count;    /* ASK: as which life; NAME: as it was asked */
    uint32_t ended;    /* names and LEAVE: how often contexts of `from` were destroyed before */
    uint32_t unused;   /* 0 */
    struct ofi_name name;
};

_Static_assert(sizeof(struct message) == 24 + sizeof(struct ofi_name),
               "no holes: they would be sent as they are");

enum connection_state {
    CONNECTION_PAUSED, /* client: no socket; begins anew at the deadline */
    CONNECTION_CONNECTING,
    CONNECTION_KNOCKING,   /* client: connects to where nobody listens */
    CONNECTION_CHALLENGED, /* client: hello sent, waits for the challenge */
    CONNECTION_WAITING,    /* client: proof sent, waits to be welcome */
    CONNECTION_GREETED,    /* server: waits for a hello */
    CONNECTION_CHECKING,   /* server: waits for the client's proof */
    CONNECTION_PROVEN,     /* server: that was right; connection_open is due */
    CONNECTION_OPEN,
    CONNECTION_FAILED,
};

struct hello {
    uint64_t magic;
    uint32_t from, to; /* tasks */
    uint32_t life;     /* of their acquaintance, see reception.h */
    uint32_t unused;   /* 0 */
    uint8_t nonce[16];
};

struct challenge {
    uint8_t nonce[16];
    struct proof proof;
};

/* Where a task's reception is. */
struct place {
    union ofi_address door;
    in_port_t closed; /* nobody listens there: who connects is refused as long as the host lives */
};

struct connection {
    struct list link;
    int fd;    /* -1: none */
    int epoll; /* the set that watches the socket, where one does */
    enum connection_state state;
    uint32_t task;     /* the other; known once the state is PROVEN or for clients */
    uint64_t since;    /* ns */
    uint64_t deadline; /* ns; 0: none */
    uint64_t heard;    /* client: ns, the last sign of life of the other's host */
    uint32_t pauses;   /* client: that there have been */
    struct place place;
    struct hello hello;
    struct challenge challenge;
    size_t in_bytes, out_bytes, out_room;
    size_t said; /* of `out`, but it may have to be said again */
    char *out;   /* still to be said */
    union {
        struct message message;
        struct hello hello;
        struct challenge challenge;
        struct proof proof;
        char bytes[sizeof(struct message)];
    } in;
};

/* Greets a task's reception (does not wait), or somebody over a socket that is being connected (-1:
 * there will be one), or is greeted over one that was accepted. NULL: cannot; of the latter two
 * only without memory, and the socket is still the caller's. connection_to sets errno. */
struct connection *connection_to(const struct ofi_device *device, uint32_t task, uint32_t life,
                                 const struct place *place);
struct connection *connection_over(const struct ofi_device *device, uint32_t task, uint32_t life,
                                   int fd);
struct connection *connection_from(const struct ofi_device *device, int fd);
void connection_free(struct connection *connection);

/* Without a socket from now on. */
void connection_hang_up(struct connection *connection);

/* The socket is readable or writable: call what is given for each message. Look at the state
 * afterwards; what has come with the last proof is left for the next call. */
typedef void connection_message_function(void *cookie, struct connection *connection,
                                         const struct message *message);
void connection_progress(const struct ofi_device *device, struct connection *connection,
                         connection_message_function *take, void *cookie);

/* The other one has proved who it is: it is welcome, or that is the end. A client has heard that it
 * is, a server says so. */
void connection_open(const struct ofi_device *device, struct connection *connection, bool welcome);

/* Queue a message, in any state; -ENOMEM. */
int connection_send(struct connection *connection, const struct message *message);

/* What one has queued the other one says, too, after its own; -ENOMEM. */
int connection_hand_over(const struct connection *connection, struct connection *other);

/* Something waits to be written, and may be, or for a socket to be connected. */
bool connection_has_output(const struct connection *connection);

/* greeting.c. A client's deadline has passed, a knock has had an effect, a socket is connected, or
 * has ended with this error or 0: what next? Look at the state; afterwards a socket that is being
 * connected is a new one. */
void greeting_late(const struct ofi_device *device, struct connection *connection);
void greeting_knocked(const struct ofi_device *device, struct connection *connection);
void greeting_heard(const struct ofi_device *device, struct connection *connection);
void greeting_lost(const struct ofi_device *device, struct connection *connection, int error);

/* sockets.c: non-blocking ones, which children do not get, by exec or by fork; or a negative errno,
 * which may be closed, too. */
int socket_new(int family);
int socket_accept(int listener);
void socket_close(int fd);

void connection_set_heartbeat(const struct ofi_device *device, int fd);
int connection_error(const struct connection *connection); /* of its socket: errno, or 0 */

/* How long all of a greeting may take: its other end may not run for seconds where the tasks
 * outnumber the processors by far, and is not dead. */
static inline uint64_t connection_greeting_ns(const struct ofi_device *device)
{
    return UINT64_C(12) * device->peer_timeout_ms * 1000000u;
}

#endif
