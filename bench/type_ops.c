/*
 * Data layouts and operators through the public interface, in one process:
 *   pack, unpack        a strided layout into and out of contiguous memory, by block size
 *   pack_hand, unpack_hand   the same by a loop written for that block size
 *   copy                memcpy of as much contiguous data
 *   pack_nested         blocks in a layout of two levels that cannot be written as one
 *   sum_..., max_...    a reduction of contiguous elements; ..._scalar by a loop without vectors
 *   sum_strided         a sum into every second double; sum_strided_hand by a loop
 * All in GB/s of data, medians of interleaved rounds. The data fits the L2 cache.
 *
 * usage: type_ops [pack|unpack|nested|operators] [--rounds N]
 */
#include <pami/pami.h>

#include "bench.h"

#define DATA ((size_t)256 << 10)
#define LARGE_DATA ((size_t)1 << 20)
#define ROUNDS_MAX 101

static size_t rounds;
static char *strided; /* 2 * LARGE_DATA */
static char *packed;  /* LARGE_DATA */

/* One contender: moves `data` bytes per call. */
typedef void contender(size_t block, size_t data);

static pami_type_t type;

static void check_success(pami_result_t result, const char *what)
{
    char text[256];

    if (result != PAMI_SUCCESS) {
        PAMI_Error_text(text, sizeof text);
        bench_die("%s: %s", what, text);
    }
}

/* GB/s of one timed stretch of about a millisecond. */
static double measure(contender *run, size_t block, size_t data)
{
    size_t calls = 1;
    uint64_t start;
    uint64_t elapsed;

    for (;;) {
        start = bench_now();
        for (size_t i = 0; i < calls; i++) {
            run(block, data);
        }
        elapsed = bench_now() - start;
        if (elapsed > 500000) {
            return (double)(calls * data) / (double)elapsed;
        }
        calls *= elapsed > 50000 ? 1 + 600000 / elapsed : 8;
    }
}

/* Interleave the contenders, emit the median of each. */
static void compete(const char *const *names, contender *const *runs, size_t count, size_t block,
                    size_t data)
{
    double values[4][ROUNDS_MAX];

    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            values[i][round] = measure(runs[i], block, data);
        }
    }
    for (size_t i = 0; i < count; i++) {
        bench_emit(names[i], block, "GB/s", bench_median(values[i], rounds));
    }
}

/* ---- strided copies -------------------------------------------------------------------------- */

static void pack(size_t block, size_t data)
{
    (void)block;
    check_success(PAMI_Type_transform_data(strided, type, 0, packed, PAMI_TYPE_BYTE, 0, data,
                                           PAMI_DATA_COPY, NULL),
                  "pack");
}

static void unpack(size_t block, size_t data)
{
    (void)block;
    check_success(PAMI_Type_transform_data(packed, PAMI_TYPE_BYTE, 0, strided, type, 0, data,
                                           PAMI_DATA_COPY, NULL),
                  "unpack");
}

/* What somebody would write who knows the block size. */
#define HAND(bytes)                                                                                \
    static __attribute__((noinline)) void pack_##bytes(size_t blocks)                              \
    {                                                                                              \
        for (size_t i = 0; i < blocks; i++) {                                                      \
            memcpy(packed + i * (bytes), strided + i * 2 * (bytes), bytes);                        \
        }                                                                                          \
    }                                                                                              \
    static __attribute__((noinline)) void unpack_##bytes(size_t blocks)                            \
    {                                                                                              \
        for (size_t i = 0; i < blocks; i++) {                                                      \
            memcpy(strided + i * 2 * (bytes), packed + i * (bytes), bytes);                        \
        }                                                                                          \
    }
HAND(8)
HAND(16)
HAND(24)
HAND(64)
HAND(128)
HAND(512)
HAND(4096)
HAND(65536)

static const struct {
    size_t block;
    void (*pack)(size_t blocks);
    void (*unpack)(size_t blocks);
} hands[] = {
    {8, pack_8, unpack_8},          {16, pack_16, unpack_16},          {24, pack_24, unpack_24},
    {64, pack_64, unpack_64},       {128, pack_128, unpack_128},       {512, pack_512, unpack_512},
    {4096, pack_4096, unpack_4096}, {65536, pack_65536, unpack_65536},
};

