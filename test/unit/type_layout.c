/*
 * Random nested types against a byte-by-byte model: cursors, pack, unpack, sinks and transforms, at
 * any offset, partially and over several instances; and layouts too large for any memory.
 *
 * Run: timeout=60
 */
#include "type_model.h"

#include "type/layout.h"

#define ARENA (1 << 20)
#define POOL 40

static unsigned char *arena_source;
static unsigned char *arena_target;
static unsigned char *arena_expected;

static int set_up(void **state)
{
    (void)state;
    arena_source = calloc(1, ARENA);
    arena_target = calloc(1, ARENA);
    arena_expected = calloc(1, ARENA);
    return arena_source == NULL || arena_target == NULL || arena_expected == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    free(arena_source);
    free(arena_target);
    free(arena_expected);
    return 0;
}

/* ---- a transfer of random offset and length that fits the arena ---- */

struct transfer {
    const struct model *model;
    const struct type *type;
    size_t offset;
    size_t bytes;
    long base;    /* index into an arena */
    bool repeats; /* some byte of memory is visited twice */
};

static bool revisits(const struct transfer *transfer)
{
    static unsigned char seen[ARENA];
    bool twice = false;

    for (size_t i = 0; i < transfer->bytes; i++) {
        long at = transfer->base + (long)model_at(transfer->model, transfer->offset + i);

        twice |= seen[at] != 0;
        seen[at] = 1;
    }
    for (size_t i = 0; i < transfer->bytes; i++)
        seen[transfer->base + (long)model_at(transfer->model, transfer->offset + i)] = 0;
    return twice;
}

/* Data bytes `offset`.. of a model, in whole units, placed at random. False: does not fit. */
static bool choose(struct transfer *transfer, const struct model *model, size_t unit, size_t bytes)
{
    long low;
    long high;

    transfer->model = model;
    transfer->type = type_from_handle(model->handle);
    transfer->bytes = bytes;
    transfer->offset = (size_t)random_range(0, 2 * (long)(model->size / unit)) * unit;
    model_range(model, transfer->offset, bytes, &low, &high);
    if (high - low > ARENA - 64)
        return false;
    transfer->base = -low + random_range(0, 63);
    transfer->repeats = revisits(transfer);
    return true;
}

static unsigned char *address(unsigned char *arena, const struct transfer *transfer, size_t i)
{
    return arena + transfer->base + (long)model_at(transfer->model, transfer->offset + i);
}

/* The base as an address, which may lie outside the arena. */
static void *base_of(unsigned char *arena, const struct transfer *transfer)
{
    return (void *)((uintptr_t)arena + (uintptr_t)transfer->base);
}

static void expect_equal(const void *a, const void *b, size_t bytes, const char *what,
                         unsigned seed)
{
    if (memcmp(a, b, bytes) != 0)
        fail_msg("%s differs, seed %u", what, seed);
}

/* ---- the checks ---- */

static void check_cursor(const struct transfer *transfer, unsigned seed)
{
    struct type_cursor cursor;
    size_t done = 0;

    type_cursor_init(&cursor, transfer->type, base_of(arena_source, transfer), transfer->offset);
    while (done < transfer->bytes) {
        void *piece;
        size_t max = random_range(0, 3) == 0 ? (size_t)random_range(1, 50) : transfer->bytes - done;
        size_t bytes;

        max = max < transfer->bytes - done ? max : transfer->bytes - done;
        bytes = type_cursor_next(&cursor, &piece, max);
        if (bytes == 0 || bytes > max)
            fail_msg("piece of %zu bytes, seed %u", bytes, seed);
        for (size_t i = 0; i < bytes; i++)
            if ((unsigned char *)piece + i != address(arena_source, transfer, done + i))
                fail_msg("byte %zu at the wrong address, seed %u", done + i, seed);
        done += bytes;
    }
}

static void check_pack(const struct transfer *transfer, unsigned char *packed, unsigned seed)
{
    static unsigned char expected[4 * MODEL_MAX];
    struct type_cursor cursor;
    size_t done = 0;

    for (size_t i = 0; i < transfer->bytes; i++)
        expected[i] = *address(arena_source, transfer, i);
    type_cursor_init(&cursor, transfer->type, base_of(arena_source, transfer), transfer->offset);
    while (done < transfer->bytes) {
        size_t bytes = (size_t)random_range(1, (long)(transfer->bytes - done));

        assert_int_equal(type_pack(packed + done, &cursor, bytes, NULL, NULL), bytes);
        done += bytes;
    }
    expect_equal(packed, expected, transfer->bytes, "packed data", seed);
}

