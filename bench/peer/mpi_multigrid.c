/*
 * Poisson's equation by V-cycles over MPI: what examples/multigrid does, with the same arithmetic,
 * blocks, exchanges and check, the layers packed by hand and sent by MPI_Isend. Compare
 * examples/multigrid.
 *
 *     mpirun -n TASKS mpi_multigrid [--size N] [--cycles N] [--overlap] [--thread]
 *
 * --overlap: inner points are computed while the layers are on their way, with MPI_Testall between
 * planes. --thread: the same without these, and a thread makes progress: see mpi_job.h. Not
 * pinned, as examples/multigrid is not.
 */
#include "mpi_job.h"

#include "../../examples/multigrid/grid.c"

enum {
    CYCLES_MAX = 50,
    SWEEPS = 2,
    LEVELS = 16,
    DIRECTIONS = 27 /* number 13 is the block itself */
};

/* Which neighbours take part in an exchange. */
enum reach {
    FACES,
    ALL
};

struct side {
    bool exists, is_face;
    int rank;
    size_t size[3], mine[3], layer[3]; /* points; the first of mine, and of the layer around */
    double *out, *in;
};

struct level {
    struct grid grid;
    struct side side[DIRECTIONS];
    MPI_Request request[2 * DIRECTIONS];
    int requests;
};

struct multigrid {
    size_t n, levels, shared; /* grids, and how many of them are in blocks */
    size_t tasks[3];
    struct level level[LEVELS];
    struct block *part; /* every rank's of the first grid that is not shared out */
    double *out, *in;   /* points of these */
    int *counts, *displacements;
};

static struct {
    struct mpi_job job;
    bool overlap, threaded;
    size_t cycles;
    struct multigrid shared, alone;
    double mine[CYCLES_MAX + 1], norm[CYCLES_MAX + 1]; /* before the first cycle, after each */
    MPI_Request reducing[CYCLES_MAX + 1];
} mg;

static void *memory(size_t count, size_t bytes)
{
    void *at = calloc(count + 1, bytes);

    if (at == NULL) {
        bench_die("mpi_multigrid: no memory");
    }
    return at;
}

/* ---- the layers ---- */

static size_t points_of(const struct side *side)
{
    return side->size[0] * side->size[1] * side->size[2];
}

/* The neighbour in a direction: steps of -1, 0 or 1, which are the digits of its number. */
static void find_side(struct level *level, const size_t tasks[3], size_t direction)
{
    const size_t *size = level->grid.block.size;
    struct side *side = &level->side[direction];
    size_t steps[3] = {direction % 3, direction / 3 % 3, direction / 9}; /* plus 1 each */
    size_t rank = 0, rest = (size_t)mg.job.rank, width = 1;
    int sideways = 0;

    for (int d = 0; d < 3; d++) {
        size_t at = rest % tasks[d];

        if (at + steps[d] == 0 || at + steps[d] == tasks[d] + 1) {
            return;
        }
        rank += (at + steps[d] - 1) * width;
        rest /= tasks[d];
        width *= tasks[d];
        sideways += steps[d] != 1;
        side->size[d] = steps[d] == 1 ? size[d] : 1;
        side->mine[d] = steps[d] == 2 ? size[d] - 1 : 0;
        side->layer[d] = steps[d] == 0 ? (size_t)-1 : steps[d] == 2 ? size[d] : 0;
    }
    side->exists = sideways != 0;
    side->is_face = sideways == 1;
    side->rank = (int)rank;
    side->out = memory(points_of(side), sizeof(double));
    side->in = memory(points_of(side), sizeof(double));
}

static void copy_side(struct level *level, struct side *side, double *field, bool out)
{
    const size_t *first = out ? side->mine : side->layer;
    double *at = out ? side->out : side->in;

    for (size_t z = 0; z < side->size[2]; z++) {
        for (size_t y = 0; y < side->size[1]; y++, at += side->size[0]) {
            double *row = field + grid_at(&level->grid, first[0], first[1] + y, first[2] + z);

            memcpy(out ? at : row, out ? row : at, side->size[0] * sizeof(double));
        }
    }
}

static bool takes_part(const struct side *side, enum reach reach)
{
    return side->exists && (reach == ALL || side->is_face);
}

