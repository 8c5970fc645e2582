/*
 * edges.c - the Kronecker generator and the reader of edge lists.
 *
 * Kronecker (R-MAT): the adjacency matrix is divided into quarters, an edge falls into one of them
 * with probability A, B, C, D, and so on inside the quarter, once for each bit of the vertex
 * numbers. The random numbers of an edge depend on the seed and its index only. Low
 * vertex numbers would get most edges, so the numbers are scrambled by a bijection at the end, as
 * the Graph500 benchmark asks for.
 *
 * File: one edge "u v" a line, vertices numbered from 0; '#' begins a comment. A share is a range
 * of bytes: it has the lines that begin in it.
 */
#include "edges.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Probabilities of the quarters in units of 2^-32; D is the rest. */
static const uint64_t QUARTER_A = (uint64_t)(0.57 * 4294967296.0);
static const uint64_t QUARTER_B = (uint64_t)(0.19 * 4294967296.0);
static const uint64_t QUARTER_C = (uint64_t)(0.19 * 4294967296.0);

enum {
    VERTEX_MAX = INT32_MAX,
    LINE_MAX_BYTES = 4096
};

/* The output function of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators, OOPSLA 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t edges_random(uint64_t seed, uint64_t index)
{
    return mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) + index * UINT64_C(0x9e3779b97f4a7c15));
}

/* A bijection of the numbers below 2^scale: odd multipliers and xor-shifts, both invertible. */
static uint32_t scramble(uint64_t seed, unsigned scale, uint32_t vertex)
{
    uint32_t mask = (uint32_t)(((uint64_t)1 << scale) - 1);
    unsigned shift = scale / 2 + 1;

    for (unsigned i = 0; i < 3; i++) {
        vertex = (vertex * ((uint32_t)edges_random(~seed, i) | 1)) & mask;
        vertex ^= vertex >> shift;
    }
    return vertex;
}

static struct pair kronecker_edge(const struct edges_source *source, uint64_t index)
{
    uint64_t state = edges_random(source->seed, index), bits = 0;
    struct pair edge = {0, 0};

    for (unsigned level = 0; level < source->scale; level++) {
        uint64_t draw;

        if (level % 2 == 0)
            bits = edges_random(state, level);
        draw = bits & UINT32_MAX;
        bits >>= 32;
        edge.a = edge.a << 1 | (draw >= QUARTER_A + QUARTER_B);
        edge.b = edge.b << 1 | ((draw >= QUARTER_A && draw < QUARTER_A + QUARTER_B) ||
                                draw >= QUARTER_A + QUARTER_B + QUARTER_C);
    }
    edge.a = scramble(source->seed, source->scale, edge.a);
    edge.b = scramble(source->seed, source->scale, edge.b);
    return edge;
}

/* Where share `part` of `total` things begins, and the one before it ends. */
static uint64_t share_begin(uint64_t total, uint32_t part, uint32_t parts)
{
    uint64_t more = total % parts;

    return total / parts * part + (part < more ? part : more);
}

static int out_of_memory(char *error, size_t error_size)
{
    snprintf(error, error_size, "no memory for the edges");
    return -1;
}

static int kronecker_make(const struct edges_source *source, uint32_t part, uint32_t parts,
                          struct edges *edges, char *error, size_t error_size)
{
    uint64_t total = (uint64_t)source->edge_factor << source->scale;
    uint64_t index = share_begin(total, part, parts);
    uint64_t end = share_begin(total, part + 1, parts);

    edges->list = malloc((end - index + 1) * sizeof(*edges->list));
    if (edges->list == NULL)
        return out_of_memory(error, error_size);
    edges->vertices = (uint64_t)1 << source->scale;
    for (; index < end; index++) {
        struct pair edge = kronecker_edge(source, index);

        if (edge.a != edge.b)
            edges->list[edges->count++] = edge;
    }
    return 0;
}

/* Reads one vertex number; *text moves behind it. Returns a complaint or NULL. */
static const char *vertex_parse(const char **text, uint32_t *vertex)
{
    const char *at = *text + strspn(*text, " \t");
    uint64_t number = 0;

    if (*at < '0' || *at > '9')
        return "two vertex numbers were expected";
    for (; *at >= '0' && *at <= '9'; at++) {
        number = number * 10 + (uint64_t)(*at - '0');
        if (number > VERTEX_MAX)
            return "the vertex number is above 2147483647";
    }
    *vertex = (uint32_t)number;
    *text = at;
    return NULL;
}

