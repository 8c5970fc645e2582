/*
 * Sinks: unpacking a message that arrives in fragments of any length; see type.h for the promises.
 *
 * Invariant between calls: if held > 0, the held bytes are the data that belongs at cursor.at,
 * cursor.left > 0, and held is less than both the unit and what is left of the run. Deliveries
 * within a run are multiples of the unit until the run or the message ends, so cuts stay at
 * multiples of the unit from where the run began. What comes at an odd address goes by way of the
 * hold, a unit at a time, to functions of the user.
 */
#include "type/copy.h"
#include "type/type.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/minmax.h"

int type_sink_init(struct type_sink *sink, const struct type *type, void *base, size_t offset,
                   size_t total, pami_data_function fn, void *cookie)
{
    int error = type_check_transfer(type, offset, total, fn);

    if (error != 0)
        return error;
    sink->fn = fn;
    sink->cookie = cookie;
    sink->left = total;
    sink->unit = type_pack_unit(type, fn);
    sink->held = 0;
    sink->hold = sink->hold_inline;
    if (sink->unit > sizeof sink->hold_inline) {
        sink->hold = malloc(sink->unit);
        if (sink->hold == NULL)
            return -ENOMEM;
    }
    type_cursor_init(&sink->cursor, type, base, offset);
    return 0;
}

void type_sink_finish(struct type_sink *sink)
{
    if (sink->hold != sink->hold_inline)
        free(sink->hold);
    sink->hold = sink->hold_inline;
    sink->held = 0;
    sink->left = 0;
}

static void deliver(struct type_sink *sink, const void *source, size_t bytes)
{
    struct type_cursor *cursor = &sink->cursor;
    void *target = (void *)cursor->at;

    cursor->at += bytes;
    cursor->left -= bytes;
    if (operator_is_user(sink->fn))
        sink->fn(target, (void *)(uintptr_t)source, bytes, sink->cookie);
    else
        (void)operator_apply(sink->fn, cursor->type->kind, target, source, bytes);
}

/* Add to what is held, and deliver it once it is a unit or ends the run. Returns bytes taken. */
static size_t fill_hold(struct type_sink *sink, const unsigned char *fragment, size_t bytes,
                        size_t room)
{
    size_t goal = smaller(sink->unit, room);
    size_t step = smaller(goal - sink->held, bytes);

    memcpy(sink->hold + sink->held, fragment, step);
    sink->held += step;
    sink->left -= step;
    if (sink->held == goal) {
        sink->held = 0;
        deliver(sink, sink->hold, goal);
    }
    return step;
}

/* How many of the next bytes may be combined at once: pieces that have no byte in common, for which
 * it would make a difference whether one is combined before the next one is read. */
static size_t apart_bytes(const struct type_cursor *cursor, size_t bytes)
{
    int64_t stride = (int64_t)cursor->stride, piece = (int64_t)cursor->piece;

    if (cursor->type->apart)
        return bytes;
    if (cursor->type->uniform || (stride < piece && stride > -piece))
        return 0;
    return smaller(bytes, cursor->left + cursor->reps * cursor->piece);
}

/*
 * Combine with many short pieces at once: collect them, apply the operator to all, put them back.
 * `bytes` is a multiple of the unit. Returns the bytes combined.
 */
static size_t combine_short(struct type_sink *sink, const unsigned char *fragment, size_t bytes)
{
    unsigned char stage[COPY_STAGE];
    struct type_cursor reader = sink->cursor;

    bytes = smaller(bytes, sizeof stage - sizeof stage % sink->unit);
    bytes = type_pack(stage, &reader, bytes, NULL, NULL);
    (void)operator_apply(sink->fn, reader.type->kind, stage, fragment, bytes);
    type_unpack(&sink->cursor, stage, bytes);
    sink->left -= bytes;
    return bytes;
}

static void combine(struct type_sink *sink, const unsigned char *fragment, size_t bytes)
{
    while (bytes > 0) {
        size_t room;
        size_t step;
        size_t several = 0;

        if (sink->cursor.left == 0 && !type_cursor_refill(&sink->cursor))
            return;
        /* The end of the message ends a run, too. */
        room = smaller(sink->cursor.left, sink->left + sink->held);
        step = smaller(bytes, room);
        if (step < room)
            step -= step % sink->unit;
        if (step == room && step < bytes && sink->cursor.piece < COPY_DIRECT_MIN &&
            !operator_is_user(sink->fn))
            several = apart_bytes(&sink->cursor, bytes - bytes % sink->unit);
        if (sink->held > 0 || step == 0 ||
            (operator_is_user(sink->fn) && !type_is_aligned(sink->cursor.type, fragment))) {
            step = fill_hold(sink, fragment, bytes, room);
        } else if (several > step) {
            step = combine_short(sink, fragment, several);
        } else {
            sink->left -= step;
            deliver(sink, fragment, step);
        }
        fragment += step;
        bytes -= step;
    }
}

size_t type_sink_write(struct type_sink *sink, const void *fragment, size_t bytes)
{
    bytes = smaller(bytes, sink->left);
    if (operator_is_copy(sink->fn)) {
        type_unpack(&sink->cursor, fragment, bytes);
        sink->left -= bytes;
    } else if (operator_code(sink->fn) == OPERATOR_NOOP) {
        sink->left -= bytes;
    } else {
        combine(sink, fragment, bytes);
    }
    return bytes;
}
