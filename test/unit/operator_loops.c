/*
 * Every predefined data function on every kind, in every instruction set this processor has,
 * against one-element-at-a-time references: lengths 0 to 70, all misalignments, in place, and
 * nothing written outside. Also which pairs are valid, ties of pairs, signs, and logical results.
 *
 * Run: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "type/operator_table.h"
#include "type/type.h"

#define ELEMENTS 70
#define GUARD 32
#define ROOM ((ELEMENTS + 1) * 32 + 2 * GUARD)

static uint64_t random_state = 12345;

static uint64_t random_next(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

/* ---- one element of each kind: a value to draw, and the reference result ---- */

#define INTEGER(name, type, unsigned_type)                                                         \
    static void draw_##name(void *to)                                                              \
    {                                                                                              \
        static const unsigned_type special[] = {0, 1, 2, (unsigned_type)-1, (unsigned_type)-2};    \
        unsigned_type value = (unsigned_type)random_next();                                        \
        if (random_next() % 3 == 0)                                                                \
            value = special[random_next() % 5];                                                    \
        memcpy(to, &value, sizeof value);                                                          \
    }                                                                                              \
    static void refer_##name(enum operator_code code, void *target, const void *source)            \
    {                                                                                              \
        type t, s, r = 0;                                                                          \
        memcpy(&t, target, sizeof t);                                                              \
        memcpy(&s, source, sizeof s);                                                              \
        unsigned __int128 wide_t = (unsigned_type)t, wide_s = (unsigned_type)s;                    \
        if (code == OPERATOR_MAX)                                                                  \
            r = t < s ? s : t;                                                                     \
        else if (code == OPERATOR_MIN)                                                             \
            r = t > s ? s : t;                                                                     \
        else if (code == OPERATOR_SUM)                                                             \
            r = (type)(wide_t + wide_s);                                                           \
        else if (code == OPERATOR_PROD)                                                            \
            r = (type)(wide_t * wide_s);                                                           \
        else if (code == OPERATOR_LAND)                                                            \
            r = t && s;                                                                            \
        else if (code == OPERATOR_LOR)                                                             \
            r = t || s;                                                                            \
        else if (code == OPERATOR_LXOR)                                                            \
            r = !t != !s;                                                                          \
        else if (code == OPERATOR_BAND)                                                            \
            r = (type)(wide_t & wide_s);                                                           \
        else if (code == OPERATOR_BOR)                                                             \
            r = (type)(wide_t | wide_s);                                                           \
        else if (code == OPERATOR_BXOR)                                                            \
            r = (type)(wide_t ^ wide_s);                                                           \
        memcpy(target, &r, sizeof r);                                                              \
    }

#define FLOATING(name, type)                                                                       \
    static type draw_value_##name(void)                                                            \
    {                                                                                              \
        static const type special[] = {                                                            \
            0, -0.0f, 1, -1, (type)(1 / 3.0), (type)1e15, (type)-1e-15};                           \
        if (random_next() % 3 == 0)                                                                \
            return special[random_next() % 7];                                                     \
        return (type)((double)(int64_t)random_next() / (double)(1 + random_next() % 100000));      \
    }                                                                                              \
    static void draw_##name(void *to)                                                              \
    {                                                                                              \
        type value = draw_value_##name();                                                          \
        memcpy(to, &value, sizeof value);                                                          \
    }                                                                                              \
    static void refer_##name(enum operator_code code, void *target, const void *source)            \
    {                                                                                              \
        volatile type t, s, r = 0;                                                                 \
        memcpy((void *)&t, target, sizeof t);                                                      \
        memcpy((void *)&s, source, sizeof s);                                                      \
        if (code == OPERATOR_MAX)                                                                  \
            r = s > t ? s : t;                                                                     \
        else if (code == OPERATOR_MIN)                                                             \
            r = s < t ? s : t;                                                                     \
        else if (code == OPERATOR_SUM)                                                             \
            r = t + s;                                                                             \
        else if (code == OPERATOR_PROD)                                                            \
            r = t * s;                                                                             \
        memcpy(target, (void *)&r, sizeof r);                                                      \
    }