/* Write a message through a sink in random fragments. */
static void write_fragments(struct type_sink *sink, const unsigned char *data, size_t bytes)
{
    size_t done = 0;
    long most = random_range(0, 1) ? 20 : (long)bytes;

    while (done < bytes) {
        size_t step = (size_t)random_range(1, most);

        step = step < bytes - done ? step : bytes - done;
        assert_int_equal(type_sink_write(sink, data + done, step), step);
        done += step;
    }
    assert_int_equal(type_sink_write(sink, data, 5), 0);
    type_sink_finish(sink);
}

static void check_unpack(const struct transfer *transfer, const unsigned char *packed,
                         unsigned seed)
{
    struct type_cursor cursor;
    struct type_sink sink;

    if (transfer->repeats)
        return;
    random_fill(arena_target, ARENA / 16);
    memcpy(arena_expected, arena_target, ARENA);
    for (size_t i = 0; i < transfer->bytes; i++)
        *address(arena_expected, transfer, i) = packed[i];
    type_cursor_init(&cursor, transfer->type, base_of(arena_target, transfer), transfer->offset);
    assert_int_equal(type_unpack(&cursor, packed, transfer->bytes), transfer->bytes);
    expect_equal(arena_target, arena_expected, ARENA, "unpacked memory", seed);

    memset(arena_target, 0, ARENA);
    memset(arena_expected, 0, ARENA);
    for (size_t i = 0; i < transfer->bytes; i++)
        *address(arena_expected, transfer, i) = packed[i];
    assert_int_equal(type_sink_init(&sink, transfer->type, base_of(arena_target, transfer),
                                    transfer->offset, transfer->bytes, PAMI_DATA_COPY, NULL),
                     0);
    write_fragments(&sink, packed, transfer->bytes);
    expect_equal(arena_target, arena_expected, ARENA, "memory behind a sink", seed);
}

static void check_transform(const struct transfer *from, const struct transfer *to, unsigned seed)
{
    if (to->repeats)
        return;
    memset(arena_target, 0x55, ARENA);
    memset(arena_expected, 0x55, ARENA);
    for (size_t i = 0; i < to->bytes; i++)
        *address(arena_expected, to, i) = *address(arena_source, from, i);
    assert_int_equal(PAMI_Type_transform_data(base_of(arena_source, from), from->model->handle,
                                              from->offset, base_of(arena_target, to),
                                              to->model->handle, to->offset, to->bytes,
                                              PAMI_DATA_COPY, NULL),
                     PAMI_SUCCESS);
    expect_equal(arena_target, arena_expected, ARENA, "transformed memory", seed);
}

/* A pool of random types, each possibly made of earlier ones. */
static void fill_pool(struct model *pool, unsigned seed)
{
    random_seed(seed);
    model_predefined(&pool[0], PAMI_TYPE_DOUBLE, 8);
    model_predefined(&pool[1], PAMI_TYPE_BYTE, 1);
    for (size_t i = 2; i < POOL; i++) {
        size_t unit = random_range(0, 2) == 0 ? 8 : 1;

        model_start(&pool[i]);
        model_random_adds(&pool[i], pool, i, unit, false, MODEL_MAX / 4);
        if (PAMI_Type_complete(pool[i].handle, 8) != PAMI_SUCCESS)
            model_complete(&pool[i], 1);
    }
}

static void random_types(void **state)
{
    static unsigned char packed[4 * MODEL_MAX];
    struct model pool[POOL];
    int unpacked = 0;
    int checked = 0;

    (void)state;
    random_fill(arena_source, ARENA);
    for (unsigned seed = 1; seed <= 25; seed++) {
        fill_pool(pool, seed);
        for (int i = 0; i < 100; i++) {
            const struct model *first = &pool[random_next() % POOL];
            const struct model *second = &pool[random_next() % POOL];
            size_t most = first->size < second->size ? first->size : second->size;
            struct transfer from;
            struct transfer to;
            size_t bytes;

            if (most == 0)
                continue;
            bytes = (size_t)random_range(1, 3 * (long)(most < 4000 ? most : 4000));
            if (!choose(&from, first, 1, bytes) || !choose(&to, second, 1, bytes))
                continue;
            check_cursor(&from, seed);
            check_pack(&from, packed, seed);
            check_unpack(&to, packed, seed);
            check_transform(&from, &to, seed);
            checked++;
            unpacked += !to.repeats;
        }
        for (size_t i = 0; i < POOL; i++) {
            struct type *type = type_from_handle(pool[i].handle);

            assert_int_equal(type_data_size(type), pool[i].size);
            assert_int_equal(type_extent(type), pool[i].extent);
            model_finish(&pool[i]);
        }
    }
    assert_true(checked > 500 && unpacked > 200);
}

