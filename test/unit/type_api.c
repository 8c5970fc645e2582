/*
 * The public calls on types: predefined types and their attributes, building, every error, handles
 * that are not live, and what transforms refuse.
 *
 * Run: timeout=20
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "type/type.h"

extern pami_type_t PAMI_TYPE_LOGICAL;

#define SIZE_OF_PAIR(first, second)                                                                \
    sizeof(struct {                                                                                \
        first value;                                                                               \
        second index;                                                                              \
    })

/* Addresses of the variables, and the sizes of the C types they stand for. */
static const struct {
    pami_type_t *type;
    size_t size;
} predefined[TYPE_KIND_COUNT] = {
    [TYPE_KIND_BYTE] = {&PAMI_TYPE_BYTE, 1},
    [TYPE_KIND_SIGNED_CHAR] = {&PAMI_TYPE_SIGNED_CHAR, 1},
    [TYPE_KIND_UNSIGNED_CHAR] = {&PAMI_TYPE_UNSIGNED_CHAR, 1},
    [TYPE_KIND_SIGNED_SHORT] = {&PAMI_TYPE_SIGNED_SHORT, 2},
    [TYPE_KIND_UNSIGNED_SHORT] = {&PAMI_TYPE_UNSIGNED_SHORT, 2},
    [TYPE_KIND_SIGNED_INT] = {&PAMI_TYPE_SIGNED_INT, 4},
    [TYPE_KIND_UNSIGNED_INT] = {&PAMI_TYPE_UNSIGNED_INT, 4},
    [TYPE_KIND_SIGNED_LONG] = {&PAMI_TYPE_SIGNED_LONG, sizeof(long)},
    [TYPE_KIND_UNSIGNED_LONG] = {&PAMI_TYPE_UNSIGNED_LONG, sizeof(long)},
    [TYPE_KIND_SIGNED_LONG_LONG] = {&PAMI_TYPE_SIGNED_LONG_LONG, 8},
    [TYPE_KIND_UNSIGNED_LONG_LONG] = {&PAMI_TYPE_UNSIGNED_LONG_LONG, 8},
    [TYPE_KIND_FLOAT] = {&PAMI_TYPE_FLOAT, 4},
    [TYPE_KIND_DOUBLE] = {&PAMI_TYPE_DOUBLE, 8},
    [TYPE_KIND_LONG_DOUBLE] = {&PAMI_TYPE_LONG_DOUBLE, sizeof(long double)},
    [TYPE_KIND_LOGICAL1] = {&PAMI_TYPE_LOGICAL1, 1},
    [TYPE_KIND_LOGICAL2] = {&PAMI_TYPE_LOGICAL2, 2},
    [TYPE_KIND_LOGICAL4] = {&PAMI_TYPE_LOGICAL4, 4},
    [TYPE_KIND_LOGICAL8] = {&PAMI_TYPE_LOGICAL8, 8},
    [TYPE_KIND_SINGLE_COMPLEX] = {&PAMI_TYPE_SINGLE_COMPLEX, 8},
    [TYPE_KIND_DOUBLE_COMPLEX] = {&PAMI_TYPE_DOUBLE_COMPLEX, 16},
    [TYPE_KIND_LOC_2INT] = {&PAMI_TYPE_LOC_2INT, 8},
    [TYPE_KIND_LOC_2FLOAT] = {&PAMI_TYPE_LOC_2FLOAT, 8},
    [TYPE_KIND_LOC_2DOUBLE] = {&PAMI_TYPE_LOC_2DOUBLE, 16},
    [TYPE_KIND_LOC_SHORT_INT] = {&PAMI_TYPE_LOC_SHORT_INT, 8},
    [TYPE_KIND_LOC_FLOAT_INT] = {&PAMI_TYPE_LOC_FLOAT_INT, 8},
    [TYPE_KIND_LOC_DOUBLE_INT] = {&PAMI_TYPE_LOC_DOUBLE_INT, 16},
    [TYPE_KIND_LOC_LONG_INT] = {&PAMI_TYPE_LOC_LONG_INT, SIZE_OF_PAIR(long, int)},
    [TYPE_KIND_LOC_LONGDOUBLE_INT] = {&PAMI_TYPE_LOC_LONGDOUBLE_INT,
                                      SIZE_OF_PAIR(long double, int)},
};

