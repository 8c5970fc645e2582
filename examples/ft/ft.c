/*
 * ft.c - a heat equation solved by three-dimensional Fourier transforms, in the manner of the NAS
 * benchmark FT; results are verified against the published ones.
 *
 * In space a task has some planes of constant z, and transforms along x and y; among the modes it
 * has some planes of constant y, and transforms along z. Between the two lies an all-to-all of
 * everything. Planes are cut into slabs: while one is on its way the next one is computed, and the
 * library gets on with it either in the moments that the program gives it, or by a thread of its
 * own. The files:
 *
 *   lines.c       one-dimensional transforms
 *   transpose.c   the all-to-all, slab by slab
 *   classes.c     initial values and published sums
 *   ../background.h   collectives in the background
 *
 * Try:  pamirun -n 4 ft W --slabs 4 --thread 1
 */
#include "classes.h"
#include "transpose.h"

static const char help[] =
    "Usage: pamirun -n TASKS ft [S|W] [--slabs N] [--poll N] [--thread 0|1]\n"
    "3-D Fourier transforms, class S (64 x 64 x 64, the default) or W (128 x 128 x 32).\n"
    "\n"
    "  --slabs N     pieces in which each transpose is sent (default 1: no overlap)\n"
    "  --poll N      look after communication after every N x 8 lines (default 0: never)\n"
    "  --thread 1    have the library look after it by a thread\n";

struct ft {
    struct together all;
    struct background background;
    const struct class *class;
    size_t slabs, poll, blocks;
    struct lines lines[3];
    double *decay[3];
    struct transpose there, back; /* from space to modes, and back */
    struct pair *space;           /* [my z][y][x] */
    struct pair *modes, *work;    /* [my y][z][x] */
    struct pair sum[CLASS_ITERATIONS];
    struct background_call summing[CLASS_ITERATIONS];
    double waiting; /* seconds */
};

/* ---- computation ---- */

/* Number of points of one plane, which is also the distance between two. */
static size_t plane_of_space(const struct ft *f)
{
    return f->class->n[0] * f->class->n[1];
}

static size_t plane_of_modes(const struct ft *f)
{
    return f->class->n[0] * f->class->n[2];
}

static void transform(struct ft *f, int dimension, struct pair *data, size_t step, size_t pitch,
                      int sign)
{
    lines_transform(&f->lines[dimension], data, step, pitch, sign);
    if (f->poll != 0 && ++f->blocks % f->poll == 0)
        background_poll(&f->background, 1);
}

/* A plane [y][x], along both. */
static void transform_space(struct ft *f, struct pair *plane, int sign)
{
    size_t nx = f->class->n[0];

    for (size_t y = 0; y < f->class->n[1]; y += LINES_AT_ONCE)
        transform(f, 0, plane + y * nx, 1, nx, sign);
    for (size_t x = 0; x < nx; x += LINES_AT_ONCE)
        transform(f, 1, plane + x, nx, 1, sign);
}

/* A plane [z][x], along z. */
static void transform_modes(struct ft *f, struct pair *plane, int sign)
{
    for (size_t x = 0; x < f->class->n[0]; x += LINES_AT_ONCE)
        transform(f, 2, plane + x, f->class->n[0], 1, sign);
}

/* Lets the modes of a plane decay for one step of time, and copies them. */
static void evolve(const struct ft *f, size_t y, struct pair *modes, struct pair *copy)
{
    size_t nx = f->class->n[0], i = 0;

    for (size_t z = 0; z < f->class->n[2]; z++) {
        double factor = f->decay[1][y] * f->decay[2][z];

        for (size_t x = 0; x < nx; x++, i++) {
            modes[i].re *= factor * f->decay[0][x];
            modes[i].im *= factor * f->decay[0][x];
            copy[i] = modes[i];
        }
    }
}

/* ---- the distributed transforms ---- */

static void collect(struct ft *f, struct transpose *t, struct pair *to)
{
    for (size_t slab = 0; slab < f->slabs; slab++) {
        double start = PAMI_Wtime(f->all.client);

        background_wait(&t->slab[slab].call);
        f->waiting += PAMI_Wtime(f->all.client) - start;
        transpose_end(t, slab, to);
    }
}

static void forward(struct ft *f)
{
    struct share mine = f->there.mine;

    for (size_t slab = 0; slab < f->slabs; slab++) {
        struct share range = transpose_range(&f->there, f->all.task, slab);

        for (size_t z = range.low; z < range.high; z++)
            transform_space(f, f->space + (z - mine.low) * plane_of_space(f), 1);
        transpose_begin(&f->there, slab, f->space);
    }
    collect(f, &f->there, f->modes);
    for (size_t y = 0; y < f->there.next.high - f->there.next.low; y++)
        transform_modes(f, f->modes + y * plane_of_modes(f), 1);
}

/* Starts summing up the chosen points of this iteration. */
static void add_up(struct ft *f, size_t iteration)
{
    struct share mine = f->there.mine;
    struct pair *sum = &f->sum[iteration];

    for (size_t i = 0; i < CLASS_SUM_POINTS; i++) {
        const struct pair *point;
        size_t at[3];

        class_point(f->class, i, at);
        if (at[2] < mine.low || at[2] >= mine.high)
            continue;
        point = f->space + (at[2] - mine.low) * plane_of_space(f) + at[1] * f->class->n[0] + at[0];
        sum->re += point->re;
        sum->im += point->im;
    }
    background_reduce(&f->background, &f->summing[iteration], &sum->re, 2, PAMI_DATA_SUM);
}

