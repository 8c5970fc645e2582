/*
 * halo.c - a block of a 3-D grid in every task, and the layers around it by typed puts.
 *
 * The grid is cut into blocks. In each step every cell becomes a weighted mean of itself and its
 * six neighbours, for which a task needs one layer of cells of each neighbouring block. The
 * neighbours *put* them where they are needed: the layout of a face in my block and of the layer in
 * theirs are two types, and PAMI_Put_typed copies from one into the other. When a fence says
 * that all my faces have arrived, I tell the neighbours so by a message.
 *
 * A task has two copies of its block and writes them in turn, so that a neighbour that is a step
 * ahead never overwrites what is still being read. At last task 0 gets all blocks, does the whole
 * computation alone and compares bit by bit.
 *
 * Build:  cc halo.c $(pkg-config --cflags --libs pami) -o halo
 * Run:    pamirun -n 4 ./halo --size 48 --steps 50
 */
#include "together.h"

static const char help[] =
    "Usage: pamirun -n TASKS halo [--size N] [--steps N]\n"
    "A stencil on an N x N x N grid in blocks: halo exchange by typed puts and a fence.\n"
    "\n"
    "  --size N     cells along each edge of the grid (default 40)\n"
    "  --steps N    (default 30)\n";

enum {
    ARRIVED_DISPATCH = 1,
    DIMENSIONS = 3,
    SIDES = 2 * DIMENSIONS
};

/* Cells [low, low + size) of the grid in each dimension, with a layer around them. */
struct block {
    size_t low[DIMENSIONS], size[DIMENSIONS];
};

struct side {
    int exists;
    pami_endpoint_t to;
    size_t task;
    pami_type_t mine, theirs;  /* my outermost cells; the layer around the neighbour's block */
    size_t mine_at, theirs_at; /* bytes from the beginning of a copy */
    size_t bytes;
    size_t arrived; /* layers from there, all steps together */
};

struct halo {
    struct together all;
    size_t n, steps;
    size_t grid[DIMENSIONS]; /* tasks along each dimension */
    struct block block;
    struct side side[SIDES];
    double *copy[2];
    uint64_t *base[2]; /* of all tasks */
};

/* ---- geometry ---- */

static struct block block_of(const struct halo *h, size_t task)
{
    struct block b;

    for (int d = 0; d < DIMENSIONS; d++) {
        size_t at = task % h->grid[d];

        b.low[d] = h->n * at / h->grid[d];
        b.size[d] = h->n * (at + 1) / h->grid[d] - b.low[d];
        task /= h->grid[d];
    }
    return b;
}

/* Position of cell (x, y, z) of a block, from -1 on in each dimension. */
static size_t cell(const struct block *b, size_t x, size_t y, size_t z)
{
    return ((z + 1) * (b->size[1] + 2) + y + 1) * (b->size[0] + 2) + x + 1;
}

static size_t cells(const struct block *b)
{
    return (b->size[0] + 2) * (b->size[1] + 2) * (b->size[2] + 2);
}

/* One layer of a block, across dimension d, as a type. */
static pami_type_t layer(const struct halo *h, const struct block *b, int d)
{
    size_t line = (b->size[0] + 2) * sizeof(double), plane = (b->size[1] + 2) * line;
    pami_type_t type, column;

    TOGETHER(&h->all, PAMI_Type_create(&type));
    if (d == 0) {
        TOGETHER(&h->all, PAMI_Type_create(&column));
        TOGETHER(&h->all, PAMI_Type_add_simple(column, sizeof(double), 0, b->size[1], line));
        TOGETHER(&h->all, PAMI_Type_complete(column, sizeof(double)));
        TOGETHER(&h->all, PAMI_Type_add_typed(type, column, 0, b->size[2], plane));
        TOGETHER(&h->all, PAMI_Type_destroy(&column));
    } else {
        size_t count = d == 1 ? b->size[2] : b->size[1];

        TOGETHER(&h->all, PAMI_Type_add_simple(type, b->size[0] * sizeof(double), 0, count,
                                               d == 1 ? plane : line));
    }
    TOGETHER(&h->all, PAMI_Type_complete(type, sizeof(double)));
    return type;
}

/* Where layer number `index` (-1 .. size) across dimension d begins. */
static size_t layer_at(const struct block *b, int d, size_t index)
{
    size_t at[DIMENSIONS] = {0};

    at[d] = index;
    return cell(b, at[0], at[1], at[2]) * sizeof(double);
}

