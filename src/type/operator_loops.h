/*
 * The loops behind the operators. Included once by each operator_<set>.c, which compiles the same
 * text for one instruction set:
 *   OPERATOR_TARGET   function attribute that selects the instructions, or nothing
 *   OPERATOR_UNFUSED  on x86-64, the most of it that does without fused multiply-adds, as a string
 *   OPERATOR_TABLE    name of the table to define
 * Without them it defines the table for the processor that everything is compiled for.
 *
 * Loops are plain, so that the compiler vectorises them. Elements are accessed through types of
 * alignment 1, because buffers need not be aligned. Integer sums and products are computed
 * unsigned: they wrap. There is no guard: this is a template.
 */
#include <stdint.h>

#include "type/operator_table.h"

#ifndef OPERATOR_TABLE
#define OPERATOR_TARGET
#define OPERATOR_UNFUSED "sse2"
#define OPERATOR_TABLE operator_table_generic
#endif

/* Contraction of a * b + c to one rounding would make the bits depend on the processor. */
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC push_options
#pragma GCC optimize("O3", "fp-contract=off")
#endif

/* gcc 12 forms fused instructions for complex numbers out of their products all the same, unless
 * the instructions are not there. */
#if defined(__x86_64__)
#define UNFUSED_TARGET __attribute__((target(OPERATOR_UNFUSED ",no-fma,no-fma4,no-avx512f")))
#elif defined(__aarch64__) && !defined(__clang__)
#define UNFUSED_TARGET __attribute__((target("arch=armv8-a")))
#else
#define UNFUSED_TARGET OPERATOR_TARGET
#endif

#define UNALIGNED __attribute__((aligned(1), may_alias))

typedef int8_t s8 UNALIGNED;
typedef uint8_t u8 UNALIGNED;
typedef int16_t s16 UNALIGNED;
typedef uint16_t u16 UNALIGNED;
typedef int32_t s32 UNALIGNED;
typedef uint32_t u32 UNALIGNED;
typedef int64_t s64 UNALIGNED;
typedef uint64_t u64 UNALIGNED;
typedef float f32 UNALIGNED;
typedef double f64 UNALIGNED;
typedef long double f80 UNALIGNED;

/* An element-wise loop; `expression` computes the new target from t and s. */
#define LOOP(name, element, expression)                                                            \
    OPERATOR_TARGET static void name(void *target, const void *source, size_t count)               \
    {                                                                                              \
        element *to = target;                                                                      \
        const element *from = source;                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            element t = to[i];                                                                     \
            element s = from[i];                                                                   \
            to[i] = (element)(expression);                                                         \
        }                                                                                          \
    }

