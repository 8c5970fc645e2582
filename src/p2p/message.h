/*
 * Messages of the library itself, below the user's dispatch ids: how geometries and collectives
 * talk. They take the same protocols, queues and order as the user's messages, but no user can
 * register, send to or query their ids.
 *
 * A handler is a dispatch function. What one packet holds is handed over from where it lies
 * (`recv` NULL). Of a larger message the handler names the destination with message_accept; or it
 * keeps the message with message_defer, and names the destination later with message_resume. Data
 * that a rendezvous brings is not fetched before, so keeping such a message costs no copy.
 */
#ifndef LIBPAMI_P2P_MESSAGE_H
#define LIBPAMI_P2P_MESSAGE_H

#include <pami/pami.h>

#include "context/context.h"
#include "type/type.h"

/* Rows of the context's table of internal handlers. */
enum message_id {
    MESSAGE_GEOMETRY,     /* src/geometry: how geometries are made */
    MESSAGE_COLLECTIVE,   /* src/coll: the phases of collectives */
    MESSAGE_AMCOLLECTIVE, /* src/coll: active-message collectives */
    MESSAGE_SHARED,       /* src/coll/shared: how arenas of shared memory are made */
    MESSAGE_SERVERS,      /* src/servers: calls to server processes, and their answers */
    MESSAGE_AGGREGATE,    /* src/coll/aggregate: between members and aggregation nodes */
    MESSAGE_IDS
};

_Static_assert(MESSAGE_IDS <= DISPATCH_INTERNAL, "each has a row");

/* Headers of at most so many bytes go the fast way; longer ones work as well. */
#define MESSAGE_HEADER_SHORT 48u

/* `offset` data bytes behind the start of `type` applied at `address`; type NULL: plain bytes. A
 * reference is taken as long as the message needs it. */
struct message_place {
    void *address;
    struct type *type;
    size_t offset;
};

struct receive;

/* Before anything can arrive: when floors attach to a new context. */
void message_register(struct context *context, enum message_id id,
                      pami_dispatch_p2p_function handler, void *cookie);

#define MESSAGE_SENT 1

/* Who moves data that is more than a few hundred bytes. */
enum message_way {
    MESSAGE_BY_SIZE,        /* p2p decides: the sender of what is eager */
    MESSAGE_BY_SOURCE,      /* push: the sender, whatever the size */
    MESSAGE_BY_DESTINATION, /* pull: the receiver, where it can read the sender's memory */
};

/*
 * Sends; never refuses for want of room.
 *   header    any length, copied
 *   place     of `bytes` bytes of data; its address may be NULL when bytes is 0
 *   done      called from advance when nothing of it waits for room here any more, so that who then
 *             advances other contexts keeps nobody waiting; the data may be overwritten, the peer
 *             may have gone
 * MESSAGE_SENT: that is already so, and `done` is not called. 0: `done` will be. Negative, nothing
 * was sent and `done` is not called: -ENOMEM, -EPIPE (has gone), -EINVAL (outside the job).
 */
int message_send(struct context *context, uint32_t endpoint, enum message_id id, const void *header,
                 size_t header_bytes, const struct message_place *place, size_t bytes,
                 pami_event_function done, void *cookie);

/*
 * The same, when the sender knows better who should move the data. `sum`, if not 0: the message is
 * a part of what goes together, of so many bytes. Others send as much in one piece, and wait for
 * those who get ours: so all parts go along with their messages, up to twice what p2p takes for
 * eager, or none does.
 */
int message_send_by(enum message_way way, size_t sum, struct context *context, uint32_t endpoint,
                    enum message_id id, const void *header, size_t header_bytes,
                    const struct message_place *place, size_t bytes, pami_event_function done,
                    void *cookie);

/*
 * The memory behind sends to `endpoint` that were given `cookie` and are not done is to go away:
 * what is still needed of it is copied. False: the peer may be reading there by itself, or there is
 * no room for a copy, so it must stay until `done` is called.
 */
bool message_disown(struct context *context, uint32_t endpoint, const void *cookie);

/*
 * Inside a handler: where the message goes; without an address it is discarded, unless the type's
 * displacements are addresses. `done` is called when it is there, with an error when it will never
 * be; not before the handler returns.
 */
void message_accept(pami_recv_t *recv, const struct message_place *place, pami_event_function done,
                    void *cookie);

/*
 * Inside a handler: the message waits. `lost` is called when it cannot be completed any more; it
 * must not be resumed then.
 */
struct receive *message_defer(pami_recv_t *recv, pami_event_function lost, void *cookie);

/*
 * Inside a handler, which has done nothing yet: there is no memory for the message now. It comes
 * again before all that is behind it.
 */
void message_put_back(struct context *context, pami_recv_t *recv);

/* Memory that a message which waits takes here: all its data, unless a rendezvous brings it. */
size_t message_deferred_bytes(const struct receive *receive);

/* Memory in which messages wait until the program registers what they are for: as much more, or
 * less. With more than PAMI_HOLD_BYTES the context's ports are not read, and a warning says so. */
void message_held(struct context *context, size_t bytes);
void message_held_less(struct context *context, size_t bytes);

/* As message_accept, for a message that waits; `done` may be called before this returns. */
void message_resume(struct receive *receive, const struct message_place *place,
                    pami_event_function done, void *cookie);

/* Data that is still to be written to the place named is discarded; `done` is called all the
 * same. For a message that was accepted or resumed and whose `done` has not been called. False: the
 * device is writing there, so the place must stay until then. */
bool message_discard(struct receive *receive);

/* The message behind `recv`, inside a handler. */
struct receive *message_receive(pami_recv_t *recv);

/* Learn of endpoints that have gone. A watcher is a member of what it concerns. */
struct message_watch {
    struct list link;
    void (*gone)(struct message_watch *watch, struct context *context, uint32_t endpoint);
    /* The context ends, and the watch with it; no operations any more. NULL: that is known. */
    void (*ended)(struct message_watch *watch);
};

void message_watch(struct context *context, struct message_watch *watch);

/* Be told when `endpoint` goes, although nothing is sent there. 0; -EPIPE: it has gone; -ENOMEM. */
int message_expect(struct context *context, uint32_t endpoint);

/* Between own memory and that of another task of this node, inside the call. 0; -ENOSYS: not this
 * way, which is also the answer without bytes; -EPIPE: it has gone; or another error. */
int message_copy(struct context *context, uint32_t endpoint, bool put, void *near, uint64_t far,
                 size_t bytes);

/* Such copies need no kernel: those of others from or to this memory of this task, and its own ones
 * from or to the shared heap of the other. */
bool message_in_heap(struct context *context, const void *address, size_t bytes);
bool message_maps_heap(struct context *context, uint32_t endpoint);

/* It is known to have gone, and has not been resumed. */
bool message_has_gone(struct context *context, uint32_t endpoint);

/* Or it is about to be: something has failed for want of its memory. To name it in errors. */
bool message_has_ended(struct context *context, uint32_t endpoint);

#endif
