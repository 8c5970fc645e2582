/*
 * Data layouts as the rest of the library sees them: types, cursors, pack and unpack, sinks.
 *
 * A struct type is what a pami_type_t handle stands for. Once complete it never changes and is
 * shared by reference counting; handles are looked up in a table, so that any value may be asked
 * about. A cursor walks the endless stream of data bytes that a type applied at a base address
 * describes; a sink receives a message in fragments of any length. Cursors and sinks live in the
 * caller's memory, allocate nothing (but see type_sink_init) and hold no reference: their user
 * keeps the type alive with type_ref and type_unref.
 *
 * Offsets and sizes count data bytes. Addresses are computed modulo 2^64, as the interface wants.
 */
#ifndef LIBPAMI_TYPE_TYPE_H
#define LIBPAMI_TYPE_TYPE_H

#include <pami/pami.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "type/operator.h"

struct layout;
struct run;

/* Largest atom that PAMI_Type_complete takes. */
#define TYPE_ATOM_MAX 128

/* No C type wants more. */
#define TYPE_ALIGN_MAX 16u

struct type {
    struct layout *layout; /* grows until completion, then shared and constant */
    size_t size;           /* data bytes of one instance; with extent, atom: valid when complete */
    size_t extent;         /* distance of two instances; the cursor while incomplete */
    unsigned atom;         /* 0: incomplete */
    enum type_kind kind;
    bool permanent; /* predefined: not counted, never freed */
    /* uniform: the whole stream is one strided sequence, piece k of `piece` bytes lies at
     * first + k * stride. flat: stride == piece, so that it is one contiguous area. */
    bool uniform;
    bool flat;
    bool apart; /* the stream is at no byte of memory twice; false: it may be */
    size_t first;
    size_t piece;
    size_t stride;
    atomic_size_t references;
    _Atomic(void *) serialized; /* made by the first PAMI_Type_serialize */
};

/* ---- identity ---- */

/* The type behind a handle, or NULL if the value is no live handle. Takes no reference. */
struct type *type_from_handle(pami_type_t handle);

static inline bool type_is_complete(const struct type *type)
{
    return type->atom != 0;
}

/* The type behind a handle if it is a complete one, else NULL. */
static inline struct type *type_complete_from_handle(pami_type_t handle)
{
    struct type *type = type_from_handle(handle);

    return type != NULL && type_is_complete(type) ? type : NULL;
}

/* Keep a type alive; returns it. Any thread that already has a right to the type. */
static inline struct type *type_ref(struct type *type)
{
    if (!type->permanent)
        atomic_fetch_add_explicit(&type->references, 1, memory_order_relaxed);
    return type;
}

/* Give a reference back; the last one frees the type. NULL is allowed. */
void type_unref(struct type *type);

static inline size_t type_data_size(const struct type *type)
{
    return type->size;
}

static inline size_t type_extent(const struct type *type)
{
    return type->extent;
}

static inline size_t type_atom(const struct type *type)
{
    return type->atom;
}

/* Whether what the atom may stand for may lie there: functions of the program take it for that. */
static inline bool type_is_aligned(const struct type *type, const void *address)
{
    unsigned align = type->atom & -type->atom;

    align = align < TYPE_ALIGN_MAX ? align : TYPE_ALIGN_MAX;
    return ((uintptr_t)address & (align - 1)) == 0;
}

static inline enum type_kind type_kind(const struct type *type)
{
    return type->kind;
}

/* True if data byte n of the stream lies at base + n. */
static inline bool type_is_contiguous(const struct type *type)
{
    return type->flat && type->first == 0;
}

/* 0, or -EINVAL when the data function means nothing for the kind of the type's elements. */
static inline int type_check_operator(const struct type *type, pami_data_function fn)
{
    return operator_check(fn, type->kind);
}

/*
 * 0, or -EINVAL when data_fn cannot be applied to `bytes` data bytes at `offset` of this type: no
 * such operator for the kind, an empty type, or an element (for a function of the user: an atom)
 * that would be split at either end.
 */
int type_check_transfer(const struct type *type, size_t offset, size_t bytes,
                        pami_data_function fn);

/* ---- cursor ---- */

/* Levels of nesting that are walked without searching again from the top. */
#define TYPE_CURSOR_FRAMES 4

struct type_frame {
    const struct layout *layout;
    const struct run *run;
    size_t left;      /* repetitions of `run` after the current one */
    uintptr_t origin; /* address of the layout */
    uintptr_t at;     /* address of the current repetition */
};

/*
 * Invariant: the next data byte is at `at` if left > 0; otherwise at the start of the next
 * repetition if reps > 0; otherwise where the frames lead.
 */
struct type_cursor {
    uintptr_t at;
    size_t left;  /* bytes of the current piece from `at` on */
    size_t reps;  /* pieces of the same run after the current one */
    size_t piece; /* bytes of each of them */
    size_t stride;
    const struct type *type;
    uintptr_t base; /* of the current instance */
    size_t end;     /* data bytes of the instance up to the end of the current run */
    unsigned depth; /* frames in use; the innermost is frames[depth - 1] */
    bool dropped;   /* outer levels did not fit */
    struct type_frame frames[TYPE_CURSOR_FRAMES];
};

/* Stand at data offset `offset` of a complete type applied at `base`. O(nesting * log(runs)). */
void type_cursor_init(struct type_cursor *cursor, const struct type *type, const void *base,
                      size_t offset);

