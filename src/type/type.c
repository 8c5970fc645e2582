/*
 * Building, completing and describing types: the public calls around a struct type.
 *
 * A type is owned by its handle until it is destroyed and by every transfer that took a reference.
 * It is mutable until PAMI_Type_complete and constant from then on; the one thing that changes
 * later is the cache of its serialized form.
 */
#include "type/type.h"

#include <errno.h>
#include <stdlib.h>

#include "type/handle.h"
#include "type/layout.h"
#include "type/type_new.h"
#include "util/error.h"

struct type *type_new(struct layout *layout)
{
    struct type *type = calloc(1, sizeof *type);

    if (type == NULL)
        return NULL;
    type->layout = layout;
    type->kind = TYPE_KIND_NONE;
    atomic_init(&type->references, 1);
    atomic_init(&type->serialized, NULL);
    return type;
}

void type_unref(struct type *type)
{
    if (type == NULL || type->permanent)
        return;
    /* R1 releases our last use to A1 of whoever frees. */
    if (atomic_fetch_sub_explicit(&type->references, 1, memory_order_acq_rel) != 1) /* R1, A1 */
        return;
    layout_unref(type->layout);
    free(atomic_load_explicit(&type->serialized, memory_order_relaxed));
    free(type);
}

/* Recognise streams that are one strided sequence from the first instance to the last. */
static void find_uniform(struct type *type)
{
    const struct run *run = type->layout->runs;

    if (type->layout->run_count != 1 || run->nested != NULL)
        return;
    if (run->count > 1 && run->count * run->stride != type->extent)
        return;
    type->uniform = true;
    type->first = run->displacement;
    type->piece = run->bytes;
    type->stride = run->count > 1 ? run->stride : type->extent;
    type->flat = type->stride == type->piece;
}

/* Instances that are further from one another than each is long. */
static bool is_apart(const struct type *type)
{
    const struct layout *layout = type->layout;
    int64_t extent = (int64_t)type->extent, length;

    return layout->apart && !__builtin_sub_overflow(layout->high, layout->low, &length) &&
           (extent >= length || extent <= -length);
}

int type_freeze(struct type *type, size_t atom)
{
    layout_finish(&type->layout);
    if (atom == 0 || atom > TYPE_ATOM_MAX || type->layout->grain % atom != 0)
        return -EINVAL;
    type->size = type->layout->size;
    find_uniform(type);
    type->apart = is_apart(type);
    type->atom = (unsigned)atom;
    return 0;
}

pami_result_t PAMI_Type_create(pami_type_t *type)
{
    struct layout *layout;
    struct type *created;
    pami_type_t handle;

    if (type == NULL)
        return error_set(PAMI_INVAL, "PAMI_Type_create: type: no place for the handle");
    layout = layout_new(1);
    created = layout != NULL ? type_new(layout) : NULL;
    if (created == NULL) {
        layout_unref(layout);
        return error_set(PAMI_ENOMEM, "PAMI_Type_create: out of memory");
    }
    handle = handle_open(created);
    if (handle == NULL) {
        type_unref(created);
        return error_set(PAMI_ENOMEM, "PAMI_Type_create: no memory for a handle");
    }
    *type = handle;
    return PAMI_SUCCESS;
}

static pami_result_t add_result(const char *function, int error)
{
    switch (error) {
    case 0:
        return PAMI_SUCCESS;
    case -EOVERFLOW:
        return error_set(PAMI_INVAL, "%s: the data size would exceed %zu bytes", function,
                         LAYOUT_SIZE_MAX);
    case -ELOOP:
        return error_set(PAMI_INVAL, "%s: subtype: nested more than %d levels deep", function,
                         LAYOUT_HEIGHT_MAX);
    default:
        return error_set(PAMI_ENOMEM, "%s: out of memory", function);
    }
}

/* The type to add to, or NULL with *result set. */
static struct type *incomplete(const char *function, pami_type_t handle, pami_result_t *result)
{
    struct type *type = type_from_handle(handle);

    if (type == NULL)
        *result = error_set(PAMI_INVAL, "%s: type: not a type", function);
    else if (type_is_complete(type))
        *result = error_set(PAMI_INVAL, "%s: type: complete already", function);
    else
        return type;
    return NULL;
}