static void find_side(struct halo *h, int d, int up)
{
    struct side *s = &h->side[2 * d + up];
    size_t step = 1, at;
    struct block there;

    for (int i = 0; i < d; i++)
        step *= h->grid[i];
    at = h->all.task / step % h->grid[d];
    if (up ? at + 1 == h->grid[d] : at == 0)
        return;
    s->exists = 1;
    s->task = up ? h->all.task + step : h->all.task - step;
    s->to = h->all.endpoint[s->task];
    there = block_of(h, s->task);
    s->mine = layer(h, &h->block, d);
    s->theirs = layer(h, &there, d);
    s->mine_at = layer_at(&h->block, d, up ? h->block.size[d] - 1 : 0);
    s->theirs_at = layer_at(&there, d, up ? (size_t)-1 : there.size[d]);
    s->bytes = sizeof(double);
    for (int i = 0; i < DIMENSIONS; i++)
        s->bytes *= i == d ? 1 : h->block.size[i];
}

/* ---- exchange ---- */

static void on_arrived(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t data_size, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct halo *h = cookie;

    (void)context, (void)header, (void)header_size, (void)data, (void)data_size, (void)recv;
    for (int i = 0; i < SIDES; i++)
        if (h->side[i].exists && h->side[i].to == origin)
            h->side[i].arrived++;
}

static void on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    *(int *)cookie = 1;
}

/* Puts my faces into the neighbours' layers and waits for theirs. */
static void exchange(struct halo *h, size_t step)
{
    size_t which = step % 2;
    int fenced = 0;

    for (int i = 0; i < SIDES; i++) {
        struct side *s = &h->side[i];
        pami_put_typed_t put = {
            .rma = {.dest = s->to, .bytes = s->bytes},
            .addr = {.local = (char *)h->copy[which] + s->mine_at},
            .type = {.local = s->mine, .remote = s->theirs},
        };

        if (!s->exists)
            continue;
        put.addr.remote = (char *)(uintptr_t)h->base[which][s->task] + s->theirs_at;
        TOGETHER(&h->all, PAMI_Put_typed(h->all.context, &put));
    }
    TOGETHER(&h->all, PAMI_Fence_all(h->all.context, on_fence, &fenced));
    while (!fenced)
        together_advance(&h->all);
    for (int i = 0; i < SIDES; i++) {
        pami_send_immediate_t note = {.dispatch = ARRIVED_DISPATCH, .dest = h->side[i].to};

        if (h->side[i].exists)
            TOGETHER(&h->all, PAMI_Send_immediate(h->all.context, &note));
    }
    /* One count for each side: a neighbour may be a step ahead of me while another is behind. */
    for (int i = 0; i < SIDES; i++)
        while (h->side[i].exists && h->side[i].arrived <= step)
            together_advance(&h->all);
}

/* ---- computation ---- */

static double initial(size_t n, size_t x, size_t y, size_t z)
{
    return (double)((x * n + y) * n + z * 7919 % 1000) / 1000.0;
}

static void fill(const struct halo *h, const struct block *b, double *copy)
{
    for (size_t z = 0; z < b->size[2]; z++)
        for (size_t y = 0; y < b->size[1]; y++)
            for (size_t x = 0; x < b->size[0]; x++)
                copy[cell(b, x, y, z)] = initial(h->n, b->low[0] + x, b->low[1] + y, b->low[2] + z);
}

/* Outside of the grid everything is 0: the layers there are never written. */
static void compute(const struct block *b, const double *from, double *to)
{
    size_t line = b->size[0] + 2, plane = line * (b->size[1] + 2);

    for (size_t z = 0; z < b->size[2]; z++)
        for (size_t y = 0; y < b->size[1]; y++)
            for (size_t x = 0; x < b->size[0]; x++) {
                size_t i = cell(b, x, y, z);

                to[i] = 0.25 * from[i] +
                        0.125 * ((from[i - 1] + from[i + 1]) + (from[i - line] + from[i + line]) +
                                 (from[i - plane] + from[i + plane]));
            }
}

/* ---- comparison ---- */

static void on_got(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)result;
    *(int *)cookie = 1;
}

