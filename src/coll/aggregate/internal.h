/*
 * What the files of this folder share; aggregate.h has the picture.
 */
#ifndef LIBPAMI_COLL_AGGREGATE_INTERNAL_H
#define LIBPAMI_COLL_AGGREGATE_INTERNAL_H

#include "coll/aggregate/aggregate.h"
#include "coll/aggregate/manager.h"
#include "coll/aggregate/tree.h"
#include "coll/ask.h"
#include "coll/collective.h"
#include "coll/fallback.h"
#include "coll/machine.h"
#include "util/hash.h"
#include "util/list.h"

#define AGGREGATE_WINDOW_MAX 64u

/* A mark of nobody: a member has left before there were slots. All of its runs have failed, so
 * those of others cannot end well, and as some may have slots none may go over messages. */
#define AGGREGATE_LEFT UINT32_MAX

/* ---- messages ---- */

enum aggregate_kind {
    AGGREGATE_JOIN,    /* up: a child is there; `number` slots are possible below, in segments of
                        * `segment` bytes */
    AGGREGATE_GRANT,   /* down: so many are granted, of that size; none: refused */
    AGGREGATE_DATA,    /* up: a contribution */
    AGGREGATE_RESULT,  /* down: the result, with the data for those who want it */
    AGGREGATE_FAIL,    /* both: the run has failed */
    AGGREGATE_WAITING, /* up: a child waits for this run */
    AGGREGATE_ASK,     /* down, to members: a node waits for your part of this run */
    AGGREGATE_LEAVE,   /* up: a child has left this term, or will not come to it */
};

enum aggregate_flags {
    AGGREGATE_WANTS = 1u,     /* DATA: the result is needed below */
    AGGREGATE_LAST = 2u,      /* DATA: of the run's last segment */
    AGGREGATE_DISAGREES = 4u, /* FAIL: because members called it with different arguments */
    AGGREGATE_UP = 8u,        /* FAIL: from a child */
};

/* All of it is the header of a message; data follows it, as part of the header, so that p2p keeps
 * the copy. */
struct aggregate_wire {
    uint64_t identity;
    uint64_t number;  /* of the run */
    uint32_t vertex;  /* whose parent or child this is for; NONE: down, for the member itself */
    uint32_t segment; /* its index */
    uint32_t check;   /* DATA: a digest of what members must agree on; FAIL, and where no slots are
                       * possible: who has gone, a mark as in gone.h */
    uint32_t from;    /* up: the vertex of the child; NONE: a member */
    uint32_t term : 24;
    uint32_t flags : 4;
    uint32_t channel : 4; /* of the group; with identity and term it names a tree */
    uint8_t place;        /* of the child */
    uint8_t kind;
    uint8_t op;
    uint8_t element; /* enum type_kind */
};

_Static_assert(sizeof(struct aggregate_wire) == 40, "8 bytes of data stay short");
_Static_assert(OPERATOR_COUNT <= UINT8_MAX && TYPE_KIND_COUNT <= UINT8_MAX,
               "they have a byte each");
_Static_assert(GROUP_UPDATES_MAX < 1u << 24, "terms have 24 bits");
_Static_assert(GROUP_CHANNELS <= 1u << 4, "channels have 4 bits");

/* Where a node or a member sends to. */
struct aggregate_address {
    uint32_t endpoint;
    uint32_t vertex;
    uint32_t place;
};

/* ---- nodes ---- */

struct aggregate_child {
    uint32_t endpoint;
    uint32_t vertex; /* NONE: a member */
    uint64_t last;   /* the latest run that it has contributed to, */
    bool begun;      /* ... if any, */
    bool whole;      /* ... and with its last segment; or it has failed there */
    bool joined;
    bool gone, left;
};

/* An operation under way: one segment of a run. */
struct aggregate_slot {
    bool used;
    uint64_t number;
    uint32_t segment, check;
    uint16_t op, element;
    size_t bytes;
    uint64_t came, wants; /* children, a bit each */
    uint32_t next;        /* that is combined next: those before are */
    char *data;           /* of the children, each `room` bytes behind the other; the first
                           * becomes the result */
};

enum aggregate_state {
    AGGREGATE_JOINING, /* children are missing, or the host itself */
    AGGREGATE_JOINED,  /* the parent's grant is */
    AGGREGATE_GRANTED,
    AGGREGATE_REFUSED, /* for good; nodes: also when a child has left, or has gone before */
    AGGREGATE_BROKEN,  /* members: refused because one of them has gone, or left, whom runs would
                        * need */
    AGGREGATE_EARLY,   /* members: they have runs in an earlier term, and join when these end */
};

/* A run that has failed, while contributions to it may still come. */
struct aggregate_failure {
    struct list link;
    uint64_t number;
    uint32_t mark;
    bool disagrees;
};

