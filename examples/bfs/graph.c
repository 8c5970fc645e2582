/*
 * graph.c - makes the distributed graph: every task makes its share of the edges, sends each edge
 * to the owners of both ends, and sorts what it receives into rows.
 */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What arrives from all tasks: a = vertex of ours, b = its neighbour. */
struct arrivals {
    const struct team *team;
    struct pair *list;
    size_t count, room;
};

static void arrivals_apply(void *cookie, uint32_t tag, const struct pair *pairs, size_t count)
{
    struct arrivals *arrivals = cookie;

    (void)tag;
    if (arrivals->count + count > arrivals->room) {
        arrivals->room = 2 * arrivals->room + count;
        arrivals->list =
            team_alloc(arrivals->team, arrivals->list, arrivals->room * sizeof(*arrivals->list));
    }
    memcpy(arrivals->list + arrivals->count, pairs, count * sizeof(*pairs));
    arrivals->count += count;
}

void rows_make(struct rows *rows, const struct team *team, size_t count, uint32_t stride,
               const struct pair *pairs, size_t pair_count)
{
    uint64_t *start = team_alloc(team, NULL, (count + 2) * sizeof(*start));

    /* Counting sort. start[r + 2] counts row r, becomes the place for its next entry at
     * start[r + 1], and that ends up as the start of row r + 1. */
    memset(start, 0, (count + 2) * sizeof(*start));
    for (size_t i = 0; i < pair_count; i++)
        start[pairs[i].a / stride + 2]++;
    for (size_t row = 2; row <= count; row++)
        start[row + 1] += start[row];
    *rows = (struct rows){.start = start, .count = count};
    rows->target = team_alloc(team, NULL, pair_count * sizeof(*rows->target));
    for (size_t i = 0; i < pair_count; i++)
        rows->target[start[pairs[i].a / stride + 1]++] = pairs[i].b;
}

void rows_free(struct rows *rows)
{
    free(rows->start);
    free(rows->target);
    *rows = (struct rows){0};
}

/* Collective. Makes this task's share; agrees on success and on the number of vertices. */
static int share_make(struct graph *graph, const struct edges_source *source, struct edges *edges)
{
    struct team *team = graph->team;
    char error[256] = "";
    int rc = edges_make(source, team->task, team->tasks, edges, error, sizeof(error));
    int64_t failed = team_first(team, rc != 0);

    if (failed >= 0) {
        if (failed == team->task)
            fprintf(stderr, "bfs: %s%s\n", source->file != NULL ? "--file: " : "", error);
        edges_free(edges);
        return -1;
    }
    graph->vertices = edges->vertices;
    graph->edges = edges->count;
    team_reduce(team, TEAM_MAX, &graph->vertices, 1);
    team_reduce(team, TEAM_SUM, &graph->edges, 1);
    if (graph->edges == 0) {
        if (team->task == 0)
            fprintf(stderr, "bfs: the graph has no edges\n");
        edges_free(edges);
        return -1;
    }
    return 0;
}

static void distribute(struct graph *graph, const struct edges *edges, size_t buffer,
                       struct arrivals *arrivals)
{
    struct outbox box;

    outbox_open(&box, graph->team, DISPATCH_EDGES, buffer, arrivals_apply, arrivals);
    team_barrier(graph->team);
    for (size_t i = 0; i < edges->count; i++) {
        struct pair edge = edges->list[i], back = {edge.b, edge.a};

        outbox_push(&box, graph_owner(graph, edge.a), edge);
        outbox_push(&box, graph_owner(graph, edge.b), back);
    }
    outbox_settle(&box, NULL, NULL);
    graph->messages = box.messages;
    team_reduce(graph->team, TEAM_SUM, &graph->messages, 1);
    outbox_close(&box);
}

int graph_make(struct graph *graph, struct team *team, const struct edges_source *source,
               size_t buffer)
{
    struct arrivals arrivals = {.team = team};
    struct edges edges;
    double start = team_time(team), made;
    size_t rows;

    *graph = (struct graph){.team = team};
    if (share_make(graph, source, &edges) != 0)
        return -1;
    made = team_time(team);
    distribute(graph, &edges, buffer, &arrivals);
    edges_free(&edges);
    rows = graph->vertices > team->task
               ? (size_t)((graph->vertices - team->task - 1) / team->tasks + 1)
               : 0;
    rows_make(&graph->rows, team, rows, team->tasks, arrivals.list, arrivals.count);
    free(arrivals.list);

    for (size_t row = 0; row < rows; row++)
        graph->connected += graph_degree(graph, row) > 0;
    team_reduce(team, TEAM_SUM, &graph->connected, 1);
    graph->make_seconds = made - start;
    graph->distribute_seconds = team_time(team) - made;
    return 0;
}

void graph_free(struct graph *graph)
{
    rows_free(&graph->rows);
}
