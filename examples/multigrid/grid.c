/*
 * Every point is computed by the same operations in the same order whatever block it is in, so that
 * results do not depend on the number of tasks in a single bit.
 */
#include "grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct block block_coarse(const struct block *fine)
{
    struct block coarse;

    for (int d = 0; d < 3; d++) {
        size_t high = fine->low[d] + fine->size[d];

        coarse.low[d] = (fine->low[d] + 1) / 2;
        coarse.size[d] = (high + 1) / 2 - coarse.low[d];
    }
    return coarse;
}

size_t block_points(const struct block *block)
{
    return block->size[0] * block->size[1] * block->size[2];
}

struct block block_of(size_t n, const size_t tasks[3], size_t task, size_t level)
{
    struct block block;

    for (int d = 0; d < 3; d++) {
        size_t at = task % tasks[d];

        block.low[d] = 1 + (n - 1) * at / tasks[d];
        block.size[d] = 1 + (n - 1) * (at + 1) / tasks[d] - block.low[d];
        task /= tasks[d];
    }
    while (level-- > 0)
        block = block_coarse(&block);
    return block;
}

bool block_worthwhile(size_t n, const size_t tasks[3], size_t level)
{
    for (size_t task = 0; task < tasks[0] * tasks[1] * tasks[2]; task++) {
        struct block block = block_of(n, tasks, task, level);

        if (block.size[0] < 2 || block.size[1] < 2 || block.size[2] < 2)
            return false;
    }
    return true;
}

static size_t points_with_layer(const struct grid *grid)
{
    const size_t *size = grid->block.size;

    return (size[0] + 2) * (size[1] + 2) * (size[2] + 2);
}

int grid_make(struct grid *grid, size_t n, const struct block *block)
{
    size_t points;

    grid->n = n;
    grid->block = *block;
    points = points_with_layer(grid);
    grid->u = calloc(3 * points, sizeof(double));
    if (grid->u == NULL)
        return -1;
    grid->f = grid->u + points;
    grid->r = grid->f + points;
    return 0;
}

void grid_free(struct grid *grid)
{
    free(grid->u);
}

void grid_clear_solution(struct grid *grid)
{
    memset(grid->u, 0, points_with_layer(grid) * sizeof(double));
}

/* ---- one plane ---- */

struct neighbours {
    size_t line, plane; /* distances */
};

static struct neighbours neighbours_of(const struct grid *grid)
{
    size_t line = grid->block.size[0] + 2;

    return (struct neighbours){line, line * (grid->block.size[1] + 2)};
}

static double sum_around(const double *u, struct neighbours to)
{
    return (*(u - 1) + u[1]) + (*(u - to.line) + u[to.line]) + (*(u - to.plane) + u[to.plane]);
}

/* Of the row (y, z): has it points of the part, and are these its ends only, or which? */
static bool is_edge(const struct grid *grid, size_t y, size_t z)
{
    const size_t *size = grid->block.size;

    return y == 0 || y + 1 == size[1] || z == 0 || z + 1 == size[2];
}

/* Calls `row` for each stretch [from, to) of a plane that belongs to the part. */
static void each_row(struct grid *grid, size_t z, enum part part, unsigned colour,
                     void (*row)(struct grid *grid, size_t y, size_t z, size_t from, size_t to,
                                 unsigned colour))
{
    size_t end = grid->block.size[0];

    for (size_t y = 0; y < grid->block.size[1]; y++) {
        bool edge = is_edge(grid, y, z);

        if (part == WHOLE || (part == OUTER && edge)) {
            row(grid, y, z, 0, end, colour);
        } else if (part == INNER && !edge && end > 2) {
            row(grid, y, z, 1, end - 1, colour);
        } else if (part == OUTER) {
            row(grid, y, z, 0, 1, colour);
            if (end > 1)
                row(grid, y, z, end - 1, end, colour);
        }
    }
}

static void relax_row(struct grid *grid, size_t y, size_t z, size_t from, size_t to,
                      unsigned colour)
{
    const size_t *low = grid->block.low;
    double h = 1.0 / (double)grid->n;
    struct neighbours distance = neighbours_of(grid);
    size_t base = grid_at(grid, 0, y, z);

    from += (low[0] + from + low[1] + y + low[2] + z + colour) % 2;
    for (size_t i = base + from; i < base + to; i += 2)
        grid->u[i] = (h * h * grid->f[i] + sum_around(&grid->u[i], distance)) / 6;
}

void grid_relax(struct grid *grid, size_t z, enum part part, unsigned colour)
{
    each_row(grid, z, part, colour, relax_row);
}

static void residual_row(struct grid *grid, size_t y, size_t z, size_t from, size_t to,
                         unsigned colour)
{
    double n2 = (double)grid->n * (double)grid->n;
    struct neighbours distance = neighbours_of(grid);
    size_t base = grid_at(grid, 0, y, z);

    (void)colour;
    for (size_t i = base + from; i < base + to; i++)
        grid->r[i] = grid->f[i] - n2 * (6 * grid->u[i] - sum_around(&grid->u[i], distance));
}

void grid_residual(struct grid *grid, size_t z, enum part part)
{
    each_row(grid, z, part, 0, residual_row);
}

/* ---- between two grids ---- */