/* Every failure must leave a text that names the call; `what` is part of it. */
static void expect_invalid(pami_result_t result, const char *what)
{
    char text[200];

    assert_int_equal(result, PAMI_INVAL);
    assert_true(PAMI_Error_text(text, sizeof text) > 0);
    assert_non_null(strstr(text, what));
}

static size_t query(pami_type_t type, pami_attribute_name_t name)
{
    pami_configuration_t configuration = {.name = name};

    assert_int_equal(PAMI_Type_query(type, &configuration, 1), PAMI_SUCCESS);
    return configuration.value.intval;
}

static pami_type_t simple(size_t bytes, size_t offset, size_t count, size_t stride, size_t atom)
{
    pami_type_t type;

    assert_int_equal(PAMI_Type_create(&type), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_add_simple(type, bytes, offset, count, stride), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_complete(type, atom), PAMI_SUCCESS);
    return type;
}

static void constants(void **state)
{
    pami_data_function functions[] = {
        PAMI_DATA_COPY, PAMI_DATA_NOOP, PAMI_DATA_MAX,    PAMI_DATA_MIN,    PAMI_DATA_SUM,
        PAMI_DATA_PROD, PAMI_DATA_LAND, PAMI_DATA_LOR,    PAMI_DATA_LXOR,   PAMI_DATA_BAND,
        PAMI_DATA_BOR,  PAMI_DATA_BXOR, PAMI_DATA_MAXLOC, PAMI_DATA_MINLOC,
    };

    (void)state;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        assert_int_equal((uintptr_t)functions[i], i);
    assert_null(PAMI_CLIENT_NULL);
    assert_null(PAMI_CONTEXT_NULL);
    assert_null(PAMI_GEOMETRY_NULL);
    assert_null(PAMI_TYPE_NULL);
    assert_int_equal(PAMI_ALGORITHM_NULL, 0);
    assert_int_equal(PAMI_ENDPOINT_NULL, UINT32_MAX);
    assert_true(PAMI_ALL_CONTEXTS == SIZE_MAX);
    assert_ptr_equal(PAMI_TYPE_LOGICAL, PAMI_TYPE_LOGICAL4);
}

static void predefined_types(void **state)
{
    (void)state;
    for (int kind = 0; kind < TYPE_KIND_COUNT; kind++) {
        pami_type_t handle = *predefined[kind].type;
        size_t size = predefined[kind].size;
        struct type *type = type_from_handle(handle);

        assert_int_equal(query(handle, PAMI_TYPE_DATA_SIZE), size);
        assert_int_equal(query(handle, PAMI_TYPE_DATA_EXTENT), size);
        assert_int_equal(query(handle, PAMI_TYPE_ATOM_SIZE), size);
        assert_true(type_is_contiguous(type));
        assert_int_equal(type_kind(type), kind);
        for (int other = 0; other < kind; other++)
            assert_ptr_not_equal(handle, *predefined[other].type);

        /* Untouchable. */
        expect_invalid(PAMI_Type_destroy(predefined[kind].type), "PAMI_Type_destroy");
        assert_ptr_equal(*predefined[kind].type, handle);
        expect_invalid(PAMI_Type_add_simple(handle, 1, 0, 1, 1), "complete already");
        expect_invalid(PAMI_Type_complete(handle, 1), "complete already");
        assert_ptr_equal(type_ref(type), type);
        type_unref(type);
        type_unref(type);
        assert_ptr_equal(type_from_handle(handle), type);
    }
}

