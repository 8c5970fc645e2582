/*
 * The NAS benchmark FT by MPI: what examples/ft does, with the same lines, classes and sums, and
 * MPI_Ialltoallv for its all-to-all. Compare examples/ft.
 *
 *     mpirun -n TASKS mpi_ft [S|W] [--slabs N] [--thread]
 *
 * --thread: a thread makes progress, see mpi_job.h; MPI_THREAD_MULTIPLE then. --slabs N: the
 * transposes are sent in N pieces, begun as soon as they are computed. Not pinned, as examples/ft
 * is not, and the thread is where there is room.
 */
#include "mpi_job.h"

#include "../../examples/ft/classes.c"
#include "../../examples/ft/lines.c"

#define SLABS_MAX 64

struct share {
    size_t low, high;
};

/* Planes of one index become planes of the other one; counts in numbers, slab by slab. */
struct turn {
    size_t outer, inner, row;
    struct share mine, next;
    struct pair *out, *in;
    int *counts; /* of a slab: to, at, from, at, for each task */
    size_t out_at[SLABS_MAX], in_at[SLABS_MAX];
    MPI_Request request[SLABS_MAX];
};

static struct {
    struct mpi_job job;
    const struct class *class;
    size_t slabs;
    struct lines lines[3];
    double *decay[3];
    struct turn there, back;
    struct pair *space, *modes, *work; /* [my z][y][x], [my y][z][x] */
    struct pair sum[CLASS_ITERATIONS];
    MPI_Request summing[CLASS_ITERATIONS];
} ft;

static struct share share_of(size_t n, size_t parts, size_t part)
{
    return (struct share){n * part / parts, n * (part + 1) / parts};
}

static size_t width(struct share share)
{
    return share.high - share.low;
}

static void *memory(size_t count, size_t bytes)
{
    void *at = calloc(count + 1, bytes);

    if (at == NULL) {
        bench_die("mpi_ft: no memory");
    }
    return at;
}

/* ---- transposes ---- */

static struct share range_of(const struct turn *t, int task, size_t slab)
{
    struct share all = share_of(t->outer, (size_t)ft.job.size, (size_t)task);
    struct share part = share_of(width(all), ft.slabs, slab);

    return (struct share){all.low + part.low, all.low + part.high};
}

static int *counts_of(const struct turn *t, size_t slab)
{
    return t->counts + 4 * slab * (size_t)ft.job.size;
}

static void turn_make(struct turn *t, size_t outer, size_t inner, size_t row)
{
    int tasks = ft.job.size;
    size_t out_at = 0, in_at = 0;

    t->outer = outer;
    t->inner = inner;
    t->row = row;
    t->mine = share_of(outer, (size_t)tasks, (size_t)ft.job.rank);
    t->next = share_of(inner, (size_t)tasks, (size_t)ft.job.rank);
    t->out = memory(width(t->mine) * inner * row, sizeof(struct pair));
    t->in = memory(width(t->next) * outer * row, sizeof(struct pair));
    t->counts = memory(4 * ft.slabs * (size_t)tasks, sizeof(int));
    for (size_t slab = 0; slab < ft.slabs; slab++) {
        int *to = counts_of(t, slab), *to_at = to + tasks, *from = to_at + tasks;
        int *from_at = from + tasks, at = 0;
        size_t own = width(range_of(t, ft.job.rank, slab));

        t->out_at[slab] = out_at;
        t->in_at[slab] = in_at;
        for (int i = 0; i < tasks; i++) {
            struct share part = share_of(inner, (size_t)tasks, (size_t)i);

            to[i] = (int)(2 * row * width(part) * own);
            to_at[i] = (int)(2 * row * part.low * own);
            from[i] = (int)(2 * row * width(t->next) * width(range_of(t, i, slab)));
            from_at[i] = at;
            at += from[i];
        }
        out_at += own * inner * row;
        in_at += (size_t)at / 2;
    }
}