#define COMPLEX(name, type)                                                                        \
    static void draw_complex_##name(void *to)                                                      \
    {                                                                                              \
        draw_##name(to);                                                                           \
        draw_##name((char *)to + sizeof(type));                                                    \
    }                                                                                              \
    static void refer_complex_##name(enum operator_code code, void *target, const void *source)    \
    {                                                                                              \
        type t[2], s[2];                                                                           \
        volatile type a, b, r[2];                                                                  \
        memcpy(t, target, sizeof t);                                                               \
        memcpy(s, source, sizeof s);                                                               \
        if (code == OPERATOR_SUM) {                                                                \
            r[0] = t[0] + s[0];                                                                    \
            r[1] = t[1] + s[1];                                                                    \
        } else {                                                                                   \
            /* every step rounds by itself */                                                      \
            a = t[0] * s[0];                                                                       \
            b = t[1] * s[1];                                                                       \
            r[0] = a - b;                                                                          \
            a = t[0] * s[1];                                                                       \
            b = t[1] * s[0];                                                                       \
            r[1] = a + b;                                                                          \
        }                                                                                          \
        memcpy(target, (void *)r, sizeof r);                                                       \
    }

/* Few values and few indexes, so that ties are common. */
#define PAIR(name, value_type, index_type)                                                         \
    struct name {                                                                                  \
        value_type value;                                                                          \
        index_type index;                                                                          \
    };                                                                                             \
    static void draw_##name(void *to)                                                              \
    {                                                                                              \
        struct name pair;                                                                          \
        memset(&pair, 0, sizeof pair);                                                             \
        pair.value = (value_type)((int)(random_next() % 5) - 2);                                   \
        pair.index = (index_type)((int)(random_next() % 5) - 2);                                   \
        memcpy(to, &pair, sizeof pair);                                                            \
    }                                                                                              \
    static void refer_##name(enum operator_code code, void *target, const void *source)            \
    {                                                                                              \
        struct name t, s;                                                                          \
        memcpy(&t, target, sizeof t);                                                              \
        memcpy(&s, source, sizeof s);                                                              \
        if (t.value == s.value)                                                                    \
            t.index = s.index < t.index ? s.index : t.index;                                       \
        else if ((code == OPERATOR_MAXLOC) == (s.value > t.value))                                 \
            memcpy(&t, &s, sizeof t);                                                              \
        memcpy(target, &t, sizeof t);                                                              \
    }                                                                                              \
    static bool same_##name(const void *a, const void *b)                                          \
    {                                                                                              \
        struct name x, y;                                                                          \
        memcpy(&x, a, sizeof x);                                                                   \
        memcpy(&y, b, sizeof y);                                                                   \
        return x.value == y.value && x.index == y.index;                                           \
    }

INTEGER(int8, int8_t, uint8_t)
INTEGER(uint8, uint8_t, uint8_t)
INTEGER(int16, int16_t, uint16_t)
INTEGER(uint16, uint16_t, uint16_t)
INTEGER(int32, int32_t, uint32_t)
INTEGER(uint32, uint32_t, uint32_t)
INTEGER(int64, int64_t, uint64_t)
INTEGER(uint64, uint64_t, uint64_t)
FLOATING(float, float)
FLOATING(double, double)
FLOATING(longdouble, long double)
COMPLEX(float, float)
COMPLEX(double, double)
PAIR(int_int, int, int)
PAIR(float_float, float, float)
PAIR(double_double, double, double)
PAIR(short_int, short, int)
PAIR(float_int, float, int)
PAIR(double_int, double, int)
PAIR(long_int, long, int)
PAIR(longdouble_int, long double, int)

/* Classes of kinds, for the table of valid pairs. */
enum {
    INTEGERS = 1,
    FLOATS = 2,
    LOGICALS = 4,
    COMPLEXES = 8,
    PAIRS = 16
};