/* Data of `kind` was added; `first`: there was none before. */
static void note_kind(struct type *type, enum type_kind kind, bool first)
{
    if (first)
        type->kind = kind;
    else if (type->kind != kind)
        type->kind = TYPE_KIND_NONE;
}

pami_result_t PAMI_Type_add_simple(pami_type_t type, size_t bytes, size_t offset, size_t count,
                                   size_t stride)
{
    pami_result_t result = PAMI_SUCCESS;
    struct type *target = incomplete("PAMI_Type_add_simple", type, &result);
    bool first;
    int error;

    if (target == NULL)
        return result;
    first = target->layout->size == 0;
    error = layout_add_bytes(&target->layout, bytes, target->extent + offset, count, stride);
    if (error != 0)
        return add_result("PAMI_Type_add_simple", error);
    if (bytes != 0 && count != 0)
        note_kind(target, TYPE_KIND_NONE, first);
    target->extent += offset + count * stride;
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Type_add_typed(pami_type_t type, pami_type_t subtype, size_t offset,
                                  size_t count, size_t stride)
{
    pami_result_t result = PAMI_SUCCESS;
    struct type *target = incomplete("PAMI_Type_add_typed", type, &result);
    struct type *sub;
    bool first;
    int error;

    if (target == NULL)
        return result;
    sub = type_complete_from_handle(subtype);
    if (sub == NULL)
        return error_set(PAMI_INVAL, "PAMI_Type_add_typed: subtype: not a complete type");
    first = target->layout->size == 0;
    error = layout_add_nested(&target->layout, sub->layout, target->extent + offset, count, stride);
    if (error != 0)
        return add_result("PAMI_Type_add_typed", error);
    if (sub->size != 0 && count != 0)
        note_kind(target, sub->kind, first);
    target->extent += offset + count * stride;
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Type_complete(pami_type_t type, size_t atom_size)
{
    pami_result_t result = PAMI_SUCCESS;
    struct type *target = incomplete("PAMI_Type_complete", type, &result);

    if (target == NULL)
        return result;
    if (type_freeze(target, atom_size) != 0)
        return error_set(PAMI_INVAL,
                         "PAMI_Type_complete: atom_size: %zu is not within 1..%d or does not "
                         "divide every contiguous piece",
                         atom_size, TYPE_ATOM_MAX);
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Type_destroy(pami_type_t *type)
{
    struct type *closed = type != NULL ? handle_close(*type) : NULL;

    if (closed == NULL)
        return error_set(PAMI_INVAL, "PAMI_Type_destroy: type: not a type, or a predefined one");
    *type = NULL;
    type_unref(closed);
    return PAMI_SUCCESS;
}

static pami_result_t query_one(const struct type *type, pami_configuration_t *configuration,
                               size_t place)
{
    switch (configuration->name) {
    case PAMI_TYPE_DATA_SIZE:
        configuration->value.intval = type->size;
        return PAMI_SUCCESS;
    case PAMI_TYPE_DATA_EXTENT:
        configuration->value.intval = type->extent;
        return PAMI_SUCCESS;
    case PAMI_TYPE_ATOM_SIZE:
        configuration->value.intval = type->atom;
        return PAMI_SUCCESS;
    default:
        return error_set(PAMI_INVAL,
                         "PAMI_Type_query: configuration[%zu].name: attribute %d is not of a type",
                         place, (int)configuration->name);
    }
}

pami_result_t PAMI_Type_query(pami_type_t type, pami_configuration_t configuration[],
                              size_t num_configs)
{
    const struct type *queried = type_complete_from_handle(type);
    pami_result_t result = PAMI_SUCCESS;

    if (queried == NULL)
        return error_set(PAMI_INVAL, "PAMI_Type_query: type: not a complete type");
    if (configuration == NULL && num_configs > 0)
        return error_set(PAMI_INVAL, "PAMI_Type_query: configuration: no attributes given");
    for (size_t i = 0; i < num_configs; i++) {
        pami_result_t one = query_one(queried, &configuration[i], i);

        if (one != PAMI_SUCCESS)
            result = one;
    }
    return result;
}