struct aggregate_node {
    struct list link; /* in aggregate.nodes, beside those of the same geometry */
    struct aggregate *aggregate;
    uint64_t identity;
    uint32_t channel, term;
    uint32_t vertex;
    enum aggregate_state state;
    bool described; /* by the host: all below is known; before, only children that have joined */
    bool is_root;
    bool told_left;
    uint32_t mark; /* REFUSED, because this member has gone: see gone.h; or AGGREGATE_LEFT */
    struct aggregate_address parent;
    uint32_t window; /* what is possible below, or granted */
    uint32_t room;   /* bytes of a segment */
    struct aggregate_grant grant;
    uint32_t count;
    struct aggregate_slot *slots; /* [grant.slots] */
    char *memory;
    struct list failures;
    struct aggregate_failure spare; /* for when there is no memory */
    bool spare_taken;
    uint64_t forgotten; /* failures before this number may be missing, for want of memory */
    struct aggregate_child child[]; /* [AGGREGATE_RADIX_MAX] */
};

/* ---- members ---- */

struct aggregate_run {
    struct machine machine;
    struct list link; /* in member.runs, in the order of numbers */
    struct collective collective;
    struct fallback fallback;
    struct aggregate_member *member; /* in whose list it is, or NULL */
    bool running;                    /* it has been started; before, it keeps its place only */
    bool decided, kept, fell_back;
    uint64_t number;
    uint32_t check;
    uint32_t segments, sent, received;
    uint32_t piece; /* bytes of a segment */
    struct doubt doubt;
    _Alignas(16) char copy[COLLECTIVE_KEEP_BYTES]; /* of a short contribution */
};

/* A group in one of its terms. */
struct aggregate_member {
    struct list link;     /* in aggregate.members */
    struct list together; /* in the state of the geometry's group, those of a group in the order of
                           * terms */
    struct group *group;
    uint32_t term;
    bool over; /* it has been updated: this goes when it has no runs any more */
    enum aggregate_state state;
    struct aggregate_address parent; /* vertex NONE: it is alone, or EARLY */
    uint32_t window, room;
    uint32_t flying;  /* segments that were sent and have no answer */
    struct list runs; /* in the order of calls: none sends before those in front of it have */
};

/* A message without data that found no memory. */
struct aggregate_debt {
    uint32_t endpoint;
    struct aggregate_wire wire;
};

#define AGGREGATE_DEBTS 64u

struct aggregate {
    struct context *context;
    struct aggregate_debt *owed; /* [AGGREGATE_DEBTS], with the first node or member; NULL before */
    uint32_t owes;               /* ... so many */
    struct retry retry;          /* while it owes something, or a term waits for memory */
    struct aggregate_manager manager;
    struct list nodes, members;
    struct u64map first; /* by identity: of its nodes, the first one in the list */
    uint32_t inside;     /* who uses members: they are freed when nobody does, */
    bool unsettled;      /* ... and then it is looked which can be */
    struct aggregate_counts counts;
};

/* message.c: 0 or -ENOMEM, which contributions and results only can have: their run has to fail.
 * What else finds no memory is sent later, in its order; what finds no room there either is
 * repeated when somebody asks, but for LEAVE, which drives others out. */
int aggregate_send(struct aggregate *aggregate, uint32_t endpoint,
                   const struct aggregate_wire *wire, const void *data, size_t bytes);
/* 0 or -ENOMEM: there is room for what is owed */
int aggregate_may_owe(struct aggregate *aggregate);
/* In the next pass it is looked what can be done that could not be. */
void aggregate_retry_later(struct aggregate *aggregate);

/* nodes.c: NULL: there is none */
struct aggregate_node *aggregate_nodes_first(const struct aggregate *aggregate, uint64_t identity);
/* Another one of the same geometry. */
struct aggregate_node *aggregate_nodes_next(const struct aggregate_node *node);
/* By the name of its tree, and its vertex there. */
struct aggregate_node *aggregate_nodes_find(const struct aggregate *aggregate,
                                            const struct aggregate_wire *wire);
bool aggregate_node_is_of(const struct aggregate_node *node, const struct aggregate_wire *tree);
/* Is it the parent of one here that asks? */
bool aggregate_nodes_know(const struct aggregate *aggregate, const struct aggregate_wire *question,
                          uint32_t origin);
/* 0 or -ENOMEM */
int aggregate_nodes_add(struct aggregate_node *node);
void aggregate_nodes_remove(struct aggregate_node *node);

/* node.c: what arrives for nodes, and what members here have to say */
int aggregate_node_describe(struct aggregate_member *member, const struct aggregate_tree *tree,
                            uint32_t vertex);
/* The host has left this term, in which it has acted for nodes. */
void aggregate_nodes_leave(struct aggregate *aggregate, const struct aggregate_member *member);
/* Somebody waits for what is acted for here: nodes below that vertex join again. */
void aggregate_nodes_repeat(struct aggregate *aggregate, const struct aggregate_wire *question);
/* Nobody gets slots in this tree. */
void aggregate_nodes_refuse(struct aggregate *aggregate, const struct aggregate_wire *tree);
/* Nodes that wait for the host, which has gone past their terms; `top`: the geometry's group. */
void aggregate_nodes_pass(struct aggregate *aggregate, const struct group *top);
/* 0 or -ENOMEM: nothing has been done */
int aggregate_node_join(struct aggregate *aggregate, const struct aggregate_wire *wire,
                        uint32_t origin);