/* Returns a complaint or NULL; *found tells whether the line had an edge. */
static const char *line_parse(char *line, struct pair *edge, bool *found)
{
    const char *text = line, *complaint;

    line[strcspn(line, "#\r\n")] = '\0';
    *found = line[strspn(line, " \t")] != '\0';
    if (!*found)
        return NULL;
    complaint = vertex_parse(&text, &edge->a);
    if (complaint == NULL)
        complaint = vertex_parse(&text, &edge->b);
    if (complaint == NULL && text[strspn(text, " \t")] != '\0')
        complaint = "text after the second vertex number";
    return complaint;
}

static int edge_append(struct edges *edges, size_t *room, struct pair edge)
{
    uint32_t larger = edge.a > edge.b ? edge.a : edge.b;

    if (edges->vertices <= larger)
        edges->vertices = (uint64_t)larger + 1;
    if (edge.a == edge.b)
        return 0;
    if (edges->count == *room) {
        size_t more = *room > 0 ? 2 * *room : 1024;
        struct pair *list = realloc(edges->list, more * sizeof(*list));

        if (list == NULL)
            return -1;
        edges->list = list;
        *room = more;
    }
    edges->list[edges->count++] = edge;
    return 0;
}

/* The number of the line, from 1, that begins at a byte of the file. */
static long line_number(FILE *file, long at)
{
    long number = 1;

    rewind(file);
    for (long byte = 0; byte < at; byte++)
        number += getc(file) == '\n';
    return number;
}

/* Takes the lines that begin at offsets from `begin` to before `end`. */
static int lines_read(FILE *file, const char *name, long begin, long end, struct edges *edges,
                      char *error, size_t error_size)
{
    char line[LINE_MAX_BYTES];
    size_t room = 0;
    long at = begin;

    /* The line that contains the byte before `begin` belongs to the share before. */
    if (begin > 0) {
        int c;

        if (fseek(file, begin - 1, SEEK_SET) != 0)
            return snprintf(error, error_size, "%s: %s", name, strerror(errno)), -1;
        for (at = begin - 1; (c = getc(file)) != EOF && c != '\n';)
            at++;
        at++;
    }
    while (at < end && fgets(line, sizeof(line), file) != NULL) {
        size_t length = strlen(line);
        const char *complaint = "the line is too long or has a zero byte";
        struct pair edge;
        bool found = false;

        if (length > 0 && (line[length - 1] == '\n' || feof(file)))
            complaint = line_parse(line, &edge, &found);
        if (complaint != NULL) {
            snprintf(error, error_size, "%s: line %ld: %s", name, line_number(file, at), complaint);
            return -1;
        }
        if (found && edge_append(edges, &room, edge) != 0)
            return out_of_memory(error, error_size);
        at += (long)length;
    }
    if (ferror(file))
        return snprintf(error, error_size, "%s: %s", name, strerror(errno)), -1;
    return 0;
}

static int file_make(const char *name, uint32_t part, uint32_t parts, struct edges *edges,
                     char *error, size_t error_size)
{
    FILE *file = fopen(name, "r");
    long size;
    int rc = -1;

    if (file == NULL)
        return snprintf(error, error_size, "%s: %s", name, strerror(errno)), -1;
    if (fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0 ||
        fseek(file, 0, SEEK_SET) != 0) {
        snprintf(error, error_size, "%s: %s", name, strerror(errno));
    } else {
        long begin = (long)share_begin((uint64_t)size, part, parts);
        long end = (long)share_begin((uint64_t)size, part + 1, parts);

        rc = lines_read(file, name, begin, end, edges, error, error_size);
    }
    fclose(file);
    return rc;
}

int edges_make(const struct edges_source *source, uint32_t part, uint32_t parts,
               struct edges *edges, char *error, size_t error_size)
{
    int rc;

    *edges = (struct edges){0};
    if (source->file != NULL)
        rc = file_make(source->file, part, parts, edges, error, error_size);
    else
        rc = kronecker_make(source, part, parts, edges, error, error_size);
    if (rc != 0)
        edges_free(edges);
    return rc;
}

void edges_free(struct edges *edges)
{
    free(edges->list);
    *edges = (struct edges){0};
}
