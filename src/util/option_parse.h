/*
 * Text of an option to its value and back; knows nothing of the environment or the registry.
 */
#ifndef LIBPAMI_UTIL_OPTION_PARSE_H
#define LIBPAMI_UTIL_OPTION_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "util/option.h"

/* A parsed value: `number` for INT, POW2, BYTES, BOOL and CHOICE (its index), `real` for SECONDS.
 * A STRING needs no parsing. */
struct option_number {
    int64_t number;
    double real;
};

/* 0, -EINVAL for text of the wrong form, -ERANGE for a value outside of the permitted range. */
int option_parse(const struct option_info *info, const char *text, struct option_number *value);

char *option_number_format(const struct option_info *info, const struct option_number *value,
                           char *buffer, size_t room);
char *option_range_format(const struct option_info *info, char *buffer, size_t room);

/* Word `index` of "a|b|c", copied; -EINVAL past the last, -ERANGE when it does not fit. */
int option_choice_word(const char *choices, int index, char *buffer, size_t room);

/* Edits (insert, delete, replace) that turn one text into the other; looks at 63 bytes of each. */
unsigned option_edit_distance(const char *one, const char *other);

#endif
