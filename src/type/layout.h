/*
 * The compact form of a layout: a list of runs, nested by reference.
 *
 * A run places `count` equal things `stride` apart; a thing is either `bytes` contiguous bytes (a
 * leaf) or one instance of another layout, which may be shared by many runs. So a vector of
 * vectors takes two runs, not one per element, and the memory a layout takes depends on how it
 * was described, never on how much data it describes.
 *
 * Invariants of a finished layout: no run is empty; `start` is the number of data bytes before the
 * run, so that a data offset is found by binary search; height is 1 + that of the highest layout
 * below, at most LAYOUT_HEIGHT_MAX; size is at most LAYOUT_SIZE_MAX; nothing changes any more.
 */
#ifndef LIBPAMI_TYPE_LAYOUT_H
#define LIBPAMI_TYPE_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAYOUT_HEIGHT_MAX 255
#define LAYOUT_SIZE_MAX ((size_t)PTRDIFF_MAX)

struct run {
    size_t displacement; /* of the first repetition, modulo 2^64 */
    size_t bytes;        /* data bytes of one repetition */
    size_t count;
    size_t stride;
    size_t start;          /* data bytes of the layout before this run */
    struct layout *nested; /* NULL: a leaf */
};

struct layout {
    atomic_size_t references;
    size_t size;  /* data bytes */
    size_t grain; /* greatest common divisor of all contiguous pieces; set when finished */
    int64_t low;  /* where its bytes lie, low to high - 1; set when finished, with */
    int64_t high;
    bool apart;      /* no byte of memory is in it twice; false: it may be */
    unsigned height; /* levels of nesting, 1 without any */
    size_t run_count;
    size_t capacity; /* runs that fit */
    struct run runs[];
};

/* A new layout without runs and with one reference; NULL: out of memory. */
struct layout *layout_new(size_t capacity);

struct layout *layout_ref(struct layout *layout);

/* The last reference frees the layout and gives back those it holds. NULL is allowed. */
void layout_unref(struct layout *layout);

/*
 * Append to an unfinished layout, which may move. Neighbours that continue the last run are merged
 * with it, and nested layouts that are small or regular are written out. 0, -ENOMEM, -EOVERFLOW
 * (data size) or -ELOOP (nesting); on error the layout is as before.
 */
int layout_add_bytes(struct layout **layout, size_t bytes, size_t displacement, size_t count,
                     size_t stride);
int layout_add_nested(struct layout **layout, struct layout *nested, size_t displacement,
                      size_t count, size_t stride);

/* Compute what only finished layouts have, and give back spare memory. */
void layout_finish(struct layout **layout);

/* The run that holds data byte `offset` (< size). */
const struct run *layout_find(const struct layout *layout, size_t offset);

#endif