static void queries(void **state)
{
    pami_type_t type = simple(12, 4, 3, (size_t)-20, 4);
    pami_configuration_t configurations[] = {
        {.name = PAMI_TYPE_ATOM_SIZE},
        {.name = PAMI_CLIENT_TASK_ID},
        {.name = PAMI_TYPE_DATA_SIZE},
    };

    (void)state;
    assert_int_equal(query(type, PAMI_TYPE_DATA_SIZE), 36);
    assert_int_equal((intptr_t)query(type, PAMI_TYPE_DATA_EXTENT), 4 - 60);
    assert_int_equal(query(type, PAMI_TYPE_ATOM_SIZE), 4);
    expect_invalid(PAMI_Type_query(type, configurations, 3),
                   "configuration[1].name: attribute 110 ");
    assert_int_equal(configurations[0].value.intval, 4);
    assert_int_equal(configurations[2].value.intval, 36);
    assert_int_equal(PAMI_Type_query(type, NULL, 0), PAMI_SUCCESS);
    expect_invalid(PAMI_Type_query(type, NULL, 1), "configuration");
    assert_int_equal(PAMI_Type_destroy(&type), PAMI_SUCCESS);
}

static void incomplete_types(void **state)
{
    pami_configuration_t configuration = {.name = PAMI_TYPE_DATA_SIZE};
    pami_type_t open;
    pami_type_t parent;
    void *address = &configuration;
    size_t size = 99;
    char a[16] = {0};

    (void)state;
    assert_int_equal(PAMI_Type_create(&open), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_create(&parent), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_add_simple(open, 4, 0, 1, 4), PAMI_SUCCESS);
    expect_invalid(PAMI_Type_query(open, &configuration, 1), "not a complete type");
    expect_invalid(PAMI_Type_query(open, NULL, 0), "not a complete type");
    expect_invalid(PAMI_Type_serialize(open, &address, &size), "not a complete type");
    assert_ptr_equal(address, &configuration);
    assert_int_equal(size, 99);
    expect_invalid(PAMI_Type_add_typed(parent, open, 0, 1, 4), "subtype");
    expect_invalid(PAMI_Type_add_typed(open, open, 0, 1, 4), "subtype");
    expect_invalid(PAMI_Type_transform_data(a, open, 0, a + 8, PAMI_TYPE_BYTE, 0, 4, NULL, NULL),
                   "src_type");
    expect_invalid(PAMI_Type_transform_data(a, PAMI_TYPE_BYTE, 0, a + 8, open, 0, 4, NULL, NULL),
                   "dst_type");
    assert_int_equal(PAMI_Type_destroy(&open), PAMI_SUCCESS);
    assert_null(open);
    assert_int_equal(PAMI_Type_destroy(&parent), PAMI_SUCCESS);
}