static void halo_begin(struct multigrid *m, size_t number, double *field, enum reach reach)
{
    struct level *level = &m->level[number];

    level->requests = 0;
    for (int i = 0; i < DIRECTIONS; i++) {
        struct side *side = &level->side[i];

        if (takes_part(side, reach)) {
            MPI_OK(MPI_Irecv(side->in, (int)points_of(side), MPI_DOUBLE, side->rank,
                             DIRECTIONS * (int)number + DIRECTIONS - 1 - i, MPI_COMM_WORLD,
                             &level->request[level->requests++]));
        }
    }
    for (int i = 0; i < DIRECTIONS; i++) {
        struct side *side = &level->side[i];

        if (takes_part(side, reach)) {
            copy_side(level, side, field, true);
            MPI_OK(MPI_Isend(side->out, (int)points_of(side), MPI_DOUBLE, side->rank,
                             DIRECTIONS * (int)number + i, MPI_COMM_WORLD,
                             &level->request[level->requests++]));
        }
    }
}

static void halo_poll(struct level *level)
{
    int done;

    MPI_OK(MPI_Testall(level->requests, level->request, &done, mpi_job_no_statuses()));
}

static void halo_end(struct multigrid *m, size_t number, double *field, enum reach reach)
{
    struct level *level = &m->level[number];

    MPI_OK(MPI_Waitall(level->requests, level->request, mpi_job_no_statuses()));
    for (int i = 0; i < DIRECTIONS; i++) {
        if (takes_part(&level->side[i], reach)) {
            copy_side(level, &level->side[i], field, false);
        }
    }
}

static void exchange(struct multigrid *m, size_t number, double *field, enum reach reach)
{
    if (number < m->shared) {
        halo_begin(m, number, field, reach);
        halo_end(m, number, field, reach);
    }
}

/* ---- the cycle ---- */

static void relax_colour(struct multigrid *m, size_t number, unsigned colour)
{
    struct level *level = &m->level[number];
    struct grid *grid = &level->grid;
    bool shared = number < m->shared, overlap = shared && mg.overlap;

    if (shared) {
        halo_begin(m, number, grid->u, FACES);
    }
    for (size_t z = 0; overlap && z < grid->block.size[2]; z++) {
        grid_relax(grid, z, INNER, colour);
        if (!mg.threaded) {
            halo_poll(level);
        }
    }
    if (shared) {
        halo_end(m, number, grid->u, FACES);
    }
    for (size_t z = 0; z < grid->block.size[2]; z++) {
        grid_relax(grid, z, overlap ? OUTER : WHOLE, colour);
    }
}

static void relax(struct multigrid *m, size_t number)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        relax_colour(m, number, 0);
        relax_colour(m, number, 1);
    }
}

static void find_residual(struct multigrid *m, size_t number)
{
    struct grid *grid = &m->level[number].grid;

    exchange(m, number, grid->u, FACES);
    for (size_t z = 0; z < grid->block.size[2]; z++) {
        grid_residual(grid, z, WHOLE);
    }
}

