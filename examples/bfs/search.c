/*
 * search.c - level-synchronous breadth-first search by active messages.
 *
 * See search.h for the scheme. A visit is a pair (vertex, parent); the tag of the message is the
 * distance of the vertex. The apply function only marks vertices and queues them, so it never
 * sends.
 */
#include "search.h"

#include <stdlib.h>
#include <string.h>

static void visits_apply(void *cookie, uint32_t tag, const struct pair *visits, size_t count)
{
    struct search *search = cookie;

    for (size_t i = 0; i < count; i++) {
        uint32_t row = graph_row(search->graph, visits[i].a);

        if (search->level[row] != SEARCH_NONE)
            continue;
        search->level[row] = tag;
        search->parent[row] = visits[i].b;
        search->queue[search->queued++] = row;
    }
}

static size_t told_words(const struct graph *graph)
{
    return (size_t)(graph->vertices + 63) / 64;
}

void search_open(struct search *search, const struct graph *graph, size_t buffer)
{
    struct team *team = graph->team;
    size_t bytes = graph->rows.count * sizeof(uint32_t);

    *search = (struct search){.graph = graph};
    search->parent = team_alloc(team, NULL, bytes);
    search->level = team_alloc(team, NULL, bytes);
    search->queue = team_alloc(team, NULL, bytes);
    search->told = team_alloc(team, NULL, told_words(graph) * sizeof(*search->told));
    outbox_open(&search->box, team, DISPATCH_VISITS, buffer, visits_apply, search);
    team_barrier(team);
}

void search_close(struct search *search)
{
    outbox_close(&search->box);
    free(search->parent);
    free(search->level);
    free(search->queue);
    free(search->told);
    free(search->histogram);
}

/* The bit that says that a visit to `vertex` was sent before; sets it. A second visit from the same
 * task could not come earlier than the first, so it need not be sent. */
static bool told_before(struct search *search, uint32_t vertex)
{
    uint64_t *word = &search->told[vertex / 64], bit = (uint64_t)1 << vertex % 64;
    bool before = *word & bit;

    *word |= bit;
    return before;
}

static void expand(struct search *search, uint32_t row)
{
    const struct graph *graph = search->graph;
    uint32_t vertex = graph_vertex(graph, row);

    for (uint64_t i = graph->rows.start[row]; i < graph->rows.start[row + 1]; i++) {
        uint32_t neighbour = graph->rows.target[i];

        if (!told_before(search, neighbour))
            outbox_push(&search->box, graph_owner(graph, neighbour),
                        (struct pair){neighbour, vertex});
    }
}

static void histogram_add(struct search *search, uint64_t frontier)
{
    if (search->levels == search->histogram_room) {
        search->histogram_room = 2 * search->histogram_room + 16;
        search->histogram = team_alloc(search->graph->team, search->histogram,
                                       search->histogram_room * sizeof(*search->histogram));
    }
    search->histogram[search->levels++] = frontier;
    search->reached += frontier;
}

static void reset(struct search *search, uint32_t root)
{
    const struct graph *graph = search->graph;
    size_t bytes = graph->rows.count * sizeof(uint32_t);

    memset(search->parent, 0xff, bytes);
    memset(search->level, 0xff, bytes);
    memset(search->told, 0, told_words(graph) * sizeof(*search->told));
    search->queued = 0;
    search->reached = 0;
    search->levels = 0;
    search->root = root;
    /* Nobody may send visits before all have forgotten the last search. */
    team_barrier(graph->team);
}

void search_run(struct search *search, uint32_t root, search_progress *progress, void *cookie)
{
    const struct graph *graph = search->graph;
    struct team *team = graph->team;
    uint64_t begin = 0, end = 0, frontier = 1;
    double start;

    reset(search, root);
    start = team_time(team);
    if (graph_owner(graph, root) == team->task) {
        visits_apply(search, 0, &(struct pair){root, root}, 1);
        end = 1;
    }
    while (frontier > 0) {
        histogram_add(search, frontier);
        if (progress != NULL)
            progress(cookie, search->levels - 1, frontier);
        search->box.tag = search->levels;
        for (uint64_t i = begin; i < end; i++)
            expand(search, search->queue[i]);
        begin = end;
        frontier = outbox_settle(&search->box, &search->queued, &end) - search->reached;
    }
    search->seconds = team_time(team) - start;

    search->edges = 0;
    for (uint64_t i = 0; i < search->queued; i++)
        search->edges += graph_degree(graph, search->queue[i]);
    team_reduce(team, TEAM_SUM, &search->edges, 1);
    search->edges /= 2;
}

size_t search_path(const struct search *search, uint32_t vertex, uint32_t *path, size_t room)
{
    const struct graph *graph = search->graph;
    size_t length = 0;

    while (length < room) {
        bool mine = graph_owner(graph, vertex) == graph->team->task;
        uint64_t parent = mine ? search->parent[graph_row(graph, vertex)] : 0;

        team_reduce(graph->team, TEAM_SUM, &parent, 1);
        if (parent == SEARCH_NONE)
            break;
        path[length++] = vertex;
        if (vertex == (uint32_t)parent)
            break;
        vertex = (uint32_t)parent;
    }
    return length;
}

uint32_t search_farthest(const struct search *search)
{
    const struct graph *graph = search->graph;
    uint64_t best = 0;

    /* Levels in the high half decide first, then the smallest vertex. */
    for (uint64_t i = 0; i < search->queued; i++) {
        uint32_t row = search->queue[i];
        uint64_t key = (uint64_t)search->level[row] << 32 | (uint32_t)~graph_vertex(graph, row);

        if (key > best)
            best = key;
    }
    team_reduce(graph->team, TEAM_MAX, &best, 1);
    return ~(uint32_t)best;
}