static void completion(void **state)
{
    static const struct {
        size_t bytes, count, stride, atom;
        pami_result_t result;
    } rows[] = {
        {12, 1, 12, 0, PAMI_INVAL},     {12, 1, 12, 1, PAMI_SUCCESS},
        {12, 1, 12, 4, PAMI_SUCCESS},   {12, 1, 12, 5, PAMI_INVAL},
        {12, 1, 12, 8, PAMI_INVAL},     {12, 1, 12, 12, PAMI_SUCCESS},
        {12, 1, 12, 24, PAMI_INVAL},    {12, 4, 20, 24, PAMI_INVAL},
        {12, 4, 20, 6, PAMI_SUCCESS},   {256, 1, 256, 128, PAMI_SUCCESS},
        {256, 1, 256, 256, PAMI_INVAL}, {258, 1, 1, 129, PAMI_INVAL},
        {0, 1, 1, 128, PAMI_SUCCESS},   {0, 1, 1, 129, PAMI_INVAL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pami_type_t type;

        assert_int_equal(PAMI_Type_create(&type), PAMI_SUCCESS);
        PAMI_Type_add_simple(type, rows[i].bytes, 0, rows[i].count, rows[i].stride);
        assert_int_equal(PAMI_Type_complete(type, rows[i].atom), rows[i].result);
        if (rows[i].result == PAMI_INVAL)
            assert_int_equal(PAMI_Type_complete(type, 1), PAMI_SUCCESS);
        expect_invalid(PAMI_Type_complete(type, 1), "complete already");
        expect_invalid(PAMI_Type_add_simple(type, 1, 0, 1, 1), "complete already");
        expect_invalid(PAMI_Type_add_typed(type, PAMI_TYPE_BYTE, 0, 1, 1), "complete already");
        assert_int_equal(PAMI_Type_destroy(&type), PAMI_SUCCESS);
    }
}

static void moving_the_cursor(void **state)
{
    pami_type_t type;

    (void)state;
    assert_int_equal(PAMI_Type_create(&type), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_add_simple(type, 0, 8, 3, 100), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_add_simple(type, 50, (size_t)-4, 0, 100), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_add_typed(type, PAMI_TYPE_DOUBLE, 1, 0, 100), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_add_typed(type, PAMI_TYPE_DOUBLE, 1, 1, 10), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_complete(type, 8), PAMI_SUCCESS);
    assert_int_equal(query(type, PAMI_TYPE_DATA_SIZE), 8);
    assert_int_equal(query(type, PAMI_TYPE_DATA_EXTENT), 8 + 300 - 4 + 1 + 1 + 10);
    /* Places that hold no data do not make the type lose its kind. */
    assert_int_equal(type_kind(type_from_handle(type)), TYPE_KIND_DOUBLE);
    assert_int_equal(PAMI_Type_destroy(&type), PAMI_SUCCESS);
}

static void kinds(void **state)
{
    pami_type_t doubles;
    pami_type_t nested;
    pami_type_t mixed;

    (void)state;
    PAMI_Type_create(&doubles);
    PAMI_Type_add_typed(doubles, PAMI_TYPE_DOUBLE, 0, 3, 24);
    PAMI_Type_complete(doubles, 1);
    PAMI_Type_create(&nested);
    PAMI_Type_add_typed(nested, doubles, 0, 3, 100);
    PAMI_Type_add_typed(nested, PAMI_TYPE_DOUBLE, 0, 1, 8);
    PAMI_Type_complete(nested, 8);
    assert_int_equal(type_kind(type_from_handle(nested)), TYPE_KIND_DOUBLE);
    assert_int_equal(type_check_operator(type_from_handle(nested), PAMI_DATA_SUM), 0);

    PAMI_Type_create(&mixed);
    PAMI_Type_add_typed(mixed, nested, 0, 1, 8);
    PAMI_Type_add_typed(mixed, PAMI_TYPE_FLOAT, 0, 1, 8);
    PAMI_Type_add_typed(mixed, PAMI_TYPE_DOUBLE, 0, 1, 8);
    PAMI_Type_complete(mixed, 1);
    assert_int_equal(type_kind(type_from_handle(mixed)), TYPE_KIND_NONE);
    assert_true(type_check_operator(type_from_handle(mixed), PAMI_DATA_SUM) < 0);
    assert_int_equal(type_check_operator(type_from_handle(mixed), PAMI_DATA_NOOP), 0);
    PAMI_Type_destroy(&mixed);

    PAMI_Type_create(&mixed);
    PAMI_Type_add_typed(mixed, nested, 0, 1, 8);
    PAMI_Type_add_simple(mixed, 8, 0, 1, 8);
    PAMI_Type_complete(mixed, 8);
    assert_int_equal(type_kind(type_from_handle(mixed)), TYPE_KIND_NONE);
    PAMI_Type_destroy(&mixed);

    PAMI_Type_create(&mixed);
    PAMI_Type_add_simple(mixed, 8, 0, 1, 8);
    PAMI_Type_add_typed(mixed, PAMI_TYPE_DOUBLE, 0, 1, 8);
    PAMI_Type_complete(mixed, 8);
    assert_int_equal(type_kind(type_from_handle(mixed)), TYPE_KIND_NONE);
    PAMI_Type_destroy(&mixed);
    PAMI_Type_destroy(&nested);
    PAMI_Type_destroy(&doubles);
}

/* Values that are no handles, and handles that are no longer live. */
static void dead_handles(void **state)
{
    pami_type_t dead = simple(4, 0, 1, 4, 4);
    pami_type_t copy = dead;
    pami_type_t garbage[16];
    size_t count = 0;
    char a[8] = {0};

    (void)state;
    assert_int_equal(PAMI_Type_destroy(&dead), PAMI_SUCCESS);
    garbage[count++] = copy;
    garbage[count++] = NULL;
    garbage[count++] = a;
    garbage[count++] = &garbage;
    garbage[count++] = (void *)1;
    garbage[count++] = (void *)-1;
    garbage[count++] = (void *)9;
    garbage[count++] = (void *)UINTPTR_MAX;
    garbage[count++] = (void *)(uintptr_t)0x5555555555555559;
    garbage[count++] = (char *)PAMI_TYPE_BYTE + ((size_t)1 << 28);
    garbage[count++] = (char *)PAMI_TYPE_BYTE - ((size_t)1 << 28);
    for (size_t i = 0; i < count; i++) {
        pami_type_t handle = garbage[i];
        pami_type_t open;

        assert_null(type_from_handle(handle));
        expect_invalid(PAMI_Type_destroy(&handle), "not a type");
        assert_ptr_equal(handle, garbage[i]);
        expect_invalid(PAMI_Type_add_simple(handle, 1, 0, 1, 1), "not a type");
        expect_invalid(PAMI_Type_add_typed(handle, PAMI_TYPE_BYTE, 0, 1, 1), "not a type");
        expect_invalid(PAMI_Type_complete(handle, 1), "not a type");
        expect_invalid(PAMI_Type_query(handle, NULL, 0), "type");
        expect_invalid(PAMI_Type_transform_data(a, handle, 0, a, PAMI_TYPE_BYTE, 0, 0, NULL, NULL),
                       "src_type");
        PAMI_Type_create(&open);
        if (open != copy)
            expect_invalid(PAMI_Type_add_typed(open, handle, 0, 1, 1), "subtype");
        PAMI_Type_destroy(&open);
    }
    expect_invalid(PAMI_Type_destroy(NULL), "PAMI_Type_destroy");
    expect_invalid(PAMI_Type_create(NULL), "PAMI_Type_create");
}

/* A slot that is used again gives another handle: old copies stay dead. */
static void handles_are_not_reused(void **state)
{
    pami_type_t old[300];
    pami_type_t fresh;

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 300; i++)
            old[i] = simple(4, 0, 1, 4, 4);
        for (int i = 0; i < 300; i++) {
            pami_type_t copy = old[i];

            assert_non_null(type_from_handle(copy));
            assert_int_equal(PAMI_Type_destroy(&copy), PAMI_SUCCESS);
        }
        fresh = simple(4, 0, 1, 4, 4);
        for (int i = 0; i < 300; i++)
            assert_null(type_from_handle(old[i]));
        assert_int_equal(PAMI_Type_destroy(&fresh), PAMI_SUCCESS);
    }
}

