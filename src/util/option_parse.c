/*
 * Typed parsing and formatting of option values, see option_parse.h.
 */
#include "util/option_parse.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Bytes of a name that count for the edit distance. */
#define NAME_BYTES 64

struct suffix {
    const char *text;
    double factor;
};

static const struct suffix byte_suffixes[] = {
    {"", 1.0},           {"B", 1.0},           {"K", 1024.0},         {"KB", 1024.0},
    {"KiB", 1024.0},     {"M", 1048576.0},     {"MB", 1048576.0},     {"MiB", 1048576.0},
    {"G", 1073741824.0}, {"GB", 1073741824.0}, {"GiB", 1073741824.0}, {NULL, 0.0},
};

static const struct suffix second_suffixes[] = {
    {"", 1.0}, {"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {NULL, 0.0},
};

static const char *skip_spaces(const char *text)
{
    return text + strspn(text, " \t");
}

/* The factor that the rest of a number stands for; 0 for a rest that is no suffix. */
static double suffix_factor(const struct suffix *suffix, const char *rest)
{
    size_t length;

    rest = skip_spaces(rest);
    length = strcspn(rest, " \t");
    if (*skip_spaces(rest + length) != '\0')
        return 0.0;
    for (; suffix->text != NULL; suffix++)
        if (strlen(suffix->text) == length && strncasecmp(rest, suffix->text, length) == 0)
            return suffix->factor;
    return 0.0;
}

/* Whole numbers in decimal (or 0x...); the factor applies to BYTES. */
static int parse_whole(const struct suffix *suffixes, const char *text, int64_t *value)
{
    const char *digits = skip_spaces(text);
    double factor;
    long long number;
    char *rest;
    int base = strncasecmp(digits, "0x", 2) == 0 ? 16 : 10;

    errno = 0;
    number = strtoll(digits, &rest, base);
    if (rest == digits)
        return -EINVAL;
    factor = suffix_factor(suffixes, rest);
    if (factor == 0.0)
        return -EINVAL;
    if (errno == ERANGE || fabs((double)number * factor) > 9.2e18)
        return -ERANGE;
    *value = number * (int64_t)factor;
    return 0;
}

/* As strtod with a decimal point, whatever the program's locale has in its place. */
static double decimal(const char *text, char **rest)
{
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", NULL);
    double number;

    if (plain == NULL)
        return strtod(text, rest);
    number = strtod_l(text, rest, plain);
    freelocale(plain);
    return number;
}

static int parse_seconds(const char *text, double *value)
{
    char *rest;
    double factor, number = decimal(text, &rest);

    if (rest == text || !isfinite(number))
        return -EINVAL;
    factor = suffix_factor(second_suffixes, rest);
    if (factor == 0.0)
        return -EINVAL;
    *value = number * factor;
    return 0;
}

static int parse_bool(const char *text, int64_t *value)
{
    static const char *const words[] = {"no", "yes", "off", "on", "0", "1", "false", "true"};
    size_t i;

    for (i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *value = (int64_t)(i & 1);
            return 0;
        }
    }
    return -EINVAL;
}

static int parse_choice(const char *choices, const char *text, int64_t *value)
{
    size_t length = strlen(text);
    int64_t index = 0;

    for (;; index++) {
        size_t word = strcspn(choices, "|");

        if (word == length && strncasecmp(choices, text, length) == 0) {
            *value = index;
            return 0;
        }
        if (choices[word] == '\0')
            return -EINVAL;
        choices += word + 1;
    }
}

int option_parse(const struct option_info *info, const char *text, struct option_number *value)
{
    static const struct suffix none[] = {{"", 1.0}, {NULL, 0.0}};
    struct option_number parsed = {0, 0.0};
    int error = 0;

    switch (info->type) {
    case OPTION_INT:
    case OPTION_POW2:
        error = parse_whole(none, text, &parsed.number);
        break;
    case OPTION_BYTES:
        error = parse_whole(byte_suffixes, text, &parsed.number);
        break;
    case OPTION_SECONDS:
        error = parse_seconds(text, &parsed.real);
        break;
    case OPTION_BOOL:
        error = parse_bool(text, &parsed.number);
        break;
    case OPTION_CHOICE:
        error = parse_choice(info->unit, text, &parsed.number);
        break;
    case OPTION_STRING:
        break;
    }
    if (error != 0)
        return error;
    if (info->minimum != info->maximum) {
        double amount = info->type == OPTION_SECONDS ? parsed.real : (double)parsed.number;

        if (amount < info->minimum || amount > info->maximum)
            return -ERANGE;
    }
    if (info->type == OPTION_POW2 &&
        (parsed.number <= 0 || (parsed.number & (parsed.number - 1)) != 0))
        return -ERANGE;
    *value = parsed;
    return 0;
}

