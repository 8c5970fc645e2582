/*
 * What bootstrap.c asks of a back end, and what the back ends share.
 *
 * Adding a launcher: one file with a row `const struct bootstrap_backend`, declared here, named in
 * the table of bootstrap.c and in the choices of the option PAMI_BOOTSTRAP.
 */
#ifndef LIBPAMI_BOOTSTRAP_BACKEND_H
#define LIBPAMI_BOOTSTRAP_BACKEND_H

#include <stdbool.h>

#include "bootstrap/bootstrap.h"

struct bootstrap_backend {
    const char *name;      /* as in PAMI_BOOTSTRAP */
    bool (*present)(void); /* does the environment speak of this launcher? */
    /* ops->close of the result leaves the job. -ENODEV, with the error text set: the environment
     * speaks of this launcher, but it is not there. */
    int (*connect)(struct bootstrap **out);
};

extern const struct bootstrap_backend bootstrap_pmix, bootstrap_pmi1, bootstrap_single;

/*
 * Fills node, nodes, node_map, local_tasks, local_count and local_index of a bootstrap whose task
 * and tasks are set, from the launcher's node ids (any numbers, one per task).  Takes over and
 * renumbers `ids`.  -ENOMEM.
 */
int bootstrap_set_nodes(struct bootstrap *bootstrap, uint32_t *ids);

/*
 * Gives the tasks of a launcher's list, such as "0,1,4-7", that id in ids[tasks], where all that is
 * unknown is UINT32_MAX. -EPROTO: it is no such list, or one of them was known before.
 */
int bootstrap_mark_node(const char *list, uint32_t id, uint32_t *ids, uint32_t tasks);

/*
 * For launchers that do not say where tasks are: tasks that see the same host get the same id.
 * Collective; puts one card per task.
 */
int bootstrap_compare_hosts(struct bootstrap *bootstrap, uint32_t *ids);

/* Sets job to a file-name-safe form of the launcher's name for it, made unique by a hash. */
void bootstrap_set_job(struct bootstrap *bootstrap, const char *launcher_name);

/* Leaves "launcher: <text>" in error_set and in the log, returns `negative_errno`. */
int bootstrap_fail(int negative_errno, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* 0, -EINVAL or -ENAMETOOLONG; the rules of bootstrap_put. */
int bootstrap_check_key(const char *key);

/* 0, -EINVAL or -E2BIG. */
int bootstrap_check_value(const char *value);

#endif