/* ---- operators ---- */

static void random_sums(void **state)
{
    static unsigned char packed[4 * MODEL_MAX];
    struct model pool[POOL];
    int checked = 0, repeated = 0;

    (void)state;
    for (unsigned seed = 1; seed <= 25; seed++) {
        random_seed(1000 + seed);
        model_predefined(&pool[0], PAMI_TYPE_UNSIGNED_INT, 4);
        for (size_t i = 1; i < POOL; i++) {
            model_start(&pool[i]);
            model_random_adds(&pool[i], pool, i, 4, true, MODEL_MAX / 4);
            model_complete(&pool[i], random_range(0, 1) ? 1 : 4);
        }
        for (int i = 0; i < 100; i++) {
            const struct model *model = &pool[random_next() % POOL];
            struct transfer to;
            struct type_sink sink;

            if (model->size == 0 || !choose(&to, model, 4, 4 * (size_t)random_range(1, 1400)))
                continue;
            repeated += to.repeats;
            assert_int_equal(type_kind(to.type), TYPE_KIND_UNSIGNED_INT);
            random_fill(packed, to.bytes);
            random_fill(arena_target, ARENA / 16);
            memcpy(arena_expected, arena_target, ARENA);
            for (size_t k = 0; k < to.bytes; k += 4) {
                uint32_t a;
                uint32_t b;

                memcpy(&a, address(arena_expected, &to, k), 4);
                memcpy(&b, packed + k, 4);
                a += b;
                memcpy(address(arena_expected, &to, k), &a, 4);
            }
            assert_int_equal(type_sink_init(&sink, to.type, base_of(arena_target, &to), to.offset,
                                            to.bytes, PAMI_DATA_SUM, NULL),
                             0);
            write_fragments(&sink, packed, to.bytes);
            expect_equal(arena_target, arena_expected, ARENA, "sums", seed);
            checked++;
        }
        for (size_t i = 0; i < POOL; i++)
            model_finish(&pool[i]);
    }
    assert_true(checked > 500 && repeated > 100);
}

/* ---- functions of the user ---- */

struct calls {
    size_t atom;
    unsigned wrong;
    unsigned count;
    size_t longest;
};

static void xor_in(void *target, void *source, size_t bytes, void *cookie)
{
    struct calls *calls = cookie;

    if (bytes == 0 || bytes % calls->atom != 0)
        calls->wrong++;
    calls->count++;
    calls->longest = bytes > calls->longest ? bytes : calls->longest;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)target)[i] ^= ((unsigned char *)source)[i];
}

static void user_functions(void **state)
{
    static const size_t atoms[] = {1, 2, 3, 4, 5, 8, 24, 100, 127, 128};
    static unsigned char packed[4 * MODEL_MAX];

    (void)state;
    random_seed(77);
    for (unsigned round = 0; round < 400; round++) {
        size_t atom = atoms[round % (sizeof atoms / sizeof atoms[0])];
        struct calls calls = {.atom = atom};
        struct model model;
        struct transfer to;
        struct type_sink sink;

        model_start(&model);
        model_simple(&model, atom * (size_t)random_range(1, 5), 0, (size_t)random_range(1, 3),
                     atom * (size_t)random_range(5, 9));
        model_simple(&model, atom, (size_t)random_range(0, 50), 2, 2 * atom);
        model_complete(&model, atom);
        if (choose(&to, &model, atom, atom * (size_t)random_range(1, 30)) && !to.repeats) {
            random_fill(packed, to.bytes);
            random_fill(arena_target, ARENA / 16);
            memcpy(arena_expected, arena_target, ARENA);
            for (size_t i = 0; i < to.bytes; i++)
                *address(arena_expected, &to, i) ^= packed[i];
            assert_int_equal(type_sink_init(&sink, to.type, base_of(arena_target, &to), to.offset,
                                            to.bytes, xor_in, &calls),
                             0);
            write_fragments(&sink, packed, to.bytes);
            assert_int_equal(calls.wrong, 0);
            expect_equal(arena_target, arena_expected, ARENA, "user's work", round);
        }
        model_finish(&model);
    }
}

