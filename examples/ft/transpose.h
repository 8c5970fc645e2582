/*
 * transpose.h - turns a distributed array round: from pieces of its outer index to pieces of its
 * inner one.
 *
 * Before, a task has the rows [outer][inner] of its share of the outer index; afterwards the rows
 * [inner][outer] of its share of the inner one. A row stays as it is. The outer index is cut into
 * slabs, each an all-to-all of its own, so that one can be on its way while the next one is still
 * being computed.
 */
#ifndef EXAMPLES_FT_TRANSPOSE_H
#define EXAMPLES_FT_TRANSPOSE_H

#include "../background.h"
#include "lines.h"

/* Elements [low, high) of `n` belong to part `part` of `parts`. */
struct share {
    size_t low, high;
};

static inline struct share share_of(size_t n, size_t parts, size_t part)
{
    return (struct share){n * part / parts, n * (part + 1) / parts};
}

/* One slab: counts and places in doubles, one each for every task. */
struct transpose_slab {
    struct background_call call;
    size_t out_at, in_at; /* rows in the buffers */
    size_t *to, *to_start, *from, *from_start;
};

struct transpose {
    const struct background *background;
    size_t outer, inner, row; /* numbers in a row */
    size_t slabs;
    struct share mine, next; /* of the outer and of the inner index */
    struct pair *out, *in;
    struct transpose_slab *slab;
};

void transpose_make(struct transpose *t, const struct background *background, size_t outer,
                    size_t inner, size_t row, size_t slabs);
void transpose_free(struct transpose *t);

/* The outer indices of a task in a slab. */
struct share transpose_range(const struct transpose *t, size_t task, size_t slab);

/* My part of the slab is ready in `from`, whose first row is that of my first outer index. The
 * memory may be changed when the call returns. */
void transpose_begin(struct transpose *t, size_t slab, const struct pair *from);

/* Waits for the slab and puts it into its place. */
void transpose_end(struct transpose *t, size_t slab, struct pair *to);

#endif
