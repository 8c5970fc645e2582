/*
 * From one layout into another in local memory.
 *
 * Copies go from cursor to cursor. Operators receive the source through a sink, like a message, so
 * that they never see part of an element whatever the source is cut into; short pieces of the
 * source are collected in a small area on the stack first.
 */
#include <errno.h>

#include "type/copy.h"
#include "type/type.h"
#include "util/error.h"
#include "util/minmax.h"

static void feed(struct type_sink *sink, struct type_cursor *source, size_t bytes)
{
    unsigned char stage[COPY_STAGE];

    while (bytes > 0) {
        size_t step;

        if (source->left == 0 && !type_cursor_refill(source))
            return;
        if (source->left >= COPY_DIRECT_MIN) {
            void *piece;

            step = type_cursor_next(source, &piece, bytes);
            type_sink_write(sink, piece, step);
        } else {
            step = type_pack(stage, source, smaller(sizeof stage, bytes), NULL, NULL);
            type_sink_write(sink, stage, step);
        }
        bytes -= step;
    }
}

int type_transform(const void *source, const struct type *source_type, size_t source_offset,
                   void *target, const struct type *target_type, size_t target_offset, size_t bytes,
                   pami_data_function fn, void *cookie)
{
    struct type_cursor from;
    struct type_sink sink;
    int error;

    if (bytes == 0) /* there may be no memory */
        return type_check_operator(target_type, fn);
    if (source_type->size == 0)
        return -EINVAL;
    if (source_type->flat && target_type->flat && !operator_is_user(fn)) {
        error = type_check_transfer(target_type, target_offset, bytes, fn);
        if (error == 0)
            (void)operator_apply(fn, target_type->kind,
                                 (void *)((uintptr_t)target + target_type->first + target_offset),
                                 (void *)((uintptr_t)source + source_type->first + source_offset),
                                 bytes);
        return error;
    }
    error = type_sink_init(&sink, target_type, target, target_offset, bytes, fn, cookie);
    if (error != 0)
        return error;
    type_cursor_init(&from, source_type, source, source_offset);
    if (operator_is_copy(fn))
        type_copy(&sink.cursor, &from, bytes);
    else if (operator_code(fn) != OPERATOR_NOOP)
        feed(&sink, &from, bytes);
    type_sink_finish(&sink);
    return 0;
}

pami_result_t PAMI_Type_transform_data(void *src_addr, pami_type_t src_type, size_t src_offset,
                                       void *dst_addr, pami_type_t dst_type, size_t dst_offset,
                                       size_t size, pami_data_function data_fn, void *cookie)
{
    const struct type *source = type_complete_from_handle(src_type);
    const struct type *target = type_complete_from_handle(dst_type);
    int error;

    if (source == NULL)
        return error_set(PAMI_INVAL, "PAMI_Type_transform_data: src_type: not a complete type");
    if (target == NULL)
        return error_set(PAMI_INVAL, "PAMI_Type_transform_data: dst_type: not a complete type");
    /* Other types may hold absolute addresses, for which the base is NULL. */
    if (size > 0 && ((src_addr == NULL && type_is_contiguous(source)) ||
                     (dst_addr == NULL && type_is_contiguous(target))))
        return error_set(PAMI_INVAL, "PAMI_Type_transform_data: %s: no buffer",
                         src_addr == NULL ? "src_addr" : "dst_addr");
    if (type_check_operator(target, data_fn) != 0)
        return error_set(PAMI_INVAL, "PAMI_Type_transform_data: data_fn: not defined for dst_type");
    error = type_transform(src_addr, source, src_offset, dst_addr, target, dst_offset, size,
                           data_fn, cookie);
    if (error == -ENOMEM)
        return error_set(PAMI_ENOMEM, "PAMI_Type_transform_data: out of memory");
    if (error != 0)
        return error_set(PAMI_INVAL,
                         "PAMI_Type_transform_data: size: %zu bytes at dst_offset %zu split an "
                         "element, or a type is empty",
                         size, dst_offset);
    return PAMI_SUCCESS;
}
