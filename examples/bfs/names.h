/*
 * names.h - names of vertices, from a file with one name a line.
 *
 * Local: only the task that prints needs them.
 */
#ifndef LIBPAMI_BFS_NAMES_H
#define LIBPAMI_BFS_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct names {
    char *text;        /* the whole file, newlines replaced by zero bytes */
    const char **list; /* [count] into text */
    size_t count;
};

/* Returns 0, or -1 with an explanation. names_free releases the names. */
int names_load(struct names *names, const char *file, char *error, size_t error_size);
void names_free(struct names *names);

/* The vertex of that name, or UINT32_MAX. */
uint32_t names_find(const struct names *names, const char *name);

/* The name of a vertex, or "" when it has none. */
const char *names_get(const struct names *names, uint32_t vertex);

#endif
