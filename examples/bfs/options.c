/*
 * options.c - a table of options, each with a function that reads its value.
 *
 * Both "--name value" and "--name=value" are understood. Errors are returned as text: every task
 * reads the same command line, but only one should complain.
 */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char options_help[] =
    "Usage: pamirun -n TASKS bfs [OPTION]...\n"
    "Breadth-first search in a distributed graph, in the manner of the Graph500 benchmark.\n"
    "\n"
    "  --file FILE            read the graph: one edge \"u v\" a line, '#' begins a comment\n"
    "  --kronecker SCALE[:F]  generate 2^SCALE vertices and F (default 16) edges for each of\n"
    "                         them (this is the default, with SCALE 14)\n"
    "  --seed S               of the generator and of the choice of roots (default 1)\n"
    "  --roots N              number of searches, each from another root (default 8)\n"
    "  --root V               vertex number or name to begin with; the other roots are random\n"
    "  --names FILE           names of the vertices: line N + 1 for vertex N\n"
    "  --buffer BYTES         size of the messages that visits are gathered in (default 4096;\n"
    "                         suffixes K and M)\n"
    "  --check, --no-check    compare every search with a sequential one (default) or not\n"
    "  --help                 this text\n"
    "\n"
    "The exit status is 0 when all searches were right (or not checked), 1 when something failed,\n"
    "2 when the command line was wrong.\n";

/* Digits only, in [min, max]; *end is where they stop. */
static bool number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *number,
                         const char **end)
{
    uint64_t value = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');

        if (value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (at == text || value < min)
        return false;
    *number = value;
    *end = at;
    return true;
}

static bool set_file(struct options *options, const char *value)
{
    options->source.file = value;
    return *value != '\0';
}

static bool set_kronecker(struct options *options, const char *value)
{
    uint64_t scale, factor = 16;
    const char *end;

    if (!number_parse(value, 1, EDGES_SCALE_MAX, &scale, &end))
        return false;
    if (*end == ':' && !number_parse(end + 1, 1, EDGES_FACTOR_MAX, &factor, &end))
        return false;
    options->source.scale = (unsigned)scale;
    options->source.edge_factor = (unsigned)factor;
    return *end == '\0';
}

static bool set_seed(struct options *options, const char *value)
{
    const char *end;

    return number_parse(value, 0, UINT64_MAX, &options->source.seed, &end) && *end == '\0';
}

static bool set_roots(struct options *options, const char *value)
{
    const char *end;
    uint64_t roots;

    if (!number_parse(value, 1, OPTIONS_ROOTS_MAX, &roots, &end) || *end != '\0')
        return false;
    options->roots = (uint32_t)roots;
    return true;
}

static bool set_root(struct options *options, const char *value)
{
    options->root = value;
    return *value != '\0';
}

static bool set_names(struct options *options, const char *value)
{
    options->names = value;
    return *value != '\0';
}

static bool set_buffer(struct options *options, const char *value)
{
    const uint64_t max = (uint64_t)64 << 20;
    const char *end;
    uint64_t bytes;

    if (!number_parse(value, 8, max, &bytes, &end))
        return false;
    if (*end == 'K' || *end == 'k')
        bytes <<= 10, end++;
    else if (*end == 'M' || *end == 'm')
        bytes <<= 20, end++;
    options->buffer = bytes;
    return *end == '\0' && bytes <= max;
}

static bool set_check(struct options *options, const char *value)
{
    (void)value;
    return options->check = true;
}

static bool set_no_check(struct options *options, const char *value)
{
    (void)value;
    options->check = false;
    return true;
}

static bool set_help(struct options *options, const char *value)
{
    (void)value;
    return options->help = true;
}

static const struct option_row {
    const char *name;
    bool (*set)(struct options *options, const char *value);
    const char *wants; /* NULL: takes no value */
} rows[] = {
    {"--file", set_file, "a file name"},
    {"--kronecker", set_kronecker, "SCALE from 1 to 30, or SCALE:EDGEFACTOR with 1 to 1024"},
    {"--seed", set_seed, "a non-negative number"},
    {"--roots", set_roots, "a number from 1 to 10000"},
    {"--root", set_root, "a vertex number or name"},
    {"--names", set_names, "a file name"},
    {"--buffer", set_buffer, "a number of bytes from 8 to 64M"},
    {"--check", set_check, NULL},
    {"--no-check", set_no_check, NULL},
    {"--help", set_help, NULL},
    {"-h", set_help, NULL},
};

static const struct option_row *row_find(const char *argument, size_t length)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strlen(rows[i].name) == length && strncmp(rows[i].name, argument, length) == 0)
            return &rows[i];
    return NULL;
}

int options_parse(struct options *options, int argc, char **argv, char *error, size_t error_size)
{
    bool file = false, kronecker = false;

    *options = (struct options){.source = {.scale = 14, .edge_factor = 16, .seed = 1},
                                .roots = 8,
                                .buffer = 4096,
                                .check = true};
    for (int i = 1; i < argc; i++) {
        size_t length = strcspn(argv[i], "=");
        const struct option_row *row = row_find(argv[i], length);
        const char *value = argv[i][length] == '=' ? argv[i] + length + 1 : NULL;

        if (row == NULL) {
            snprintf(error, error_size, "'%s' is not an option; try --help", argv[i]);
            return -1;
        }
        if (row->wants == NULL && value != NULL) {
            snprintf(error, error_size, "%s takes no value", row->name);
            return -1;
        }
        if (row->wants != NULL && value == NULL && ++i < argc)
            value = argv[i];
        if (row->wants != NULL && value == NULL) {
            snprintf(error, error_size, "%s wants %s", row->name, row->wants);
            return -1;
        }
        if (!row->set(options, value)) {
            snprintf(error, error_size, "%s: '%s': wants %s", row->name, value, row->wants);
            return -1;
        }
        file = file || row->set == set_file;
        kronecker = kronecker || row->set == set_kronecker;
    }
    if (file && kronecker) {
        snprintf(error, error_size, "--file and --kronecker exclude each other");
        return -1;
    }
    return 0;
}
