/*
 * The variables of the interface: null handles, predefined types, predefined data functions.
 *
 * All are initialised statically with link-time constants, so they hold their values before any
 * code runs, also in copies that a non-PIC executable makes of them. Predefined types are
 * ordinary complete types that are never counted and never freed.
 */
#include "type/handle.h"
#include "type/layout.h"

/* ---- null values ---- */

pami_client_t PAMI_CLIENT_NULL = NULL;
pami_context_t PAMI_CONTEXT_NULL = NULL;
pami_geometry_t PAMI_GEOMETRY_NULL = NULL;
pami_type_t PAMI_TYPE_NULL = NULL;
pami_algorithm_t PAMI_ALGORITHM_NULL = 0;
pami_endpoint_t PAMI_ENDPOINT_NULL = (pami_endpoint_t)-1;
size_t PAMI_ALL_CONTEXTS = (size_t)-1;

/* ---- data functions ---- */

#define DATA_FUNCTION(name)                                                                        \
    pami_data_function PAMI_DATA_##name = (pami_data_function)(uintptr_t)OPERATOR_##name

DATA_FUNCTION(COPY);
DATA_FUNCTION(NOOP);
DATA_FUNCTION(MAX);
DATA_FUNCTION(MIN);
DATA_FUNCTION(SUM);
DATA_FUNCTION(PROD);
DATA_FUNCTION(LAND);
DATA_FUNCTION(LOR);
DATA_FUNCTION(LXOR);
DATA_FUNCTION(BAND);
DATA_FUNCTION(BOR);
DATA_FUNCTION(BXOR);
DATA_FUNCTION(MAXLOC);
DATA_FUNCTION(MINLOC);

/* ---- types ---- */

#define TYPES(TYPE)                                                                                \
    TYPE(BYTE, uint8_t)                                                                            \
    TYPE(SIGNED_CHAR, signed char)                                                                 \
    TYPE(UNSIGNED_CHAR, unsigned char)                                                             \
    TYPE(SIGNED_SHORT, short)                                                                      \
    TYPE(UNSIGNED_SHORT, unsigned short)                                                           \
    TYPE(SIGNED_INT, int)                                                                          \
    TYPE(UNSIGNED_INT, unsigned)                                                                   \
    TYPE(SIGNED_LONG, long)                                                                        \
    TYPE(UNSIGNED_LONG, unsigned long)                                                             \
    TYPE(SIGNED_LONG_LONG, long long)                                                              \
    TYPE(UNSIGNED_LONG_LONG, unsigned long long)                                                   \
    TYPE(FLOAT, float)                                                                             \
    TYPE(DOUBLE, double)                                                                           \
    TYPE(LONG_DOUBLE, long double)                                                                 \
    TYPE(LOGICAL1, uint8_t)                                                                        \
    TYPE(LOGICAL2, uint16_t)                                                                       \
    TYPE(LOGICAL4, uint32_t)                                                                       \
    TYPE(LOGICAL8, uint64_t)                                                                       \
    TYPE(SINGLE_COMPLEX, PAIR(float, float))                                                       \
    TYPE(DOUBLE_COMPLEX, PAIR(double, double))                                                     \
    TYPE(LOC_2INT, PAIR(int, int))                                                                 \
    TYPE(LOC_2FLOAT, PAIR(float, float))                                                           \
    TYPE(LOC_2DOUBLE, PAIR(double, double))                                                        \
    TYPE(LOC_SHORT_INT, PAIR(short, int))                                                          \
    TYPE(LOC_FLOAT_INT, PAIR(float, int))                                                          \
    TYPE(LOC_DOUBLE_INT, PAIR(double, int))                                                        \
    TYPE(LOC_LONG_INT, PAIR(long, int))                                                            \
    TYPE(LOC_LONGDOUBLE_INT, PAIR(long double, int))

/* The C structure of two members, for its size. */
#define PAIR(first, second)                                                                        \
    struct {                                                                                       \
        first value;                                                                               \
        second index;                                                                              \
    }

#define VARIABLE(name, c_type) pami_type_t PAMI_TYPE_##name = HANDLE_PREDEFINED(TYPE_KIND_##name);
TYPES(VARIABLE)

/* An old name that is exported, but not declared in the header. */
extern pami_type_t PAMI_TYPE_LOGICAL __attribute__((visibility("default")));
pami_type_t PAMI_TYPE_LOGICAL = HANDLE_PREDEFINED(TYPE_KIND_LOGICAL4);

#define LAYOUT(name, c_type)                                                                       \
    static struct layout layout_##name = {                                                         \
        .references = 1,                                                                           \
        .size = sizeof(c_type),                                                                    \
        .grain = sizeof(c_type),                                                                   \
        .high = sizeof(c_type),                                                                    \
        .apart = true,                                                                             \
        .height = 1,                                                                               \
        .run_count = 1,                                                                            \
        .capacity = 1,                                                                             \
        .runs = {{.bytes = sizeof(c_type), .count = 1, .stride = sizeof(c_type)}},                 \
    };
TYPES(LAYOUT)

#define PREDEFINED(name, c_type)                                                                   \
    [TYPE_KIND_##name] = {                                                                         \
        .layout = &layout_##name,                                                                  \
        .size = sizeof(c_type),                                                                    \
        .extent = sizeof(c_type),                                                                  \
        .atom = sizeof(c_type),                                                                    \
        .kind = TYPE_KIND_##name,                                                                  \
        .permanent = true,                                                                         \
        .uniform = true,                                                                           \
        .flat = true,                                                                              \
        .apart = true,                                                                             \
        .piece = sizeof(c_type),                                                                   \
        .stride = sizeof(c_type),                                                                  \
        .references = 1,                                                                           \
    },
struct type type_predefined[TYPE_KIND_COUNT] = {TYPES(PREDEFINED)};

size_t type_kind_size(enum type_kind kind)
{
    return kind < TYPE_KIND_COUNT ? type_predefined[kind].size : 1;
}
