/*
 * Where servers may pay on this machine: the table that pami_tune --servers has measured and
 * PAMI_SERVERS_TABLE names. Without one learning tries everything; with one it makes no trial but
 * where a line says that servers have been faster.
 *
 *     OPERATION BYTES OUTSTANDING SERVERS      # comment
 *     put 4K-32767 64- 2-
 *
 * OPERATION is put, get or send; the others are ranges, as in tables of collectives.
 */
#ifndef LIBPAMI_SERVERS_MODEL_H
#define LIBPAMI_SERVERS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "servers/servers.h"

/* `outstanding` of requests when it is not known how many are: any. */
#define MODEL_ANY SIZE_MAX

struct model_line {
    enum request_kind kind;
    uint64_t bytes_min, bytes_max, outstanding_min, outstanding_max, servers_min, servers_max;
};

struct model {
    size_t count;
    struct model_line lines[];
};

/* 1: *line is filled in; 0: nothing on it; -EINVAL: makes no sense. `text` is changed. */
int model_parse(char *text, struct model_line *line);

/* *model is NULL when the file cannot be read, with a warning, or no memory is left: -ENOMEM. Lines
 * that make no sense get a warning each. The caller frees it. */
int model_read(const char *path, struct model **model);

/* Servers may pay for such requests. */
bool model_pays(const struct model *model, enum request_kind kind, uint64_t bytes,
                size_t outstanding, unsigned servers);

#endif
