/*
 * Data layouts in two forms: as a PAMI type, and as a plain list from which a test computes by
 * itself where each data byte lies.
 */
#ifndef LIBPAMI_API_SHAPES_H
#define LIBPAMI_API_SHAPES_H

#include "api_test.h"

#include <stddef.h>

enum {
    SHAPE_PIECES_MAX = 8
};

struct shape {
    const char *name;
    struct {
        size_t bytes;
        ptrdiff_t at;
    } piece[SHAPE_PIECES_MAX];
    ptrdiff_t extent;
    size_t atom;
};

/* Extents are such that instances follow each other upwards, the first piece at 0 or above. */
static const struct shape shapes[] = {
    {"contiguous", {{64, 0}}, 64, 8},
    {"one block in two", {{8, 0}}, 16, 8},
    {"odd blocks", {{24, 0}, {40, 64}, {8, 200}}, 256, 8},
    {"backwards", {{16, 96}, {16, 64}, {16, 32}, {16, 0}}, 128, 8},
    {"gap in front", {{8, 40}, {8, 16}}, 64, 8},
    {"single bytes", {{1, 0}, {1, 3}, {2, 5}, {4, 8}}, 13, 1},
    {"large blocks", {{4096, 0}, {4096, 5000}}, 10000, 128},
    {"more than a packet", {{24000, 0}, {8, 24016}}, 24032, 8},
    {"interleaved instances", {{8, 0}, {8, 36}}, 24, 4},
};

enum {
    SHAPES = sizeof shapes / sizeof shapes[0]
};

static inline size_t shape_pieces(const struct shape *shape)
{
    size_t i = 0;

    while (i < SHAPE_PIECES_MAX && shape->piece[i].bytes != 0)
        i++;
    return i;
}

static inline size_t shape_bytes(const struct shape *shape)
{
    size_t i, bytes = 0;

    for (i = 0; i < shape_pieces(shape); i++)
        bytes += shape->piece[i].bytes;
    return bytes;
}

/* Displacement of data byte number x of the endless stream. */
static inline ptrdiff_t shape_at(const struct shape *shape, size_t x)
{
    size_t i, size = shape_bytes(shape), within = x % size;

    for (i = 0; within >= shape->piece[i].bytes; i++)
        within -= shape->piece[i].bytes;
    return (ptrdiff_t)(x / size) * shape->extent + shape->piece[i].at + (ptrdiff_t)within;
}

/* Bytes of memory that the first `bytes` data bytes need. */
static inline size_t shape_room(const struct shape *shape, size_t bytes)
{
    ptrdiff_t room = 0, end;
    size_t i, instances = bytes / shape_bytes(shape) + 1;

    for (i = 0; i < shape_pieces(shape); i++) {
        end = shape->piece[i].at + (ptrdiff_t)shape->piece[i].bytes +
              (ptrdiff_t)instances * shape->extent;
        room = end > room ? end : room;
    }
    return (size_t)room;
}

/* The same as a type; piece by piece, moving the cursor forth and back. */
static inline pami_type_t shape_type(const struct shape *shape)
{
    pami_type_t type;
    ptrdiff_t cursor = 0;
    size_t i;

    CHECK_OK(PAMI_Type_create(&type));
    for (i = 0; i < shape_pieces(shape); i++) {
        CHECK_OK(PAMI_Type_add_simple(type, shape->piece[i].bytes,
                                      (size_t)(shape->piece[i].at - cursor), 1, 0));
        cursor = shape->piece[i].at;
    }
    CHECK_OK(PAMI_Type_add_simple(type, 0, (size_t)(shape->extent - cursor), 1, 0));
    CHECK_OK(PAMI_Type_complete(type, shape->atom));
    return type;
}

#endif /* LIBPAMI_API_SHAPES_H */