static const struct {
    int class;
    void (*draw)(void *to);
    void (*refer)(enum operator_code code, void *target, const void *source);
    bool (*same)(const void *a, const void *b); /* NULL: all bytes that mean something are */
} kinds[TYPE_KIND_COUNT] = {
    [TYPE_KIND_BYTE] = {INTEGERS, draw_uint8, refer_uint8, NULL},
    [TYPE_KIND_SIGNED_CHAR] = {INTEGERS, draw_int8, refer_int8, NULL},
    [TYPE_KIND_UNSIGNED_CHAR] = {INTEGERS, draw_uint8, refer_uint8, NULL},
    [TYPE_KIND_SIGNED_SHORT] = {INTEGERS, draw_int16, refer_int16, NULL},
    [TYPE_KIND_UNSIGNED_SHORT] = {INTEGERS, draw_uint16, refer_uint16, NULL},
    [TYPE_KIND_SIGNED_INT] = {INTEGERS, draw_int32, refer_int32, NULL},
    [TYPE_KIND_UNSIGNED_INT] = {INTEGERS, draw_uint32, refer_uint32, NULL},
    [TYPE_KIND_SIGNED_LONG] = {INTEGERS, draw_int64, refer_int64, NULL},
    [TYPE_KIND_UNSIGNED_LONG] = {INTEGERS, draw_uint64, refer_uint64, NULL},
    [TYPE_KIND_SIGNED_LONG_LONG] = {INTEGERS, draw_int64, refer_int64, NULL},
    [TYPE_KIND_UNSIGNED_LONG_LONG] = {INTEGERS, draw_uint64, refer_uint64, NULL},
    [TYPE_KIND_FLOAT] = {FLOATS, draw_float, refer_float, NULL},
    [TYPE_KIND_DOUBLE] = {FLOATS, draw_double, refer_double, NULL},
    [TYPE_KIND_LONG_DOUBLE] = {FLOATS, draw_longdouble, refer_longdouble, NULL},
    [TYPE_KIND_LOGICAL1] = {LOGICALS, draw_uint8, refer_uint8, NULL},
    [TYPE_KIND_LOGICAL2] = {LOGICALS, draw_uint16, refer_uint16, NULL},
    [TYPE_KIND_LOGICAL4] = {LOGICALS, draw_uint32, refer_uint32, NULL},
    [TYPE_KIND_LOGICAL8] = {LOGICALS, draw_uint64, refer_uint64, NULL},
    [TYPE_KIND_SINGLE_COMPLEX] = {COMPLEXES, draw_complex_float, refer_complex_float, NULL},
    [TYPE_KIND_DOUBLE_COMPLEX] = {COMPLEXES, draw_complex_double, refer_complex_double, NULL},
    [TYPE_KIND_LOC_2INT] = {PAIRS, draw_int_int, refer_int_int, same_int_int},
    [TYPE_KIND_LOC_2FLOAT] = {PAIRS, draw_float_float, refer_float_float, same_float_float},
    [TYPE_KIND_LOC_2DOUBLE] = {PAIRS, draw_double_double, refer_double_double, same_double_double},
    [TYPE_KIND_LOC_SHORT_INT] = {PAIRS, draw_short_int, refer_short_int, same_short_int},
    [TYPE_KIND_LOC_FLOAT_INT] = {PAIRS, draw_float_int, refer_float_int, same_float_int},
    [TYPE_KIND_LOC_DOUBLE_INT] = {PAIRS, draw_double_int, refer_double_int, same_double_int},
    [TYPE_KIND_LOC_LONG_INT] = {PAIRS, draw_long_int, refer_long_int, same_long_int},
    [TYPE_KIND_LOC_LONGDOUBLE_INT] = {PAIRS, draw_longdouble_int, refer_longdouble_int,
                                      same_longdouble_int},
};

static const int valid_classes[OPERATOR_COUNT] = {
    [OPERATOR_MAX] = INTEGERS | FLOATS,
    [OPERATOR_MIN] = INTEGERS | FLOATS,
    [OPERATOR_SUM] = INTEGERS | FLOATS | COMPLEXES,
    [OPERATOR_PROD] = INTEGERS | FLOATS | COMPLEXES,
    [OPERATOR_LAND] = INTEGERS | LOGICALS,
    [OPERATOR_LOR] = INTEGERS | LOGICALS,
    [OPERATOR_LXOR] = INTEGERS | LOGICALS,
    [OPERATOR_BAND] = INTEGERS,
    [OPERATOR_BOR] = INTEGERS,
    [OPERATOR_BXOR] = INTEGERS,
    [OPERATOR_MAXLOC] = PAIRS,
    [OPERATOR_MINLOC] = PAIRS,
};