static void turn_begin(struct turn *t, size_t slab, const struct pair *from)
{
    struct share range = range_of(t, ft.job.rank, slab);
    struct pair *at = t->out + t->out_at[slab];
    int *counts = counts_of(t, slab), tasks = ft.job.size;

    for (size_t inner = 0; inner < t->inner; inner++) {
        for (size_t o = range.low - t->mine.low; o < range.high - t->mine.low; o++) {
            memcpy(at, from + (o * t->inner + inner) * t->row, t->row * sizeof(*at));
            at += t->row;
        }
    }
    MPI_OK(MPI_Ialltoallv(t->out + t->out_at[slab], counts, counts + tasks, MPI_DOUBLE,
                          t->in + t->in_at[slab], counts + 2 * tasks, counts + 3 * tasks,
                          MPI_DOUBLE, MPI_COMM_WORLD, &t->request[slab]));
}

static void turn_end(struct turn *t, size_t slab, struct pair *to)
{
    const struct pair *at = t->in + t->in_at[slab];

    MPI_OK(MPI_Wait(&t->request[slab], MPI_STATUS_IGNORE));
    for (int task = 0; task < ft.job.size; task++) {
        struct share range = range_of(t, task, slab);

        for (size_t inner = 0; inner < width(t->next); inner++) {
            for (size_t o = range.low; o < range.high; o++) {
                memcpy(to + (inner * t->outer + o) * t->row, at, t->row * sizeof(*to));
                at += t->row;
            }
        }
    }
}

/* ---- computation ---- */

static void transform_space(struct pair *plane, int sign)
{
    size_t nx = ft.class->n[0];

    for (size_t y = 0; y < ft.class->n[1]; y += LINES_AT_ONCE) {
        lines_transform(&ft.lines[0], plane + y * nx, 1, nx, sign);
    }
    for (size_t x = 0; x < nx; x += LINES_AT_ONCE) {
        lines_transform(&ft.lines[1], plane + x, nx, 1, sign);
    }
}

static void transform_modes(struct pair *plane, int sign)
{
    for (size_t x = 0; x < ft.class->n[0]; x += LINES_AT_ONCE) {
        lines_transform(&ft.lines[2], plane + x, ft.class->n[0], 1, sign);
    }
}

static void evolve(size_t y, struct pair *modes, struct pair *copy)
{
    size_t nx = ft.class->n[0], i = 0;

    for (size_t z = 0; z < ft.class->n[2]; z++) {
        double factor = ft.decay[1][y] * ft.decay[2][z];

        for (size_t x = 0; x < nx; x++, i++) {
            modes[i].re *= factor * ft.decay[0][x];
            modes[i].im *= factor * ft.decay[0][x];
            copy[i] = modes[i];
        }
    }
}

static void forward(void)
{
    size_t plane = ft.class->n[0] * ft.class->n[1], modes = ft.class->n[0] * ft.class->n[2];

    for (size_t slab = 0; slab < ft.slabs; slab++) {
        struct share range = range_of(&ft.there, ft.job.rank, slab);

        for (size_t z = range.low; z < range.high; z++) {
            transform_space(ft.space + (z - ft.there.mine.low) * plane, 1);
        }
        turn_begin(&ft.there, slab, ft.space);
    }
    for (size_t slab = 0; slab < ft.slabs; slab++) {
        turn_end(&ft.there, slab, ft.modes);
    }
    for (size_t y = 0; y < width(ft.there.next); y++) {
        transform_modes(ft.modes + y * modes, 1);
    }
}

static void add_up(size_t iteration)
{
    const size_t *n = ft.class->n;
    struct pair *sum = &ft.sum[iteration];

    for (size_t i = 0; i < CLASS_SUM_POINTS; i++) {
        const struct pair *point;
        size_t at[3];

        class_point(ft.class, i, at);
        if (at[2] >= ft.there.mine.low && at[2] < ft.there.mine.high) {
            point = ft.space + ((at[2] - ft.there.mine.low) * n[1] + at[1]) * n[0] + at[0];
            sum->re += point->re;
            sum->im += point->im;
        }
    }
    MPI_OK(MPI_Iallreduce(MPI_IN_PLACE, sum, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                          &ft.summing[iteration]));
}