/* Destroying a type does not disturb who holds a reference, nor types made of it. */
static void references(void **state)
{
    pami_type_t part = simple(4, 0, 40, 9, 4);
    pami_type_t whole;
    struct type *kept = type_ref(type_from_handle(part));
    struct type_cursor cursor;
    void *piece;

    (void)state;
    PAMI_Type_create(&whole);
    PAMI_Type_add_typed(whole, part, 0, 40, 1000);
    PAMI_Type_destroy(&part);
    PAMI_Type_complete(whole, 4);
    type_cursor_init(&cursor, kept, NULL, 4);
    assert_int_equal(type_cursor_next(&cursor, &piece, 99), 4);
    assert_int_equal((uintptr_t)piece, 9);
    type_unref(kept);
    type_cursor_init(&cursor, type_from_handle(whole), NULL, 160 + 4);
    assert_int_equal(type_cursor_next(&cursor, &piece, 99), 4);
    assert_int_equal((uintptr_t)piece, 1009);
    PAMI_Type_destroy(&whole);
    type_unref(NULL);
}

static void increment(void *target, void *source, size_t bytes, void *cookie)
{
    ++*(int *)cookie;
    for (size_t i = 0; i < bytes; i++)
        ((char *)target)[i] = (char)(((char *)source)[i] + 1);
}