/* x87 numbers fill 10 of their 16 bytes. */
static bool same(int kind, const void *a, const void *b)
{
    size_t bytes = type_kind_size((enum type_kind)kind);

    if (kinds[kind].same != NULL)
        return kinds[kind].same(a, b);
#if defined(__x86_64__)
    if (kind == TYPE_KIND_LONG_DOUBLE)
        bytes = 10;
#endif
    return memcmp(a, b, bytes) == 0;
}

/* The tables this processor can run. */
static size_t usable_tables(const struct operator_table **tables)
{
    size_t count = 0;

    tables[count++] = &operator_table_generic;
#ifdef OPERATOR_HAS_X86_TABLES
    if (__builtin_cpu_supports("avx2"))
        tables[count++] = &operator_table_avx2;
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        tables[count++] = &operator_table_avx512;
#endif
    return count;
}

static void check_loop(operator_loop *loop, enum operator_code code, int kind, size_t elements)
{
    static unsigned char target[ROOM];
    static unsigned char source[ROOM];
    static unsigned char expected[ROOM];
    size_t size = type_kind_size((enum type_kind)kind);
    size_t to = GUARD + random_next() % 16;
    size_t from = random_next() % 16;
    size_t end = to + elements * size;

    memset(target, 0xa5, sizeof target);
    for (size_t i = 0; i < elements; i++) {
        kinds[kind].draw(target + to + i * size);
        kinds[kind].draw(source + from + i * size);
    }
    memcpy(expected, target, sizeof target);
    for (size_t i = 0; i < elements; i++)
        kinds[kind].refer(code, expected + to + i * size, source + from + i * size);
    loop(target + to, source + from, elements);
    for (size_t i = 0; i < elements; i++)
        if (!same(kind, target + to + i * size, expected + to + i * size))
            fail_msg("operator %d, kind %d: element %zu of %zu is wrong", (int)code, kind, i,
                     elements);
    assert_memory_equal(target, expected, to);
    assert_memory_equal(target + end, expected + end, sizeof target - end);

    /* In place. */
    for (size_t i = 0; i < elements; i++)
        kinds[kind].draw(target + to + i * size);
    memcpy(expected, target, sizeof target);
    for (size_t i = 0; i < elements; i++)
        kinds[kind].refer(code, expected + to + i * size, expected + to + i * size);
    loop(target + to, target + to, elements);
    for (size_t i = 0; i < elements; i++)
        if (!same(kind, target + to + i * size, expected + to + i * size))
            fail_msg("operator %d, kind %d: in place, element %zu of %zu is wrong", (int)code, kind,
                     i, elements);
}

static void all_pairs(void **state)
{
    const struct operator_table *tables[3];
    size_t count = usable_tables(tables);
    int pairs = 0;

    (void)state;
    for (size_t table = 0; table < count; table++)
        for (int code = OPERATOR_MAX; code < OPERATOR_COUNT; code++)
            for (int kind = 0; kind < TYPE_KIND_COUNT; kind++) {
                operator_loop *loop = tables[table]->loop[code][kind];

                assert_int_equal(loop != NULL, (valid_classes[code] & kinds[kind].class) != 0);
                if (loop == NULL)
                    continue;
                pairs++;
                for (size_t elements = 0; elements <= ELEMENTS; elements++)
                    check_loop(loop, (enum operator_code)code, kind, elements);
            }
    assert_int_equal(pairs, (int)count * (2 * 14 + 2 * 16 + 3 * 15 + 3 * 11 + 2 * 8));
}

static void user(void *target, void *source, size_t bytes, void *cookie)
{
    (void)target;
    (void)source;
    (void)bytes;
    (void)cookie;
}

