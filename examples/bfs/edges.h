/*
 * edges.h - where the edges come from: a Kronecker generator or a text file.
 *
 * Both sources can be asked for one of `parts` equal shares, so that each task makes or
 * reads its own; the shares together are the same list whatever their number is. The checker
 * asks for share 0 of 1. Nothing here communicates.
 */
#ifndef LIBPAMI_BFS_EDGES_H
#define LIBPAMI_BFS_EDGES_H

#include "outbox.h"

enum {
    EDGES_SCALE_MAX = 30,
    EDGES_FACTOR_MAX = 1024,
};

struct edges_source {
    const char *file;     /* NULL: Kronecker */
    unsigned scale;       /* log2 of the number of vertices */
    unsigned edge_factor; /* edges per vertex */
    uint64_t seed;
};

/* Undirected edges without loops; an edge may occur more than once. */
struct edges {
    struct pair *list;
    size_t count;
    uint64_t vertices; /* larger than any vertex of this share */
};

/*
 * Makes share `part` of `parts`. Returns 0, or -1 with a text that explains what was wrong.
 * edges_free releases the list.
 */
int edges_make(const struct edges_source *source, uint32_t part, uint32_t parts,
               struct edges *edges, char *error, size_t error_size);
void edges_free(struct edges *edges);

/* A well mixed 64-bit number for (seed, index): the random numbers of this program. */
uint64_t edges_random(uint64_t seed, uint64_t index);

#endif
