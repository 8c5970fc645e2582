/*
 * Damaged and forged serialized types. Whatever the bytes are, they are refused or make a type that
 * is safe to use: no crash, no endless loop, no memory out of proportion to the input, and the type
 * serializes and reads back as itself. Half of the mutants get a correct hash, as a hostile sender
 * would give them.
 *
 * Compiled with -DFUZZ_LIBFUZZER it is an entry for libFuzzer instead (clang -fsanitize=fuzzer).
 *
 * Run: args="--seed 1" timeout=60
 * Run: args="--seed 2" timeout=60
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "basics.h"
#include "type/census.h"
#include "type/type.h"

#define FORM_MAX 4096
#define MUTANTS_MAX 200000
#define SECONDS_MAX 2.0

/* Words of the header: mark, size, hash, and then what the hash covers. */
#define WORD_SIZE 1
#define WORD_HASH 2
#define HEADER_WORDS 7

static unsigned long accepted;

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "type_deserialize: %s\n", what);
        abort();
    }
}

/* ---- using what was accepted ---- */

static void check_memory(const struct type *type, size_t size)
{
    struct census census;
    size_t bytes = 0;

    check(census_take(&census, type->layout) == 0, "no memory");
    for (size_t i = 0; i < census.count; i++)
        bytes += sizeof *census.layouts[i] + census.layouts[i]->capacity * sizeof(struct run);
    census_finish(&census);
    check(bytes <= 32 * size + 1024, "memory out of proportion");
}

static void walk(const struct type *type, size_t offset)
{
    struct type_cursor cursor;
    size_t unit = type_kind_size(type_kind(type));

    type_cursor_init(&cursor, type, NULL, offset - offset % unit);
    for (int i = 0; i < 300; i++) {
        void *piece;
        size_t bytes = type_cursor_next(&cursor, &piece, (size_t)1 << 50);

        check((bytes == 0) == (type_data_size(type) == 0), "a cursor stopped");
        check(bytes % unit == 0, "part of an element");
    }
}

static void use(const struct type *type, size_t size)
{
    size_t offsets[] = {0, 1, type_data_size(type) / 2, type_data_size(type) - 1,
                        3 * type_data_size(type) + 7};
    size_t form_size = type_serialized_size(type);
    void *form = malloc(form_size);
    struct type *again;

    check_memory(type, size);
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
        walk(type, offsets[i]);
    check(form != NULL && type_serialize_into(type, form, form_size) == 0, "cannot serialize");
    check(type_deserialize(form, form_size, &again) == 0, "cannot read back");
    check(type_data_size(again) == type_data_size(type) &&
              type_extent(again) == type_extent(type) && type_atom(again) == type_atom(type) &&
              type_kind(again) == type_kind(type),
          "read back as something else");
    type_unref(again);
    free(form);
}

static void try_bytes(const unsigned char *bytes, size_t size)
{
    struct type *type;
    int error = type_deserialize(bytes, size, &type);

    check(error == 0 || error == -22, "an unexpected error");
    if (error == 0) {
        use(type, size);
        type_unref(type);
        accepted++;
    }
}

/* ---- forging ---- */

static void put_word(unsigned char *bytes, size_t index, uint64_t word)
{
    memcpy(bytes + 8 * index, &word, sizeof word);
}

static uint64_t get_word(const unsigned char *bytes, size_t index)
{
    uint64_t word;

    memcpy(&word, bytes + 8 * index, sizeof word);
    return word;
}

/* Make size and hash right. */
static void forge(unsigned char *bytes, size_t size)
{
    uint64_t hash = size - 8 * (WORD_HASH + 1);

    if (size < 8 * HEADER_WORDS || size % 8 != 0)
        return;
    put_word(bytes, WORD_SIZE, size);
    for (size_t i = WORD_HASH + 1; i < size / 8; i++) {
        hash = (hash ^ get_word(bytes, i)) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    put_word(bytes, WORD_HASH, hash);
}

#ifdef FUZZ_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char forged[FORM_MAX];

    try_bytes(data, size);
    if (size >= 8 * HEADER_WORDS && size <= FORM_MAX) {
        memcpy(forged, data, size);
        put_word(forged, 0, UINT64_C(0x0131657079746970));
        forge(forged, size);
        try_bytes(forged, size);
    }
    return 0;
}

