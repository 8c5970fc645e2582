/*
 * graph.h - the distributed graph: vertex v belongs to task v % tasks, where it is row v / tasks.
 *
 * Each task holds the rows of its vertices in compressed form: the neighbours of row r are
 * target[start[r]] .. target[start[r + 1] - 1], as global vertex numbers. An edge appears at both
 * of its ends. A task may well have no rows at all.
 */
#ifndef LIBPAMI_BFS_GRAPH_H
#define LIBPAMI_BFS_GRAPH_H

#include "edges.h"

/* Compressed rows; the checker uses them for the whole graph with 1 as stride. */
struct rows {
    uint64_t *start; /* [count + 1] */
    uint32_t *target;
    size_t count;
};

struct graph {
    struct team *team;
    uint64_t vertices, edges; /* of the whole graph */
    uint64_t connected;       /* vertices that have a neighbour, of the whole graph */
    struct rows rows;
    double make_seconds, distribute_seconds;
    uint64_t messages; /* sent by all tasks to distribute the edges */
};

/* Row of pair.a / stride gets pair.b, for all pairs. */
void rows_make(struct rows *rows, const struct team *team, size_t count, uint32_t stride,
               const struct pair *pairs, size_t pair_count);
void rows_free(struct rows *rows);

/* Collective. Returns 0, or -1 on all tasks after one of them has explained why. */
int graph_make(struct graph *graph, struct team *team, const struct edges_source *source,
               size_t buffer);
void graph_free(struct graph *graph);

/* The owner of a vertex, and its row there. */
static inline uint32_t graph_owner(const struct graph *graph, uint32_t vertex)
{
    return vertex % graph->team->tasks;
}

static inline uint32_t graph_row(const struct graph *graph, uint32_t vertex)
{
    return vertex / graph->team->tasks;
}

static inline uint32_t graph_vertex(const struct graph *graph, size_t row)
{
    return (uint32_t)row * graph->team->tasks + graph->team->task;
}

static inline uint64_t graph_degree(const struct graph *graph, size_t row)
{
    return graph->rows.start[row + 1] - graph->rows.start[row];
}

#endif
