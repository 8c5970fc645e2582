/*
 * A straightforward model of types for the tests: the displacement of every single data byte,
 * written down by following the definition. Random types are built side by side with their model.
 */
#ifndef LIBPAMI_TEST_TYPE_MODEL_H
#define LIBPAMI_TEST_TYPE_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "type/type.h"

/* Largest data size of a model, bytes. */
#define MODEL_MAX 6000

struct model {
    pami_type_t handle;
    size_t size;
    size_t extent;
    size_t *at; /* displacement of data byte i */
};

/* ---- random numbers: xorshift64* ---- */

static uint64_t random_state = 1;

static inline void random_seed(uint64_t seed)
{
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static inline uint64_t random_next(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Within low..high. */
static inline long random_range(long low, long high)
{
    return low + (long)(random_next() % (uint64_t)(high - low + 1));
}

static inline void random_fill(void *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)memory)[i] = (unsigned char)random_next();
}

/* ---- building ---- */

static inline void model_start(struct model *model)
{
    model->size = 0;
    model->extent = 0;
    model->at = malloc(MODEL_MAX * sizeof model->at[0]);
    assert_non_null(model->at);
    assert_int_equal(PAMI_Type_create(&model->handle), PAMI_SUCCESS);
}

static inline void model_simple(struct model *model, size_t bytes, size_t offset, size_t count,
                                size_t stride)
{
    assert_int_equal(PAMI_Type_add_simple(model->handle, bytes, offset, count, stride),
                     PAMI_SUCCESS);
    model->extent += offset;
    for (size_t k = 0; k < count; k++, model->extent += stride)
        for (size_t i = 0; i < bytes; i++)
            model->at[model->size++] = model->extent + i;
}

static inline void model_typed(struct model *model, const struct model *sub, size_t offset,
                               size_t count, size_t stride)
{
    assert_int_equal(PAMI_Type_add_typed(model->handle, sub->handle, offset, count, stride),
                     PAMI_SUCCESS);
    model->extent += offset;
    for (size_t k = 0; k < count; k++, model->extent += stride)
        for (size_t i = 0; i < sub->size; i++)
            model->at[model->size++] = model->extent + sub->at[i];
}

static inline void model_complete(struct model *model, size_t atom)
{
    assert_int_equal(PAMI_Type_complete(model->handle, atom), PAMI_SUCCESS);
}

/* A model of a predefined type of `bytes` bytes; its handle must not be destroyed. */
static inline void model_predefined(struct model *model, pami_type_t handle, size_t bytes)
{
    model->handle = handle;
    model->size = bytes;
    model->extent = bytes;
    model->at = malloc(bytes * sizeof model->at[0]);
    assert_non_null(model->at);
    for (size_t i = 0; i < bytes; i++)
        model->at[i] = i;
}

static inline void model_finish(struct model *model)
{
    struct type *type = type_from_handle(model->handle);

    if (type != NULL && !type->permanent)
        assert_int_equal(PAMI_Type_destroy(&model->handle), PAMI_SUCCESS);
    free(model->at);
}

/* Displacement of byte `n` of the endless stream. */
static inline size_t model_at(const struct model *model, size_t n)
{
    return n / model->size * model->extent + model->at[n % model->size];
}

/* ---- random types ---- */

static inline size_t random_stride(size_t bytes)
{
    switch (random_range(0, 6)) {
    case 0:
        return bytes;
    case 1:
    case 2:
    case 3:
    case 4:
        return bytes + (size_t)random_range(1, 40);
    case 5:
        return (size_t)random_range(-100, 100);
    default:
        return bytes * (size_t)random_range(-3, 3);
    }
}

/*
 * Add 1 to 6 random pieces, simple ones or of the given earlier models, all distances multiples of
 * `unit`; only == true: no simple ones. Stays below `limit` data bytes.
 */
static inline void model_random_adds(struct model *model, const struct model *pool, size_t pooled,
                                     size_t unit, bool only, size_t limit)
{
    for (long adds = random_range(1, 6); adds > 0; adds--) {
        size_t offset = (size_t)random_range(-64, 64) * unit;
        size_t count =
            (size_t)(random_range(0, 9) == 0 ? random_range(10, 40) : random_range(0, 5));

        if (!only && (pooled == 0 || random_range(0, 1) == 0)) {
            size_t bytes = (size_t)random_range(0, 40) * unit;

            if (random_range(0, 2) == 0)
                offset = 0;
            if (model->size + bytes * count <= limit)
                model_simple(model, bytes, offset, count, random_stride(bytes / unit) * unit);
        } else if (pooled > 0) {
            const struct model *sub = &pool[random_next() % pooled];

            if (model->size + sub->size * count <= limit)
                model_typed(
                    model, sub, offset, count,
                    random_stride(random_range(0, 1) ? sub->extent / unit : sub->size / unit) *
                        unit);
        }
    }
}

/* The range of addresses that `bytes` data bytes at `offset` touch, relative to the base. */
static inline void model_range(const struct model *model, size_t offset, size_t bytes, long *low,
                               long *high)
{
    *low = 0;
    *high = 0;
    for (size_t i = 0; i < bytes; i++) {
        long at = (long)model_at(model, offset + i);

        *low = at < *low ? at : *low;
        *high = at + 1 > *high ? at + 1 : *high;
    }
}

#endif