static void transforms(void **state)
{
    pami_type_t empty = simple(0, 0, 1, 64, 1);
    pami_type_t pairs = simple(8, 0, 1, 16, 4);
    int32_t source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int32_t target[8] = {10, 20, 30, 40, 50, 60, 70, 80};
    int calls = 0;

    (void)state;
#define TRANSFORM(stype, soff, dtype, doff, size, fn)                                              \
    PAMI_Type_transform_data(source, stype, soff, target, dtype, doff, size, fn, &calls)
    /* Contiguous on both sides: the function counts all the same. */
    assert_int_equal(TRANSFORM(PAMI_TYPE_SIGNED_INT, 4, PAMI_TYPE_SIGNED_INT, 8, 8, PAMI_DATA_SUM),
                     PAMI_SUCCESS);
    assert_int_equal(target[2], 32);
    assert_int_equal(target[3], 43);
    assert_int_equal(TRANSFORM(PAMI_TYPE_BYTE, 0, PAMI_TYPE_BYTE, 0, 4, increment), PAMI_SUCCESS);
    assert_int_equal(calls, 1);
    assert_int_equal(target[0], 0x01010102);
    assert_int_equal(TRANSFORM(PAMI_TYPE_BYTE, 0, PAMI_TYPE_BYTE, 4, 4, PAMI_DATA_NOOP),
                     PAMI_SUCCESS);
    assert_int_equal(target[1], 20);
    assert_int_equal(TRANSFORM(PAMI_TYPE_BYTE, 0, PAMI_TYPE_BYTE, 4, 4, NULL), PAMI_SUCCESS);
    assert_int_equal(target[1], 1);
    /* A kind-less target takes copies, NOOP and functions of the user only. */
    assert_int_equal(TRANSFORM(PAMI_TYPE_SIGNED_INT, 0, pairs, 0, 16, PAMI_DATA_COPY),
                     PAMI_SUCCESS);
    assert_int_equal(target[4], 3);
    expect_invalid(TRANSFORM(PAMI_TYPE_SIGNED_INT, 0, pairs, 0, 16, PAMI_DATA_SUM), "data_fn");
    expect_invalid(TRANSFORM(PAMI_TYPE_BYTE, 0, PAMI_TYPE_DOUBLE, 0, 16, PAMI_DATA_BAND),
                   "data_fn");
    /* Nothing may be split. */
    expect_invalid(TRANSFORM(PAMI_TYPE_BYTE, 0, PAMI_TYPE_DOUBLE, 0, 12, PAMI_DATA_SUM), "size");
    expect_invalid(TRANSFORM(PAMI_TYPE_BYTE, 0, PAMI_TYPE_DOUBLE, 4, 8, PAMI_DATA_SUM), "size");
    expect_invalid(TRANSFORM(PAMI_TYPE_BYTE, 0, pairs, 2, 8, increment), "size");
    assert_int_equal(TRANSFORM(PAMI_TYPE_BYTE, 3, PAMI_TYPE_DOUBLE, 4, 5, PAMI_DATA_COPY),
                     PAMI_SUCCESS);
    /* An empty type moves nothing, and only nothing. */
    assert_int_equal(TRANSFORM(empty, 7, PAMI_TYPE_BYTE, 0, 0, NULL), PAMI_SUCCESS);
    assert_int_equal(TRANSFORM(PAMI_TYPE_BYTE, 0, empty, 7, 0, PAMI_DATA_NOOP), PAMI_SUCCESS);
    expect_invalid(TRANSFORM(empty, 0, PAMI_TYPE_BYTE, 0, 1, NULL), "empty");
    expect_invalid(TRANSFORM(PAMI_TYPE_BYTE, 0, empty, 0, 1, PAMI_DATA_NOOP), "empty");
    /* No buffer, where one is needed. */
    assert_int_equal(
        PAMI_Type_transform_data(NULL, PAMI_TYPE_BYTE, 0, NULL, PAMI_TYPE_BYTE, 0, 0, NULL, NULL),
        PAMI_SUCCESS);
    expect_invalid(
        PAMI_Type_transform_data(NULL, PAMI_TYPE_BYTE, 0, target, PAMI_TYPE_BYTE, 0, 1, NULL, NULL),
        "src_addr");
    expect_invalid(
        PAMI_Type_transform_data(source, PAMI_TYPE_BYTE, 0, NULL, PAMI_TYPE_BYTE, 0, 1, NULL, NULL),
        "dst_addr");
    PAMI_Type_destroy(&empty);
    PAMI_Type_destroy(&pairs);
}

