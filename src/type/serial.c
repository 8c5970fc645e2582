/*
 * Types as plain bytes, for other tasks of the job.
 *
 * The form is a sequence of native 64-bit words: a header, then every distinct layout of the nest
 * once, inner ones first, so that a nested run names a layout that came before it; the last one
 * is the type's. A task of another byte order does not recognise the mark. A hash over all words
 * finds damage. What damage cannot explain, a hostile sender, is met by building the layouts
 * through the same calls as a local program, which uphold every invariant, after checking the
 * few things that only this form can get wrong.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "type/census.h"
#include "type/handle.h"
#include "type/layout.h"
#include "type/type.h"
#include "type/type_new.h"
#include "util/error.h"

#define SERIAL_MARK UINT64_C(0x0131657079746970) /* "pitype1" and the version */

struct serial_header {
    uint64_t mark;
    uint64_t size; /* of everything, bytes */
    uint64_t hash; /* of everything behind this word */
    uint64_t extent;
    uint64_t atom;
    uint64_t kind;
    uint64_t layouts;
};

/* Then per layout one word, the number of its runs, and per run this. */
struct serial_run {
    uint64_t displacement;
    uint64_t bytes; /* of a leaf */
    uint64_t count;
    uint64_t stride;
    uint64_t nested; /* 1 + number of an earlier layout; 0: a leaf */
};

#define HASHED_FROM offsetof(struct serial_header, extent)