#else

static uint64_t state;

static uint64_t next(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t interesting(void)
{
    static const uint64_t values[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      7,
                                      8,
                                      16,
                                      127,
                                      128,
                                      129,
                                      255,
                                      UINT32_MAX,
                                      SIZE_MAX,
                                      SIZE_MAX - 1,
                                      SIZE_MAX / 2,
                                      SIZE_MAX / 2 + 1,
                                      SIZE_MAX / 8,
                                      (uint64_t)1 << 32,
                                      28};

    return values[next() % (sizeof values / sizeof values[0])];
}

/* A valid form of a random type, possibly nested. Returns its size. */
static size_t seed_form(unsigned char *bytes)
{
    pami_type_t types[4];
    size_t count = 1 + next() % 4;
    void *address;
    size_t size;

    for (size_t i = 0; i < count; i++) {
        PAMI_Type_create(&types[i]);
        for (size_t k = 1 + next() % 20; k > 0; k--) {
            if (i > 0 && next() % 3 == 0)
                PAMI_Type_add_typed(types[i], types[next() % i], next() % 9, 1 + next() % 30,
                                    next() % 5000);
            else if (next() % 3 == 0)
                PAMI_Type_add_typed(types[i], PAMI_TYPE_SIGNED_INT, 4 * (next() % 9),
                                    1 + next() % 30, 4 * (next() % 50));
            else
                PAMI_Type_add_simple(types[i], next() % 9, next() % 9, 1 + next() % 9, next() % 50);
        }
        PAMI_Type_complete(types[i], 1);
    }
    if (PAMI_Type_serialize(types[count - 1], &address, &size) != PAMI_SUCCESS || size > FORM_MAX)
        size = 0;
    else
        memcpy(bytes, address, size);
    for (size_t i = 0; i < count; i++)
        PAMI_Type_destroy(&types[i]);
    return size;
}

static size_t mutate(unsigned char *bytes, size_t size)
{
    for (size_t changes = 1 + next() % 4; changes > 0; changes--) {
        switch (next() % 6) {
        case 0:
            bytes[next() % size] ^= (unsigned char)(1 << next() % 8);
            break;
        case 1:
        case 2:
            put_word(bytes, next() % (size / 8), interesting());
            break;
        case 3:
            put_word(bytes, next() % (size / 8), get_word(bytes, next() % (size / 8)));
            break;
        case 4:
            put_word(bytes, next() % (size / 8),
                     get_word(bytes, next() % (size / 8)) + next() % 5 - 2);
            break;
        default:
            if (next() % 4 == 0)
                size = next() % 2 ? next() % size / 8 * 8 : next() % size;
            break;
        }
        if (size < 8)
            break;
    }
    return size;
}

int main(int argc, char **argv)
{
    static unsigned char original[FORM_MAX];
    unsigned long tried = 0;
    double start = test_now();
    size_t size = 0;

    state = 88172645463325252u;
    if (argc == 3 && strcmp(argv[1], "--seed") == 0)
        state += strtoull(argv[2], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15);
    while (tried < MUTANTS_MAX && test_now() - start < SECONDS_MAX) {
        unsigned char *mutant;
        size_t mutant_size;

        if (tried % 50 == 0 || size == 0) {
            size = seed_form(original);
            if (size == 0)
                continue;
            try_bytes(original, size);
        }
        /* An allocation of exactly this size, so that reading past the end is noticed. */
        mutant = malloc(size);
        check(mutant != NULL, "no memory");
        memcpy(mutant, original, size);
        mutant_size = mutate(mutant, size);
        mutant = realloc(mutant, mutant_size + 1);
        check(mutant != NULL, "no memory");
        if (next() % 2 == 0)
            forge(mutant, mutant_size);
        try_bytes(mutant, mutant_size);
        for (size_t i = 0; i < mutant_size; i++)
            mutant[i] = tried % 16 == 0 ? (unsigned char)next() : mutant[i];
        if (tried % 16 == 0)
            try_bytes(mutant, mutant_size);
        free(mutant);
        tried++;
    }
    printf("%lu mutants, %lu accepted\n", tried, accepted);
    check(accepted > tried / 200, "hardly anything is accepted: the forging is out of date");
    return 0;
}

#endif
