/*
 * check.c - the sequential search and the comparison.
 *
 * The gathering uses an outbox whose tag tells which of the two arrays the pairs (vertex, value)
 * are for. Nothing of the parallel search is used here but its results.
 */
#include "check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAG_PARENT,
    TAG_LEVEL
};

static void results_apply(void *cookie, uint32_t tag, const struct pair *pairs, size_t count)
{
    struct check *check = cookie;
    uint32_t *values = tag == TAG_PARENT ? check->parent : check->level;

    for (size_t i = 0; i < count; i++)
        values[pairs[i].a] = pairs[i].b;
}

/* Both directions of every edge of the whole graph, sorted into rows. */
static int whole_make(struct check *check, const struct edges_source *source)
{
    const struct team *team = check->graph->team;
    struct edges edges;
    char error[256] = "";
    size_t count;

    if (edges_make(source, 0, 1, &edges, error, sizeof(error)) != 0) {
        fprintf(stderr, "bfs: check: %s\n", error);
        return -1;
    }
    count = edges.count;
    if (count != check->graph->edges) {
        fprintf(stderr, "bfs: check: %zu edges instead of %" PRIu64 "\n", count,
                check->graph->edges);
        edges_free(&edges);
        return -1;
    }
    edges.list = team_alloc(team, edges.list, 2 * count * sizeof(*edges.list));
    for (size_t i = 0; i < count; i++)
        edges.list[count + i] = (struct pair){edges.list[i].b, edges.list[i].a};
    rows_make(&check->rows, team, check->graph->vertices, 1, edges.list, 2 * count);
    edges_free(&edges);
    return 0;
}

int check_open(struct check *check, const struct graph *graph, const struct edges_source *source,
               size_t buffer)
{
    struct team *team = graph->team;
    size_t bytes = graph->vertices * sizeof(uint32_t);
    int rc = 0;

    *check = (struct check){.graph = graph};
    if (team->task == 0) {
        check->parent = team_alloc(team, NULL, bytes);
        check->level = team_alloc(team, NULL, bytes);
        check->expected = team_alloc(team, NULL, bytes);
        check->queue = team_alloc(team, NULL, bytes);
        rc = whole_make(check, source);
    }
    outbox_open(&check->box, team, DISPATCH_RESULTS, buffer, results_apply, check);
    if (team_first(team, rc != 0) < 0)
        return 0;
    check_close(check);
    return -1;
}

void check_close(struct check *check)
{
    outbox_close(&check->box);
    rows_free(&check->rows);
    free(check->parent);
    free(check->level);
    free(check->expected);
    free(check->queue);
}

static void sequential_search(struct check *check, uint32_t root)
{
    const struct rows *rows = &check->rows;
    size_t queued = 0;
    double start = team_time(check->graph->team);

    memset(check->expected, 0xff, rows->count * sizeof(*check->expected));
    check->expected[root] = 0;
    check->queue[queued++] = root;
    for (size_t next = 0; next < queued; next++) {
        uint32_t vertex = check->queue[next];

        for (uint64_t i = rows->start[vertex]; i < rows->start[vertex + 1]; i++) {
            uint32_t neighbour = rows->target[i];

            if (check->expected[neighbour] != SEARCH_NONE)
                continue;
            check->expected[neighbour] = check->expected[vertex] + 1;
            check->queue[queued++] = neighbour;
        }
    }
    check->seconds = team_time(check->graph->team) - start;
}

static void gather(struct check *check, const struct search *search)
{
    const struct graph *graph = check->graph;
    const uint32_t *const values[] = {[TAG_PARENT] = search->parent, [TAG_LEVEL] = search->level};

    if (graph->team->task == 0) {
        memset(check->parent, 0xff, graph->vertices * sizeof(*check->parent));
        memset(check->level, 0xff, graph->vertices * sizeof(*check->level));
    }
    team_barrier(graph->team);
    for (uint32_t tag = TAG_PARENT; tag <= TAG_LEVEL; tag++) {
        check->box.tag = tag;
        for (size_t row = 0; row < graph->rows.count; row++)
            outbox_push(&check->box, 0, (struct pair){graph_vertex(graph, row), values[tag][row]});
        outbox_flush(&check->box);
    }
    outbox_settle(&check->box, NULL, NULL);
}

__attribute__((format(printf, 1, 2))) static bool wrong(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "bfs: check: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    return false;
}

static bool is_neighbour(const struct rows *rows, uint32_t vertex, uint32_t other)
{
    for (uint64_t i = rows->start[vertex]; i < rows->start[vertex + 1]; i++)
        if (rows->target[i] == other)
            return true;
    return false;
}

static bool vertex_right(const struct check *check, uint32_t root, uint32_t vertex)
{
    uint32_t parent = check->parent[vertex], level = check->level[vertex];

    if (level != check->expected[vertex])
        return wrong("vertex %" PRIu32 " is at level %" PRId32 ", should be at %" PRId32, vertex,
                     (int32_t)level, (int32_t)check->expected[vertex]);
    if (level == SEARCH_NONE) {
        if (parent != SEARCH_NONE)
            return wrong("vertex %" PRIu32 " is not reached but has a parent", vertex);
    } else if (vertex == root) {
        if (parent != root)
            return wrong("the root has parent %" PRIu32, parent);
    } else if (parent >= check->rows.count || check->expected[parent] + 1 != level) {
        return wrong("vertex %" PRIu32 " has parent %" PRIu32 ", which is not one level above",
                     vertex, parent);
    } else if (!is_neighbour(&check->rows, vertex, parent)) {
        return wrong("tree edge %" PRIu32 "-%" PRIu32 " does not exist", parent, vertex);
    }
    return true;
}

static bool all_right(const struct check *check, const struct search *search)
{
    const struct rows *rows = &check->rows;
    uint64_t reached = 0, edges = 0;

    for (uint32_t vertex = 0; vertex < rows->count; vertex++) {
        if (!vertex_right(check, search->root, vertex))
            return false;
        if (check->expected[vertex] != SEARCH_NONE) {
            reached++;
            edges += rows->start[vertex + 1] - rows->start[vertex];
        }
    }
    if (reached != search->reached || edges / 2 != search->edges)
        return wrong("%" PRIu64 " vertices and %" PRIu64 " edges reached, should be %" PRIu64
                     " and %" PRIu64,
                     search->reached, search->edges, reached, edges / 2);
    return true;
}

bool check_run(struct check *check, const struct search *search)
{
    struct team *team = check->graph->team;
    bool right = true;

    gather(check, search);
    if (team->task == 0) {
        sequential_search(check, search->root);
        right = all_right(check, search);
    }
    return team_first(team, !right) < 0;
}
