/*
 * Asynchronous progress: a pool of threads per client that advance contexts for the program.
 *
 * The pool is made when the first context is enabled. Each context belongs to one thread from then
 * on, whether it is enabled or not, so its callbacks see one thread besides the program's. The
 * threads end before the first context is destroyed.
 */
#ifndef LIBPAMI_CLIENT_ASYNC_H
#define LIBPAMI_CLIENT_ASYNC_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include <pami/pamix.h>

struct client;
struct async_pool;

/* Names of the extension, whose users declare them for themselves. */
enum async_event {
    ASYNC_ALL = 0,
    ASYNC_RECV_INTERRUPT = 1,
    ASYNC_TIMER = 2,
};
#define ASYNC_GUARANTEE_ATTRIBUTE 1016

typedef void async_function(pami_context_t context, void *cookie);

/* The three functions of EXT_async_progress. */
pami_result_t async_register(pami_context_t context, async_function *progress,
                             async_function *suspend, async_function *resume, void *cookie);
pami_result_t async_enable(pami_context_t context, int event);
pami_result_t async_disable(pami_context_t context, int event);

/* Whether this is one of the client's threads; false when that cannot be said now. Any thread. */
bool async_has_thread(struct client *client, pid_t id);

/* Stops all threads; from then on nobody but the program touches the contexts. */
void async_finish(struct client *client);

/*
 * async_place.c: the processors for the pool's threads. `list` is what PAMI_ASYNC_CPUS takes.
 * 0 or -EINVAL with *why.
 */
struct async_places {
    bool bound;     /* false: wherever the system puts them ... */
    bool avoids;    /* ... but not where the program runs */
    unsigned count; /* processors in `cpu` */
    int cpu[CPU_SETSIZE];
};
int async_places_find(struct client *client, const char *list, struct async_places *places);

/* Processors of this process that no task of the job needs; the basis for how many threads. */
unsigned async_spare(const struct client *client);

#endif
