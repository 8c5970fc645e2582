/*
 * multigrid.c - Poisson's equation in a cube by V-cycles over a hierarchy of grids: the pattern of
 * communication of a multigrid solver, and a proof that nothing went wrong.
 *
 * Grids are cut into blocks. Before each half-sweep of the smoother, and wherever grids meet, a
 * task needs the layer of points around its block from up to 26 neighbours: many messages of all
 * sizes, few of them large. The norm of the residual is an all-reduce that goes on behind the next
 * cycle. At last every task repeats everything alone; its block and the norms must be the same
 * bit by bit, and each cycle must reduce the residual as it does for any number of points.
 * The files:
 *
 *   grid.c    what is computed on a block;   halo.c   the layers around it
 *   cycle.c   the hierarchy and the V-cycle
 *   ../background.h   collectives in the background, and the library's thread
 *
 * Try:  pamirun -n 4 multigrid --size 64 --overlap 1 --thread 1
 */
#include "cycle.h"

#include <math.h>

static const char help[] =
    "Usage: pamirun -n TASKS multigrid [--size N] [--cycles N] [--overlap 0|1] [--thread 0|1]\n"
    "Poisson's equation on a grid with N intervals along each edge, by V-cycles.\n"
    "\n"
    "  --size N      a power of two from 4 to 1024 (default 32)\n"
    "  --cycles N    1 to 50 (default 8)\n"
    "  --overlap 1   compute inner points while the outer ones are on their way\n"
    "  --thread 1    have the library look after communication by a thread\n";

enum {
    CYCLES_MAX = 50
};

/* Two sweeps before and two after, by colours, full weighting: about 0.12 however fine the grid. */
#define RATE_EXPECTED 0.15
/* Relative to the first residual: below, rounding takes over. */
#define ROUNDING 1e-9

struct solver {
    struct together all;
    struct background background;
    struct halos halos;
    struct multigrid shared, alone;
    size_t n, cycles;
    double norm[CYCLES_MAX + 1]; /* before the first cycle, after each */
    struct background_call reducing[CYCLES_MAX + 1];
};

/* Starts finding out how large the residual is. */
static void begin_norm(struct solver *s, size_t i)
{
    s->norm[i] = multigrid_residual(&s->shared);
    background_reduce(&s->background, &s->reducing[i], &s->norm[i], 1, PAMI_DATA_MAX);
}

/* Seconds. */
static double solve(struct solver *s, bool threaded)
{
    double start;

    together_barrier(&s->all);
    background_thread(&s->background, threaded);
    start = PAMI_Wtime(s->all.client);
    begin_norm(s, 0);
    for (size_t i = 0; i < s->cycles; i++) {
        multigrid_cycle(&s->shared);
        begin_norm(s, i + 1);
    }
    for (size_t i = 0; i <= s->cycles; i++)
        background_wait(&s->reducing[i]);
    start = PAMI_Wtime(s->all.client) - start;
    background_thread(&s->background, false);
    return start;
}

/* Points of my block and norms that are not what a run by one task gives. */
static uint64_t compare(struct solver *s)
{
    const struct grid *mine = &s->shared.grid[0], *whole = &s->alone.grid[0];
    const size_t *low = mine->block.low, *size = mine->block.size;
    uint64_t wrong = s->norm[0] != multigrid_residual(&s->alone);

    for (size_t i = 0; i < s->cycles; i++) {
        multigrid_cycle(&s->alone);
        wrong += s->norm[i + 1] != multigrid_residual(&s->alone);
    }
    for (size_t z = 0; z < size[2]; z++)
        for (size_t y = 0; y < size[1]; y++)
            for (size_t x = 0; x < size[0]; x++)
                wrong += mine->u[grid_at(mine, x, y, z)] !=
                         whole->u[grid_at(whole, low[0] + x - 1, low[1] + y - 1, low[2] + z - 1)];
    return wrong;
}

/* What is left of the residual after a cycle: the worst of all cycles but the first. */
static double rate(const struct solver *s)
{
    double worst = 0;

    for (size_t i = 1; i < s->cycles && s->norm[i + 1] > ROUNDING * s->norm[0]; i++)
        worst = fmax(worst, s->norm[i + 1] / s->norm[i]);
    return worst;
}

static bool report(const struct solver *s, double seconds, uint64_t wrong)
{
    const struct multigrid *m = &s->shared;
    double points = pow((double)(s->n - 1), 3);
    double reduction = rate(s);
    bool right = wrong == 0 && reduction < RATE_EXPECTED;

    printf("%zu x %zu x %zu blocks, %zu grids from %zu^3 points on, %zu of them shared out\n",
           m->tasks[0], m->tasks[1], m->tasks[2], m->levels, s->n - 1, m->shared);
    printf("%zu cycles in %.4f s, %.2f million points a second; largest residual %.2e, was %.2e\n",
           s->cycles, seconds, points * (double)s->cycles / seconds / 1e6, s->norm[s->cycles],
           s->norm[0]);
    printf("a cycle leaves %.3f of the residual; difference from the exact solution %.2e\n",
           reduction, grid_error(&s->alone.grid[0]));
    printf("result: %s\n", right        ? "as in a sequential run"
                           : wrong == 0 ? "SLOW CONVERGENCE"
                                        : "WRONG");
    return right;
}

static bool is_power_of_two(size_t n)
{
    return (n & (n - 1)) == 0;
}

/* False: the command line is wrong. */
static bool read_options(struct solver *s, int argc, char **argv, size_t *overlap, size_t *threaded)
{
    static const char *const names[] = {"--size", "--cycles", "--overlap", "--thread", NULL};
    int bad = 0;

    s->n = together_option(argc, argv, "--size", 32, &bad);
    s->cycles = together_option(argc, argv, "--cycles", 8, &bad);
    *overlap = together_option(argc, argv, "--overlap", 0, &bad);
    *threaded = together_option(argc, argv, "--thread", 0, &bad);
    return !bad && together_knows(argc, argv, names) && s->n >= 4 && s->n <= 1024 &&
           is_power_of_two(s->n) && s->cycles > 0 && s->cycles <= CYCLES_MAX && *overlap <= 1 &&
           *threaded <= 1;
}

int main(int argc, char **argv)
{
    static const size_t one[3] = {1, 1, 1};
    static struct solver s;
    size_t overlap, threaded, cut[3] = {1, 1, 1}, tasks[3];
    double seconds;
    uint64_t wrong;
    bool right = true;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    if (!read_options(&s, argc, argv, &overlap, &threaded)) {
        fputs(help, stderr);
        return EXIT_FAILURE;
    }
    together_start(&s.all, "multigrid");
    background_start(&s.background, &s.all);
    halos_start(&s.halos, &s.background);
    together_cut(s.all.tasks, cut);
    for (int d = 0; d < 3; d++) /* lines along the first dimension stay whole as long as possible */
        tasks[d] = cut[2 - d];
    if (!multigrid_make(&s.shared, &s.background, &s.halos, s.n, tasks)) {
        fputs("multigrid: the grid is too small for so many tasks\n", stderr);
        return EXIT_FAILURE;
    }
    multigrid_make(&s.alone, &s.background, NULL, s.n, one);
    s.shared.overlap = overlap != 0;
    grid_set_problem(&s.shared.grid[0]);
    grid_set_problem(&s.alone.grid[0]);
    seconds = solve(&s, threaded != 0);
    wrong = together_sum(&s.all, compare(&s));
    if (s.all.task == 0)
        right = report(&s, seconds, wrong);
    multigrid_free(&s.shared);
    multigrid_free(&s.alone);
    together_finish(&s.all);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
