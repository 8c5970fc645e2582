/*
 * What arrives for collectives, and whom it is for.
 *
 * A flight is one run of one schedule on one member, named by (identity of the geometry, channel of
 * the group, sequence number); every message carries this name. A message that comes before its run
 * has begun, or before the run wants it, waits in the flight as an `early` one: small ones copied,
 * large ones deferred where p2p keeps them. Within a flight, messages of one sender are taken in
 * their order.
 *
 * One table per context, which its owner alone touches.
 */
#ifndef LIBPAMI_COLL_FLIGHT_H
#define LIBPAMI_COLL_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "context/context.h"
#include "geometry/geometry.h"
#include "util/list.h"
#include "util/pool.h"

/* The header of a collective's message. */
struct flight_head {
    uint64_t identity;
    uint32_t sequence;
    uint32_t word; /* check, channel and flags, FLIGHT_* */
};

_Static_assert(sizeof(struct flight_head) == 16, "short messages stay short");

/* In flight_head.word. The check is a digest of what all members must agree on; who gives a run up
 * has gone_word there. */
#define FLIGHT_CHECK_MASK 0xffffff00u
#define FLIGHT_CHANNEL_MASK 0x0000000fu
#define FLIGHT_ABORT 0x00000010u    /* the sender has failed: nothing more will come from it, */
#define FLIGHT_DISAGREE 0x00000020u /* ... because members called with different arguments */
/* See ask.h. Both: the question of a member that waits in an arena. */
#define FLIGHT_ASK 0x00000040u /* does the receiver have this run behind it? */
/* The sender has, or never had it, or has nothing more to say in it. With FLIGHT_ABORT it will not
 * fetch anything either. */
#define FLIGHT_OVER 0x00000080u

struct instance;

struct flight {
    struct flight *next; /* in its bucket */
    uint64_t identity;
    uint32_t sequence;
    uint32_t channel;
    bool aborted;              /* by a member that this one needs ... */
    bool disagrees;            /* ... for FLIGHT_DISAGREE */
    struct instance *instance; /* NULL: not begun, here are early messages only */
    struct list early;
};

/* A message that waits. */
struct early {
    struct list link;
    uint32_t origin; /* endpoint */
    uint32_t word;
    size_t bytes;
    struct receive *receive; /* larger ones: where p2p keeps it; NULL: `data`, or lost */
    bool lost;               /* its sender has gone before all of it was here */
    unsigned char data[];
};

/* A member of struct coll. */
struct flight_table {
    struct context *context;
    struct flight **buckets;
    size_t mask, count;
    size_t waiting;        /* flights that have not begun */
    struct flight *recent; /* the last one found or begun; NULL: none */
    struct pool flights;
    uint64_t arrived_early, stale; /* messages */
};

int flight_table_init(struct flight_table *table, struct context *context);

/* At the end of the context: what waits is dropped without a word. */
void flight_table_finish(struct flight_table *table);

/*
 * A run begins: puts the flight (its name is set) into the table, with what has come early for it.
 */
void flight_begin(struct flight_table *table, struct flight *flight);

/* It has ended; early messages that nobody took are dropped. Returns how many. */
size_t flight_end(struct flight_table *table, struct flight *flight);

/* At the end of the context: the same, and p2p is not told. */
void flight_drop(struct flight_table *table, struct flight *flight);

/* Of a run: the oldest early message that counts as one of an endpoint, taken out, or NULL. */
struct early *flight_take(struct flight *flight, uint32_t origin);

void early_free(struct early *early);

/* Drop all early messages of a geometry that is not there any more. */
void flight_forget(struct flight_table *table, uint64_t identity);

/* The same of all that are over, whose messages may come later; now and then. */
void flight_reap(struct flight_table *table);

/* Of a geometry of which a collective has failed: what waits for runs that are over, or that this
 * member does not have. Its senders are told. */
void flight_sweep(struct flight_table *table, uint64_t identity);

/* Tell all other members that this one has given a run up; PAMI_INVAL: as members disagree. */
void flight_abort_all(const struct group *group, uint32_t sequence, pami_result_t why);

/* Tell one; without memory later (debt.h). `what`: more flags for the word. */
void flight_tell(struct context *context, const struct flight_head *head, uint32_t endpoint,
                 uint32_t what);

/* A collective has begun, or ended, whose machine does not run in the flight of its first number:
 * has anything come for that? */
void flight_look(struct flight_table *table, struct group *group, uint32_t sequence);

/* The handler of MESSAGE_COLLECTIVE; its cookie is the table. */
void flight_arrive(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                   const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv);

#endif
