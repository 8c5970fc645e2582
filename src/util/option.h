/*
 * Option registry: the one place that reads PAMI_* from the environment.
 *
 * Options are rows of options.def.  The environment is read once, at first use; a value that does
 * not parse or is out of range gets one warning and the default stays.  Reading is cheap but not
 * free: read at creation time and keep the value.
 *
 * option_set is for tests, before anything is created that reads the option: it is not synchronised
 * with readers in other threads.  The getter must fit the row's type.
 */
#ifndef LIBPAMI_UTIL_OPTION_H
#define LIBPAMI_UTIL_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_id {
#define OPTION(id, name, type, value, minimum, maximum, unit, description) OPT_##id,
#include "util/options.def"
#undef OPTION
    OPTION_COUNT
};

enum option_type {
    OPTION_INT,
    OPTION_POW2,
    OPTION_BYTES,
    OPTION_SECONDS,
    OPTION_BOOL,
    OPTION_CHOICE,
    OPTION_STRING,
};

enum option_source {
    OPTION_FROM_DEFAULT,
    OPTION_FROM_ENVIRONMENT,
    OPTION_FROM_PROGRAM,
};

/* One row of options.def. */
struct option_info {
    const char *name;
    const char *value; /* the default, as text */
    const char *unit;
    const char *description;
    double minimum, maximum;
    enum option_type type;
};

/* Reads the environment unless that has been done; every other function does so by itself. */
void option_init(void);

/* Tries once more to keep what the environment says where there was no memory for it, and the
 * default stands. 0 or -ENOMEM. Before the first client. */
int option_load_again(void);

int64_t option_int(enum option_id id);
size_t option_bytes(enum option_id id);
double option_seconds(enum option_id id);
bool option_bool(enum option_id id);

/* Index into the choices. */
int option_choice(enum option_id id);

/* The text of a STRING or the chosen word; valid until the option is set again. */
const char *option_string(enum option_id id);

/* Sets from text as the environment would: 0, -EINVAL (unchanged) or -ENOMEM (unchanged). */
int option_set(enum option_id id, const char *text);

enum option_source option_source(enum option_id id);
const char *option_source_name(enum option_source source);

const struct option_info *option_info(enum option_id id);

/* The row with this name ("PAMI_..."), or -1. */
int option_find(const char *name);

/* The row whose name is closest, within a few edits; -1 when none is. */
int option_nearest(const char *name);

/* Whether programs for other PAMI implementations set this name: accepted silently, no effect. */
bool option_is_foreign(const char *name);

/* The value now, as text with suffix, and the permitted values: "64 .. 64K bytes", "a|b|c",
 * "FILE". Cut at `room`; return `buffer`. */
char *option_format(enum option_id id, char *buffer, size_t room);
char *option_format_range(enum option_id id, char *buffer, size_t room);

#endif
