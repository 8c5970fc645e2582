/*
 * What is behind a pamix_machine_t: pamix.c has the calls that make one and bind it, user.c how a
 * simple one runs, compose_start.c how a whole one starts and ends.
 */
#ifndef LIBPAMI_COLL_USER_H
#define LIBPAMI_COLL_USER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pamix.h>

#include "coll/coll.h"
#include "coll/collective.h"
#include "coll/machine.h"
#include "coll/ticket.h"

struct user {
    uint64_t magic;
    struct machine simple; /* of a simple one */
    struct machine *inner; /* what runs: the row's machine, a chain, a pipeline; NULL: no reset */
    struct context *context;
    struct group *group;
    struct user *owner; /* the composition that it is part of */
    bool running;       /* started by itself */
    pami_event_function fn;
    void *cookie;
    struct coll_block *blocks; /* owned; one for each geometry, used while it runs */
    size_t block_count;
    /* of simple ones */
    pami_algorithm_t algorithm; /* else 0 */
    uint64_t identity;          /* of the geometry, which may go before the machine */
    const struct algorithm *row;
    struct collective given; /* what `inner` is bound to; its lists are these */
    struct tickets tickets;
    uint64_t number; /* of the run */
    bool in_run;
    bool stale; /* `inner` has to be bound again before it runs */
    /* of pipelines */
    pamix_segment_function segment;
    void *segment_cookie;
    uint32_t segments;
    size_t count;
    struct user *parts[];
};

/* PAMI_INVAL with a text: no machine. */
struct user *user_from_handle(const char *function, pamix_machine_t handle);

static inline bool user_is_simple(const struct user *user)
{
    return user->algorithm != PAMI_ALGORITHM_NULL;
}

/* The machine that stands for a handle inside a composition, and is started. */
static inline struct machine *user_machine(struct user *user)
{
    return user_is_simple(user) ? &user->simple : user->inner;
}

/* A simple one for an algorithm of the group. */
void user_make_simple(struct user *user, struct group *group, pami_algorithm_t algorithm);

/* The geometry of a simple one is still there. */
bool user_has_group(const struct user *user);

/* Binds it to `given`, which it takes over but on error; or, if it must be, to the same as before.
 * 0, -ENOMEM, -EBUSY. */
int user_bind(struct user *user, struct collective *given);
int user_bind_again(struct user *user);

/* Frees a simple one. */
void user_release_simple(struct user *user);

#endif
