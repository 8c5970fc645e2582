/*
 * Walking the data stream of a type.
 *
 * Uniform types (one strided run that continues from instance to instance, contiguous types among
 * them) never leave the current run: their frames are not used at all. Other types keep the
 * innermost levels of nesting as frames; when a walk rises above the outermost frame it still
 * has, the position is found again from the top by binary search.
 *
 * Must not depend on how layouts are built, only on the invariants in layout.h.
 */
#include "type/layout.h"
#include "type/type.h"
#include "util/minmax.h"

#include <string.h>

static void push(struct type_cursor *cursor, const struct layout *layout, const struct run *run,
                 uintptr_t origin)
{
    if (cursor->depth == TYPE_CURSOR_FRAMES) {
        memmove(&cursor->frames[0], &cursor->frames[1],
                (TYPE_CURSOR_FRAMES - 1) * sizeof cursor->frames[0]);
        cursor->depth--;
        cursor->dropped = true;
    }
    cursor->frames[cursor->depth++] =
        (struct type_frame){.layout = layout, .run = run, .origin = origin};
}

/* Stand at repetition `index` of the leaf run of the innermost frame, `skip` bytes into it. */
static void enter_leaf(struct type_cursor *cursor, size_t index, size_t skip)
{
    const struct type_frame *frame = &cursor->frames[cursor->depth - 1];
    const struct run *run = frame->run;

    cursor->piece = run->bytes;
    cursor->stride = run->stride;
    cursor->reps = run->count - 1 - index;
    cursor->left = run->bytes - skip;
    cursor->at = frame->origin + run->displacement + index * run->stride + skip;
    cursor->end += cursor->left + cursor->reps * cursor->piece;
}

/* Go down from data byte `offset` (< size) of the layout in the innermost frame to a leaf. */
static void descend(struct type_cursor *cursor, size_t offset)
{
    for (;;) {
        struct type_frame *frame = &cursor->frames[cursor->depth - 1];
        const struct run *run = frame->run;
        size_t within = offset - run->start;
        size_t index = within < run->bytes ? 0 : within / run->bytes;
        const struct layout *nested = run->nested;

        offset = within - index * run->bytes;
        if (nested == NULL) {
            enter_leaf(cursor, index, offset);
            return;
        }
        frame->left = run->count - 1 - index;
        frame->at = frame->origin + run->displacement + index * run->stride;
        push(cursor, nested, layout_find(nested, offset), frame->at);
    }
}

/* Find data byte `offset` (< size) of the current instance from the top. */
static void search(struct type_cursor *cursor, size_t offset)
{
    const struct layout *top = cursor->type->layout;

    cursor->depth = 0;
    cursor->dropped = false;
    cursor->end = offset;
    push(cursor, top, layout_find(top, offset), cursor->base);
    descend(cursor, offset);
}

static void init_uniform(struct type_cursor *cursor, size_t offset)
{
    const struct type *type = cursor->type;
    size_t index;
    size_t skip;

    if (type->flat) {
        cursor->at = cursor->base + type->first + offset;
        cursor->left = SIZE_MAX;
        cursor->piece = SIZE_MAX;
        cursor->stride = SIZE_MAX;
        cursor->reps = SIZE_MAX;
        return;
    }
    index = offset < type->piece ? 0 : offset / type->piece;
    skip = offset - index * type->piece;
    cursor->at = cursor->base + type->first + index * type->stride + skip;
    cursor->left = type->piece - skip;
    cursor->piece = type->piece;
    cursor->stride = type->stride;
    cursor->reps = SIZE_MAX;
}

void type_cursor_init(struct type_cursor *cursor, const struct type *type, const void *base,
                      size_t offset)
{
    cursor->type = type;
    cursor->base = (uintptr_t)base;
    if (type->uniform) {
        init_uniform(cursor, offset);
        return;
    }
    cursor->left = 0;
    cursor->reps = 0;
    cursor->piece = 0;
    cursor->depth = 0;
    if (type->size == 0)
        return;
    if (offset >= type->size) {
        cursor->base += offset / type->size * type->extent;
        offset %= type->size;
    }
    search(cursor, offset);
}

/* The current run is used up: go to the next one, around into the next instance if need be. */
static bool next_run(struct type_cursor *cursor)
{
    if (cursor->type->size == 0)
        return false;
    for (; cursor->depth > 0; cursor->depth--) {
        struct type_frame *frame = &cursor->frames[cursor->depth - 1];

        frame->run++;
        if (frame->run < frame->layout->runs + frame->layout->run_count) {
            descend(cursor, frame->run->start);
            return true;
        }
        if (cursor->depth > 1 && frame[-1].left > 0) {
            struct type_frame *outer = frame - 1;

            outer->left--;
            outer->at += outer->run->stride;
            frame->run = frame->layout->runs;
            frame->origin = outer->at;
            descend(cursor, 0);
            return true;
        }
    }
    if (cursor->dropped && cursor->end < cursor->type->size) {
        search(cursor, cursor->end);
        return true;
    }
    cursor->base += cursor->type->extent;
    search(cursor, 0);
    return true;
}

bool type_cursor_refill(struct type_cursor *cursor)
{
    if (cursor->left > 0)
        return true;
    if (cursor->reps == 0)
        return next_run(cursor);
    cursor->reps--;
    cursor->at += cursor->stride - cursor->piece;
    cursor->left = cursor->piece;
    return true;
}

void type_cursor_shift(struct type_cursor *cursor, uintptr_t distance)
{
    cursor->base += distance;
    cursor->at += distance;
    if (cursor->type->uniform)
        return;
    for (unsigned i = 0; i < cursor->depth; i++) {
        cursor->frames[i].origin += distance;
        cursor->frames[i].at += distance;
    }
}

bool type_same_places(const struct type *one, const struct type *other, size_t bytes)
{
    struct type_cursor a, b;

    if (one == other || (one->flat && other->flat && one->first == other->first))
        return true;
    if (one->uniform && other->uniform && one->piece == other->piece)
        return one->first == other->first && (one->stride == other->stride || bytes <= one->piece);
    type_cursor_init(&a, one, NULL, 0);
    type_cursor_init(&b, other, NULL, 0);
    while (bytes > 0) {
        void *at = NULL, *there = NULL;
        size_t piece = bytes;

        if (!type_cursor_refill(&a) || !type_cursor_refill(&b))
            return false;
        piece = smaller(piece, smaller(a.left, b.left));
        bytes -= type_cursor_next(&a, &at, piece);
        if (type_cursor_next(&b, &there, piece) != piece || at != there)
            return false;
    }
    return true;
}
