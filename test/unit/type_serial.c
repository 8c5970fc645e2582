/*
 * Serialized types: the same stream comes out in this process and in another program image; every
 * damaged byte is noticed; shared parts are written once. Forged forms are in test/fuzz.
 *
 * Run: timeout=60
 */
#include "type_model.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "type/layout.h"

#define POOL 60

/* A summary of what a type is and where its first data bytes lie. */
struct summary {
    uint64_t size;
    uint64_t extent;
    uint64_t atom;
    uint64_t kind;
    uint64_t places;
};

static struct summary summarize(const struct type *type)
{
    struct summary summary = {.size = type_data_size(type),
                              .extent = type_extent(type),
                              .atom = type_atom(type),
                              .kind = type_kind(type)};
    size_t left = 3 * type_data_size(type);
    struct type_cursor cursor;

    type_cursor_init(&cursor, type, NULL, 1);
    while (left > 0) {
        void *piece;
        size_t bytes = type_cursor_next(&cursor, &piece, left);

        /* By the byte, since pieces may be merged differently. */
        for (size_t i = 0; i < bytes; i++)
            summary.places = summary.places * 31 + (uintptr_t)piece + i;
        left -= bytes;
    }
    return summary;
}

static void fill_pool(struct model *pool)
{
    static pami_type_t *const predefined[] = {&PAMI_TYPE_DOUBLE, &PAMI_TYPE_LOC_LONGDOUBLE_INT};

    random_seed(42);
    model_predefined(&pool[0], *predefined[0], 8);
    model_predefined(&pool[1], *predefined[1], 32);
    model_start(&pool[2]);
    model_complete(&pool[2], 1); /* empty */
    for (size_t i = 3; i < POOL; i++) {
        bool doubles = i < 20;

        model_start(&pool[i]);
        model_random_adds(&pool[i], pool, doubles ? 1 : i, doubles ? 8 : 1, doubles, MODEL_MAX / 3);
        model_complete(&pool[i], 1);
    }
}

static void same_process(void **state)
{
    struct model pool[POOL];

    (void)state;
    fill_pool(pool);
    for (size_t i = 0; i < POOL; i++) {
        struct summary before = summarize(type_from_handle(pool[i].handle));
        struct summary after;
        pami_type_t copy;
        void *address;
        void *again;
        size_t size;

        assert_int_equal(PAMI_Type_serialize(pool[i].handle, &address, &size), PAMI_SUCCESS);
        assert_int_equal(PAMI_Type_serialize(pool[i].handle, &again, &size), PAMI_SUCCESS);
        assert_ptr_equal(address, again);
        assert_int_equal(type_serialized_size(type_from_handle(pool[i].handle)), size);
        /* At any alignment, and independent of the bytes afterwards. */
        again = malloc(size + 1);
        memcpy((char *)again + 1, address, size);
        assert_int_equal(PAMI_Type_deserialize(&copy, (char *)again + 1, size), PAMI_SUCCESS);
        memset(again, 0xff, size + 1);
        free(again);
        after = summarize(type_from_handle(copy));
        assert_memory_equal(&before, &after, sizeof before);
        assert_int_equal(PAMI_Type_destroy(&copy), PAMI_SUCCESS);
    }
    for (size_t i = 0; i < POOL; i++)
        model_finish(&pool[i]);
}

/* The other image: read sizes and forms from standard input, write summaries. */
static int other_image(void)
{
    uint64_t size;

    while (fread(&size, sizeof size, 1, stdin) == 1) {
        void *bytes = malloc(size);
        struct summary summary;
        pami_type_t type;

        if (bytes == NULL || fread(bytes, 1, size, stdin) != size ||
            PAMI_Type_deserialize(&type, bytes, size) != PAMI_SUCCESS)
            return 1;
        free(bytes);
        summary = summarize(type_from_handle(type));
        if (fwrite(&summary, sizeof summary, 1, stdout) != 1 ||
            PAMI_Type_destroy(&type) != PAMI_SUCCESS)
            return 1;
    }
    return fflush(stdout) != 0;
}

static const char *program;

static pid_t start_other_image(FILE *input, FILE *output)
{
    pid_t child = fork();

    if (child == 0) {
        dup2(fileno(input), STDIN_FILENO);
        dup2(fileno(output), STDOUT_FILENO);
        execl(program, program, "--other-image", (char *)NULL);
        _exit(127);
    }
    return child;
}