/* One long run in odd fragments: every cut inside it is at a multiple of lcm(atom, 128). */
static size_t cut_multiple;
static size_t cut_done;
static size_t cut_total;

static void note_cut(void *target, void *source, size_t bytes, void *cookie)
{
    (void)cookie;
    memcpy(target, source, bytes);
    cut_done += bytes;
    if (cut_done != cut_total)
        assert_int_equal(cut_done % cut_multiple, 0);
}

static void cuts_of_a_run(void **state)
{
    static const struct {
        size_t atom;
        size_t multiple;
    } rows[] = {{1, 128}, {8, 128}, {128, 128}, {3, 384}, {12, 384}, {127, 16256}};

    (void)state;
    random_seed(5);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t total = rows[i].atom * 400;
        pami_type_t handle;
        struct type_sink sink;

        random_fill(arena_source, total);
        memset(arena_target, 0, total);
        PAMI_Type_create(&handle);
        PAMI_Type_add_simple(handle, rows[i].atom, 0, 1, rows[i].atom);
        PAMI_Type_complete(handle, rows[i].atom);
        cut_multiple = rows[i].multiple;
        cut_total = total;
        cut_done = 0;
        assert_int_equal(
            type_sink_init(&sink, type_from_handle(handle), arena_target, 0, total, note_cut, NULL),
            0);
        write_fragments(&sink, arena_source, total);
        assert_int_equal(cut_done, total);
        assert_memory_equal(arena_source, arena_target, total);
        PAMI_Type_destroy(&handle);
    }
}

/* What a dead sender leaves half done can be dropped at any time. */
static void abandoned_sink(void **state)
{
    struct type_sink sink;
    pami_type_t handle;

    (void)state;
    PAMI_Type_create(&handle);
    PAMI_Type_add_simple(handle, 127, 0, 1, 127);
    PAMI_Type_complete(handle, 127);
    assert_int_equal(
        type_sink_init(&sink, type_from_handle(handle), arena_target, 0, 1270, xor_in, NULL), 0);
    assert_int_equal(type_sink_write(&sink, arena_source, 50), 50);
    type_sink_finish(&sink);
    type_sink_finish(&sink);
    assert_int_equal(type_sink_write(&sink, arena_source, 50), 0);
    PAMI_Type_destroy(&handle);
}

/* ---- shapes that random types do not reach ---- */

/* More levels than a cursor keeps frames: every level is a list too long to be written out, with
 * the one below it in the middle or at the end. */
static void nest(size_t place)
{
    struct model levels[12];
    struct transfer transfer;
    static unsigned char packed[4 * MODEL_MAX];

    random_seed(3);
    for (size_t i = 0; i < 12; i++) {
        model_start(&levels[i]);
        for (size_t k = 0; k < 18; k++) {
            if (k == place && i > 0)
                model_typed(&levels[i], &levels[i - 1], 3, i % 4 == 1 ? 2 : 1,
                            levels[i - 1].extent + 7);
            if (k < 17)
                model_simple(&levels[i], 1 + k % 3, 1, 1, 2 + k % 4 + (k * k) % 5);
        }
        model_complete(&levels[i], 1);
    }
    assert_true(type_from_handle(levels[11].handle)->layout->height > 2 * TYPE_CURSOR_FRAMES);
    random_fill(arena_source, ARENA);
    for (int i = 0; i < 200; i++) {
        size_t bytes = (size_t)random_range(1, 2 * (long)levels[11].size);

        assert_true(choose(&transfer, &levels[11], 1, bytes));
        check_cursor(&transfer, (unsigned)i);
        check_pack(&transfer, packed, (unsigned)i);
        check_unpack(&transfer, packed, (unsigned)i);
    }
    for (size_t i = 0; i < 12; i++)
        model_finish(&levels[i]);
}

static void deep_nesting(void **state)
{
    (void)state;
    nest(8);
    nest(17);
}

