/*
 * kmeans.c - clusters a table of numbers by Lloyd's algorithm; broadcast, all-reduce, all-gather.
 *
 * Every task owns an equal share of the rows. Task 0 chooses the first centres and broadcasts them;
 * then in each round every task assigns its rows to the nearest centre, and one all-reduce adds up
 * all sums and counts, from which every task computes the same new centres: a reduction has the
 * same bits on all members. At last each task's labels are gathered by all, and task 0 repeats
 * everything alone and compares.
 *
 * The file has a name and then numbers in each line, separated by tabs; '#' begins a comment.
 * Columns are taken as logarithms and scaled to a standard deviation of 1.
 *
 * Build:  cc kmeans.c $(pkg-config --cflags --libs pami) -lm -o kmeans
 * Run:    pamirun -n 4 ./kmeans data/debian-packages.tsv 8
 */
#include <math.h>

#define PROGRAM "kmeans"
#include "collective.h"

enum {
    COLUMNS = 3, /* of the file's numbers, the first ones */
    ROUNDS = 100,
    CLUSTERS_MAX = 64,
    NAME_MAX_BYTES = 64
};

struct table {
    size_t rows;
    double (*x)[COLUMNS];
    char (*name)[NAME_MAX_BYTES];
};

/* What an all-reduce adds up, and what becomes of it. */
struct sums {
    double x[CLUSTERS_MAX][COLUMNS];
    double count[CLUSTERS_MAX];
    double inertia; /* squared distances to the nearest centres */
};

/* ---- collectives ---- */

static void broadcast(struct job *job, void *data, size_t bytes)
{
    pami_endpoint_t root;

    check(PAMI_Endpoint_create(job->client, 0, 0, &root), "PAMI_Endpoint_create");
    run(job, PAMI_XFER_BROADCAST,
        (pami_collective_t){
            .xfer_broadcast = {
                .root = root, .buf = data, .type = PAMI_TYPE_BYTE, .typecount = bytes}});
}

static void sum_over_all(struct job *job, double *values, size_t count)
{
    run(job, PAMI_XFER_ALLREDUCE,
        (pami_collective_t){.xfer_allreduce = {.sndbuf = (char *)values,
                                               .stype = PAMI_TYPE_DOUBLE,
                                               .stypecount = count,
                                               .rcvbuf = (char *)values, /* in place */
                                               .rtype = PAMI_TYPE_DOUBLE,
                                               .rtypecount = count,
                                               .op = PAMI_DATA_SUM,
                                               .commutative = 1}});
}

/* Each task's share of `all`, whose rows it knows already, to everybody. */
static void gather_labels(struct job *job, uint32_t *all, size_t counts[], size_t starts[])
{
    run(job, PAMI_XFER_ALLGATHERV,
        (pami_collective_t){.xfer_allgatherv = {.sndbuf = (char *)(all + starts[job->task]),
                                                .stype = PAMI_TYPE_UNSIGNED_INT,
                                                .stypecount = counts[job->task],
                                                .rcvbuf = (char *)all,
                                                .rtype = PAMI_TYPE_UNSIGNED_INT,
                                                .rtypecounts = counts,
                                                .rdispls = starts}});
}

/* ---- the table ---- */

static bool read_row(const char *line, char *name, double x[COLUMNS])
{
    const char *at = strchr(line, '\t');
    size_t length;

    if (line[0] == '#' || at == NULL)
        return false;
    length = (size_t)(at - line) < NAME_MAX_BYTES ? (size_t)(at - line) : NAME_MAX_BYTES - 1;
    memcpy(name, line, length);
    name[length] = '\0';
    for (size_t i = 0; i < COLUMNS; i++) {
        char *end;

        x[i] = log(1 + strtod(at, &end));
        if (end == at)
            return false;
        at = end;
    }
    return true;
}

static struct table read_table(const char *path)
{
    FILE *file = fopen(path, "r");
    struct table table = {0};
    size_t lines = 0;
    char line[512];

    if (file == NULL) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    while (fgets(line, sizeof(line), file) != NULL)
        lines++;
    rewind(file);
    table.x = allocate(lines, sizeof(*table.x));
    table.name = allocate(lines, sizeof(*table.name));
    while (table.rows < lines && fgets(line, sizeof(line), file) != NULL)
        table.rows += read_row(line, table.name[table.rows], table.x[table.rows]);
    fclose(file);
    for (size_t i = 0; i < COLUMNS; i++) {
        double mean = 0, square = 0, spread;

        for (size_t row = 0; row < table.rows; row++) {
            mean += table.x[row][i] / (double)table.rows;
            square += table.x[row][i] * table.x[row][i] / (double)table.rows;
        }
        /* What is the same in all rows differs by roundings, which may even be below 0. */
        spread = square - mean * mean > 1e-12 * square ? sqrt(square - mean * mean) : INFINITY;
        for (size_t row = 0; row < table.rows; row++)
            table.x[row][i] = (table.x[row][i] - mean) / spread;
    }
    return table;
}

/* ---- Lloyd's algorithm ---- */