void aggregate_node_up(struct aggregate *aggregate, const struct aggregate_wire *wire,
                       uint32_t origin, const void *data, size_t bytes);
void aggregate_node_down(struct aggregate *aggregate, const struct aggregate_wire *wire,
                         uint32_t origin, const void *data, size_t bytes);
void aggregate_node_gone(struct aggregate_node *node, uint32_t endpoint);
void aggregate_node_free(struct aggregate_node *node);
struct aggregate_wire aggregate_wire_up(const struct aggregate_node *node,
                                        enum aggregate_kind kind);
struct aggregate_wire aggregate_wire_down(const struct aggregate_node *node,
                                          const struct aggregate_child *child,
                                          enum aggregate_kind kind);
static inline bool aggregate_child_listens(const struct aggregate_child *child)
{
    return child->joined && !child->left && !child->gone;
}

/* failure.c */
/* Has it nothing to contribute to this run any more? */
bool aggregate_child_passed(const struct aggregate_child *child, uint64_t number);
/* The run has failed: all below are told but `except`, a child or NULL; and all above if `up`. */
void aggregate_node_fail(struct aggregate_node *node, const struct aggregate_failure *failure,
                         const struct aggregate_child *except, bool up);
const struct aggregate_failure *aggregate_node_failure(const struct aggregate_node *node,
                                                       uint64_t number);
/* Tell the parent of all that are known. */
void aggregate_failures_up(const struct aggregate_node *node);
/* Tell one child of it. */
void aggregate_node_tell(const struct aggregate_node *node, const struct aggregate_child *child,
                         const struct aggregate_failure *failure);
void aggregate_failure_free(struct aggregate_node *node, struct aggregate_failure *failure);
/* Forget failures that nobody will contribute to any more. */
void aggregate_node_prune(struct aggregate_node *node);

/* slots.c */
int aggregate_slots_make(struct aggregate_node *node);
void aggregate_slots_free(struct aggregate_node *node);
void aggregate_slots_data(struct aggregate_node *node, struct aggregate_child *child,
                          const struct aggregate_wire *wire, const void *data, size_t bytes);
void aggregate_slots_result(struct aggregate_node *node, const struct aggregate_wire *wire,
                            const void *data, size_t bytes);
/* True: there was one of this run. */
bool aggregate_slots_drop(struct aggregate_node *node, uint64_t number);
/* Runs that wait for this child (NULL: all) have failed; `passed`: those that it has gone past. */
void aggregate_slots_give_up(struct aggregate_node *node, const struct aggregate_child *child,
                             uint32_t mark, bool passed);
/* A member waits for this run: true, and what is missing is asked for, or of the parent. */
const struct aggregate_slot *aggregate_slots_find(const struct aggregate_node *node,
                                                  uint64_t number);

/* term.c */
/* The latest term, of the next run; NULL: out of memory. */
struct aggregate_member *aggregate_member_of(struct group *group);
/* Of a geometry's group, or of one of its sub-groups. NULL: there is none, not yet or not any
 * more. */
struct aggregate_member *aggregate_find_term(const struct group *top, uint32_t channel,
                                             uint32_t term);
/* The group has gone past this term, and will not join in it any more. */
bool aggregate_is_past(const struct group *top, uint32_t channel, uint32_t term);
/* Around all that uses terms; those that are over go at the end. */
void aggregate_enter(struct aggregate *aggregate);
void aggregate_exit(struct aggregate *aggregate);

/* member.c */
/* To its node; may come again. */
void aggregate_member_join(const struct aggregate_member *member);
/* Its state is known: what is to become of its runs. */
void aggregate_member_decide(struct aggregate_member *member, enum aggregate_state state);
void aggregate_member_up(const struct aggregate_member *member, const struct aggregate_wire *wire);
void aggregate_member_down(struct aggregate *aggregate, const struct aggregate_wire *wire,
                           uint32_t origin, const void *data, size_t bytes);
void aggregate_member_gone(struct aggregate_member *member, uint32_t endpoint);
struct aggregate_wire aggregate_wire_of(const struct aggregate_member *member,
                                        enum aggregate_kind kind, uint64_t number);
/* Sends what credits allow. */
void aggregate_member_pump(struct aggregate_member *member);

/* run.c */
/* The window is known, and it runs: it takes its number, or falls back. May end it. */
void aggregate_run_decide(struct aggregate_run *run, struct aggregate_member *member);
/* Its next segment. 0 or -ENOMEM. */
int aggregate_run_send(struct aggregate_run *run, struct aggregate_member *member);
void aggregate_run_take(struct aggregate_run *run, struct aggregate_member *member,
                        const struct aggregate_wire *wire, const void *data, size_t bytes);
/* It runs, and fails; its node is told if `tell`. */
void aggregate_run_fail(struct aggregate_run *run, pami_result_t result, bool tell);

#endif