#define ORDER_LOOPS(element)                                                                       \
    LOOP(max_##element, element, s > t ? s : t)                                                    \
    LOOP(min_##element, element, s < t ? s : t)

/* 1u * keeps short operands from being multiplied as signed int. */
#define UNSIGNED_LOOPS(element)                                                                    \
    LOOP(sum_##element, element, t + s)                                                            \
    LOOP(prod_##element, element, 1u * t * s)                                                      \
    LOOP(land_##element, element, (t != 0) & (s != 0))                                             \
    LOOP(lor_##element, element, (t != 0) | (s != 0))                                              \
    LOOP(lxor_##element, element, (t != 0) ^ (s != 0))                                             \
    LOOP(band_##element, element, t &s)                                                            \
    LOOP(bor_##element, element, t | s)                                                            \
    LOOP(bxor_##element, element, t ^ s)

#define FLOAT_LOOPS(element)                                                                       \
    ORDER_LOOPS(element)                                                                           \
    LOOP(sum_##element, element, t + s)                                                            \
    LOOP(prod_##element, element, t *s)

ORDER_LOOPS(s8)
ORDER_LOOPS(u8)
ORDER_LOOPS(s16)
ORDER_LOOPS(u16)
ORDER_LOOPS(s32)
ORDER_LOOPS(u32)
ORDER_LOOPS(s64)
ORDER_LOOPS(u64)
UNSIGNED_LOOPS(u8)
UNSIGNED_LOOPS(u16)
UNSIGNED_LOOPS(u32)
UNSIGNED_LOOPS(u64)
FLOAT_LOOPS(f32)
FLOAT_LOOPS(f64)
FLOAT_LOOPS(f80)

/* The textbook product, without the special cases for infinities of the C operator. */
#define COMPLEX_LOOPS(part)                                                                        \
    OPERATOR_TARGET static void sum_complex_##part(void *target, const void *source, size_t count) \
    {                                                                                              \
        sum_##part(target, source, 2 * count);                                                     \
    }                                                                                              \
    UNFUSED_TARGET static void prod_complex_##part(void *target, const void *source, size_t count) \
    {                                                                                              \
        part *to = target;                                                                         \
        const part *from = source;                                                                 \
        for (size_t i = 0; i < 2 * count; i += 2) {                                                \
            part re = to[i] * from[i] - to[i + 1] * from[i + 1];                                   \
            part im = to[i] * from[i + 1] + to[i + 1] * from[i];                                   \
            to[i] = re;                                                                            \
            to[i + 1] = im;                                                                        \
        }                                                                                          \
    }

COMPLEX_LOOPS(f32)
COMPLEX_LOOPS(f64)

/* Of equal values the smaller index wins. Padding of the target is left as it is. */
#define LOC_LOOP(name, pair, comparison)                                                           \
    OPERATOR_TARGET static void name##_##pair(void *target, const void *source, size_t count)      \
    {                                                                                              \
        pair *to = target;                                                                         \
        const pair *from = source;                                                                 \
        for (size_t i = 0; i < count; i++) {                                                       \
            pair t = to[i];                                                                        \
            pair s = from[i];                                                                      \
            int wins = s.value comparison t.value;                                                 \
            int ties = s.value == t.value && s.index < t.index;                                    \
            to[i].value = wins || ties ? s.value : t.value;                                        \
            to[i].index = wins || ties ? s.index : t.index;                                        \
        }                                                                                          \
    }

#define LOC_LOOPS(pair, value_type, index_type)                                                    \
    struct pair##_aligned {                                                                        \
        value_type value;                                                                          \
        index_type index;                                                                          \
    } __attribute__((may_alias));                                                                  \
    typedef struct pair##_aligned pair __attribute__((aligned(1)));                                \
    LOC_LOOP(maxloc, pair, >)                                                                      \
    LOC_LOOP(minloc, pair, <)

LOC_LOOPS(int_int, int, int)
LOC_LOOPS(float_float, float, float)
LOC_LOOPS(double_double, double, double)
LOC_LOOPS(short_int, short, int)
LOC_LOOPS(float_int, float, int)
LOC_LOOPS(double_int, double, int)
LOC_LOOPS(long_int, long, int)
LOC_LOOPS(longdouble_int, long double, int)

/* ---- the table ---- */

_Static_assert(sizeof(long) == 8 && sizeof(int) == 4 && sizeof(short) == 2, "LP64");

/* Rows of the table, for operators that do and do not care about signs. */
#define BY_SIGN(op)                                                                                \
    [TYPE_KIND_BYTE] = op##_u8, [TYPE_KIND_SIGNED_CHAR] = op##_s8,                                 \
    [TYPE_KIND_UNSIGNED_CHAR] = op##_u8, [TYPE_KIND_SIGNED_SHORT] = op##_s16,                      \
    [TYPE_KIND_UNSIGNED_SHORT] = op##_u16, [TYPE_KIND_SIGNED_INT] = op##_s32,                      \
    [TYPE_KIND_UNSIGNED_INT] = op##_u32, [TYPE_KIND_SIGNED_LONG] = op##_s64,                       \
    [TYPE_KIND_UNSIGNED_LONG] = op##_u64, [TYPE_KIND_SIGNED_LONG_LONG] = op##_s64,                 \
    [TYPE_KIND_UNSIGNED_LONG_LONG] = op##_u64

#define BY_WIDTH(op)                                                                               \
    [TYPE_KIND_BYTE] = op##_u8, [TYPE_KIND_SIGNED_CHAR] = op##_u8,                                 \
    [TYPE_KIND_UNSIGNED_CHAR] = op##_u8, [TYPE_KIND_SIGNED_SHORT] = op##_u16,                      \
    [TYPE_KIND_UNSIGNED_SHORT] = op##_u16, [TYPE_KIND_SIGNED_INT] = op##_u32,                      \
    [TYPE_KIND_UNSIGNED_INT] = op##_u32, [TYPE_KIND_SIGNED_LONG] = op##_u64,                       \
    [TYPE_KIND_UNSIGNED_LONG] = op##_u64, [TYPE_KIND_SIGNED_LONG_LONG] = op##_u64,                 \
    [TYPE_KIND_UNSIGNED_LONG_LONG] = op##_u64

#define FLOATS(op)                                                                                 \
    [TYPE_KIND_FLOAT] = op##_f32, [TYPE_KIND_DOUBLE] = op##_f64, [TYPE_KIND_LONG_DOUBLE] = op##_f80

#define COMPLEX(op)                                                                                \
    [TYPE_KIND_SINGLE_COMPLEX] = op##_complex_f32, [TYPE_KIND_DOUBLE_COMPLEX] = op##_complex_f64

#define LOGICALS(op)                                                                               \
    [TYPE_KIND_LOGICAL1] = op##_u8, [TYPE_KIND_LOGICAL2] = op##_u16,                               \
    [TYPE_KIND_LOGICAL4] = op##_u32, [TYPE_KIND_LOGICAL8] = op##_u64

#define PAIRS(op)                                                                                  \
    [TYPE_KIND_LOC_2INT] = op##_int_int, [TYPE_KIND_LOC_2FLOAT] = op##_float_float,                \
    [TYPE_KIND_LOC_2DOUBLE] = op##_double_double, [TYPE_KIND_LOC_SHORT_INT] = op##_short_int,      \
    [TYPE_KIND_LOC_FLOAT_INT] = op##_float_int, [TYPE_KIND_LOC_DOUBLE_INT] = op##_double_int,      \
    [TYPE_KIND_LOC_LONG_INT] = op##_long_int, [TYPE_KIND_LOC_LONGDOUBLE_INT] = op##_longdouble_int

const struct operator_table OPERATOR_TABLE = {
    .loop = {
        [OPERATOR_MAX] = {BY_SIGN(max), FLOATS(max)},
        [OPERATOR_MIN] = {BY_SIGN(min), FLOATS(min)},
        [OPERATOR_SUM] = {BY_WIDTH(sum), FLOATS(sum), COMPLEX(sum)},
        [OPERATOR_PROD] = {BY_WIDTH(prod), FLOATS(prod), COMPLEX(prod)},
        [OPERATOR_LAND] = {BY_WIDTH(land), LOGICALS(land)},
        [OPERATOR_LOR] = {BY_WIDTH(lor), LOGICALS(lor)},
        [OPERATOR_LXOR] = {BY_WIDTH(lxor), LOGICALS(lxor)},
        [OPERATOR_BAND] = {BY_WIDTH(band)},
        [OPERATOR_BOR] = {BY_WIDTH(bor)},
        [OPERATOR_BXOR] = {BY_WIDTH(bxor)},
        [OPERATOR_MAXLOC] = {PAIRS(maxloc)},
        [OPERATOR_MINLOC] = {PAIRS(minloc)},
    }};

#if !defined(__clang__)
#pragma GCC pop_options
#endif