#define HANDS (sizeof hands / sizeof hands[0])

static size_t hand_index(size_t block)
{
    size_t i = 0;

    while (hands[i].block != block) {
        i++;
    }
    return i;
}

static void pack_hand(size_t block, size_t data)
{
    hands[hand_index(block)].pack(data / block);
}

static void unpack_hand(size_t block, size_t data)
{
    hands[hand_index(block)].unpack(data / block);
}

static void copy(size_t block, size_t data)
{
    (void)block;
    memcpy(packed, strided, data);
    __asm__ volatile("" : : "r"(packed) : "memory");
}

static void make_strided(size_t block, size_t data)
{
    check_success(PAMI_Type_create(&type), "create");
    check_success(PAMI_Type_add_simple(type, block, 0, data / block, 2 * block), "add");
    check_success(PAMI_Type_complete(type, 1), "complete");
}

/* The layout must pick out every second block. */
static void verify(size_t block, size_t data)
{
    bench_fill(strided, 2 * data, 1);
    memset(packed, 0, data);
    pack(block, data);
    for (size_t i = 0; i < data / block; i++) {
        if (memcmp(packed + i * block, strided + 2 * i * block, block) != 0) {
            bench_die("block %zu of %zu bytes is wrong", i, block);
        }
    }
}

static void strided_copies(bool packing)
{
    static const char *const pack_names[] = {"pack", "pack_hand", "copy"};
    static const char *const unpack_names[] = {"unpack", "unpack_hand"};

    for (size_t i = 0; i < HANDS; i++) {
        size_t block = hands[i].block;
        size_t data = block > 4096 ? LARGE_DATA : DATA / block * block;

        make_strided(block, data);
        verify(block, data);
        if (packing) {
            compete(pack_names, (contender *const[]){pack, pack_hand, copy}, 3, block, data);
        } else {
            compete(unpack_names, (contender *const[]){unpack, unpack_hand}, 2, block, data);
        }
        check_success(PAMI_Type_destroy(&type), "destroy");
    }
}

/* ---- two levels ------------------------------------------------------------------------------ */

#define INNER 4

static void nested_hand(size_t block, size_t data)
{
    size_t rows = data / (INNER * block);

    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < INNER; i++) {
            memcpy(packed + (row * INNER + i) * block, strided + row * 7 * block + i * 2 * block,
                   block);
        }
    }
}

static void nested_copies(void)
{
    static const char *const names[] = {"pack_nested", "pack_nested_hand"};

    for (size_t block = 8; block <= 512; block *= 8) {
        size_t data = DATA;
        pami_type_t inner;

        check_success(PAMI_Type_create(&inner), "create");
        check_success(PAMI_Type_add_simple(inner, block, 0, INNER, 2 * block), "add");
        check_success(PAMI_Type_complete(inner, 1), "complete");
        check_success(PAMI_Type_create(&type), "create");
        check_success(PAMI_Type_add_typed(type, inner, 0, data / (INNER * block), 7 * block),
                      "add");
        check_success(PAMI_Type_complete(type, 1), "complete");
        compete(names, (contender *const[]){pack, nested_hand}, 2, block, data);
        check_success(PAMI_Type_destroy(&type), "destroy");
        check_success(PAMI_Type_destroy(&inner), "destroy");
    }
}

/* ---- operators ------------------------------------------------------------------------------- */

static pami_type_t element;
static pami_data_function operator;

static void reduce(size_t block, size_t data)
{
    (void)block;
    check_success(
        PAMI_Type_transform_data(strided, element, 0, packed, element, 0, data, operator, NULL),
        "reduce");
}

struct double_int {
    double value;
    int index;
};