static void validity(void **state)
{
    char target[64] = {0};
    char source[64] = {1};

    (void)state;
    for (int code = 0; code < OPERATOR_COUNT; code++)
        for (int kind = 0; kind <= TYPE_KIND_NONE; kind++) {
            pami_data_function fn = (pami_data_function)(uintptr_t)code;
            bool valid = code <= OPERATOR_NOOP ||
                         (kind < TYPE_KIND_NONE && (valid_classes[code] & kinds[kind].class) != 0);

            assert_int_equal(operator_check(fn, (enum type_kind)kind) == 0, valid);
            assert_int_equal(operator_apply(fn, (enum type_kind)kind, target, source, 32) == 0,
                             valid);
        }
    assert_int_equal(operator_check(user, TYPE_KIND_NONE), 0);
    assert_true(operator_apply(user, TYPE_KIND_BYTE, target, source, 1) < 0);
    assert_true(operator_is_user(user) && !operator_is_user(PAMI_DATA_MINLOC));
    assert_true(operator_is_copy(NULL) && operator_is_copy(PAMI_DATA_COPY));
}

/* One element through the public names: target := target o source. */
#define EXPECT(type, fn, kind, target_value, source_value, result)                                 \
    do {                                                                                           \
        type target = (type)(target_value);                                                        \
        type source = (type)(source_value);                                                        \
        assert_int_equal(operator_apply(fn, kind, &target, &source, sizeof target), 0);            \
        assert_true(target == (type)(result));                                                     \
    } while (0)

static void by_hand(void **state)
{
    struct {
        double value;
        int index;
    } t = {1.5, 7}, s = {1.5, 3};

    (void)state;
    EXPECT(signed char, PAMI_DATA_MAX, TYPE_KIND_SIGNED_CHAR, -1, 1, 1);
    EXPECT(unsigned char, PAMI_DATA_MAX, TYPE_KIND_UNSIGNED_CHAR, 255, 1, 255);
    EXPECT(unsigned char, PAMI_DATA_MAX, TYPE_KIND_BYTE, 255, 1, 255);
    EXPECT(unsigned char, PAMI_DATA_SUM, TYPE_KIND_BYTE, 200, 100, 44);
    EXPECT(long, PAMI_DATA_MIN, TYPE_KIND_SIGNED_LONG, -5, 5, -5);
    EXPECT(unsigned long, PAMI_DATA_MIN, TYPE_KIND_UNSIGNED_LONG, -5, 5, 5);
    EXPECT(int, PAMI_DATA_LAND, TYPE_KIND_SIGNED_INT, 2, 4, 1);
    EXPECT(int, PAMI_DATA_LXOR, TYPE_KIND_SIGNED_INT, 2, 4, 0);
    EXPECT(uint64_t, PAMI_DATA_LOR, TYPE_KIND_LOGICAL8, 0, 1ull << 40, 1);
    EXPECT(int, PAMI_DATA_BXOR, TYPE_KIND_SIGNED_INT, 6, 5, 3);
    EXPECT(float, PAMI_DATA_PROD, TYPE_KIND_FLOAT, 1.5, -2, -3);
    EXPECT(long double, PAMI_DATA_SUM, TYPE_KIND_LONG_DOUBLE, 1, 0x1p-63L, 1 + 0x1p-63L);

    assert_int_equal(operator_apply(PAMI_DATA_MAXLOC, TYPE_KIND_LOC_DOUBLE_INT, &t, &s, 16), 0);
    assert_int_equal(t.index, 3);
    t.index = 1;
    assert_int_equal(operator_apply(PAMI_DATA_MINLOC, TYPE_KIND_LOC_DOUBLE_INT, &t, &s, 16), 0);
    assert_int_equal(t.index, 1);
    s.value = 1.25;
    assert_int_equal(operator_apply(PAMI_DATA_MAXLOC, TYPE_KIND_LOC_DOUBLE_INT, &t, &s, 16), 0);
    assert_int_equal(t.index, 1);
    assert_int_equal(operator_apply(PAMI_DATA_MINLOC, TYPE_KIND_LOC_DOUBLE_INT, &t, &s, 16), 0);
    assert_int_equal(t.index, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pairs),
        cmocka_unit_test(validity),
        cmocka_unit_test(by_hand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
