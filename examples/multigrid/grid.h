/*
 * grid.h - one block of one grid of a multigrid method, and what is computed on it. No
 * communication.
 *
 * The problem is -Laplace(u) = f in the unit cube, u = 0 at its surface, with n intervals along
 * each edge: the points 1 .. n - 1 in each dimension are unknowns. A block has some of them and a
 * layer of one point around: of its neighbours, or of the surface, where everything is 0.
 */
#ifndef EXAMPLES_MULTIGRID_GRID_H
#define EXAMPLES_MULTIGRID_GRID_H

#include <stdbool.h>
#include <stddef.h>

/* Points [low, low + size) in each dimension. */
struct block {
    size_t low[3], size[3];
};

struct grid {
    size_t n;
    struct block block;
    double *u, *f, *r; /* solution, right-hand side, residual */
};

/* Which points of a plane: those that need nothing from the layer around are the inner ones. */
enum part {
    WHOLE,
    INNER,
    OUTER
};

/* Points of the next coarser grid in a block: those with even numbers. */
struct block block_coarse(const struct block *fine);
size_t block_points(const struct block *block);

/* The block of a task on the grid that is `level` times coarser than one with n intervals, which is
 * cut into tasks[0] x tasks[1] x tasks[2] blocks, the first running fastest. */
struct block block_of(size_t n, const size_t tasks[3], size_t task, size_t level);

/* Has every task two points or more in each direction there? */
bool block_worthwhile(size_t n, const size_t tasks[3], size_t level);

/* 0, or -1 when there is no memory. Everything is 0. */
int grid_make(struct grid *grid, size_t n, const struct block *block);
void grid_free(struct grid *grid);
void grid_clear_solution(struct grid *grid);

/* Position of point (x, y, z) of the block, counted from its first one; -1 is in the layer. */
static inline size_t grid_at(const struct grid *grid, size_t x, size_t y, size_t z)
{
    const size_t *size = grid->block.size;

    return ((z + 1) * (size[1] + 2) + y + 1) * (size[0] + 2) + x + 1;
}

/* One plane z of the block. Colour 0 or 1: points whose coordinates have an even or odd sum. */
void grid_relax(struct grid *grid, size_t z, enum part part, unsigned colour);
void grid_residual(struct grid *grid, size_t z, enum part part);

/* The residual of `fine`, averaged, becomes the right-hand side of the coarser grid at the points
 * of `block`. */
void grid_restrict(const struct grid *fine, struct grid *coarse, const struct block *block);

/* The right-hand side at the points of `block`, to and from consecutive memory. */
void grid_copy_out(const struct grid *grid, const struct block *block, double *memory);
void grid_copy_in(struct grid *grid, const struct block *block, const double *memory);

/* Adds the solution of the coarser grid, interpolated. */
void grid_prolong(const struct grid *coarse, struct grid *fine);

/* The right-hand side that belongs to a known solution; the largest difference from that. */
void grid_set_problem(struct grid *grid);
double grid_error(const struct grid *grid);
double grid_largest_residual(const struct grid *grid);

#endif