/* The source stride may be smaller than the block: data is then sent more than once. */
static void overlapping_source(void **state)
{
    pami_type_t windows = simple(4, 0, 3, 2, 2);
    char source[] = "abcdefgh";
    char target[25] = {0};

    (void)state;
    assert_int_equal(
        PAMI_Type_transform_data(source, windows, 0, target, PAMI_TYPE_BYTE, 0, 12, NULL, NULL),
        PAMI_SUCCESS);
    assert_string_equal(target, "abcdcdefefgh");
    PAMI_Type_destroy(&windows);
}

/* Displacements may be addresses, applied at NULL. */
static void absolute_addresses(void **state)
{
    char first[] = "first";
    char second[] = "second";
    char target[12] = {0};
    pami_type_t type;

    (void)state;
    PAMI_Type_create(&type);
    PAMI_Type_add_simple(type, 5, (size_t)(uintptr_t)first, 1, 0);
    PAMI_Type_add_simple(type, 6, (size_t)((uintptr_t)second - (uintptr_t)first), 1, 0);
    PAMI_Type_complete(type, 1);
    assert_int_equal(
        PAMI_Type_transform_data(NULL, type, 0, target, PAMI_TYPE_BYTE, 0, 11, NULL, NULL),
        PAMI_SUCCESS);
    assert_string_equal(target, "firstsecond");
    PAMI_Type_destroy(&type);
}

/* A type of extent 0 receives everything into the same place. */
static void junk_buffer(void **state)
{
    pami_type_t type;
    char source[64] = {0};
    char target[16] = {0};

    (void)state;
    source[63] = 'z';
    PAMI_Type_create(&type);
    PAMI_Type_add_simple(type, 16, 0, 1, 0);
    PAMI_Type_complete(type, 1);
    assert_int_equal(query(type, PAMI_TYPE_DATA_EXTENT), 0);
    assert_int_equal(
        PAMI_Type_transform_data(source, PAMI_TYPE_BYTE, 0, target, type, 0, 64, NULL, NULL),
        PAMI_SUCCESS);
    assert_int_equal(target[15], 'z');
    PAMI_Type_destroy(&type);
}

/* Pieces of one side that are several of the other's; transfers that begin and end within them. */
static void nested_pieces(void **state)
{
    enum {
        COARSE = 24,
        FINE = 8,
        DATA = 20 * COARSE,
        ROOM = 3 * DATA
    };
    pami_type_t coarse = simple(COARSE, 0, 1, 40, 1), fine = simple(FINE, 0, 1, 20, 1);
    unsigned char source[ROOM], target[ROOM], expected[ROOM];

    (void)state;
    for (size_t i = 0; i < ROOM; i++)
        source[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t offset = 0; offset < COARSE; offset++)
        for (size_t size = DATA - 2 * COARSE; size < DATA - COARSE; size++)
            for (int scatters = 0; scatters < 2; scatters++) {
                memset(target, 0, ROOM);
                memset(expected, 0, ROOM);
                for (size_t i = offset; i < offset + size; i++) {
                    size_t a = i / COARSE * 40 + i % COARSE, b = i / FINE * 20 + i % FINE;

                    expected[scatters ? b : a] = source[scatters ? a : b];
                }
                assert_int_equal(PAMI_Type_transform_data(source, scatters ? coarse : fine, offset,
                                                          target, scatters ? fine : coarse, offset,
                                                          size, NULL, NULL),
                                 PAMI_SUCCESS);
                assert_memory_equal(target, expected, ROOM);
            }
    PAMI_Type_destroy(&coarse);
    PAMI_Type_destroy(&fine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants),
        cmocka_unit_test(predefined_types),
        cmocka_unit_test(queries),
        cmocka_unit_test(incomplete_types),
        cmocka_unit_test(completion),
        cmocka_unit_test(moving_the_cursor),
        cmocka_unit_test(kinds),
        cmocka_unit_test(dead_handles),
        cmocka_unit_test(handles_are_not_reused),
        cmocka_unit_test(references),
        cmocka_unit_test(transforms),
        cmocka_unit_test(overlapping_source),
        cmocka_unit_test(absolute_addresses),
        cmocka_unit_test(junk_buffer),
        cmocka_unit_test(nested_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
