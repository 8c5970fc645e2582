/*
 * What tasks and server processes say to one another: messages of the library's own, with a call as
 * header, and answers.
 *
 * The queue of a server process is the inbox of its context, which is lock-free, from all tasks of
 * its domain, and which steps over a sender that died. Calls of one context are taken in order.
 */
#ifndef LIBPAMI_SERVERS_PROTOCOL_H
#define LIBPAMI_SERVERS_PROTOCOL_H

#include <stdint.h>

#include <pami/pami.h>

/* The card by which a server says that it serves, and takes part in no more fences; its number. */
#define SERVER_SERVES "pami-serving-%u"

enum server_call_kind {
    CALL_PUT,
    CALL_GET,
    CALL_SEND,
    CALL_IMMEDIATE,
    CALL_FENCE,
    CALL_KINDS
};

enum server_call_flags {
    CALL_CARRIED = 1, /* the data is the message's; else it is at `local` in the caller's heap */
    CALL_FIRST = 2,   /* the first of two callbacks is wanted by itself */
    CALL_REMOTE = 4,  /* send: the remote callback is wanted */
};

/* Behind it, in a send, the user's header. */
struct server_call {
    uint32_t handle; /* for the answers */
    uint8_t kind;    /* enum server_call_kind */
    uint8_t flags;   /* enum server_call_flags */
    uint16_t dispatch;
    uint32_t dest;
    uint32_t limit; /* operations that the server shall have in flight at most; 0: any number */
    uint64_t local;
    uint64_t remote;
    uint64_t bytes;
    pami_send_hint_t hints;
    pami_dispatch_hint_t dispatch_hints; /* with which the caller has registered `dispatch` */
};

_Static_assert(sizeof(struct server_call) == 48, "a call fits into a short packet");

struct server_answer {
    uint32_t handle;
    uint32_t last;  /* nonzero: nothing comes behind it, the handle is no more */
    int32_t result; /* pami_result_t */
};

#endif
