/*
 * check.h - validates searches on task 0 against a sequential search.
 *
 * Task 0 makes the whole graph again, on its own, and the parents and levels that the tasks found
 * are gathered there. It then holds that
 *   - every vertex has the same level as in the sequential search (so it reached the same ones);
 *   - the root is its own parent, and an unreached vertex has none;
 *   - every other parent is a neighbour, one level closer to the root;
 *   - the number of edges between reached vertices is the same.
 */
#ifndef LIBPAMI_BFS_CHECK_H
#define LIBPAMI_BFS_CHECK_H

#include "search.h"

struct check {
    const struct graph *graph;
    struct outbox box;

    /* The rest has contents on task 0 only. */
    struct rows rows;         /* the whole graph */
    uint32_t *parent, *level; /* [vertices] as gathered */
    uint32_t *expected;       /* [vertices] levels of the sequential search */
    uint32_t *queue;          /* [vertices] */
    double seconds;           /* of the last sequential search */
};

/* Collective. Returns 0, or -1 on all tasks after task 0 has explained why. */
int check_open(struct check *check, const struct graph *graph, const struct edges_source *source,
               size_t buffer);
void check_close(struct check *check);

/* Collective. Whether the last run of `search` was right, the same on all tasks; when it was not,
 * task 0 has printed the first violation. */
bool check_run(struct check *check, const struct search *search);

#endif
