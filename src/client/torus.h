/*
 * EXT_torus_network: the job as a grid, node by place on the node. See torus.c.
 */
#ifndef LIBPAMI_CLIENT_TORUS_H
#define LIBPAMI_CLIENT_TORUS_H

#include <pami/pami.h>

struct client;

/* What the extension's clients declare for themselves. */
struct torus_information {
    size_t dims;
    size_t *coord; /* of this task */
    size_t *size;
    size_t *torus; /* non-zero: the dimension wraps */
};

/* Opening the extension: lays the grid out. 0, -ENOMEM, or -ENOTSUP for a simulated task. */
int torus_prepare(struct client *client);

const struct torus_information *torus_information(void);

/* PAMI_INVAL: no such task, or nobody at this address. */
pami_result_t torus_of_task(pami_task_t task, size_t *address);
pami_result_t torus_to_task(const size_t *address, pami_task_t *task);

#endif
