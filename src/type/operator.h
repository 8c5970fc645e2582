/*
 * Element-wise operators: target := target o source for every predefined data function on every
 * kind of element it is defined for.
 *
 * An element kind is what a predefined type is made of; derived types keep the kind when they are
 * made of one kind only (TYPE_KIND_NONE otherwise). Predefined data functions are small integers
 * cast to function pointers; NULL is PAMI_DATA_COPY. Every other value is a function of the user.
 *
 * The same operands give the same bits on every processor (the payload of NaNs aside): loops exist
 * in variants for several instruction sets, but none may contract or reorder floating-point
 * operations.
 */
#ifndef LIBPAMI_TYPE_OPERATOR_H
#define LIBPAMI_TYPE_OPERATOR_H

#include <pami/pami.h>

#include <stdbool.h>

/* In the order of the PAMI_TYPE_* variables; serialized types carry these numbers. */
enum type_kind {
    TYPE_KIND_BYTE,
    TYPE_KIND_SIGNED_CHAR,
    TYPE_KIND_UNSIGNED_CHAR,
    TYPE_KIND_SIGNED_SHORT,
    TYPE_KIND_UNSIGNED_SHORT,
    TYPE_KIND_SIGNED_INT,
    TYPE_KIND_UNSIGNED_INT,
    TYPE_KIND_SIGNED_LONG,
    TYPE_KIND_UNSIGNED_LONG,
    TYPE_KIND_SIGNED_LONG_LONG,
    TYPE_KIND_UNSIGNED_LONG_LONG,
    TYPE_KIND_FLOAT,
    TYPE_KIND_DOUBLE,
    TYPE_KIND_LONG_DOUBLE,
    TYPE_KIND_LOGICAL1,
    TYPE_KIND_LOGICAL2,
    TYPE_KIND_LOGICAL4,
    TYPE_KIND_LOGICAL8,
    TYPE_KIND_SINGLE_COMPLEX,
    TYPE_KIND_DOUBLE_COMPLEX,
    TYPE_KIND_LOC_2INT,
    TYPE_KIND_LOC_2FLOAT,
    TYPE_KIND_LOC_2DOUBLE,
    TYPE_KIND_LOC_SHORT_INT,
    TYPE_KIND_LOC_FLOAT_INT,
    TYPE_KIND_LOC_DOUBLE_INT,
    TYPE_KIND_LOC_LONG_INT,
    TYPE_KIND_LOC_LONGDOUBLE_INT,
    TYPE_KIND_COUNT,
    TYPE_KIND_NONE = TYPE_KIND_COUNT
};

/* Values of the PAMI_DATA_* variables; part of the binary interface. */
enum operator_code {
    OPERATOR_COPY,
    OPERATOR_NOOP,
    OPERATOR_MAX,
    OPERATOR_MIN,
    OPERATOR_SUM,
    OPERATOR_PROD,
    OPERATOR_LAND,
    OPERATOR_LOR,
    OPERATOR_LXOR,
    OPERATOR_BAND,
    OPERATOR_BOR,
    OPERATOR_BXOR,
    OPERATOR_MAXLOC,
    OPERATOR_MINLOC,
    OPERATOR_COUNT
};

/* The code of a predefined data function; OPERATOR_COUNT for a function of the user. */
static inline enum operator_code operator_code(pami_data_function fn)
{
    uintptr_t value = (uintptr_t)fn;

    return value < OPERATOR_COUNT ? (enum operator_code)value : OPERATOR_COUNT;
}

static inline bool operator_is_copy(pami_data_function fn)
{
    return operator_code(fn) == OPERATOR_COPY;
}

static inline bool operator_is_user(pami_data_function fn)
{
    return operator_code(fn) == OPERATOR_COUNT;
}

/* Bytes of one element; 1 for TYPE_KIND_NONE. */
size_t type_kind_size(enum type_kind kind);

/* 0, or -EINVAL when the data function means nothing for the kind. Functions of the user always
 * do; COPY and NOOP do for every kind, TYPE_KIND_NONE included. */
int operator_check(pami_data_function fn, enum type_kind kind);

/*
 * Combine `bytes` bytes, a multiple of the element size, of contiguous elements. Neither buffer
 * needs any alignment; they may be equal, but not overlap otherwise. -EINVAL, and nothing
 * written, when the pair is not valid or fn is not predefined.
 */
int operator_apply(pami_data_function fn, enum type_kind kind, void *target, const void *source,
                   size_t bytes);

#endif
