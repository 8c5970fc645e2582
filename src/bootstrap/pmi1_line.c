/*
 * The PMI-1 line parser, see pmi1_line.h.
 *
 * Whatever bytes come in, no byte outside [text, text + length) is looked at.
 */
#include "bootstrap/pmi1_line.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* Space and everything printable; bytes above 127 belong to somebody's host name. */
static bool line_char(unsigned char c)
{
    return c >= ' ' && c != 0x7f;
}

/* One field at `text`, which holds no space; -EPROTO when its name is empty. */
static int field_parse(const char *text, size_t length, struct pmi1_field *field)
{
    const char *equals = memchr(text, '=', length);

    *field = (struct pmi1_field){.name = text, .name_length = length};
    if (equals == NULL)
        return 0;
    field->name_length = (size_t)(equals - text);
    field->value = equals + 1;
    field->value_length = length - field->name_length - 1;
    return field->name_length == 0 ? -EPROTO : 0;
}

int pmi1_line_parse(const char *text, size_t length, struct pmi1_line *line)
{
    size_t i, start = 0, count = 0;
    int err;

    for (i = 0; i <= length; i++) {
        if (i < length && !line_char((unsigned char)text[i]))
            return -EPROTO;
        if (i < length && text[i] != ' ')
            continue;
        if (i > start) {
            if (count == PMI1_FIELDS_MAX)
                return -E2BIG;
            err = field_parse(text + start, i - start, &line->fields[count]);
            if (err != 0)
                return err;
            count++;
        }
        start = i + 1;
    }
    line->count = count;
    return count == 0 ? -EPROTO : 0;
}

static bool slice_is(const char *slice, size_t length, const char *text)
{
    return strlen(text) == length && memcmp(slice, text, length) == 0;
}

const struct pmi1_field *pmi1_line_find(const struct pmi1_line *line, const char *name)
{
    size_t i;

    for (i = 0; i < line->count; i++)
        if (slice_is(line->fields[i].name, line->fields[i].name_length, name))
            return &line->fields[i];
    return NULL;
}

bool pmi1_line_is(const struct pmi1_line *line, const char *name, const char *value)
{
    const struct pmi1_field *field = pmi1_line_find(line, name);

    return field != NULL && field->value != NULL &&
           slice_is(field->value, field->value_length, value);
}

int pmi1_line_text(const struct pmi1_line *line, const char *name, char *text, size_t size)
{
    const struct pmi1_field *field = pmi1_line_find(line, name);

    if (field == NULL || field->value == NULL)
        return -ENOENT;
    if (field->value_length >= size)
        return -ENAMETOOLONG;
    memcpy(text, field->value, field->value_length);
    text[field->value_length] = '\0';
    return 0;
}

int pmi1_number(const char *text, size_t length, long lowest, long highest, long *number)
{
    bool negative = length > 0 && text[0] == '-';
    size_t i = negative ? 1 : 0;
    long value = 0; /* kept negative: its range is the larger one */

    if (i == length)
        return -EINVAL;
    for (; i < length; i++) {
        int digit = text[i] - '0';

        if (digit < 0 || digit > 9)
            return -EINVAL;
        if (value < (LONG_MIN + digit) / 10)
            return -ERANGE;
        value = value * 10 - digit;
    }
    if (!negative) {
        if (value == LONG_MIN)
            return -ERANGE;
        value = -value;
    }
    if (value < lowest || value > highest)
        return -ERANGE;
    *number = value;
    return 0;
}

int pmi1_line_number(const struct pmi1_line *line, const char *name, long lowest, long highest,
                     long *number)
{
    const struct pmi1_field *field = pmi1_line_find(line, name);

    if (field == NULL || field->value == NULL)
        return -ENOENT;
    return pmi1_number(field->value, field->value_length, lowest, highest, number);
}
