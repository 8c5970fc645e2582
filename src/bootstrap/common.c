/*
 * What every back end needs: node map, job id, the rules for keys and values, failure texts.
 *
 * Pure but for bootstrap_fail's log line and the arrays; talks to nobody.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/backend.h"
#include "bootstrap/digest.h"
#include "util/error.h"
#include "util/log.h"

int bootstrap_fail(int negative_errno, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(text, sizeof text, format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);
    error_set(error_from_errno(negative_errno), "launcher: %s", text);
    log_error("launcher: %s", text);
    return negative_errno;
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

int bootstrap_check_key(const char *key)
{
    size_t i;

    for (i = 0; key[i] != '\0'; i++) {
        if (i == BOOTSTRAP_KEY_MAX)
            return -ENAMETOOLONG;
        if (!name_char(key[i]))
            return -EINVAL;
    }
    return i == 0 ? -EINVAL : 0;
}

int bootstrap_check_value(const char *value)
{
    size_t i;

    for (i = 0; value[i] != '\0'; i++) {
        if (i == BOOTSTRAP_VALUE_MAX)
            return -E2BIG;
        if (value[i] <= ' ' || value[i] > '~')
            return -EINVAL;
    }
    return 0;
}

void bootstrap_set_job(struct bootstrap *bootstrap, const char *launcher_name)
{
    struct digest digest;
    char hash[DIGEST_TEXT_MAX];
    char prefix[BOOTSTRAP_JOB_MAX];
    size_t i;

    for (i = 0; launcher_name[i] != '\0' && i < BOOTSTRAP_JOB_MAX - 18; i++)
        prefix[i] = name_char(launcher_name[i]) ? launcher_name[i] : '_';
    prefix[i] = '\0';
    if (prefix[0] == '.')
        prefix[0] = '_';
    digest_init(&digest);
    digest_add(&digest, launcher_name, strlen(launcher_name));
    digest_text(&digest, hash);
    snprintf(bootstrap->job, sizeof bootstrap->job, "%.46s-%.16s", prefix, hash);
}

struct id_row {
    uint32_t id, first; /* launcher's node id, lowest task there */
};

static int id_row_by_id(const void *left, const void *right)
{
    const struct id_row *a = left, *b = right;

    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Replaces each id by the position of its node among the nodes sorted by lowest task. */
static int ids_make_dense(uint32_t *ids, uint32_t tasks, uint32_t *nodes)
{
    struct id_row *rows = calloc(tasks, sizeof *rows);
    uint32_t i, first = 0, count = 0;

    if (rows == NULL)
        return -ENOMEM;
    for (i = 0; i < tasks; i++)
        rows[i] = (struct id_row){.id = ids[i], .first = i};
    qsort(rows, tasks, sizeof *rows, id_row_by_id);
    /* ids[task] becomes the lowest task on its node, ... */
    for (i = 0; i < tasks; i++) {
        if (i == 0 || rows[i].id != rows[i - 1].id)
            first = rows[i].first;
        ids[rows[i].first] = first;
    }
    free(rows);
    /* ... which, going up, is met before all others there and has been numbered by then. */
    for (i = 0; i < tasks; i++)
        ids[i] = ids[i] == i ? count++ : ids[ids[i]];
    *nodes = count;
    return 0;
}

/* The run of tasks that goes to each node in turn; 0: there is no such thing. */
static uint32_t find_run(const uint32_t *ids, uint32_t tasks, uint32_t nodes)
{
    uint32_t run = 0;

    while (run < tasks && ids[run] == 0)
        run++;
    for (uint32_t i = 0; i < tasks; i++)
        if (ids[i] != i / run % nodes)
            return 0;
    return run;
}

int bootstrap_set_nodes(struct bootstrap *bootstrap, uint32_t *ids)
{
    uint32_t i, count = 0, all = bootstrap->tasks + bootstrap->servers;

    if (ids_make_dense(ids, all, &bootstrap->nodes) != 0) {
        free(ids);
        return -ENOMEM;
    }
    bootstrap->node = ids[bootstrap->task];
    bootstrap->run = find_run(ids, bootstrap->tasks, bootstrap->nodes);
    for (i = 0; i < all; i++)
        count += ids[i] == bootstrap->node;
    bootstrap->local_tasks = malloc(count * sizeof *bootstrap->local_tasks);
    if (bootstrap->local_tasks == NULL) {
        free(ids);
        return -ENOMEM;
    }
    bootstrap->local_count = bootstrap->local_servers = 0;
    for (i = 0, count = 0; i < all; i++) {
        if (ids[i] != bootstrap->node)
            continue;
        if (i == bootstrap->task)
            bootstrap->local_index = count;
        bootstrap->local_tasks[count++] = i;
        if (i < bootstrap->tasks)
            bootstrap->local_count++;
        else
            bootstrap->local_servers++;
    }
    bootstrap->node_map = ids;
    return 0;
}

/* A number and what ends it; false: there is none. */
static bool read_number(const char **text, uint32_t *number)
{
    char *end;
    unsigned long value;

    if (**text < '0' || **text > '9')
        return false;
    value = strtoul(*text, &end, 10);
    *text = end;
    *number = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
    return true;
}

int bootstrap_mark_node(const char *list, uint32_t id, uint32_t *ids, uint32_t tasks)
{
    uint32_t first, last;

    for (;; list++) {
        if (!read_number(&list, &first))
            return -EPROTO;
        last = first;
        if (*list == '-' && (list++, !read_number(&list, &last)))
            return -EPROTO;
        if (last < first || last >= tasks || (*list != ',' && *list != '\0'))
            return -EPROTO;
        for (; first <= last; first++) {
            if (ids[first] != UINT32_MAX)
                return -EPROTO;
            ids[first] = id;
        }
        if (*list == '\0')
            return 0;
    }
}

int bootstrap_compare_hosts(struct bootstrap *bootstrap, uint32_t *ids)
{
    char mine[BOOTSTRAP_PROOF_MAX + 16];
    char(*proofs)[sizeof mine] = calloc(bootstrap->tasks, sizeof *proofs);
    char key[BOOTSTRAP_KEY_MAX];
    uint32_t i, j;
    int err;

    if (proofs == NULL)
        return -ENOMEM;
    if (bootstrap_host_proof(mine, sizeof mine) != 0)
        snprintf(mine, sizeof mine, "alone-%u", bootstrap->task);
    snprintf(key, sizeof key, "pami-host-%u", bootstrap->task);
    err = bootstrap->ops->put(bootstrap, key, mine);
    if (err == 0)
        err = bootstrap->ops->fence(bootstrap);
    for (i = 0; i < bootstrap->tasks && err == 0; i++) {
        snprintf(key, sizeof key, "pami-host-%u", i);
        err = bootstrap->ops->get(bootstrap, key, proofs[i], sizeof proofs[i]);
        for (j = 0; j < i && strcmp(proofs[i], proofs[j]) != 0;)
            j++;
        ids[i] = j;
    }
    free(proofs);
    return err;
}