#ifdef __clang__
#define NOT_VECTORISED
#define SCALAR_LOOP _Pragma("clang loop vectorize(disable) interleave(disable)")
#else
#define NOT_VECTORISED , optimize("no-tree-vectorize")
#define SCALAR_LOOP
#endif
#define SCALAR(name, c_type, statement)                                                            \
    static __attribute__((noinline NOT_VECTORISED)) void name(size_t block, size_t data)           \
    {                                                                                              \
        c_type *t = (void *)packed;                                                                \
        const c_type *s = (void *)strided;                                                         \
        (void)block;                                                                               \
        SCALAR_LOOP                                                                                \
        for (size_t i = 0; i < data / sizeof(c_type); i++) {                                       \
            statement;                                                                             \
        }                                                                                          \
    }
SCALAR(scalar_sum_double, double, t[i] += s[i])
SCALAR(scalar_sum_float, float, t[i] += s[i])
SCALAR(scalar_max_int, int, t[i] = s[i] > t[i] ? s[i] : t[i])
SCALAR(scalar_bor_byte, unsigned char, t[i] |= s[i])
SCALAR(scalar_maxloc, struct double_int,
       if (s[i].value > t[i].value || (s[i].value == t[i].value && s[i].index < t[i].index))
           t[i] = s[i])

static void sum_strided(size_t block, size_t data)
{
    (void)block;
    check_success(PAMI_Type_transform_data(packed, PAMI_TYPE_DOUBLE, 0, strided, type, 0, data,
                                           PAMI_DATA_SUM, NULL),
                  "sum_strided");
}

static void sum_strided_hand(size_t block, size_t data)
{
    double *t = (void *)strided;
    const double *s = (void *)packed;

    (void)block;
    for (size_t i = 0; i < data / sizeof(double); i++) {
        t[2 * i] += s[i];
    }
}

static void operators(void)
{
    const struct {
        const char *names[2];
        pami_type_t element;
        pami_data_function operator;
        contender *scalar;
    } rows[] = {
        {{"sum_double", "sum_double_scalar"}, PAMI_TYPE_DOUBLE, PAMI_DATA_SUM, scalar_sum_double},
        {{"sum_float", "sum_float_scalar"}, PAMI_TYPE_FLOAT, PAMI_DATA_SUM, scalar_sum_float},
        {{"max_int", "max_int_scalar"}, PAMI_TYPE_SIGNED_INT, PAMI_DATA_MAX, scalar_max_int},
        {{"bor_byte", "bor_byte_scalar"}, PAMI_TYPE_BYTE, PAMI_DATA_BOR, scalar_bor_byte},
        {{"maxloc_double_int", "maxloc_double_int_scalar"},
         PAMI_TYPE_LOC_DOUBLE_INT,
         PAMI_DATA_MAXLOC,
         scalar_maxloc},
    };
    static const char *const strided_names[] = {"sum_strided", "sum_strided_hand"};

    memset(strided, 0, 2 * LARGE_DATA);
    memset(packed, 0, LARGE_DATA);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        element = rows[i].element;
        operator= rows[i].operator;
        for (size_t data = 1024; data <= DATA; data *= 16) {
            compete(rows[i].names, (contender *const[]){reduce, rows[i].scalar}, 2, data, data);
        }
    }
    check_success(PAMI_Type_create(&type), "create");
    check_success(PAMI_Type_add_typed(type, PAMI_TYPE_DOUBLE, 0, DATA / 8, 16), "add");
    check_success(PAMI_Type_complete(type, 8), "complete");
    compete(strided_names, (contender *const[]){sum_strided, sum_strided_hand}, 2, 8, DATA);
    check_success(PAMI_Type_destroy(&type), "destroy");
}

int main(int argc, char **argv)
{
    rounds = bench_option(argc, argv, "--rounds", 11);
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        bench_die("--rounds is outside 1..%d", ROUNDS_MAX);
    }
    bench_pin(0);
    strided = bench_alloc(2 * LARGE_DATA);
    packed = bench_alloc(LARGE_DATA);
    if (bench_wanted(argc, argv, "pack")) {
        strided_copies(true);
    }
    if (bench_wanted(argc, argv, "unpack")) {
        strided_copies(false);
    }
    if (bench_wanted(argc, argv, "nested")) {
        nested_copies();
    }
    if (bench_wanted(argc, argv, "operators")) {
        operators();
    }
    return 0;
}
