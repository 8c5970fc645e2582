/*
 * background.h - collectives that go on while a program computes, for programs with together.h.
 *
 * Progress comes from the program, which calls background_poll between pieces of its work, or from
 * a thread of the library, which background_thread asks for. While that runs, every use of the
 * context needs its lock. The functions here take it in either case; those of together.h do not,
 * and so are for the time before and after.
 */
#ifndef EXAMPLES_BACKGROUND_H
#define EXAMPLES_BACKGROUND_H

#include "together.h"

#include <pamix.h>
#include <stdatomic.h>
#include <stdbool.h>

struct background {
    struct together *all;
    pami_geometry_t world;
    bool threaded;
};

/* One collective. `done` is set by whoever advances the context. */
struct background_call {
    const struct background *in;
    atomic_bool done;
};

static inline void background_start(struct background *b, struct together *all)
{
    *b = (struct background){.all = all};
    TOGETHER(all, PAMI_Geometry_world(all->client, &b->world));
}

/* From now on, or no longer, a thread of the library advances the context as well. */
static inline void background_thread(struct background *b, bool wanted)
{
    pami_context_t *context = &b->all->context;

    if (wanted == b->threaded)
        return;
    if (wanted)
        TOGETHER(b->all, PAMIX_Context_async_enable(context, 1, NULL));
    else
        TOGETHER(b->all, PAMIX_Context_async_disable(context, 1));
    b->threaded = wanted;
}

static inline void background_lock(const struct background *b)
{
    TOGETHER(b->all, PAMI_Context_lock(b->all->context));
}

static inline void background_unlock(const struct background *b)
{
    TOGETHER(b->all, PAMI_Context_unlock(b->all->context));
}

/* Lets communication go on for a moment; with a thread there is no need to. */
static inline void background_poll(const struct background *b, size_t passes)
{
    pami_result_t result = PAMI_Context_trylock_advancev(&b->all->context, 1, passes);

    if (result != PAMI_EAGAIN)
        together_check(b->all, result, "PAMI_Context_trylock_advancev");
}

static inline void background_on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct background_call *call = cookie;

    (void)context;
    together_check(call->in->all, result, "collective");
    atomic_store_explicit(&call->done, true, memory_order_release);
}

/* Starts a collective of all tasks by the library's own choice of algorithm. Buffers, counts and
 * *call stay as they are until background_wait. */
static inline void background_begin(const struct background *b, struct background_call *call,
                                    pami_xfer_type_t type, pami_collective_t command)
{
    pami_xfer_t xfer = {.cb_done = background_on_done, .cookie = call, .cmd = command};
    pami_metadata_t metadata;

    call->in = b;
    atomic_store_explicit(&call->done, false, memory_order_relaxed);
    background_lock(b);
    TOGETHER(b->all, PAMI_Geometry_algorithms_query(b->world, type, &xfer.algorithm, &metadata, 1,
                                                    NULL, NULL, 0));
    TOGETHER(b->all, PAMI_Collective(b->all->context, &xfer));
    background_unlock(b);
}

static inline void background_wait(struct background_call *call)
{
    while (!atomic_load_explicit(&call->done, memory_order_acquire))
        background_poll(call->in, 100);
}

/* An all-reduce of doubles in place. */
static inline void background_reduce(const struct background *b, struct background_call *call,
                                     double *values, size_t count, pami_data_function op)
{
    background_begin(b, call, PAMI_XFER_ALLREDUCE,
                     (pami_collective_t){.xfer_allreduce = {.sndbuf = (char *)values,
                                                            .stype = PAMI_TYPE_DOUBLE,
                                                            .stypecount = count,
                                                            .rcvbuf = (char *)values,
                                                            .rtype = PAMI_TYPE_DOUBLE,
                                                            .rtypecount = count,
                                                            .op = op,
                                                            .commutative = 1}});
}

#endif