/* The right-hand side of the first grid that is not shared out. */
static void gather(struct multigrid *m, struct grid *grid)
{
    MPI_Request request;

    grid_copy_out(grid, &m->part[mg.job.rank], m->out);
    MPI_OK(MPI_Iallgatherv(m->out, m->counts[mg.job.rank], MPI_DOUBLE, m->in, m->counts,
                           m->displacements, MPI_DOUBLE, MPI_COMM_WORLD, &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int rank = 0; rank < mg.job.size; rank++) {
        grid_copy_in(grid, &m->part[rank], m->in + m->displacements[rank]);
    }
}

static void descend(struct multigrid *m, size_t number)
{
    struct grid *fine = &m->level[number].grid, *coarse = &m->level[number + 1].grid;
    struct block block = block_coarse(&fine->block);

    find_residual(m, number);
    exchange(m, number, fine->r, ALL);
    grid_restrict(fine, coarse, &block);
    if (number + 1 == m->shared) {
        gather(m, coarse);
    }
    grid_clear_solution(coarse);
}

static void cycle(struct multigrid *m)
{
    size_t coarsest = m->levels - 1;

    for (size_t i = 0; i < coarsest; i++) {
        relax(m, i);
        descend(m, i);
    }
    relax(m, coarsest);
    for (size_t i = coarsest; i-- > 0;) {
        exchange(m, i + 1, m->level[i + 1].grid.u, ALL);
        grid_prolong(&m->level[i + 1].grid, &m->level[i].grid);
        relax(m, i);
    }
}

static double residual(struct multigrid *m)
{
    find_residual(m, 0);
    return grid_largest_residual(&m->level[0].grid);
}

/* ---- around it ---- */

static void make_parts(struct multigrid *m)
{
    size_t ranks = (size_t)mg.job.size;
    int at = 0;

    m->part = memory(ranks, sizeof(*m->part));
    m->counts = memory(ranks, sizeof(int));
    m->displacements = memory(ranks, sizeof(int));
    for (size_t rank = 0; rank < ranks; rank++) {
        m->part[rank] = block_of(m->n, m->tasks, rank, m->shared);
        m->counts[rank] = (int)block_points(&m->part[rank]);
        m->displacements[rank] = at;
        at += m->counts[rank];
    }
    m->out = memory((size_t)m->counts[mg.job.rank], sizeof(double));
    m->in = memory((size_t)at, sizeof(double));
}

static void make(struct multigrid *m, size_t n, const int tasks[3], bool shared)
{
    m->n = n;
    for (int d = 0; d < 3; d++) {
        m->tasks[d] = (size_t)tasks[2 - d];
    }
    for (; n >> m->levels >= 2; m->levels++) {
        if (shared && m->shared == m->levels && block_worthwhile(n, m->tasks, m->levels)) {
            m->shared++;
        }
    }
    if (shared && m->shared == 0) {
        bench_die("mpi_multigrid: the grid is too small for so many tasks");
    }
    for (size_t i = 0; i < m->levels; i++) {
        size_t points = (n >> i) - 1;
        struct block block = {{1, 1, 1}, {points, points, points}};

        if (i < m->shared) {
            block = block_of(n, m->tasks, (size_t)mg.job.rank, i);
        }
        if (grid_make(&m->level[i].grid, n >> i, &block) != 0) {
            bench_die("mpi_multigrid: no memory");
        }
        for (size_t side = 0; i < m->shared && side < DIRECTIONS; side++) {
            find_side(&m->level[i], m->tasks, side);
        }
    }
    grid_set_problem(&m->level[0].grid);
    if (shared) {
        make_parts(m);
    }
}

/* Starts finding out how large the residual is. */
static void begin_norm(size_t i)
{
    mg.mine[i] = residual(&mg.shared);
    MPI_OK(MPI_Iallreduce(&mg.mine[i], &mg.norm[i], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD,
                          &mg.reducing[i]));
}

/* The block and the norms are those that one task alone computes, bit by bit. */
static void verify(void)
{
    const struct grid *mine = &mg.shared.level[0].grid, *whole = &mg.alone.level[0].grid;
    const size_t *low = mine->block.low, *size = mine->block.size;

    for (size_t i = 0; i <= mg.cycles; i++) {
        if (mg.norm[i] != residual(&mg.alone)) {
            bench_die("mpi_multigrid: the residual after %zu cycles is wrong", i);
        }
        if (i < mg.cycles) {
            cycle(&mg.alone);
        }
    }
    for (size_t z = 0; z < size[2]; z++) {
        for (size_t y = 0; y < size[1]; y++) {
            if (memcmp(&mine->u[grid_at(mine, 0, y, z)],
                       &whole->u[grid_at(whole, low[0] - 1, low[1] + y - 1, low[2] + z - 1)],
                       size[0] * sizeof(double)) != 0) {
                bench_die("mpi_multigrid: row %zu of plane %zu is wrong", y, z);
            }
        }
    }
}

int main(int argc, char **argv)
{
    size_t n = bench_option(argc, argv, "--size", 32);
    int tasks[3] = {0, 0, 0};
    static const int one[3] = {1, 1, 1};
    uint64_t start;

    unsetenv("BENCH_PIN");
    mg.cycles = bench_option(argc, argv, "--cycles", 8);
    mg.threaded = bench_flag(argc, argv, "--thread");
    mg.overlap = mg.threaded || bench_flag(argc, argv, "--overlap");
    if (n < 4 || n > 1024 || (n & (n - 1)) != 0 || mg.cycles == 0 || mg.cycles > CYCLES_MAX) {
        bench_die("mpi_multigrid: --size a power of two from 4 to 1024, --cycles 1 to %d",
                  CYCLES_MAX);
    }
    mpi_job_open(&mg.job, &argc, &argv, mg.threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    MPI_OK(MPI_Dims_create(mg.job.size, 3, tasks));
    make(&mg.shared, n, tasks, true);
    make(&mg.alone, n, one, false);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mg.threaded) {
        mpi_job_thread_start();
    }
    start = bench_now();
    begin_norm(0);
    for (size_t i = 0; i < mg.cycles; i++) {
        cycle(&mg.shared);
        begin_norm(i + 1);
    }
    MPI_OK(MPI_Waitall((int)mg.cycles + 1, mg.reducing, mpi_job_no_statuses()));
    if (mg.job.rank == 0) {
        bench_emit("multigrid", (size_t)mg.job.size, "s", (double)(bench_now() - start) / 1e9);
    }
    if (mg.threaded) {
        mpi_job_thread_stop();
    }
    verify();
    MPI_Finalize();
    return 0;
}
