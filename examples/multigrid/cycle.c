/*
 * Levels are counted from the finest grid, 0, on.
 */
#include "cycle.h"

/* ---- one grid ---- */

static bool is_shared(const struct multigrid *m, size_t level)
{
    return level < m->shared;
}

static void exchange(struct multigrid *m, size_t level, double *field, enum halo_reach reach)
{
    if (!is_shared(m, level))
        return;
    halo_begin(&m->halo[level], field, reach);
    halo_end(&m->halo[level], field, reach);
}

/* A sweep over the points of one colour; what they need is the other colour's. */
static void relax_colour(struct multigrid *m, size_t level, unsigned colour)
{
    struct grid *grid = &m->grid[level];
    bool overlap = m->overlap && is_shared(m, level);

    if (is_shared(m, level))
        halo_begin(&m->halo[level], grid->u, HALO_FACES);
    for (size_t z = 0; overlap && z < grid->block.size[2]; z++) {
        grid_relax(grid, z, INNER, colour);
        if (!m->background->threaded)
            background_poll(m->background, 1);
    }
    if (is_shared(m, level))
        halo_end(&m->halo[level], grid->u, HALO_FACES);
    for (size_t z = 0; z < grid->block.size[2]; z++)
        grid_relax(grid, z, overlap ? OUTER : WHOLE, colour);
}

static void relax(struct multigrid *m, size_t level)
{
    for (int sweep = 0; sweep < CYCLE_SWEEPS; sweep++)
        for (unsigned colour = 0; colour < 2; colour++)
            relax_colour(m, level, colour);
}

static void find_residual(struct multigrid *m, size_t level)
{
    struct grid *grid = &m->grid[level];

    exchange(m, level, grid->u, HALO_FACES);
    for (size_t z = 0; z < grid->block.size[2]; z++)
        grid_residual(grid, z, WHOLE);
}

/* ---- from shared grids to those that everybody has ---- */

static void gather(struct multigrid *m, struct grid *grid)
{
    const struct together *all = m->background->all;
    struct background_call call;

    grid_copy_out(grid, &m->part[all->task], m->out);
    background_begin(m->background, &call, PAMI_XFER_ALLGATHERV,
                     (pami_collective_t){.xfer_allgatherv = {.sndbuf = (char *)m->out,
                                                             .stype = PAMI_TYPE_DOUBLE,
                                                             .stypecount = m->count[all->task],
                                                             .rcvbuf = (char *)m->in,
                                                             .rtype = PAMI_TYPE_DOUBLE,
                                                             .rtypecounts = m->count,
                                                             .rdispls = m->start}});
    background_wait(&call);
    for (size_t task = 0; task < all->tasks; task++)
        grid_copy_in(grid, &m->part[task], m->in + m->start[task]);
}

/* ---- the cycle ---- */

static void descend(struct multigrid *m, size_t level)
{
    struct grid *fine = &m->grid[level], *coarse = &m->grid[level + 1];
    struct block block = block_coarse(&fine->block);

    find_residual(m, level);
    exchange(m, level, fine->r, HALO_ALL);
    grid_restrict(fine, coarse, &block);
    if (level + 1 == m->shared)
        gather(m, coarse);
    grid_clear_solution(coarse);
}

static void ascend(struct multigrid *m, size_t level)
{
    exchange(m, level + 1, m->grid[level + 1].u, HALO_ALL);
    grid_prolong(&m->grid[level + 1], &m->grid[level]);
}

void multigrid_cycle(struct multigrid *m)
{
    size_t coarsest = m->levels - 1;

    for (size_t level = 0; level < coarsest; level++) {
        relax(m, level);
        descend(m, level);
    }
    relax(m, coarsest); /* of one point: this solves it */
    for (size_t level = coarsest; level-- > 0;) {
        ascend(m, level);
        relax(m, level);
    }
}

double multigrid_residual(struct multigrid *m)
{
    find_residual(m, 0);
    return grid_largest_residual(&m->grid[0]);
}

/* ---- making ---- */

static void *memory(const struct multigrid *m, size_t count, size_t bytes)
{
    return together_memory(m->background->all, count, bytes);
}

static void make_parts(struct multigrid *m, size_t n)
{
    const struct together *all = m->background->all;
    size_t at = 0;

    m->part = memory(m, all->tasks, sizeof(*m->part));
    m->count = memory(m, all->tasks, sizeof(*m->count));
    m->start = memory(m, all->tasks, sizeof(*m->start));
    for (size_t task = 0; task < all->tasks; task++) {
        m->part[task] = block_of(n, m->tasks, task, m->shared);
        m->count[task] = block_points(&m->part[task]);
        m->start[task] = at;
        at += m->count[task];
    }
    m->out = memory(m, m->count[all->task], sizeof(double));
    m->in = memory(m, at, sizeof(double));
}

static void make_grid(struct multigrid *m, size_t level, size_t n, const struct block *block)
{
    if (grid_make(&m->grid[level], n, block) == 0)
        return;
    fputs("multigrid: no memory\n", stderr);
    exit(EXIT_FAILURE);
}

bool multigrid_make(struct multigrid *m, const struct background *background, struct halos *halos,
                    size_t n, const size_t tasks[3])
{
    *m = (struct multigrid){.background = background};
    memcpy(m->tasks, tasks, sizeof(m->tasks));
    if (halos != NULL && !block_worthwhile(n, tasks, 0))
        return false;
    for (; n >> m->levels >= 2; m->levels++)
        if (halos != NULL && m->shared == m->levels && block_worthwhile(n, tasks, m->levels))
            m->shared++;
    for (size_t level = 0; level < m->levels; level++) {
        size_t points = (n >> level) - 1;
        struct block block = {{1, 1, 1}, {points, points, points}};

        if (is_shared(m, level))
            block = block_of(n, tasks, background->all->task, level);
        make_grid(m, level, n >> level, &block);
        if (is_shared(m, level))
            halo_make(halos, (uint32_t)level, &m->halo[level], &m->grid[level], tasks);
    }
    if (halos != NULL)
        make_parts(m, n);
    return true;
}

void multigrid_free(struct multigrid *m)
{
    for (size_t level = 0; level < m->levels; level++) {
        if (is_shared(m, level))
            halo_free(&m->halo[level]);
        grid_free(&m->grid[level]);
    }
    free(m->part);
    free(m->count);
    free(m->start);
    free(m->out);
    free(m->in);
}
