/*
 * Cells and the file of parts; see results.h.
 */
#include "results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/collective.h"

/* Name of what runs without a table. */
#define USUAL "Auto"

static void *grow(void *array, size_t count, size_t *room, size_t size)
{
    void *more;

    if (count < *room)
        return array;
    *room = *room == 0 ? 64 : 2 * *room;
    more = reallocarray(array, *room, size);
    if (more == NULL) {
        fprintf(stderr, "pami_tune: out of memory\n");
        exit(1);
    }
    return more;
}

static bool is_same(const struct job *a, const struct job *b)
{
    return a->type == b->type && a->tasks == b->tasks && a->nodes == b->nodes;
}

static struct job job_of(const struct cell *cell)
{
    return (struct job){cell->type, cell->tasks, cell->nodes};
}

bool results_has(const struct results *results, const struct job *job)
{
    for (size_t i = 0; i < results->done_count; i++)
        if (is_same(&results->done[i], job))
            return true;
    return false;
}

/* ---- lines ---- */

static bool parse_cell(const char *line, struct cell *cell)
{
    char type[32], name[48];
    unsigned long long bytes;
    int found;

    if (sscanf(line, "cell %31s %u %llu %47s %lf %lf", type, &cell->tasks, &bytes, name,
               &cell->best_us, &cell->auto_us) != 6)
        return false;
    found = choice_type(type, NULL);
    if (found < 0 || !(cell->best_us > 0) || !(cell->auto_us > 0))
        return false;
    cell->type = (pami_xfer_type_t)found;
    cell->bytes = bytes;
    cell->best = algorithm_find(cell->type, name);
    return cell->best != NULL || strcmp(name, USUAL) == 0;
}

static void add_cell(struct results *results, const struct cell *cell)
{
    results->cells = grow(results->cells, results->count, &results->room, sizeof(*results->cells));
    results->cells[results->count++] = *cell;
}

static void add_done(struct results *results, const struct job *job)
{
    results->done =
        grow(results->done, results->done_count, &results->done_room, sizeof(*results->done));
    results->done[results->done_count++] = *job;
}

void results_take(struct results *results, const struct job *job, const char *line)
{
    struct cell cell = {.nodes = job->nodes};
    struct job of;

    if (!parse_cell(line, &cell))
        return;
    of = job_of(&cell);
    if (is_same(&of, job))
        add_cell(results, &cell);
}

static void drop_cells(struct results *results, const struct job *job)
{
    size_t kept = 0;

    for (size_t i = 0; i < results->count; i++) {
        struct job of = job_of(&results->cells[i]);

        if (!is_same(&of, job))
            results->cells[kept++] = results->cells[i];
    }
    results->count = kept;
}

/* ---- the part ---- */

void results_end(struct results *results, const struct job *job, bool good)
{
    if (!good) {
        drop_cells(results, job);
        return;
    }
    for (size_t i = 0; i < results->count; i++) {
        const struct cell *cell = &results->cells[i];
        struct job of = job_of(cell);

        if (is_same(&of, job))
            fprintf(results->part, "%u " CELL_FORMAT "\n", cell->nodes, collective_name(cell->type),
                    cell->tasks, (unsigned long long)cell->bytes,
                    cell->best != NULL ? cell->best->name : USUAL, cell->best_us, cell->auto_us);
    }
    fprintf(results->part, "%u done %s %u\n", job->nodes, collective_name(job->type), job->tasks);
    fflush(results->part);
    add_done(results, job);
}

/* What does not end with its job's "done" was interrupted, and is measured again. */
static void take_line(struct results *results, const char *line)
{
    struct job job = {0};
    struct cell cell;
    char type[32];
    int used = 0, found;

    if (sscanf(line, "%u %n", &job.nodes, &used) != 1)
        return;
    line += used;
    cell.nodes = job.nodes;
    if (parse_cell(line, &cell)) {
        add_cell(results, &cell);
        return;
    }
    if (sscanf(line, "done %31s %u", type, &job.tasks) != 2 ||
        (found = choice_type(type, NULL)) < 0)
        return;
    job.type = (pami_xfer_type_t)found;
    add_done(results, &job);
}

static void drop_unfinished(struct results *results)
{
    size_t kept = 0;

    for (size_t i = 0; i < results->count; i++) {
        struct job of = job_of(&results->cells[i]);

        if (results_has(results, &of))
            results->cells[kept++] = results->cells[i];
    }
    results->count = kept;
}

/* 1: it goes on; 0: there is none, or one of other settings; -1: that is no part at all. */
static int read_part(struct results *results, const char *heading)
{
    FILE *file = fopen(results->path, "re");
    char line[512];
    int ours = 0;

    if (file == NULL)
        return 0;
    if (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, heading) == 0)
            ours = 1;
        else if (strncmp(line, heading, strcspn(heading, " ") + 1) != 0)
            ours = -1;
        else
            fprintf(stderr, "pami_tune: %s is of other settings; all is measured anew\n",
                    results->path);
    }
    while (ours == 1 && fgets(line, sizeof(line), file) != NULL)
        take_line(results, line);
    fclose(file);
    drop_unfinished(results);
    return ours;
}

int results_open(struct results *results, const char *output, const char *heading, bool again)
{
    int goes_on;

    memset(results, 0, sizeof(*results));
    if (snprintf(results->path, sizeof(results->path), "%s.part", output) >=
        (int)sizeof(results->path)) {
        fprintf(stderr, "pami_tune: %s: %s\n", output, strerror(ENAMETOOLONG));
        return 1;
    }
    goes_on = again ? 0 : read_part(results, heading);
    if (goes_on < 0) {
        fprintf(stderr, "pami_tune: %s: is in the way, and none of pami_tune's\n", results->path);
        return 1;
    }
    results->part = fopen(results->path, goes_on ? "ae" : "we");
    if (results->part == NULL) {
        fprintf(stderr, "pami_tune: %s: %s\n", results->path, strerror(errno));
        return 1;
    }
    /* An interrupted line may have no end. */
    fprintf(results->part, "%s\n", goes_on ? "" : heading);
    fflush(results->part);
    return 0;
}

void results_close(struct results *results, bool finished)
{
    fclose(results->part);
    if (finished)
        unlink(results->path);
    free(results->cells);
    free(results->done);
}
