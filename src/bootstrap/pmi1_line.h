/*
 * One line of the PMI-1 wire protocol: `name=value` fields separated by spaces, "cmd" first.
 *
 * Pure: text in, slices of that text out; allocates nothing, never writes to its input, does not
 * need a NUL behind it.  Client and server share it; nothing here knows the commands.
 */
#ifndef LIBPAMI_BOOTSTRAP_PMI1_LINE_H
#define LIBPAMI_BOOTSTRAP_PMI1_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* What the usual servers promise, with NUL: no launcher here or elsewhere may be given more. */
#define PMI1_KVSNAME_MAX 256
#define PMI1_KEY_MAX 64
#define PMI1_VALUE_MAX 1024

/* Longest line taken from a peer, with its newline, in bytes. */
#define PMI1_LINE_MAX 8192
#define PMI1_FIELDS_MAX 48

/* A slice of the line.  value is NULL for a word without '='. */
struct pmi1_field {
    const char *name, *value;
    size_t name_length, value_length;
};

struct pmi1_line {
    size_t count;
    struct pmi1_field fields[PMI1_FIELDS_MAX];
};

/*
 * Splits `length` bytes, without the newline.  The line is good as long as `text` is.
 * -EPROTO: empty, a control character, a field without a name; -E2BIG: too many fields.
 */
int pmi1_line_parse(const char *text, size_t length, struct pmi1_line *line);

/* The first field of that name, or NULL. */
const struct pmi1_field *pmi1_line_find(const struct pmi1_line *line, const char *name);

/* Is the first field of that name exactly this value? */
bool pmi1_line_is(const struct pmi1_line *line, const char *name, const char *value);

/* Copies the value with a NUL.  -ENOENT: no such field or no value; -ENAMETOOLONG: no room. */
int pmi1_line_text(const struct pmi1_line *line, const char *name, char *text, size_t size);

/* A decimal number, sign allowed.  -ENOENT; -ERANGE; -EINVAL: not a number. */
int pmi1_line_number(const struct pmi1_line *line, const char *name, long lowest, long highest,
                     long *number);

/* The same rules for a text of its own. */
int pmi1_number(const char *text, size_t length, long lowest, long highest, long *number);

#endif
