/*
 * Moving data between cursors and contiguous memory, and between two cursors.
 *
 * Copies take whole strided runs at a time where they can; operators go piece by piece. Nothing
 * here holds state between calls beyond the cursors: see sink.c for messages that arrive in
 * fragments of any length.
 */
#include "type/copy.h"
#include "type/type.h"

#include <errno.h>
#include <string.h>

#include "util/minmax.h"

/* How many whole pieces can be taken at once from here, within `bytes`; 0 or 1: not worth it. */
static size_t whole_pieces(const struct type_cursor *cursor, size_t bytes)
{
    size_t pieces = cursor->reps;

    if (cursor->left != cursor->piece || pieces == 0 || bytes < 2 * cursor->piece)
        return 0;
    /* Short runs are common in nested types, and not worth a division. */
    if (pieces < 64 && (pieces + 1) * cursor->piece <= bytes)
        return pieces + 1;
    return smaller(pieces, bytes / cursor->piece - 1) + 1;
}

/* Step over whole pieces found by whole_pieces. */
static void step_pieces(struct type_cursor *cursor, size_t pieces)
{
    cursor->at += (pieces - 1) * cursor->stride + cursor->piece;
    cursor->reps -= pieces - 1;
    cursor->left = 0;
}

static size_t gather(uintptr_t target, struct type_cursor *source, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        size_t pieces;
        size_t step;

        if (source->left == 0 && !type_cursor_refill(source))
            break;
        pieces = whole_pieces(source, bytes - done);
        if (pieces > 1) {
            step = pieces * source->piece;
            copy_blocks(target + done, source->piece, source->at, source->stride, source->piece,
                        pieces);
            step_pieces(source, pieces);
        } else {
            step = smaller(source->left, bytes - done);
            memmove((void *)(target + done), (const void *)source->at, step);
            type_cursor_step(source, step);
        }
        done += step;
    }
    return done;
}

static size_t scatter(struct type_cursor *target, uintptr_t source, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        size_t pieces;
        size_t step;

        if (target->left == 0 && !type_cursor_refill(target))
            break;
        pieces = whole_pieces(target, bytes - done);
        if (pieces > 1) {
            step = pieces * target->piece;
            copy_blocks(target->at, target->stride, source + done, target->piece, target->piece,
                        pieces);
            step_pieces(target, pieces);
        } else {
            step = smaller(target->left, bytes - done);
            memmove((void *)target->at, (const void *)(source + done), step);
            type_cursor_step(target, step);
        }
        done += step;
    }
    return done;
}

/*
 * Whole pieces of one side, each of which is several of the other's; `scatters`: from the coarse
 * side to the fine one. Returns the bytes, 0 if there are none such here.
 */
static size_t copy_nested(struct type_cursor *coarse, struct type_cursor *fine, bool scatters,
                          size_t bytes)
{
    size_t pieces = whole_pieces(coarse, bytes);
    size_t parts;

    if (pieces < 2 || coarse->piece % fine->piece != 0)
        return 0;
    parts = coarse->piece / fine->piece;
    pieces = smaller(pieces, whole_pieces(fine, bytes) / parts);
    if (pieces == 0)
        return 0;
    for (size_t i = 0; i < pieces; i++) {
        uintptr_t one = coarse->at + i * coarse->stride;
        uintptr_t several = fine->at + i * parts * fine->stride;

        if (scatters)
            copy_blocks(several, fine->stride, one, fine->piece, fine->piece, parts);
        else
            copy_blocks(one, fine->piece, several, fine->stride, fine->piece, parts);
    }
    step_pieces(coarse, pieces);
    step_pieces(fine, pieces * parts);
    return pieces * coarse->piece;
}

size_t type_copy(struct type_cursor *target, struct type_cursor *source, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        size_t left = bytes - done;
        size_t step;

        if ((source->left == 0 && !type_cursor_refill(source)) ||
            (target->left == 0 && !type_cursor_refill(target)))
            break;
        if (source->left > target->left) {
            step = copy_nested(source, target, true, left);
            if (step == 0) {
                step = scatter(target, source->at, smaller(source->left, left));
                type_cursor_step(source, step);
            }
        } else if (target->left > source->left) {
            step = copy_nested(target, source, false, left);
            if (step == 0) {
                step = gather(target->at, source, smaller(target->left, left));
                type_cursor_step(target, step);
            }
        } else {
            size_t pieces = smaller(whole_pieces(source, left), whole_pieces(target, left));

            if (pieces > 1) {
                step = pieces * source->piece;
                copy_blocks(target->at, target->stride, source->at, source->stride, source->piece,
                            pieces);
                step_pieces(source, pieces);
                step_pieces(target, pieces);
            } else {
                step = smaller(source->left, left);
                memmove((void *)target->at, (const void *)source->at, step);
                type_cursor_step(source, step);
                type_cursor_step(target, step);
            }
        }
        done += step;
    }
    return done;
}

size_t type_pack_unit(const struct type *type, pami_data_function fn)
{
    size_t unit = type->atom;

    if (operator_is_copy(fn) || operator_code(fn) == OPERATOR_NOOP)
        return 1;
    if (!operator_is_user(fn))
        return type_kind_size(type->kind);
    while (unit % 128 != 0)
        unit *= 2;
    return unit;
}

int type_check_transfer(const struct type *type, size_t offset, size_t bytes, pami_data_function fn)
{
    size_t indivisible;

    if (type_check_operator(type, fn) != 0 || (type->size == 0 && bytes > 0))
        return -EINVAL;
    if (bytes == 0)
        return 0;
    indivisible = operator_is_user(fn) ? type->atom : type_pack_unit(type, fn);
    return offset % indivisible == 0 && bytes % indivisible == 0 ? 0 : -EINVAL;
}

static void combine(pami_data_function fn, void *cookie, enum type_kind kind, void *target,
                    const void *source, size_t bytes)
{
    if (operator_is_user(fn))
        fn(target, (void *)(uintptr_t)source, bytes, cookie);
    else
        (void)operator_apply(fn, kind, target, source, bytes);
}

/* By a function of the program, which must not see the target. */
__attribute__((noinline)) static size_t pack_aside(void *target, struct type_cursor *source,
                                                   size_t bytes, pami_data_function fn,
                                                   void *cookie)
{
    _Alignas(TYPE_ALIGN_MAX) unsigned char stage[COPY_STAGE];
    size_t room = sizeof stage - sizeof stage % source->type->atom;
    size_t done = 0;

    while (done < bytes) {
        void *piece;
        size_t step = type_cursor_next(source, &piece, smaller(bytes - done, room));

        if (step == 0)
            break;
        fn(stage, piece, step, cookie);
        memcpy((char *)target + done, stage, step);
        done += step;
    }
    return done;
}

size_t type_pack(void *target, struct type_cursor *source, size_t bytes, pami_data_function fn,
                 void *cookie)
{
    size_t done = 0;

    if (operator_is_copy(fn))
        return gather((uintptr_t)target, source, bytes);
    if (operator_code(fn) == OPERATOR_NOOP)
        return source->type->size > 0 ? bytes : 0;
    if (operator_is_user(fn) && !type_is_aligned(source->type, target))
        return pack_aside(target, source, bytes, fn, cookie);
    while (done < bytes) {
        void *piece;
        size_t step = type_cursor_next(source, &piece, bytes - done);

        if (step == 0)
            break;
        combine(fn, cookie, source->type->kind, (char *)target + done, piece, step);
        done += step;
    }
    return done;
}

size_t type_unpack(struct type_cursor *target, const void *source, size_t bytes)
{
    return scatter(target, (uintptr_t)source, bytes);
}
