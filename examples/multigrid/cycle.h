/*
 * cycle.h - the grids of a multigrid method, from fine to coarse, and one V-cycle over them.
 *
 * The finer grids are shared out in blocks. A grid that would leave a task less than two points
 * in some direction is not worth any messages: its right-hand side is gathered by everybody, and
 * everybody computes from there on down alone, and the same.
 */
#ifndef EXAMPLES_MULTIGRID_CYCLE_H
#define EXAMPLES_MULTIGRID_CYCLE_H

#include "../background.h"
#include "grid.h"
#include "halo.h"

enum {
    CYCLE_SWEEPS = 2 /* of the smoother, on each grid on the way down and up */
};

struct multigrid {
    const struct background *background;
    bool overlap; /* compute inner points while the layers are on their way */
    size_t tasks[3];
    size_t levels, shared; /* grids, and how many of them are in blocks */
    struct grid grid[HALO_LEVELS];
    struct halo halo[HALO_LEVELS];
    struct block *part; /* every task's of the first grid that is not shared out */
    double *out, *in;   /* points of these */
    size_t *count, *start;
};

/*
 * n is a power of two, at least 4. False: the grid is too small for so many tasks. `halos` is NULL
 * for a method that a task runs alone; `tasks` is 1, 1, 1 then. *m does not move afterwards.
 */
bool multigrid_make(struct multigrid *m, const struct background *background, struct halos *halos,
                    size_t n, const size_t tasks[3]);
void multigrid_free(struct multigrid *m);

void multigrid_cycle(struct multigrid *m);

/* Brings the residual of the finest grid up to date; the largest one of this task. */
double multigrid_residual(struct multigrid *m);

#endif
