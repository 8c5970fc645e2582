/*
 * options.h - the command line of the program.
 */
#ifndef LIBPAMI_BFS_OPTIONS_H
#define LIBPAMI_BFS_OPTIONS_H

#include "edges.h"

enum {
    OPTIONS_ROOTS_MAX = 10000
};

struct options {
    struct edges_source source;
    const char *names; /* file with the names of the vertices, or NULL */
    const char *root;  /* the first root: a number or a name, or NULL */
    uint32_t roots;
    size_t buffer; /* bytes gathered for a destination before they are sent */
    bool check, help;
};

/* Returns 0, or -1 with a text that names the argument that was wrong. */
int options_parse(struct options *options, int argc, char **argv, char *error, size_t error_size);

/* What --help prints. */
extern const char options_help[];

#endif
