/*
 * What the files of the creation protocol share; join.c has the picture.
 */
#ifndef LIBPAMI_GEOMETRY_JOIN_H
#define LIBPAMI_GEOMETRY_JOIN_H

#include "geometry/state.h"

#define JOIN_RADIX 4u
#define NO_ENDPOINT UINT32_MAX

enum join_kind {
    JOIN_UP,
    JOIN_DOWN,
    JOIN_HERE, /* my creation's context is no member: send there as well */
    JOIN_KINDS
};

struct key {
    uint64_t members; /* hash; 0 in joins over a parent */
    uint64_t parent;  /* identity, 0: none */
    uint32_t id;      /* the user's; 0 in joins over a parent */
    uint32_t sequence;
};

/* The other end of an edge of the tree. */
struct edge {
    uint32_t task;
    uint32_t extra; /* one more endpoint to send to, or NO_ENDPOINT */
    bool done;      /* child: UP has come, or it is gone; parent: UP was sent, or it is gone */
    uint8_t owed;   /* bits by kind: to be sent when there is memory; see send_owed */
    uint64_t gone;  /* bits by offset: contexts of the task whose end join.own has heard */
    uint64_t numbers[JOIN_KINDS]; /* of what was sent, for more copies of it; 0: nothing was */
};

struct join {
    struct list link;
    struct key key;
    struct geometry *team;     /* held; whose tasks */
    struct creation *creation; /* NULL: settled */
    uint32_t own;              /* endpoint of the creation's context */
    bool is_root;
    bool here;     /* the parent's HERE has come, or there is none to come */
    uint64_t down; /* number of its DOWN, 0 before: its HERE has a lower one, later ones have not */
    struct edge parent;
    struct edge children[JOIN_RADIX];
    uint32_t child_count;
    pami_result_t result;
    uint64_t identity;
};

static inline bool join_has_member(const struct join *join, uint32_t endpoint)
{
    return topology_rank(&join->team->topology, endpoint) != TOPOLOGY_NO_RANK;
}

/* join.c */
/* Nothing comes from this neighbour any more. */
void join_lose(struct join *join, struct context *context, struct edge *edge);
/* Frees it when nothing can come for it any more, and nothing has to be sent. */
void join_reap(struct join *join);

/* join_gone.c; on the creation's context */
/* Hear of the end of each member of the neighbours. 0 or -ENOMEM. */
int join_watch(struct join *join, struct context *context);
/* Neighbours that had gone before. */
void join_look_for_gone(struct join *join, struct context *context);

#endif