/* Cells of all blocks that differ from those of a run on one block. */
static uint64_t compare(struct halo *h)
{
    struct block whole = {.size = {h->n, h->n, h->n}};
    double *plain[2];
    uint64_t wrong = 0;

    for (int i = 0; i < 2; i++)
        plain[i] = together_memory(&h->all, cells(&whole), sizeof(double));
    fill(h, &whole, plain[0]);
    for (size_t step = 0; step < h->steps; step++)
        compute(&whole, plain[step % 2], plain[(step + 1) % 2]);
    for (size_t task = 0; task < h->all.tasks; task++) {
        struct block b = block_of(h, task);
        double *got = together_memory(&h->all, cells(&b), sizeof(double));
        int here = 0;
        pami_get_simple_t get = {
            .rma = {.dest = h->all.endpoint[task],
                    .bytes = cells(&b) * sizeof(double),
                    .cookie = &here,
                    .done_fn = on_got},
            .addr = {.local = got, .remote = (void *)(uintptr_t)h->base[h->steps % 2][task]},
        };

        TOGETHER(&h->all, PAMI_Get(h->all.context, &get));
        while (!here)
            together_advance(&h->all);
        for (size_t z = 0; z < b.size[2]; z++)
            for (size_t y = 0; y < b.size[1]; y++)
                for (size_t x = 0; x < b.size[0]; x++)
                    wrong +=
                        got[cell(&b, x, y, z)] !=
                        plain[h->steps % 2][cell(&whole, b.low[0] + x, b.low[1] + y, b.low[2] + z)];
        free(got);
    }
    free(plain[0]);
    free(plain[1]);
    return wrong;
}

static void setup(struct halo *h)
{
    pami_dispatch_callback_function fn = {.p2p = on_arrived};
    pami_dispatch_hint_t hints = {.recv_immediate = PAMI_HINT_ENABLE};

    TOGETHER(&h->all, PAMI_Dispatch_set(h->all.context, ARRIVED_DISPATCH, fn, h, hints));
    h->block = block_of(h, h->all.task);
    for (int i = 0; i < SIDES; i++)
        find_side(h, i / 2, i % 2);
    for (int i = 0; i < 2; i++) {
        h->copy[i] = together_memory(&h->all, cells(&h->block), sizeof(double));
        h->base[i] = together_memory(&h->all, h->all.tasks, sizeof(uint64_t));
        together_words(&h->all, (uintptr_t)h->copy[i], h->base[i]);
    }
    fill(h, &h->block, h->copy[0]);
}

static void clean_up(struct halo *h)
{
    for (int i = 0; i < SIDES; i++)
        if (h->side[i].exists) {
            TOGETHER(&h->all, PAMI_Type_destroy(&h->side[i].mine));
            TOGETHER(&h->all, PAMI_Type_destroy(&h->side[i].theirs));
        }
    together_finish(&h->all);
    for (int i = 0; i < 2; i++) {
        free(h->copy[i]);
        free(h->base[i]);
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"--size", "--steps", NULL};
    struct halo h = {0};
    double start, seconds;
    uint64_t wrong = 0;
    int bad = 0;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    h.n = together_option(argc, argv, "--size", 40, &bad);
    h.steps = together_option(argc, argv, "--steps", 30, &bad);
    if (bad || !together_knows(argc, argv, names) || h.n == 0 || h.n > 2000) {
        fputs(help, stderr);
        return EXIT_FAILURE;
    }
    together_start(&h.all, "halo");
    together_cut(h.all.tasks, h.grid);
    if (h.grid[0] > h.n || h.grid[1] > h.n || h.grid[2] > h.n) {
        fputs("halo: the grid is too small for so many tasks\n", stderr);
        return EXIT_FAILURE;
    }
    setup(&h);
    together_barrier(&h.all);
    start = PAMI_Wtime(h.all.client);
    for (size_t step = 0; step < h.steps; step++) {
        exchange(&h, step);
        compute(&h.block, h.copy[step % 2], h.copy[(step + 1) % 2]);
    }
    together_barrier(&h.all);
    seconds = PAMI_Wtime(h.all.client) - start;
    if (h.all.task == 0) {
        wrong = compare(&h);
        printf("%zu x %zu x %zu blocks of a grid of %zu^3 cells, %zu steps in %.3f s: %.1f million "
               "cells a second\n",
               h.grid[0], h.grid[1], h.grid[2], h.n, h.steps, seconds,
               (double)(h.n * h.n * h.n * h.steps) / seconds / 1e6);
        printf("result: %s\n", wrong == 0 ? "as in a sequential run" : "WRONG");
    }
    clean_up(&h);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
