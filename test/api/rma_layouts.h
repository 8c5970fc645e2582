/*
 * Random layouts, and typed transfers checked against plain arithmetic (shapes.h).
 *
 * Layouts to be written have no byte twice; layouts to be read may overlap in any way, also with an
 * extent that is smaller than their pieces, or negative. A transfer copies any number of data bytes
 * from one layout into another one; both may end in the middle of a piece, and start over many
 * times.
 */
#ifndef LIBPAMI_API_RMA_LAYOUTS_H
#define LIBPAMI_API_RMA_LAYOUTS_H

#include "rma.h"
#include "shapes.h"

#include <pamix.h>

struct rma_layout {
    struct shape shape;
    pami_type_t type;
    size_t room; /* bytes of memory, with guards, for up to bytes_max data bytes */
    size_t base; /* where in it the address of the transfer is */
};

static inline size_t rma_layout_size(uint64_t *random, size_t most)
{
    return 1 + test_random(random) % (1 + test_random(random) % most);
}

static inline void rma_layout_pieces(struct shape *shape, uint64_t *random, bool to_be_read)
{
    size_t i, pieces = 1 + test_random(random) % SHAPE_PIECES_MAX;
    size_t atom = (size_t)1 << test_random(random) % 4;
    size_t most = test_random(random) % 8 == 0 ? 3000 : 40;
    ptrdiff_t end = 0;

    memset(shape, 0, sizeof *shape);
    shape->atom = test_random(random) % 2 ? atom : 1;
    for (i = 0; i < pieces; i++) {
        shape->piece[i].bytes = atom * rma_layout_size(random, most);
        shape->piece[i].at = end + (ptrdiff_t)(test_random(random) % 3 * test_random(random) % 50);
        if (to_be_read && test_random(random) % 3 == 0)
            shape->piece[i].at = (ptrdiff_t)(test_random(random) % 200);
        if (shape->piece[i].at + (ptrdiff_t)shape->piece[i].bytes > end)
            end = shape->piece[i].at + (ptrdiff_t)shape->piece[i].bytes;
    }
    if (test_random(random) % 3 == 0) /* in another order */
        for (i = 0; i + 1 < pieces; i += 2) {
            size_t bytes = shape->piece[i].bytes;
            ptrdiff_t at = shape->piece[i].at;

            shape->piece[i] = shape->piece[i + 1];
            shape->piece[i + 1].bytes = bytes;
            shape->piece[i + 1].at = at;
        }
    shape->extent = end + (ptrdiff_t)(test_random(random) % 2 * test_random(random) % 30);
    if (to_be_read && test_random(random) % 3 == 0)
        shape->extent = (ptrdiff_t)(test_random(random) % 20); /* 0: the same bytes for ever */
}

/* A layout for up to `bytes` data bytes. */
static inline struct rma_layout rma_layout_random(uint64_t *random, bool to_be_read, size_t bytes)
{
    struct rma_layout layout;
    size_t repeats, span;

    rma_layout_pieces(&layout.shape, random, to_be_read);
    repeats = bytes / shape_bytes(&layout.shape) + 1;
    span = shape_room(&layout.shape, bytes);
    layout.base = RMA_GUARD + test_random(random) % 16;
    if (test_random(random) % 5 == 0) { /* downwards */
        layout.base += repeats * (size_t)layout.shape.extent;
        layout.shape.extent = -layout.shape.extent;
    }
    layout.room = layout.base + span + RMA_GUARD;
    layout.type = shape_type(&layout.shape);
    return layout;
}

/* Position in the layout's memory of a data byte. */
static inline size_t rma_layout_at(const struct rma_layout *layout, size_t x)
{
    return (size_t)((ptrdiff_t)layout->base + shape_at(&layout->shape, x));
}

/* One transfer: chosen by its seed, equally in the task that starts it and in the other one. */
struct rma_typed {
    struct rma_layout from, to;
    size_t bytes;
    size_t seed; /* of the source's content */
};

static inline struct rma_typed rma_typed_random(uint64_t seed, size_t most)
{
    uint64_t random = seed;
    struct rma_typed t;

    t.bytes = rma_layout_size(&random, most);
    if (test_random(&random) % 20 == 0)
        t.bytes = 0;
    t.from = rma_layout_random(&random, true, t.bytes);
    t.to = rma_layout_random(&random, false, t.bytes);
    t.seed = (size_t)seed;
    return t;
}

static inline void rma_typed_free(struct rma_typed *t)
{
    if (t->from.type != PAMI_TYPE_NULL)
        CHECK_OK(PAMI_Type_destroy(&t->from.type));
    if (t->to.type != PAMI_TYPE_NULL)
        CHECK_OK(PAMI_Type_destroy(&t->to.type));
}

/* The target holds what it must, data and gaps. */
static inline void rma_typed_verify(const struct rma_typed *t, const unsigned char *memory,
                                    uint64_t seed)
{
    unsigned char *expected = test_alloc(t->to.room);

    memset(expected, RMA_GUARD_BYTE, t->to.room);
    for (size_t x = 0; x < t->bytes; x++)
        expected[rma_layout_at(&t->to, x)] = test_byte(t->seed, rma_layout_at(&t->from, x));
    for (size_t i = 0; i < t->to.room; i++)
        if (memory[i] != expected[i])
            FAIL("seed %llu, %zu data bytes: byte %zu of the target is %02x instead of %02x",
                 (unsigned long long)seed, t->bytes, i, memory[i], expected[i]);
    free(expected);
}

/* Memory of the target for the i-th transfer: every third in the heap that its node shares. */
static inline unsigned char *rma_window(const struct job *job, size_t i, size_t bytes)
{
    void *shared;

    if (i % 3 != 2)
        return test_alloc(bytes);
    CHECK_OK(PAMIX_Mem_alloc(job->client, bytes, 0, PAMIX_MEM_LOCAL, &shared));
    return shared;
}

static inline void rma_window_free(const struct job *job, size_t i, unsigned char *window)
{
    if (i % 3 != 2)
        free(window);
    else
        CHECK_OK(PAMIX_Mem_free(job->client, window));
}

/* Some of the predefined types, as contiguous layouts. */
static inline size_t rma_predefined(size_t i, pami_type_t *type)
{
    const pami_type_t types[] = {PAMI_TYPE_BYTE,        PAMI_TYPE_SIGNED_SHORT,
                                 PAMI_TYPE_FLOAT,       PAMI_TYPE_DOUBLE,
                                 PAMI_TYPE_LONG_DOUBLE, PAMI_TYPE_LOC_DOUBLE_INT};
    const size_t bytes[] = {1, 2, 4, 8, sizeof(long double), 16};

    i %= sizeof bytes / sizeof bytes[0];
    *type = types[i];
    return bytes[i];
}

#endif /* LIBPAMI_API_RMA_LAYOUTS_H */
