/*
 * Connections between receptions: proving that one belongs to the job, then messages.
 *
 *   client                       server
 *   hello (who, to whom, nonce)  ->
 *                                <-  challenge (nonce, server's proof over all so far)
 *   client's proof over the same ->
 *   from here on messages, both ways
 *
 * Everything has a fixed size, so there is nothing to parse before the proofs are checked. A
 * connection that is not through within the peer timeout is closed.
 */
#ifndef LIBPAMI_DEVICE_OFI_CONNECTION_H
#define LIBPAMI_DEVICE_OFI_CONNECTION_H

#include "device/ofi/ofi.h"

#define HELLO_MAGIC UINT64_C(0x70616d692d6f6669)
/* Who makes a proof. */
#define PURPOSE_SERVER UINT64_C(1)
#define PURPOSE_CLIENT UINT64_C(2)

enum message_kind {
    MESSAGE_ASK = 1, /* what is the name of `to`? Here is that of `from`. */
    MESSAGE_NAME,    /* the answer: the name of `from` */
    MESSAGE_CLOSED,  /* the other answer: `from` has closed */
    MESSAGE_BACK,    /* `from` is there again; no answer */
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
    struct ofi_name name;
};

enum connection_state {
    CONNECTION_CONNECTING,
    CONNECTION_CHALLENGED, /* client: hello sent, waits for the challenge */
    CONNECTION_GREETED,    /* server: waits for a hello */
    CONNECTION_CHECKING,   /* server: waits for the client's proof */
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

struct connection {
    struct list link;
    int fd;
    enum connection_state state;
    uint32_t task;     /* the other; known once the state is CHECKING or for clients */
    uint64_t since;    /* ns */
    uint64_t deadline; /* ns; 0: none */
    struct hello hello;
    struct challenge challenge;
    size_t in_bytes, out_bytes, out_room;
    char *out; /* still to be written */
    union {
        struct message message;
        struct hello hello;
        struct challenge challenge;
        struct proof proof;
        char bytes[sizeof(struct message)];
    } in;
};

/* Connects to a task's reception (does not wait), or takes over a socket that is being connected to
 * it, or one that was accepted. NULL: cannot; of the latter two only without memory, and the socket
 * is still the caller's. connection_to sets errno. */
struct connection *connection_to(const struct ofi_device *device, uint32_t task, uint32_t life,
                                 const struct sockaddr_storage *address);
struct connection *connection_over(const struct ofi_device *device, uint32_t task, uint32_t life,
                                   int fd);
struct connection *connection_from(const struct ofi_device *device, int fd);
void connection_free(struct connection *connection);

/* The socket is readable or writable: call what is given for each message. Look at the state
 * afterwards; what has come with the last proof is left for the next call. */
typedef void connection_message_function(void *cookie, struct connection *connection,
                                         const struct message *message);
void connection_progress(const struct ofi_device *device, struct connection *connection,
                         connection_message_function *take, void *cookie);

/* Queue a message, in any state; -ENOMEM. */
int connection_send(struct connection *connection, const struct message *message);

/* Something waits to be written, and may be. */
bool connection_has_output(const struct connection *connection);

#endif