static double distance(const double a[COLUMNS], const double b[COLUMNS])
{
    double sum = 0;

    for (size_t i = 0; i < COLUMNS; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/* Each centre is the row that is farthest from those before it: no randomness, so that a repetition
 * can be compared. */
static void choose_centres(const struct table *table, double centre[][COLUMNS], size_t clusters)
{
    double *nearest = allocate(table->rows, sizeof(double));
    size_t best = 0;

    for (size_t row = 0; row < table->rows; row++)
        nearest[row] = INFINITY;
    for (size_t k = 0; k < clusters; k++) {
        memcpy(centre[k], table->x[best], sizeof(centre[k]));
        for (size_t row = 0; row < table->rows; row++)
            nearest[row] = fmin(nearest[row], distance(table->x[row], centre[k]));
        best = 0;
        for (size_t row = 1; row < table->rows; row++)
            best = nearest[row] > nearest[best] ? row : best;
    }
    free(nearest);
}

static void assign(const struct table *table, size_t from, size_t to, double centre[][COLUMNS],
                   size_t clusters, uint32_t *label, struct sums *sums)
{
    memset(sums, 0, sizeof(*sums));
    for (size_t row = from; row < to; row++) {
        uint32_t best = 0;

        for (uint32_t k = 1; k < clusters; k++)
            if (distance(table->x[row], centre[k]) < distance(table->x[row], centre[best]))
                best = k;
        label[row] = best;
        sums->count[best]++;
        sums->inertia += distance(table->x[row], centre[best]);
        for (size_t i = 0; i < COLUMNS; i++)
            sums->x[best][i] += table->x[row][i];
    }
}

/* A centre without rows stays where it is. Returns how far the farthest one has moved. */
static double move_centres(double centre[][COLUMNS], size_t clusters, const struct sums *sums)
{
    double most = 0;

    for (size_t k = 0; k < clusters; k++) {
        double old[COLUMNS];

        memcpy(old, centre[k], sizeof(old));
        for (size_t i = 0; i < COLUMNS && sums->count[k] > 0; i++)
            centre[k][i] = sums->x[k][i] / sums->count[k];
        most = fmax(most, distance(old, centre[k]));
    }
    return most;
}

/* With `job`, all tasks together; without, alone. Returns the rounds made. */
static size_t cluster(struct job *job, const struct table *table, size_t from, size_t to,
                      double centre[][COLUMNS], size_t clusters, uint32_t *label, struct sums *sums)
{
    size_t round = 0;
    double moved = INFINITY;

    while (round < ROUNDS && moved > 1e-18) {
        assign(table, from, to, centre, clusters, label, sums);
        if (job != NULL)
            sum_over_all(job, (double *)sums, sizeof(*sums) / sizeof(double));
        moved = move_centres(centre, clusters, sums);
        round++;
    }
    return round;
}

/* ---- the program ---- */

static void report(const struct table *table, double centre[][COLUMNS], size_t clusters,
                   const struct sums *sums)
{
    printf("%8s %6s  %s\n", "cluster", "rows", "nearest to the centre");
    for (size_t k = 0; k < clusters; k++) {
        size_t best = 0;

        for (size_t row = 1; row < table->rows; row++)
            if (distance(table->x[row], centre[k]) < distance(table->x[best], centre[k]))
                best = row;
        printf("%8zu %6.0f  %s\n", k, sums->count[k], table->name[best]);
    }
}

/* Task 0 does everything again, alone. */
static bool same_alone(const struct table *table, size_t clusters, const uint32_t *label,
                       double inertia)
{
    static struct sums sums;
    static double centre[CLUSTERS_MAX][COLUMNS];
    uint32_t *alone = allocate(table->rows, sizeof(*alone));
    size_t different = 0;

    choose_centres(table, centre, clusters);
    cluster(NULL, table, 0, table->rows, centre, clusters, alone, &sums);
    for (size_t row = 0; row < table->rows; row++)
        different += alone[row] != label[row];
    free(alone);
    printf("alone: inertia %.9f, %zu labels differ\n", sums.inertia, different);
    return different == 0 && fabs(sums.inertia - inertia) < 1e-9 * (1 + inertia);
}

int main(int argc, char **argv)
{
    static double centre[CLUSTERS_MAX][COLUMNS];
    static struct sums sums;
    struct job job = {0};
    const char *path = argc > 1 ? argv[1] : "examples/data/debian-packages.tsv";
    size_t clusters = argc > 2 ? strtoul(argv[2], NULL, 10) : 8;
    bool right = true;

    join(&job);
    struct table table = read_table(path);
    if (clusters < 1 || clusters > CLUSTERS_MAX || clusters > table.rows)
        fail("usage: kmeans [FILE [CLUSTERS]], at most 64 clusters and a row for each");

    uint32_t *label = allocate(table.rows, sizeof(*label));
    size_t *counts = allocate(job.tasks, sizeof(size_t)),
           *starts = allocate(job.tasks, sizeof(size_t));
    for (size_t task = 0; task < job.tasks; task++) {
        starts[task] = table.rows * task / job.tasks;
        counts[task] = table.rows * (task + 1) / job.tasks - starts[task];
    }
    if (job.task == 0)
        choose_centres(&table, centre, clusters);
    broadcast(&job, centre, sizeof(centre));

    double start = PAMI_Wtime(job.client);
    size_t rounds = cluster(&job, &table, starts[job.task], starts[job.task] + counts[job.task],
                            centre, clusters, label, &sums);
    gather_labels(&job, label, counts, starts);
    if (job.task == 0) {
        printf("%zu rows, %zu tasks: %zu rounds in %.3f ms, inertia %.9f\n", table.rows, job.tasks,
               rounds, 1e3 * (PAMI_Wtime(job.client) - start), sums.inertia);
        report(&table, centre, clusters, &sums);
        right = same_alone(&table, clusters, label, sums.inertia);
        printf("%s\n", right ? "verified" : "WRONG");
    }
    free(label);
    free(counts);
    free(starts);
    free(table.x);
    free(table.name);
    leave(&job);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