static void format_bytes(double bytes, char *buffer, size_t room)
{
    static const char units[] = {'G', 'M', 'K'};
    double factor = 1073741824.0;
    size_t i;

    for (i = 0; i < sizeof units; i++, factor /= 1024.0) {
        if (bytes >= factor && fmod(bytes, factor) == 0.0) {
            snprintf(buffer, room, "%.0f%c", bytes / factor, units[i]);
            return;
        }
    }
    snprintf(buffer, room, bytes < 1e15 ? "%.0f" : "%g", bytes);
}

static void format_seconds(double seconds, char *buffer, size_t room)
{
    if (seconds == 0.0 || seconds >= 1.0)
        snprintf(buffer, room, "%.9g", seconds);
    else if (seconds >= 1e-3)
        snprintf(buffer, room, "%gms", seconds * 1e3);
    else
        snprintf(buffer, room, "%gus", seconds * 1e6);
}

char *option_number_format(const struct option_info *info, const struct option_number *value,
                           char *buffer, size_t room)
{
    if (info->type == OPTION_BYTES)
        format_bytes((double)value->number, buffer, room);
    else if (info->type == OPTION_SECONDS)
        format_seconds(value->real, buffer, room);
    else if (info->type == OPTION_BOOL)
        snprintf(buffer, room, "%s", value->number ? "yes" : "no");
    else if (info->type == OPTION_CHOICE)
        option_choice_word(info->unit, (int)value->number, buffer, room);
    else
        snprintf(buffer, room, "%lld", (long long)value->number);
    return buffer;
}

char *option_range_format(const struct option_info *info, char *buffer, size_t room)
{
    char low[32], high[32];

    if (info->type == OPTION_BOOL)
        snprintf(buffer, room, "yes|no");
    else if (info->type == OPTION_CHOICE || info->type == OPTION_STRING)
        snprintf(buffer, room, "%s", info->unit);
    else if (info->minimum == info->maximum)
        snprintf(buffer, room, "any");
    else {
        if (info->type == OPTION_BYTES) {
            format_bytes(info->minimum, low, sizeof low);
            format_bytes(info->maximum, high, sizeof high);
        } else if (info->type == OPTION_SECONDS) {
            format_seconds(info->minimum, low, sizeof low);
            format_seconds(info->maximum, high, sizeof high);
        } else {
            snprintf(low, sizeof low, "%.0f", info->minimum);
            snprintf(high, sizeof high, "%.0f", info->maximum);
        }
        snprintf(buffer, room, "%s%s .. %s %s", info->type == OPTION_POW2 ? "power of two, " : "",
                 low, high, info->unit);
    }
    return buffer;
}

int option_choice_word(const char *choices, int index, char *buffer, size_t room)
{
    size_t length = strcspn(choices, "|");

    while (index-- > 0) {
        if (choices[length] == '\0')
            return -EINVAL;
        choices += length + 1;
        length = strcspn(choices, "|");
    }
    return snprintf(buffer, room, "%.*s", (int)length, choices) < (int)room ? 0 : -ERANGE;
}

unsigned option_edit_distance(const char *one, const char *other)
{
    size_t rows = strnlen(one, NAME_BYTES - 1), columns = strnlen(other, NAME_BYTES - 1);
    unsigned line[NAME_BYTES];
    size_t i, k;

    for (k = 0; k <= columns; k++)
        line[k] = (unsigned)k;
    for (i = 1; i <= rows; i++) {
        unsigned diagonal = line[0];

        line[0] = (unsigned)i;
        for (k = 1; k <= columns; k++) {
            unsigned best = diagonal + (one[i - 1] != other[k - 1]);

            diagonal = line[k];
            if (line[k] + 1 < best)
                best = line[k] + 1;
            if (line[k - 1] + 1 < best)
                best = line[k - 1] + 1;
            line[k] = best;
        }
    }
    return line[columns];
}