static void iterate(size_t iteration)
{
    size_t plane = ft.class->n[0] * ft.class->n[1], modes = ft.class->n[0] * ft.class->n[2];

    for (size_t slab = 0; slab < ft.slabs; slab++) {
        struct share range = range_of(&ft.back, ft.job.rank, slab);

        for (size_t y = range.low; y < range.high; y++) {
            size_t at = (y - ft.back.mine.low) * modes;

            evolve(y, ft.modes + at, ft.work + at);
            transform_modes(ft.work + at, -1);
        }
        turn_begin(&ft.back, slab, ft.work);
    }
    for (size_t slab = 0; slab < ft.slabs; slab++) {
        turn_end(&ft.back, slab, ft.space);
    }
    for (size_t z = 0; z < width(ft.there.mine); z++) {
        transform_space(ft.space + z * plane, -1);
    }
    add_up(iteration);
}

/* ---- around it ---- */

static void setup(void)
{
    const size_t *n = ft.class->n;
    size_t modes, space;

    turn_make(&ft.there, n[2], n[1], n[0]);
    turn_make(&ft.back, n[1], n[2], n[0]);
    modes = width(ft.back.mine) * n[0] * n[2];
    space = width(ft.there.mine) * n[0] * n[1];
    ft.modes = memory(modes, sizeof(struct pair));
    ft.work = memory(modes, sizeof(struct pair));
    ft.space = memory(space, sizeof(struct pair));
    class_fill(ft.space, ft.there.mine.low * n[0] * n[1], space);
    for (int d = 0; d < 3; d++) {
        ft.decay[d] = memory(n[d], sizeof(double));
        for (size_t k = 0; k < n[d]; k++) {
            ft.decay[d][k] = class_decay(k, n[d]);
        }
        if (lines_make(&ft.lines[d], n[d]) != 0) {
            bench_die("mpi_ft: no memory");
        }
    }
}

static void verify(void)
{
    double points = (double)(ft.class->n[0] * ft.class->n[1] * ft.class->n[2]);

    for (size_t i = 0; i < CLASS_ITERATIONS; i++) {
        struct pair sum = {ft.sum[i].re / points, ft.sum[i].im / points};

        if (!class_agrees(sum, ft.class->sum[i])) {
            bench_die("mpi_ft: iteration %zu: sum %.12e, %.12e", i + 1, sum.re, sum.im);
        }
    }
}

int main(int argc, char **argv)
{
    bool threaded = bench_flag(argc, argv, "--thread");
    uint64_t start;

    unsetenv("BENCH_PIN");
    ft.class = class_find(argc > 1 && argv[1][0] != '-' ? argv[1] : "S");
    ft.slabs = bench_option(argc, argv, "--slabs", 1);
    if (ft.class == NULL || ft.slabs == 0 || ft.slabs > SLABS_MAX) {
        bench_die("mpi_ft: class S or W, 1 to %d slabs", SLABS_MAX);
    }
    mpi_job_open(&ft.job, &argc, &argv, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    setup();
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (threaded) {
        mpi_job_thread_start();
    }
    start = bench_now();
    forward();
    for (size_t i = 0; i < CLASS_ITERATIONS; i++) {
        iterate(i);
    }
    MPI_OK(MPI_Waitall(CLASS_ITERATIONS, ft.summing, mpi_job_no_statuses()));
    if (ft.job.rank == 0) {
        bench_emit("ft", (size_t)ft.job.size, "s", (double)(bench_now() - start) / 1e9);
    }
    if (threaded) {
        mpi_job_thread_stop();
    }
    verify();
    MPI_Finalize();
    return 0;
}
