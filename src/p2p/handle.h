/*
 * Handles: 32-bit names for operations that a peer will answer.
 *
 * What travels is an index and a generation, never a pointer, so an answer that is late, repeated
 * or forged finds nothing, until its row has been used 255 times more: who answers sees to it that
 * nothing goes to whoever has the place of one that has gone. Zero is no handle. One table per
 * context, single owner; growing keeps all handles valid.
 */
#ifndef LIBPAMI_P2P_HANDLE_H
#define LIBPAMI_P2P_HANDLE_H

#include <stddef.h>
#include <stdint.h>

#define HANDLE_INDEX_BITS 24
#define HANDLE_INDEX_MASK ((1u << HANDLE_INDEX_BITS) - 1)

struct handle_row {
    void *object;        /* NULL: free */
    uint32_t generation; /* 1..255 */
    uint32_t next;       /* free list: index + 1, 0 at its end */
};

struct handle_table {
    struct handle_row *rows;
    uint32_t count; /* rows */
    uint32_t free;  /* first free row: index + 1 */
    uint32_t used;
    uint32_t first; /* generation of a fresh row */
    uint32_t most;  /* how often any one row has been used again */
};

/* A handle for `object`, or 0 when memory or the 2^24 indices are exhausted. */
uint32_t handle_new(struct handle_table *table, void *object);

/* The object, or NULL when the handle is not, or no longer, valid. */
static inline void *handle_find(const struct handle_table *table, uint32_t handle)
{
    uint32_t index = handle & HANDLE_INDEX_MASK;

    if (index >= table->count || table->rows[index].generation != handle >> HANDLE_INDEX_BITS)
        return NULL;
    return table->rows[index].object;
}

/* `handle` is valid, or 0 and nothing happens. */
void handle_drop(struct handle_table *table, uint32_t handle);

/* The next object at or after row *cursor, NULL at the end. Rows may be dropped meanwhile. */
void *handle_next(const struct handle_table *table, uint32_t *cursor);

void handle_table_finish(struct handle_table *table);

#endif
