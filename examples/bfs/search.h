/*
 * search.h - one breadth-first search at a time over a distributed graph.
 *
 * The search is top-down and synchronous by levels: in level k the tasks send a visit to the owner
 * of each neighbour of each vertex at distance k; a vertex visited for the first time is at
 * distance k + 1.
 *
 * A task may still be in the all-reduce that ends level k when the first visits of level k + 1
 * arrive. Therefore each message carries the distance of the vertices it visits, and the queue is
 * one array in which a level is a range that outbox_settle delimits.
 */
#ifndef LIBPAMI_BFS_SEARCH_H
#define LIBPAMI_BFS_SEARCH_H

#include "graph.h"

#define SEARCH_NONE UINT32_MAX /* parent and level of a vertex that is not reached */

struct search {
    const struct graph *graph;
    struct outbox box;
    uint32_t *parent, *level; /* [rows]; the root is its own parent */
    uint32_t *queue;          /* rows in the order in which they were reached */
    uint64_t queued;
    uint64_t *told; /* one bit per vertex of the graph: a visit has been sent from here */

    /* Results of the last search, the same on all tasks. */
    uint32_t root, levels; /* levels = distance of the farthest vertex + 1 */
    uint64_t reached;      /* vertices, the root included */
    uint64_t edges;        /* edges between reached vertices */
    double seconds;        /* as task 0 saw it */
    uint64_t *histogram;   /* [levels] vertices at each distance */
    size_t histogram_room;
};

/* Called on every task after each level. */
typedef void search_progress(void *cookie, uint32_t level, uint64_t frontier);

/* Collective. `buffer` bytes are gathered for a destination before they are sent. */
void search_open(struct search *search, const struct graph *graph, size_t buffer);
void search_close(struct search *search);

/* Collective. `progress` may be NULL. */
void search_run(struct search *search, uint32_t root, search_progress *progress, void *cookie);

/* Collective. Stores the path from `vertex` to the root, both included, into path[room] and returns
 * its length, at most `room`; 0 when the vertex was not reached. */
size_t search_path(const struct search *search, uint32_t vertex, uint32_t *path, size_t room);

/* Collective. The smallest of the vertices that are farthest from the root. */
uint32_t search_farthest(const struct search *search);

#endif
