/*
 * What src/coll keeps: for each context (struct coll) and for each group (struct coll_state).
 */
#ifndef LIBPAMI_COLL_COLL_H
#define LIBPAMI_COLL_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "coll/algorithm.h"
#include "coll/debt.h"
#include "coll/flight.h"
#include "coll/locality.h"
#include "coll/repeat.h"
#include "coll/select.h"
#include "context/context.h"
#include "geometry/geometry.h"
#include "p2p/message.h"
#include "util/list.h"
#include "util/pool.h"

/* Rows that PAMI_STATS can count. */
#define COLL_ROWS_MAX 256

/* What PAMI_Collective has to tell when its machine is done. */
struct coll_operation {
    struct list link; /* in coll.started */
    struct machine *machine;
    struct context *context;
    pami_event_function cb_done;
    void *cookie;
    const struct algorithm *row;
    uint64_t *ran; /* counts runs of the row; NULL: the row's machines do it */
    uint64_t bytes;
    uint64_t number; /* the first of its block */
    bool gave_up;    /* because members disagree, and all have been told */
    struct repeat_key key;
};

/* What a program's composition has of the numbers of a geometry while it runs (pamix.h). */
struct coll_block {
    struct list link; /* in coll.blocks */
    struct group *group;
    struct machine *machine; /* the whole */
    uint64_t first, end;
    bool gave_up; /* as in an operation */
};

/* What a context that has groups keeps: of the table of algorithms, and what it owes. */
struct coll_rows {
    struct select_table select;
    struct repeats repeats;
    struct debts debts;
    uint64_t ran[COLL_ROWS_MAX]; /* by row */
};

struct flow_memory;
struct aggregate;
struct aggregate_member;

struct coll {
    struct context *context;
    struct aggregate *aggregate; /* aggregate/ */
    struct flight_table flights;
    struct pool instances;    /* struct instance */
    struct pool operations;   /* struct coll_operation */
    struct list started;      /* operations that are not complete */
    struct list blocks;       /* of compositions that are not complete */
    struct list running;      /* instances */
    struct list lingering;    /* that failed, for which p2p still has something under way */
    struct flow_memory *kept; /* of flows that failed, while any instance lingers */
    struct list flows;        /* that are kept, see flow.h; the last one used is the first */
    uint32_t flows_count;
    struct message_watch watch;
    /* What the last PAMI_Collective resolved its algorithm to; handle 0: nothing. */
    pami_algorithm_t last_handle;
    struct group *last_group;
    struct coll_operation **last_kept; /* the slot of `rows` that was filled last (repeat.h) */
    struct coll_rows *rows;  /* NULL until a group is opened: idle contexts are to be small */
    struct list handed;      /* of those that run, what a helper is to begin with */
    struct retry begin;      /* ... which this does */
    struct list aside;       /* of those that run, what copies in pieces (aside.h) */
    struct retry copy;       /* ... which this does */
    uint64_t ask_at, ask_ns; /* when to look next who waits for whom, see ask.h, and how often */
    uint64_t news;           /* runs that have failed, endpoints that have gone */
    uint32_t gone;           /* gone.h: the last that has gone, a task + 1; 0: nobody */
};

/* Sets of leaders that a group can have whose domains differ in size (levels.h). */
#define COLL_LEADER_SETS 5u

/* Channels of the library's own sub-groups; 0 is the geometry itself. Depth: how often what is
 * around has been divided. */
enum coll_channel {
    COLL_CHANNEL_ALL,
    COLL_CHANNEL_LOCAL,                                   /* + depth: the members of a domain */
    COLL_CHANNEL_INNER = COLL_CHANNEL_LOCAL + LEVELS,     /* + depth - 1: leaders below the top */
    COLL_CHANNEL_NODES = COLL_CHANNEL_INNER + LEVELS - 1, /* all; see levels.h */
    COLL_CHANNEL_LEADERS,                                 /* + set: leaders at the top */
};

_Static_assert(COLL_CHANNEL_LEADERS + COLL_LEADER_SETS <= GROUP_CHANNELS, "channels are short");

struct coll_state {
    struct list reserved;               /* machines of this group that have numbers of their own */
    struct list tickets;                /* numbers for machines that have none yet (ticket.h) */
    struct arena *arena;                /* of shared memory, NULL until used */
    bool missed_arena;                  /* ... or for want of memory: runs have failed without */
    struct levels *levels;              /* levels.h; NULL until used */
    struct aggregate_member *aggregate; /* in its latest term, see aggregate/; NULL until used */
    int places;                         /* of a sub-group: locality.c; 0: not asked yet */
    uint32_t runs;                      /* machines that run, those of sub-groups too */
    uint64_t failed;       /* of the runs that have failed here the last one, by number */
    pami_result_t failure; /* why */
    bool has_failed;
    struct coll_state *parent;
    struct group *top; /* the geometry's own group, which has the rest: */
    bool in_block;     /* a composition reserves numbers ... */
    uint64_t block;    /* ... from this one on */
    struct list terms; /* of aggregation, see aggregate/: struct aggregate_member, as there are */
    uint32_t term;     /* ... the latest, by number */
    uint32_t gone;     /* a member that has gone: gone.h */
    uint32_t told;     /* the last run about which this member has told all that they disagree */
    bool has_told;
    struct group *subs[GROUP_CHANNELS]; /* of the geometry itself: all of them */
};

/* Per context: after p2p_attach and before anything can arrive; before p2p_detach. 0 or -ENOMEM. */
int coll_attach(struct context *context);
void coll_detach(struct context *context);

/* What geometries call. */
extern const struct geometry_hooks coll_geometry_hooks;

/* A machine runs on the group, or has ended: a geometry is not closed in between. */
void coll_runs(struct group *group);
void coll_ends(struct group *group);

/* The group that a handle of an algorithm means on this context; NULL with a text and *result. */
struct group *coll_group_of(const char *function, struct context *context,
                            pami_algorithm_t algorithm, pami_result_t *result);

/* What a geometry keeps in `places` when it has so many members on so many nodes, pretended ones or
 * with a network between them. */
int group_places_like(uint32_t members, uint32_t nodes, bool network);

/* The group with this name, if its run with this number has begun or is over here; the geometry's
 * own where this member has made none for the channel. Else NULL. */
struct group *coll_group_at(struct context *context, uint64_t identity, uint32_t channel,
                            uint32_t sequence);

/* The machine of what coll_group_at has found that keeps this number for a run which has not begun,
 * or is in an arena; NULL: the run is in its flight, or over, or there is none. */
struct machine *coll_reserved(const struct group *group, uint32_t channel, uint32_t sequence);

/* A collective that this number is part of, if it still runs, is given up; PAMI_INVAL: because
 * members disagree, and all are told. */
bool coll_give_up(struct group *group, uint32_t sequence, pami_result_t why);

/* This member has found out that members disagree about what run `sequence` is part of. */
void coll_tells(struct group *group, uint32_t sequence);

/* A run has failed here: not all that others have sent for it was taken. PAMI_INVAL: because
 * members disagree; all else is this member's own trouble. */
void coll_failed(struct group *group, uint32_t sequence, pami_result_t why);

/* Why others may still wait for a run that is over here: what has ended it, or a later one, with an
 * error, PAMI_INVAL or PAMI_ERROR. PAMI_SUCCESS: nothing has. */
pami_result_t coll_why_over(const struct group *group, uint32_t sequence);

#endif