static void iterate(struct ft *f, size_t iteration)
{
    struct share mine = f->back.mine;

    for (size_t slab = 0; slab < f->slabs; slab++) {
        struct share range = transpose_range(&f->back, f->all.task, slab);

        for (size_t y = range.low; y < range.high; y++) {
            size_t at = (y - mine.low) * plane_of_modes(f);

            evolve(f, y, f->modes + at, f->work + at);
            transform_modes(f, f->work + at, -1);
        }
        transpose_begin(&f->back, slab, f->work);
    }
    collect(f, &f->back, f->space);
    for (size_t z = 0; z < f->there.mine.high - f->there.mine.low; z++)
        transform_space(f, f->space + z * plane_of_space(f), -1);
    add_up(f, iteration);
}

/* ---- around it ---- */

static void setup(struct ft *f)
{
    const size_t *n = f->class->n;
    size_t points_of_modes;

    background_start(&f->background, &f->all);
    transpose_make(&f->there, &f->background, n[2], n[1], n[0], f->slabs);
    transpose_make(&f->back, &f->background, n[1], n[2], n[0], f->slabs);
    points_of_modes = (f->back.mine.high - f->back.mine.low) * plane_of_modes(f);
    f->modes = together_memory(&f->all, points_of_modes, sizeof(struct pair));
    f->work = together_memory(&f->all, points_of_modes, sizeof(struct pair));
    f->space = together_memory(
        &f->all, (f->there.mine.high - f->there.mine.low) * plane_of_space(f), sizeof(struct pair));
    class_fill(f->space, f->there.mine.low * plane_of_space(f),
               (f->there.mine.high - f->there.mine.low) * plane_of_space(f));
    for (int d = 0; d < 3; d++) {
        f->decay[d] = together_memory(&f->all, n[d], sizeof(double));
        for (size_t k = 0; k < n[d]; k++)
            f->decay[d][k] = class_decay(k, n[d]);
        if (lines_make(&f->lines[d], n[d]) != 0) {
            fputs("ft: no memory\n", stderr);
            exit(EXIT_FAILURE);
        }
    }
}

static void clean_up(struct ft *f)
{
    transpose_free(&f->there);
    transpose_free(&f->back);
    for (int d = 0; d < 3; d++) {
        lines_free(&f->lines[d]);
        free(f->decay[d]);
    }
    free(f->space);
    free(f->modes);
    free(f->work);
}

/* The whole, timed, with or without a thread: seconds. */
static double run(struct ft *f, bool threaded)
{
    double start;

    together_barrier(&f->all);
    background_thread(&f->background, threaded);
    start = PAMI_Wtime(f->all.client);
    forward(f);
    for (size_t i = 0; i < CLASS_ITERATIONS; i++)
        iterate(f, i);
    for (size_t i = 0; i < CLASS_ITERATIONS; i++)
        background_wait(&f->summing[i]);
    start = PAMI_Wtime(f->all.client) - start;
    background_thread(&f->background, false);
    return start;
}

static bool verify(struct ft *f)
{
    double points = (double)(f->class->n[0] * f->class->n[1] * f->class->n[2]);
    bool right = true;

    for (size_t i = 0; i < CLASS_ITERATIONS; i++) {
        struct pair sum = {f->sum[i].re / points, f->sum[i].im / points};

        if (class_agrees(sum, f->class->sum[i]))
            continue;
        right = false;
        if (f->all.task == 0)
            printf("iteration %zu: sum %.12e, %.12e instead of %.12e, %.12e\n", i + 1, sum.re,
                   sum.im, f->class->sum[i].re, f->class->sum[i].im);
    }
    return right;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"--slabs", "--poll", "--thread", NULL};
    struct ft f = {.class = class_find("S")};
    int bad = 0, named = argc > 1 && argv[1][0] != '-';
    size_t threaded;
    double seconds;
    bool right;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    if (named)
        f.class = class_find(argv[1]);
    f.slabs = together_option(argc, argv, "--slabs", 1, &bad);
    f.poll = together_option(argc, argv, "--poll", 0, &bad);
    threaded = together_option(argc, argv, "--thread", 0, &bad);
    if (bad || f.class == NULL || !together_knows(argc - named, argv + named, names) ||
        f.slabs == 0 || f.slabs > 1000 || threaded > 1) {
        fputs(help, stderr);
        return EXIT_FAILURE;
    }
    together_start(&f.all, "ft");
    setup(&f);
    seconds = run(&f, threaded != 0);
    right = verify(&f);
    if (f.all.task == 0) {
        printf("class %c: %zu x %zu x %zu points, %zu tasks, %zu slabs%s: %d iterations in %.4f s, "
               "of these %.3f s waiting\n",
               f.class->name, f.class->n[0], f.class->n[1], f.class->n[2], f.all.tasks, f.slabs,
               threaded ? ", a thread" : "", CLASS_ITERATIONS, seconds, f.waiting);
        printf("result: %s\n", right ? "the published sums" : "WRONG");
    }
    clean_up(&f);
    together_finish(&f.all);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