/* Weighted mean of the 27 points around r: 1/8, and half of it for each step away. */
static double mean_around(const double *r, struct neighbours to)
{
    double mean = 0;

    for (int z = -1; z <= 1; z++)
        for (int y = -1; y <= 1; y++)
            for (int x = -1; x <= 1; x++) {
                const double *at = r + z * (ptrdiff_t)to.plane + y * (ptrdiff_t)to.line + x;

                mean += *at / (double)(8 << (abs(x) + abs(y) + abs(z)));
            }
    return mean;
}

void grid_restrict(const struct grid *fine, struct grid *coarse, const struct block *block)
{
    const size_t *from = fine->block.low, *to = coarse->block.low, *low = block->low;
    struct neighbours distance = neighbours_of(fine);

    for (size_t z = low[2]; z < low[2] + block->size[2]; z++)
        for (size_t y = low[1]; y < low[1] + block->size[1]; y++)
            for (size_t x = low[0]; x < low[0] + block->size[0]; x++) {
                size_t at = grid_at(fine, 2 * x - from[0], 2 * y - from[1], 2 * z - from[2]);

                coarse->f[grid_at(coarse, x - to[0], y - to[1], z - to[2])] =
                    mean_around(&fine->r[at], distance);
            }
}

static double *row_of(const struct grid *grid, const struct block *block, size_t y, size_t z)
{
    const size_t *to = block->low, *low = grid->block.low;

    return &grid->f[grid_at(grid, to[0] - low[0], to[1] - low[1] + y, to[2] - low[2] + z)];
}

void grid_copy_out(const struct grid *grid, const struct block *block, double *memory)
{
    for (size_t z = 0; z < block->size[2]; z++)
        for (size_t y = 0; y < block->size[1]; y++, memory += block->size[0])
            memcpy(memory, row_of(grid, block, y, z), block->size[0] * sizeof(double));
}

void grid_copy_in(struct grid *grid, const struct block *block, const double *memory)
{
    for (size_t z = 0; z < block->size[2]; z++)
        for (size_t y = 0; y < block->size[1]; y++, memory += block->size[0])
            memcpy(row_of(grid, block, y, z), memory, block->size[0] * sizeof(double));
}

/* Mean of the corners of the cell, edge or face of the coarser grid in which a point lies. */
static double interpolate(const struct grid *coarse, const size_t at[3])
{
    const size_t *low = coarse->block.low;
    double sum = 0;

    for (size_t corner = 0; corner < 8; corner++) {
        size_t x = (at[0] + corner % 2) / 2, y = (at[1] + corner / 2 % 2) / 2;
        size_t z = (at[2] + corner / 4) / 2;

        sum += coarse->u[grid_at(coarse, x - low[0], y - low[1], z - low[2])];
    }
    return sum / 8;
}

void grid_prolong(const struct grid *coarse, struct grid *fine)
{
    const size_t *low = fine->block.low, *size = fine->block.size;

    for (size_t z = 0; z < size[2]; z++)
        for (size_t y = 0; y < size[1]; y++)
            for (size_t x = 0; x < size[0]; x++) {
                size_t at[3] = {low[0] + x, low[1] + y, low[2] + z};

                fine->u[grid_at(fine, x, y, z)] += interpolate(coarse, at);
            }
}

/* ---- the problem ---- */

/* The solution is shape(x) shape(y) shape(z). */
static double shape(double x)
{
    return sin(acos(-1.0) * x) * exp(x);
}

/* Its second derivative. */
static double bend(double x)
{
    const double pi = acos(-1.0);

    return ((1 - pi * pi) * sin(pi * x) + 2 * pi * cos(pi * x)) * exp(x);
}

/* Coordinates of a point of the block, in the unit cube. */
static double place(const struct grid *grid, int d, size_t at)
{
    return (double)(grid->block.low[d] + at) / (double)grid->n;
}

void grid_set_problem(struct grid *grid)
{
    const size_t *size = grid->block.size;

    for (size_t z = 0; z < size[2]; z++)
        for (size_t y = 0; y < size[1]; y++)
            for (size_t x = 0; x < size[0]; x++) {
                double a = place(grid, 0, x), b = place(grid, 1, y), c = place(grid, 2, z);

                grid->f[grid_at(grid, x, y, z)] = -bend(a) * shape(b) * shape(c) -
                                                  shape(a) * bend(b) * shape(c) -
                                                  shape(a) * shape(b) * bend(c);
            }
}

double grid_error(const struct grid *grid)
{
    const size_t *size = grid->block.size;
    double most = 0;

    for (size_t z = 0; z < size[2]; z++)
        for (size_t y = 0; y < size[1]; y++)
            for (size_t x = 0; x < size[0]; x++) {
                double exact =
                    shape(place(grid, 0, x)) * shape(place(grid, 1, y)) * shape(place(grid, 2, z));

                most = fmax(most, fabs(grid->u[grid_at(grid, x, y, z)] - exact));
            }
    return most;
}

double grid_largest_residual(const struct grid *grid)
{
    const size_t *size = grid->block.size;
    double most = 0;

    for (size_t z = 0; z < size[2]; z++)
        for (size_t y = 0; y < size[1]; y++)
            for (size_t x = 0; x < size[0]; x++)
                most = fmax(most, fabs(grid->r[grid_at(grid, x, y, z)]));
    return most;
}
