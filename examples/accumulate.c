/*
 * accumulate.c - adding to memory of other tasks: a receive with a layout and an operator.
 *
 * Every task has a matrix of its own, made of a formula. Their sum is wanted, transposed, and with
 * its rows distributed over the tasks. A task sends each row of its matrix in pieces to the owners
 * of the sum's rows; in the owner's block such a piece is part of a *column*. The dispatch function
 * says so with a type (one double in every row) and asks for the operator PAMI_DATA_SUM instead of
 * a copy: the library adds each number to the one that is already there, as it arrives. This is how
 * an MPI library makes MPI_Accumulate of active messages.
 *
 * The type is built from PAMI_TYPE_DOUBLE by PAMI_Type_add_typed, so that the library knows what
 * kind of number to add. All numbers are whole, hence the order of the additions does not matter
 * and the sum must be exact.
 *
 * Build:  cc accumulate.c $(pkg-config --cflags --libs pami) -o accumulate
 * Run:    pamirun -n 4 ./accumulate --size 200
 */
#include "together.h"

static const char help[] = "Usage: pamirun -n TASKS accumulate [--size N] [--rounds N]\n"
                           "The transposed sum of one N x N matrix per task, by active messages.\n"
                           "\n"
                           "  --size N      rows and columns (default 256)\n"
                           "  --rounds N    how often everything is added (default 4)\n";

enum {
    ADD_DISPATCH = 1
};

struct accumulate {
    struct together all;
    size_t n, rounds;
    size_t low, high;      /* my rows of the sum */
    double *sum;           /* (high - low) x n */
    double *matrix;        /* mine, n x n */
    pami_type_t column;    /* of `sum` */
    size_t begun, ended;   /* my messages; ended: added at their targets */
    size_t received, lost; /* pieces that others have sent me */
};

static size_t row_begin(const struct accumulate *a, size_t task)
{
    return a->n * task / a->all.tasks;
}

/* What task t has in row i, column j. */
static double formula(size_t t, size_t i, size_t j)
{
    return (double)((t + 1) * (i * 3 + j * 5) % 1009);
}

static void on_added(pami_context_t context, void *cookie, pami_result_t result)
{
    struct accumulate *a = cookie;

    (void)context;
    a->received++;
    a->lost += result != PAMI_SUCCESS;
}

/* A piece of row j of somebody's matrix: part of column j of my block. The data always arrive
 * asynchronously (see the hint below), so that the library does the adding. */
static void on_piece(pami_context_t context, void *cookie, const void *header, size_t header_size,
                     const void *data, size_t data_size, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct accumulate *a = cookie;
    uint64_t j;

    (void)context, (void)data, (void)data_size, (void)origin;
    memcpy(&j, header, header_size);
    recv->addr = a->sum + j;
    recv->type = a->column;
    recv->data_fn = PAMI_DATA_SUM;
    recv->local_fn = on_added;
    recv->cookie = a;
}

static void on_delivered(pami_context_t context, void *cookie, pami_result_t result)
{
    struct accumulate *a = cookie;

    (void)context;
    together_check(&a->all, result, "delivery of a piece");
    a->ended++;
}

static void send_row(struct accumulate *a, uint64_t j)
{
    for (size_t task = 0; task < a->all.tasks; task++) {
        size_t begin = row_begin(a, task), count = row_begin(a, task + 1) - begin;
        pami_send_t piece = {
            .send = {.header = {.iov_base = &j, .iov_len = sizeof(j)},
                     .data = {.iov_base = a->matrix + j * a->n + begin,
                              .iov_len = count * sizeof(double)},
                     .dispatch = ADD_DISPATCH,
                     .dest = a->all.endpoint[task]},
            .events = {.cookie = a, .remote_fn = on_delivered},
        };

        if (count == 0)
            continue;
        a->begun++;
        TOGETHER(&a->all, PAMI_Send(a->all.context, &piece));
    }
}

/* Numbers of my block that are not what they must be. */
static uint64_t compare(const struct accumulate *a)
{
    uint64_t wrong = 0;

    for (size_t i = a->low; i < a->high; i++)
        for (size_t j = 0; j < a->n; j++) {
            double expected = 0;

            for (size_t t = 0; t < a->all.tasks; t++)
                expected += (double)a->rounds * formula(t, j, i);
            wrong += a->sum[(i - a->low) * a->n + j] != expected;
        }
    return wrong;
}

static void setup(struct accumulate *a)
{
    pami_dispatch_callback_function fn = {.p2p = on_piece};
    pami_dispatch_hint_t hints = {.recv_immediate = PAMI_HINT_DISABLE};

    TOGETHER(&a->all, PAMI_Dispatch_set(a->all.context, ADD_DISPATCH, fn, a, hints));
    a->low = row_begin(a, a->all.task);
    a->high = row_begin(a, a->all.task + 1);
    a->sum = together_memory(&a->all, (a->high - a->low) * a->n, sizeof(double));
    a->matrix = together_memory(&a->all, a->n * a->n, sizeof(double));
    for (size_t i = 0; i < a->n * a->n; i++)
        a->matrix[i] = formula(a->all.task, i / a->n, i % a->n);
    TOGETHER(&a->all, PAMI_Type_create(&a->column));
    TOGETHER(&a->all,
             PAMI_Type_add_typed(a->column, PAMI_TYPE_DOUBLE, 0, 1, a->n * sizeof(double)));
    TOGETHER(&a->all, PAMI_Type_complete(a->column, sizeof(double)));
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"--size", "--rounds", NULL};
    struct accumulate a = {0};
    double start, seconds;
    uint64_t wrong;
    int bad = 0;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(help, stdout);
        return EXIT_SUCCESS;
    }
    a.n = together_option(argc, argv, "--size", 256, &bad);
    a.rounds = together_option(argc, argv, "--rounds", 4, &bad);
    if (bad || !together_knows(argc, argv, names) || a.n == 0 || a.n > 20000) {
        fputs(help, stderr);
        return EXIT_FAILURE;
    }
    together_start(&a.all, "accumulate");
    setup(&a);
    together_barrier(&a.all);
    start = PAMI_Wtime(a.all.client);
    for (size_t round = 0; round < a.rounds; round++)
        for (size_t j = 0; j < a.n; j++) {
            send_row(&a, j);
            together_advance(&a.all);
        }
    while (a.ended < a.begun)
        together_advance(&a.all);
    together_barrier(&a.all); /* everybody's pieces have been added everywhere */
    seconds = PAMI_Wtime(a.all.client) - start;
    wrong = together_sum(&a.all, compare(&a) + a.lost);
    if (a.all.task == 0) {
        printf("%zu tasks added %zu matrices of %zu x %zu in %.3f s: %.1f million additions a "
               "second\n",
               a.all.tasks, a.rounds * a.all.tasks, a.n, a.n, seconds,
               (double)(a.n * a.n * a.rounds * a.all.tasks) / seconds / 1e6);
        printf("result: %s\n", wrong == 0 ? "exact" : "WRONG");
    }
    TOGETHER(&a.all, PAMI_Type_destroy(&a.column));
    together_finish(&a.all);
    free(a.sum);
    free(a.matrix);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
