/*
 * Active-message collectives: only the initiator calls PAMI_Collective, the others take part
 * through dispatch functions.
 *
 *   am.c        arriving messages, what a member does
 *   am_ids.c    ids, and the parts that wait for them
 *   am_start.c  what the initiator does
 *
 * Every member gets one message from the initiator, with the user's header behind a struct am_wire.
 * Its dispatch function says where the data goes (broadcast, scatter) or what is contributed
 * (gather, reduce), which travels back in one answer. Messages for a geometry or an id that is not
 * known yet are kept, in order; a rendezvous does not begin before. What waits for the program
 * counts as held messages do, up to PAMI_HOLD_BYTES (p2p/message.h). What waits for the end of a
 * creation does not: the context has to go on reading for that. When it is more, a warning says so.
 * Messages for a geometry that this member has destroyed are dropped, and an initiator that waits
 * for an answer is told.
 *
 * One struct am per context, which owns everything here.
 */
#ifndef LIBPAMI_COLL_AM_H
#define LIBPAMI_COLL_AM_H

#include <stdbool.h>
#include <stdint.h>

#include <pami/pami.h>

#include "context/context.h"
#include "geometry/geometry.h"
#include "p2p/message.h"
#include "util/hash.h"
#include "util/list.h"

enum am_kind {
    AM_BROADCAST,
    AM_SCATTER,
    AM_GATHER,
    AM_REDUCE,
    AM_ANSWER,  /* a contribution, to the initiator */
    AM_REFUSAL, /* there is none */
    AM_KINDS
};

/* In front of the user's header. */
struct am_wire {
    uint64_t identity; /* of the geometry */
    uint64_t id;       /* of the user's dispatch function */
    uint64_t bytes;    /* of this member's block */
    uint32_t kind;     /* enum am_kind */
    uint32_t number;   /* of the initiator's operation, for the answer */
};

/* What is known of a geometry of which ids have been set here, or for which parts wait. */
struct am_ids {
    struct list link; /* in am.waiting while parts wait, or in am.over */
    struct am *am;
    uint64_t identity;
    struct group *group; /* NULL: no id has been set */
    struct u64map rows;  /* by id; they stay as long as this */
    size_t parts;        /* that wait */
    size_t bytes;        /* of memory that those take which are counted */
    bool early;          /* it is not known here; the bytes are part of am.early_bytes */
    bool over;           /* it is not known any more: in am.over until all parts are dropped */
};

/* One id of one geometry on this context. */
struct am_row {
    struct list ready; /* in am.ready while it is set and parts wait */
    struct am_ids *ids;
    uint64_t id;
    bool set; /* to what the user has given; the geometry's group is open */
    pami_dispatch_callback_function function;
    void *cookie;
    struct list held; /* parts that wait, oldest first */
};

/* A member's part: waits for its id, then for its data to arrive or to leave. */
struct am_part {
    struct list link; /* in row.held until its dispatch function is called, then in am.parts */
    struct am *am;
    struct am_row *row; /* where it waits; NULL: it does not */
    size_t counted;     /* bytes of memory, while it waits for the program or a creation */
    struct am_wire wire;
    uint32_t origin;
    char *header; /* the user's, owned, aligned; not NULL */
    size_t header_bytes;
    char *data;               /* owned: what came with the message, or what data_fn needs */
    struct receive *deferred; /* the message whose data is to come */
    pami_recv_t recv;         /* what the dispatch function has said */
    struct type *type;        /* with a reference: behind recv.type then; NULL: none */
    pami_data_function op;    /* reduce: what it said */
    pami_result_t result;     /* of preparing for the data, ... */
    char *text;               /* ... from error_copy, owned */
};

struct am_operation;

struct am {
    struct context *context;
    struct u64map ids;   /* struct am_ids by identity */
    struct list waiting; /* those for which parts wait */
    struct list over;    /* those whose parts nobody will ever see */
    struct list ready;   /* rows whose parts may be run */
    bool late;           /* something is ready or over, but there was no memory to say so */
    struct list parts;   /* those whose dispatch function has been called */
    struct list owing;   /* ... and whose contribution could not be sent for want of memory, */
    struct retry retry;  /* ... while there are any */
    struct list operations;
    struct u64map asking; /* those that wait for answers, by number */
    size_t early_bytes, early_limit;
    uint32_t numbers; /* operations begun */
    struct message_watch watch;
};

/* Per context. 0 or -ENOMEM. */
int am_attach(struct context *context);
void am_detach(struct context *context);

/* Messages that came before the group wait for nothing but the program now. */
void am_group_opened(struct group *group);
/* Forget the ids of the group, and operations that still run. */
void am_group_closed(struct group *group);

/* Now and then: sees to it that what is late runs, and drops what waits for geometries that this
 * member has destroyed. How many of these things it has done. */
size_t am_sweep(struct context *context);

/* PAMI_Collective for the types PAMI_XFER_AM*; texts name PAMI_Collective. */
pami_result_t am_collective(struct group *group, pami_xfer_type_t type, const pami_xfer_t *xfer);

/* Set, or replace, a function; 0 or -ENOMEM. */
int am_set(struct group *group, uint64_t id, pami_dispatch_callback_function fn, void *cookie);

/* am_ids.c */
void am_ids_init(struct am *am);
void am_ids_finish(struct am *am); /* with all parts that wait */
/* NULL: it has not been set, and nothing waits for it. */
struct am_row *am_row_find(const struct am *am, uint64_t identity, uint64_t id);
/* The same, made if need be; NULL: no memory. */
struct am_row *am_row_get(struct am *am, uint64_t identity, uint64_t id);
/* Freed, unless an id has been set or parts wait. */
void am_ids_reap(struct am_ids *ids);
/* No dispatch function will ever see parts of this identity: the geometry is over here. */
bool am_is_over(const struct am *am, uint64_t identity);
/* It waits behind those that do; or no more, and is in no list. */
void am_part_wait(struct am_part *part, struct am_row *row);
void am_part_wait_no_more(struct am_part *part);

/* am.c */
void am_run_ready(struct am *am);
size_t am_drop_over(struct am *am); /* how many */
void am_part_dispatch(struct am_part *part, struct group *group, const struct am_row *row);
struct am_part *am_part_new(struct am *am, const struct am_wire *wire, uint32_t origin,
                            const void *header, size_t header_bytes);
void am_part_free(struct am_part *part);
/* What becomes of a message that message_send has refused, with a text. */
pami_result_t am_not_sent(int error, uint32_t endpoint);

/* am_start.c */
void am_start_init(struct am *am);
void am_start_finish(struct am *am); /* all groups have closed */
/* The context ends while operations run. */
void am_start_group_closed(struct am *am, const struct group *group);
/* A contribution has come, or will not. */
void am_answer(struct am *am, const struct am_wire *wire, uint32_t origin, const void *data,
               pami_recv_t *recv);

#endif