static void other_process(void **state)
{
    struct model pool[POOL];
    FILE *input = tmpfile();
    FILE *output = tmpfile();
    int status;

    (void)state;
    assert_true(input != NULL && output != NULL);
    fill_pool(pool);
    for (size_t i = 0; i < POOL; i++) {
        uint64_t bytes;
        size_t size;
        void *address;

        assert_int_equal(PAMI_Type_serialize(pool[i].handle, &address, &size), PAMI_SUCCESS);
        bytes = size;
        assert_int_equal(fwrite(&bytes, sizeof bytes, 1, input), 1);
        assert_int_equal(fwrite(address, 1, size, input), size);
    }
    rewind(input);
    assert_int_equal(waitpid(start_other_image(input, output), &status, 0) > 0, 1);
    assert_int_equal(status, 0);
    rewind(output);
    for (size_t i = 0; i < POOL; i++) {
        struct summary here = summarize(type_from_handle(pool[i].handle));
        struct summary there;

        assert_int_equal(fread(&there, sizeof there, 1, output), 1);
        assert_memory_equal(&here, &there, sizeof here);
        model_finish(&pool[i]);
    }
    fclose(input);
    fclose(output);
}

/* Every single flipped bit and every wrong length is noticed. */
static void damage(void **state)
{
    struct model model;
    pami_type_t copy = (pami_type_t)&copy;
    unsigned char *bytes;
    void *address;
    size_t size;

    (void)state;
    model_start(&model);
    model_simple(&model, 3, 0, 4, 10);
    model_simple(&model, 5, 2, 2, 7);
    model_complete(&model, 1);
    assert_int_equal(PAMI_Type_serialize(model.handle, &address, &size), PAMI_SUCCESS);
    bytes = calloc(1, size + 64);
    memcpy(bytes, address, size);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(PAMI_Type_deserialize(&copy, bytes, size), PAMI_INVAL);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t length = 0; length < size + 64; length++)
        if (length != size)
            assert_int_equal(PAMI_Type_deserialize(&copy, bytes, length), PAMI_INVAL);
    assert_int_equal(PAMI_Type_deserialize(&copy, NULL, size), PAMI_INVAL);
    assert_int_equal(PAMI_Type_deserialize(NULL, bytes, size), PAMI_INVAL);
    assert_int_equal(PAMI_Type_serialize(model.handle, NULL, &size), PAMI_INVAL);
    assert_int_equal(PAMI_Type_serialize(model.handle, &address, NULL), PAMI_INVAL);
    assert_ptr_equal(copy, &copy);
    free(bytes);
    model_finish(&model);
}

/* Each level uses the one below twice: a walk that forgets what it has seen takes 2^40 steps. */
static void shared_parts(void **state)
{
    pami_type_t levels[40];
    pami_type_t copy;
    void *address;
    size_t size;

    (void)state;
    for (size_t i = 0; i < 40; i++) {
        assert_int_equal(PAMI_Type_create(&levels[i]), PAMI_SUCCESS);
        for (size_t k = 0; k < 17; k++)
            PAMI_Type_add_simple(levels[i], 1, k * k % 7, 1, 1 + k);
        if (i > 0) {
            PAMI_Type_add_typed(levels[i], levels[i - 1], 0, 1, 0);
            PAMI_Type_add_simple(levels[i], 1, 5, 1, 1);
            PAMI_Type_add_typed(levels[i], levels[i - 1], 3, 1, 0);
        }
        assert_int_equal(PAMI_Type_complete(levels[i], 1), PAMI_SUCCESS);
    }
    assert_int_equal(PAMI_Type_serialize(levels[39], &address, &size), PAMI_SUCCESS);
    assert_true(size < 64 * 1024);
    assert_int_equal(PAMI_Type_deserialize(&copy, address, size), PAMI_SUCCESS);
    assert_int_equal(type_from_handle(copy)->size, type_from_handle(levels[39])->size);
    PAMI_Type_destroy(&copy);
    for (size_t i = 0; i < 40; i++)
        PAMI_Type_destroy(&levels[i]);
}

/* The limit of nesting is reported, not met by accident. */
static void nesting_limit(void **state)
{
    pami_type_t inner = NULL;
    pami_result_t result = PAMI_SUCCESS;
    size_t level = 0;
    char text[200];

    (void)state;
    while (result == PAMI_SUCCESS && level < 1000) {
        pami_type_t outer;

        PAMI_Type_create(&outer);
        for (size_t k = 0; k < 17; k++)
            PAMI_Type_add_simple(outer, 1, k * k % 7, 1, 1 + k);
        if (inner != NULL)
            result = PAMI_Type_add_typed(outer, inner, 0, 1, 0);
        assert_int_equal(PAMI_Type_complete(outer, 1), PAMI_SUCCESS);
        if (inner != NULL)
            PAMI_Type_destroy(&inner);
        inner = outer;
        level++;
    }
    assert_int_equal(result, PAMI_INVAL);
    assert_true(level > LAYOUT_HEIGHT_MAX);
    PAMI_Error_text(text, sizeof text);
    assert_non_null(strstr(text, "nested"));
    PAMI_Type_destroy(&inner);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_process), cmocka_unit_test(other_process), cmocka_unit_test(damage),
        cmocka_unit_test(shared_parts), cmocka_unit_test(nesting_limit),
    };

    program = argv[0];
    if (argc == 2 && strcmp(argv[1], "--other-image") == 0)
        return other_image();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