/* Descriptions stay small whatever they describe. */
static void huge_layouts(void **state)
{
    const size_t tera = (size_t)1 << 40;
    pami_type_t vector;
    pami_type_t nested;
    pami_type_t triple;
    struct type_cursor cursor;
    void *piece;

    (void)state;
    assert_int_equal(PAMI_Type_create(&vector), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_add_simple(vector, 8, 16, tera, 4096), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_complete(vector, 8), PAMI_SUCCESS);
    assert_int_equal(type_data_size(type_from_handle(vector)), 8 * tera);
    assert_int_equal(type_from_handle(vector)->layout->run_count, 1);
    type_cursor_init(&cursor, type_from_handle(vector), NULL, 4 * tera + 3);
    assert_int_equal(type_cursor_next(&cursor, &piece, 100), 5);
    assert_int_equal((uintptr_t)piece, 16 + tera / 2 * 4096 + 3);
    assert_int_equal(type_cursor_next(&cursor, &piece, 4), 4);
    assert_int_equal((uintptr_t)piece, 16 + (tera / 2 + 1) * 4096);

    assert_int_equal(PAMI_Type_create(&nested), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_add_typed(nested, vector, 0, 1 << 10, (size_t)1 << 53),
                     PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_complete(nested, 1), PAMI_SUCCESS);
    assert_true(type_from_handle(nested)->layout->run_count <= 2);
    type_cursor_init(&cursor, type_from_handle(nested), NULL, 8 * tera * 5 + 8 * 77 + 1);
    assert_int_equal(type_cursor_next(&cursor, &piece, 100), 7);
    assert_int_equal((uintptr_t)piece, 5 * ((size_t)1 << 53) + 16 + 77 * 4096 + 1);

    /* The data size would pass what an object can have. */
    assert_int_equal(PAMI_Type_create(&triple), PAMI_SUCCESS);
    assert_int_equal(PAMI_Type_add_typed(triple, nested, 0, 1 << 20, 1), PAMI_INVAL);
    assert_int_equal(PAMI_Type_add_simple(triple, SIZE_MAX / 2, 0, 2, 1), PAMI_INVAL);
    assert_int_equal(PAMI_Type_add_simple(triple, SIZE_MAX, 0, SIZE_MAX, 1), PAMI_INVAL);
    assert_int_equal(PAMI_Type_complete(triple, 1), PAMI_SUCCESS);
    assert_int_equal(type_data_size(type_from_handle(triple)), 0);
    assert_int_equal(type_extent(type_from_handle(triple)), 0);
    PAMI_Type_destroy(&vector);
    PAMI_Type_destroy(&nested);
    PAMI_Type_destroy(&triple);
}

/* Usual ways of spelling a regular pattern end up as one run. */
static void merging(void **state)
{
    pami_type_t type;
    pami_type_t row;
    pami_type_t matrix;

    (void)state;
    PAMI_Type_create(&type);
    for (int i = 0; i < 1000; i++)
        PAMI_Type_add_simple(type, 12, 0, 1, 20);
    PAMI_Type_complete(type, 4);
    assert_int_equal(type_from_handle(type)->layout->run_count, 1);
    assert_true(type_from_handle(type)->uniform);
    PAMI_Type_destroy(&type);

    PAMI_Type_create(&type);
    for (int i = 0; i < 1000; i++)
        PAMI_Type_add_typed(type, PAMI_TYPE_DOUBLE, 0, 1, 8);
    PAMI_Type_complete(type, 8);
    assert_true(type_is_contiguous(type_from_handle(type)));
    assert_int_equal(type_kind(type_from_handle(type)), TYPE_KIND_DOUBLE);
    PAMI_Type_destroy(&type);

    /* A matrix by rows: a vector of vectors whose distances fit is a vector. */
    PAMI_Type_create(&row);
    PAMI_Type_add_typed(row, PAMI_TYPE_DOUBLE, 0, 1000, 32);
    PAMI_Type_complete(row, 8);
    PAMI_Type_create(&matrix);
    PAMI_Type_add_typed(matrix, row, 0, 1000, 32000);
    PAMI_Type_complete(matrix, 8);
    assert_int_equal(type_from_handle(matrix)->layout->run_count, 1);
    assert_null(type_from_handle(matrix)->layout->runs[0].nested);
    assert_int_equal(type_kind(type_from_handle(matrix)), TYPE_KIND_DOUBLE);
    PAMI_Type_destroy(&row);
    PAMI_Type_destroy(&matrix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_types),   cmocka_unit_test(random_sums),
        cmocka_unit_test(user_functions), cmocka_unit_test(cuts_of_a_run),
        cmocka_unit_test(abandoned_sink), cmocka_unit_test(deep_nesting),
        cmocka_unit_test(huge_layouts),   cmocka_unit_test(merging),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
