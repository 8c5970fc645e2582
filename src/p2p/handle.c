/*
 * The handle table of handle.h: an array of rows with a free list through it.
 */
#include "p2p/handle.h"

#include <stdlib.h>

#define ROWS_AT_FIRST 64u
#define GENERATIONS 255u

static int grow(struct handle_table *table)
{
    uint32_t count = table->count == 0 ? ROWS_AT_FIRST : 2 * table->count;
    struct handle_row *rows;

    if (count > HANDLE_INDEX_MASK + 1)
        return -1;
    rows = realloc(table->rows, count * sizeof(*rows));
    if (rows == NULL)
        return -1;
    for (uint32_t i = count; i-- > table->count;) {
        rows[i] =
            (struct handle_row){.generation = 1 + table->first % GENERATIONS, .next = table->free};
        table->free = i + 1;
    }
    table->rows = rows;
    table->count = count;
    return 0;
}

uint32_t handle_new(struct handle_table *table, void *object)
{
    struct handle_row *row;
    uint32_t index;

    if (table->free == 0 && grow(table) != 0)
        return 0;
    index = table->free - 1;
    row = &table->rows[index];
    table->free = row->next;
    table->used++;
    row->object = object;
    return row->generation << HANDLE_INDEX_BITS | index;
}

void handle_drop(struct handle_table *table, uint32_t handle)
{
    uint32_t index = handle & HANDLE_INDEX_MASK;
    struct handle_row *row;
    uint32_t used_again;

    if (handle == 0)
        return;
    row = &table->rows[index];
    row->object = NULL;
    row->generation = row->generation % GENERATIONS + 1;
    used_again = (row->generation + GENERATIONS - 1 - table->first % GENERATIONS) % GENERATIONS;
    if (used_again > table->most)
        table->most = used_again;
    row->next = table->free;
    table->free = index + 1;
    table->used--;
}

void *handle_next(const struct handle_table *table, uint32_t *cursor)
{
    while (*cursor < table->count) {
        void *object = table->rows[(*cursor)++].object;

        if (object != NULL)
            return object;
    }
    return NULL;
}

void handle_table_finish(struct handle_table *table)
{
    free(table->rows);
    *table = (struct handle_table){0};
}
