/*
 * halo.h - the layer of points around a block comes from up to 26 neighbours, by active messages
 * whose data are gathered out of the block by types.
 *
 * An exchange has a beginning and an end, between which the points that need nothing from the layer
 * can be computed. A message that is early lies in memory of its own until the end of the exchange
 * that it belongs to: a neighbour is at most one exchange ahead, so two places are enough.
 */
#ifndef EXAMPLES_MULTIGRID_HALO_H
#define EXAMPLES_MULTIGRID_HALO_H

#include "../background.h"
#include "grid.h"

enum {
    HALO_DISPATCH = 1,
    HALO_DIRECTIONS = 27, /* number 13 is the block itself */
    HALO_LEVELS = 16
};

/* Which neighbours take part. */
enum halo_reach {
    HALO_FACES,
    HALO_ALL
};

struct halo_note {
    uint32_t level, direction; /* as the receiver sees it */
    uint64_t number;           /* of this neighbour's exchanges */
};

struct halo_side {
    bool exists, is_face;
    pami_endpoint_t to;
    pami_type_t type;       /* the points that the neighbour needs */
    size_t low[3], size[3]; /* of these */
    size_t layer[3];        /* where the neighbour's go: first point, size is the same */
    double *came[2];
    atomic_size_t arrived[2];
    struct halo_note note; /* of the message that is being sent */
};

struct halo {
    const struct background *background;
    const struct grid *grid;
    struct halo_side side[HALO_DIRECTIONS];
    atomic_size_t sending;
};

/* Where messages find their halo. */
struct halos {
    const struct background *background;
    struct halo *level[HALO_LEVELS];
};

/* Before any message can come: everybody comes to a barrier between this and the first exchange. */
void halos_start(struct halos *halos, const struct background *background);

/* Blocks lie in tasks[0] x tasks[1] x tasks[2] tasks, the first running fastest. */
void halo_make(struct halos *halos, uint32_t level, struct halo *halo, const struct grid *grid,
               const size_t tasks[3]);
void halo_free(struct halo *halo);

/* `field` is one of the grid's; its outermost points do not change before the end. */
void halo_begin(struct halo *halo, double *field, enum halo_reach reach);
void halo_end(struct halo *halo, double *field, enum halo_reach reach);

#endif