/* Make left > 0. False if the type is empty. */
bool type_cursor_refill(struct type_cursor *cursor);

/* Step over `bytes` of the current piece. */
static inline void type_cursor_step(struct type_cursor *cursor, size_t bytes)
{
    cursor->at += bytes;
    cursor->left -= bytes;
}

/* The next contiguous piece, at most `max` bytes (max > 0), and step over it. 0: empty type. */
static inline size_t type_cursor_next(struct type_cursor *cursor, void **piece, size_t max)
{
    size_t bytes;

    if (cursor->left == 0 && !type_cursor_refill(cursor))
        return 0;
    bytes = cursor->left < max ? cursor->left : max;
    *piece = (void *)cursor->at;
    type_cursor_step(cursor, bytes);
    return bytes;
}

/* Where the next `bytes` (> 0) lie if they are in one piece, else NULL. Stays before them. */
static inline void *type_cursor_whole(struct type_cursor *cursor, size_t bytes)
{
    if (cursor->left == 0 && !type_cursor_refill(cursor))
        return NULL;
    return cursor->left < bytes ? NULL : (void *)cursor->at;
}

/* All that is to come lies `distance` further on, modulo 2^64. */
void type_cursor_shift(struct type_cursor *cursor, uintptr_t distance);

/* Whether the first `bytes` data bytes of both, applied at one base, lie at the same places. */
bool type_same_places(const struct type *one, const struct type *other, size_t bytes);

/* ---- moving data ---- */

/*
 * Move `bytes` data bytes from a cursor to contiguous memory, and step the cursor over them. fn
 * NULL or PAMI_DATA_COPY copies; PAMI_DATA_NOOP does nothing and leaves the cursor where it is;
 * other predefined functions combine elements; a function of the user is called per piece, with a
 * target that is type_is_aligned. Unless fn copies, `bytes` must be a multiple of the unit
 * (type_pack_unit), except in the last call of a transfer. Returns the bytes moved: fewer only when
 * the type is empty.
 */
size_t type_pack(void *target, struct type_cursor *source, size_t bytes, pami_data_function fn,
                 void *cookie);

/* Copy them the other way; a sink (below) is for what combines. Returns the bytes moved. */
size_t type_unpack(struct type_cursor *target, const void *source, size_t bytes);

/* Fragments of a transfer are multiples of this: 1 for copies, the element size for predefined
 * functions, lcm(atom, 128) for those of the user (the atom alone is enough for correctness). */
size_t type_pack_unit(const struct type *type, pami_data_function fn);

/* Copy `bytes` data bytes from one cursor to the other. Returns the bytes moved. */
size_t type_copy(struct type_cursor *target, struct type_cursor *source, size_t bytes);

/*
 * As PAMI_Type_transform_data, on complete types. 0, -EINVAL (see type_check_transfer; also when
 * the source type is empty) or -ENOMEM.
 */
int type_transform(const void *source, const struct type *source_type, size_t source_offset,
                   void *target, const struct type *target_type, size_t target_offset, size_t bytes,
                   pami_data_function fn, void *cookie);

/* ---- sink ---- */

/*
 * The receiving end of one message that arrives in order, in fragments of any length. Operators
 * never see part of an element and functions of the user never part of an atom: what a fragment
 * leaves incomplete is held until the next one. Within one contiguous run, calls of the user's
 * function are cut at multiples of lcm(atom, 128) bytes from where the run (or the message)
 * starts. The source of a call is type_is_aligned.
 */
struct type_sink {
    struct type_cursor cursor;
    pami_data_function fn;
    void *cookie;
    size_t left; /* bytes of the message still to come */
    size_t unit; /* cuts inside a run are multiples of this */
    size_t held; /* bytes in `hold`, less than one unit; they belong at cursor.at */
    unsigned char *hold;
    _Alignas(TYPE_ALIGN_MAX) unsigned char hold_inline[TYPE_ATOM_MAX];
};

/*
 * Prepare for a message of `total` bytes to data offset `offset` of `type` at `base`. -EINVAL as
 * type_check_transfer; -ENOMEM: an atom that is no power of two needs a larger hold, which is
 * the one thing allocated. After success, type_sink_finish must be called.
 */
int type_sink_init(struct type_sink *sink, const struct type *type, void *base, size_t offset,
                   size_t total, pami_data_function fn, void *cookie);

/* Take the next fragment. Returns the bytes accepted: `bytes`, or what the message still lacked.
 * After the last byte of the message everything has been delivered. */
size_t type_sink_write(struct type_sink *sink, const void *fragment, size_t bytes);

/* Release the sink, also half way through a message; what was held is dropped. Idempotent. */
void type_sink_finish(struct type_sink *sink);

/* ---- plain bytes ---- */

/* Bytes that type_serialize_into writes for a complete type. 0: out of memory. */
size_t type_serialized_size(const struct type *type);

/* Write a complete type into buffer[0..size-1], size from type_serialized_size. 0 or -ENOMEM. */
int type_serialize_into(const struct type *type, void *buffer, size_t size);

/*
 * *type = a complete type with one reference, independent of the bytes. Safe for any input: it
 * allocates no more than a small multiple of `size`. -EINVAL: not such bytes; -ENOMEM.
 */
int type_deserialize(const void *bytes, size_t size, struct type **type);

#endif