/* `size` is a multiple of 8. */
static uint64_t hash_words(const unsigned char *bytes, size_t size)
{
    uint64_t hash = size;

    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, bytes + i, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* ---- writing ---- */

static size_t serialized_size(const struct census *census)
{
    size_t size = sizeof(struct serial_header);

    for (size_t i = 0; i < census->count; i++)
        size += sizeof(uint64_t) + census->layouts[i]->run_count * sizeof(struct serial_run);
    return size;
}

static unsigned char *write_layout(unsigned char *at, const struct census *census,
                                   const struct layout *layout)
{
    uint64_t runs = layout->run_count;

    memcpy(at, &runs, sizeof runs);
    at += sizeof runs;
    for (size_t i = 0; i < layout->run_count; i++) {
        const struct run *run = &layout->runs[i];
        struct serial_run out = {.displacement = run->displacement,
                                 .bytes = run->bytes,
                                 .count = run->count,
                                 .stride = run->stride};

        if (run->nested != NULL)
            out.nested = 1 + census_position(census, run->nested);
        memcpy(at, &out, sizeof out);
        at += sizeof out;
    }
    return at;
}

static void write_all(const struct type *type, const struct census *census, unsigned char *bytes,
                      size_t size)
{
    struct serial_header header = {.mark = SERIAL_MARK,
                                   .size = size,
                                   .extent = type->extent,
                                   .atom = type->atom,
                                   .kind = type->kind,
                                   .layouts = census->count};
    unsigned char *at = bytes + sizeof header;

    for (size_t i = 0; i < census->count; i++)
        at = write_layout(at, census, census->layouts[i]);
    memcpy(bytes, &header, sizeof header);
    header.hash = hash_words(bytes + HASHED_FROM, size - HASHED_FROM);
    memcpy(bytes, &header, sizeof header);
}

size_t type_serialized_size(const struct type *type)
{
    struct census census;
    size_t size;

    if (census_take(&census, type->layout) != 0)
        return 0;
    size = serialized_size(&census);
    census_finish(&census);
    return size;
}

int type_serialize_into(const struct type *type, void *buffer, size_t size)
{
    struct census census;
    int error = census_take(&census, type->layout);

    if (error != 0)
        return error;
    if (size == serialized_size(&census))
        write_all(type, &census, buffer, size);
    else
        error = -EINVAL;
    census_finish(&census);
    return error;
}

/* ---- reading ---- */

/* Layouts read so far, each with one reference; the input behind them. */
struct reader {
    const unsigned char *at;
    size_t left;
    struct layout **layouts;
    size_t count;
};

static bool take(struct reader *reader, void *to, size_t bytes)
{
    if (reader->left < bytes)
        return false;
    memcpy(to, reader->at, bytes);
    reader->at += bytes;
    reader->left -= bytes;
    return true;
}

static int read_run(struct reader *reader, struct layout **layout)
{
    struct serial_run in;
    struct layout *nested;

    if (!take(reader, &in, sizeof in) || in.count == 0 || in.bytes == 0 ||
        in.nested > reader->count)
        return -EINVAL;
    if (in.nested == 0)
        return layout_add_bytes(layout, in.bytes, in.displacement, in.count, in.stride);
    nested = reader->layouts[in.nested - 1];
    if (nested->size != in.bytes)
        return -EINVAL;
    return layout_add_nested(layout, nested, in.displacement, in.count, in.stride);
}

static int read_layout(struct reader *reader)
{
    struct layout *layout;
    uint64_t runs;
    int error = 0;

    if (!take(reader, &runs, sizeof runs) || runs > reader->left / sizeof(struct serial_run))
        return -EINVAL;
    layout = layout_new(runs);
    if (layout == NULL)
        return -ENOMEM;
    for (uint64_t i = 0; i < runs && error == 0; i++)
        error = read_run(reader, &layout);
    if (error != 0) {
        layout_unref(layout);
        return error;
    }
    layout_finish(&layout);
    reader->layouts[reader->count++] = layout;
    return 0;
}

/* *layout = the last of `count` layouts, with the caller's reference. */
static int read_layouts(struct reader *reader, uint64_t count, struct layout **layout)
{
    int error = 0;

    if (count == 0 || count > reader->left / sizeof(uint64_t))
        return -EINVAL;
    reader->layouts = malloc(count * sizeof reader->layouts[0]);
    if (reader->layouts == NULL)
        return -ENOMEM;
    while (reader->count < count && error == 0)
        error = read_layout(reader);
    if (error == 0 && reader->left > 0)
        error = -EINVAL;
    if (error == 0)
        *layout = layout_ref(reader->layouts[count - 1]);
    while (reader->count > 0)
        layout_unref(reader->layouts[--reader->count]);
    free(reader->layouts);
    return error == -ENOMEM || error == 0 ? error : -EINVAL;
}

int type_deserialize(const void *bytes, size_t size, struct type **type)
{
    struct reader reader = {.at = bytes, .left = size};
    struct serial_header header;
    struct layout *layout = NULL;
    struct type *read;
    int error;

    if (bytes == NULL || size % sizeof(uint64_t) != 0 || !take(&reader, &header, sizeof header) ||
        header.mark != SERIAL_MARK || header.size != size || header.kind > TYPE_KIND_NONE ||
        header.hash != hash_words((const unsigned char *)bytes + HASHED_FROM, size - HASHED_FROM))
        return -EINVAL;
    error = read_layouts(&reader, header.layouts, &layout);
    if (error != 0)
        return error;
    read = type_new(layout);
    if (read == NULL) {
        layout_unref(layout);
        return -ENOMEM;
    }
    read->extent = header.extent;
    read->kind = (enum type_kind)header.kind;
    if (type_freeze(read, header.atom) != 0 ||
        read->layout->grain % type_kind_size(read->kind) != 0) {
        type_unref(read);
        return -EINVAL;
    }
    *type = read;
    return 0;
}

/* ---- public calls ---- */

/* The cached form of a type, made now if need be; NULL: out of memory. */
static void *serialized_form(struct type *type)
{
    void *none = NULL;
    void *made = atomic_load_explicit(&type->serialized, memory_order_acquire); /* A1 */
    size_t size;

    if (made != NULL)
        return made;
    size = type_serialized_size(type);
    made = size > 0 ? malloc(size) : NULL;
    if (made == NULL || type_serialize_into(type, made, size) != 0) {
        free(made);
        return NULL;
    }
    /* R1 pairs with A1: who sees the pointer sees the bytes. Of two makers one keeps its work. */
    if (!atomic_compare_exchange_strong_explicit(&type->serialized, &none, made,
                                                 memory_order_acq_rel, memory_order_acquire)) {
        free(made);
        made = none;
    }
    return made;
}

pami_result_t PAMI_Type_serialize(pami_type_t type, void **address, size_t *size)
{
    struct type *complete = type_complete_from_handle(type);
    struct serial_header header;
    void *form;

    if (complete == NULL)
        return error_set(PAMI_INVAL, "PAMI_Type_serialize: type: not a complete type");
    if (address == NULL || size == NULL)
        return error_set(PAMI_INVAL, "PAMI_Type_serialize: address, size: no place for the result");
    form = serialized_form(complete);
    if (form == NULL)
        return error_set(PAMI_ENOMEM, "PAMI_Type_serialize: out of memory");
    memcpy(&header, form, sizeof header);
    *address = form;
    *size = header.size;
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Type_deserialize(pami_type_t *type, void *address, size_t size)
{
    struct type *read;
    pami_type_t handle;
    int error;

    if (type == NULL)
        return error_set(PAMI_INVAL, "PAMI_Type_deserialize: type: no place for the handle");
    error = type_deserialize(address, size, &read);
    if (error == -EINVAL)
        return error_set(PAMI_INVAL,
                         "PAMI_Type_deserialize: address: %zu bytes that are no serialized type",
                         size);
    handle = error == 0 ? handle_open(read) : NULL;
    if (handle == NULL) {
        if (error == 0)
            type_unref(read);
        return error_set(PAMI_ENOMEM, "PAMI_Type_deserialize: out of memory");
    }
    *type = handle;
    return PAMI_SUCCESS;
}
