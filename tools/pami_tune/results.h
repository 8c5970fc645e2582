/*
 * What has been measured: cells, and the file that keeps them until all are there.
 *
 * The file OUTPUT.part has a line that says what is being measured and how, a line for each cell,
 * and one for each job that is done. A later run that measures the same goes on from there.
 */
#ifndef PAMI_TUNE_RESULTS_H
#define PAMI_TUNE_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "coll/choice.h"

/* Type, tasks, bytes, best algorithm, its time and that of Auto in us; a job's output. */
#define CELL_FORMAT "cell %s %u %llu %s %.3f %.3f"

struct cell {
    pami_xfer_type_t type;
    uint32_t tasks, nodes;
    uint64_t bytes;
    const struct algorithm *best; /* NULL: Auto itself */
    double best_us, auto_us;
};

/* One start of the program: all sizes of a type. */
struct job {
    pami_xfer_type_t type;
    uint32_t tasks, nodes;
};

struct results {
    struct cell *cells;
    size_t count, room;
    struct job *done;
    size_t done_count, done_room;
    FILE *part;
    char path[4096]; /* of the part */
};

/* Takes over what OUTPUT.part has when its first line is `heading`, unless it is to start again. 0,
 * or 1 with a message. */
int results_open(struct results *results, const char *output, const char *heading, bool again);

bool results_has(const struct results *results, const struct job *job);

/* A line of the job's output. Lines that are no cell of it are ignored. */
void results_take(struct results *results, const struct job *job, const char *line);

/* The job has ended: what it has said counts, or is dropped. */
void results_end(struct results *results, const struct job *job, bool good);

/* `finished`: the part is not needed any more. */
void results_close(struct results *results, bool finished);

#endif
