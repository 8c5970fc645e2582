/*
 * Building, merging and releasing layouts; see layout.h for what they are.
 *
 * Merging is done only against the last run, in constant time: it catches the ways in which
 * regular patterns are usually spelled (adjacent fields, equal blocks at equal distances,
 * contiguous subtypes) and leaves everything else as it was given.
 */
#include "type/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "util/minmax.h"

/* Nested layouts of at most this many runs, all repetitions counted, are written out. */
#define WRITE_OUT_MAX 16

struct layout *layout_new(size_t capacity)
{
    struct layout *layout = malloc(sizeof *layout + capacity * sizeof layout->runs[0]);

    if (layout == NULL)
        return NULL;
    atomic_init(&layout->references, 1);
    layout->size = 0;
    layout->grain = 0;
    layout->height = 1;
    layout->run_count = 0;
    layout->capacity = capacity;
    return layout;
}

struct layout *layout_ref(struct layout *layout)
{
    atomic_fetch_add_explicit(&layout->references, 1, memory_order_relaxed);
    return layout;
}

/* The depth of the call stack is bounded by the height of the layout. */
void layout_unref(struct layout *layout)
{
    /* R1 releases our last use to A1 of whoever frees. */
    if (layout == NULL ||
        atomic_fetch_sub_explicit(&layout->references, 1, memory_order_acq_rel) != 1) /* R1, A1 */
        return;
    for (size_t i = 0; i < layout->run_count; i++)
        layout_unref(layout->runs[i].nested);
    free(layout);
}

static int reserve(struct layout **layout, size_t more)
{
    struct layout *old = *layout;
    size_t need = old->run_count + more;
    size_t capacity;
    struct layout *grown;

    if (need <= old->capacity)
        return 0;
    capacity = need > 2 * old->capacity ? need : 2 * old->capacity;
    grown = realloc(old, sizeof *old + capacity * sizeof old->runs[0]);
    if (grown == NULL)
        return -ENOMEM;
    grown->capacity = capacity;
    *layout = grown;
    return 0;
}

/* 0 if count * bytes more data bytes keep the layout within bounds. */
static int check_size(const struct layout *layout, size_t bytes, size_t count)
{
    size_t more;
    size_t total;

    if (__builtin_mul_overflow(bytes, count, &more) ||
        __builtin_add_overflow(layout->size, more, &total) || total > LAYOUT_SIZE_MAX)
        return -EOVERFLOW;
    return 0;
}

/* Let `last` take in a leaf or nested run of the same shape that continues it. */
static bool merge(struct run *last, const struct run *run)
{
    size_t stride;

    if (last->nested != run->nested || last->bytes != run->bytes)
        return false;
    /* A single thing has no stride of its own: the distance between the two sets it. */
    stride = last->count > 1 ? last->stride : run->displacement - last->displacement;
    if (run->displacement != last->displacement + last->count * stride)
        return false;
    if (run->count > 1 && run->stride != stride)
        return false;
    last->stride = stride;
    last->count += run->count;
    return true;
}

/* Append one run; the caller has checked the size and reserved the room. */
static void append(struct layout *layout, struct run run)
{
    struct run *last = layout->run_count > 0 ? &layout->runs[layout->run_count - 1] : NULL;

    run.start = layout->size;
    layout->size += run.bytes * run.count;
    if (run.nested == NULL && run.count > 1 && run.stride == run.bytes) {
        run.bytes *= run.count;
        run.count = 1;
    }
    if (last != NULL && last->nested == NULL && run.nested == NULL && last->count == 1 &&
        run.count == 1 && run.displacement == last->displacement + last->bytes) {
        last->bytes += run.bytes;
        return;
    }
    if (last != NULL && merge(last, &run))
        return;
    if (run.nested != NULL) {
        layout_ref(run.nested);
        if (layout->height <= run.nested->height)
            layout->height = run.nested->height + 1;
    }
    layout->runs[layout->run_count++] = run;
}

int layout_add_bytes(struct layout **layout, size_t bytes, size_t displacement, size_t count,
                     size_t stride)
{
    struct run run = {
        .displacement = displacement, .bytes = bytes, .count = count, .stride = stride};
    int error;

    if (bytes == 0 || count == 0)
        return 0;
    error = check_size(*layout, bytes, count);
    if (error == 0)
        error = reserve(layout, 1);
    if (error == 0)
        append(*layout, run);
    return error;
}

/* One nested run with one level of repetition: fold `count` and `stride` into it if possible. */
static bool fold_single(const struct layout *nested, struct run *run)
{
    struct run only = nested->runs[0];

    only.displacement += run->displacement;
    if (only.count == 1) {
        only.count = run->count;
        only.stride = run->stride;
    } else if (run->count > 1) {
        if (run->stride != only.count * only.stride)
            return false;
        only.count *= run->count;
    }
    *run = only;
    return true;
}

int layout_add_nested(struct layout **layout, struct layout *nested, size_t displacement,
                      size_t count, size_t stride)
{
    struct run run = {.displacement = displacement,
                      .bytes = nested->size,
                      .count = count,
                      .stride = stride,
                      .nested = nested};
    bool write_out;
    int error;

    if (nested->size == 0 || count == 0)
        return 0;
    error = check_size(*layout, nested->size, count);
    if (error != 0)
        return error;
    if (nested->run_count == 1 && fold_single(nested, &run)) {
        error = reserve(layout, 1);
        if (error == 0)
            append(*layout, run);
        return error;
    }
    write_out = nested->run_count <= WRITE_OUT_MAX && count <= WRITE_OUT_MAX &&
                nested->run_count * count <= WRITE_OUT_MAX;
    if (!write_out && nested->height >= LAYOUT_HEIGHT_MAX)
        return -ELOOP;
    error = reserve(layout, write_out ? nested->run_count * count : 1);
    if (error != 0)
        return error;
    if (!write_out) {
        append(*layout, run);
        return 0;
    }
    for (size_t k = 0; k < count; k++)
        for (size_t i = 0; i < nested->run_count; i++) {
            run = nested->runs[i];
            run.displacement += displacement + k * stride;
            append(*layout, run);
        }
    return 0;
}

/* Where the bytes of a run lie; false: some may be there twice, or so far away that it is not
 * known. */
static bool find_place(const struct run *run, int64_t *low, int64_t *high)
{
    int64_t stride = (int64_t)run->stride;
    int64_t length, far;

    *low = run->nested != NULL ? run->nested->low : 0;
    *high = run->nested != NULL ? run->nested->high : (int64_t)run->bytes;
    if (run->nested != NULL && !run->nested->apart)
        return false;
    if (__builtin_sub_overflow(*high, *low, &length) ||
        (run->count > 1 && stride < length && stride > -length) ||
        __builtin_mul_overflow((int64_t)run->count - 1, stride, &far))
        return false;
    return !__builtin_add_overflow(*low, (int64_t)run->displacement, low) &&
           !__builtin_add_overflow(*high, (int64_t)run->displacement, high) &&
           !__builtin_add_overflow(far < 0 ? *low : *high, far, far < 0 ? low : high);
}

/* Runs that follow one another, upwards or downwards, have no byte in common. */
static void find_places(struct layout *layout)
{
    bool up = true, down = true;
    int64_t before_low = 0, before_high = 0;

    layout->low = INT64_MAX;
    layout->high = INT64_MIN;
    for (size_t i = 0; i < layout->run_count && (up || down); i++) {
        int64_t low, high;

        if (!find_place(&layout->runs[i], &low, &high)) {
            up = down = false;
            break;
        }
        up = up && (i == 0 || low >= before_high);
        down = down && (i == 0 || high <= before_low);
        layout->low = low < layout->low ? low : layout->low;
        layout->high = high > layout->high ? high : layout->high;
        before_low = low;
        before_high = high;
    }
    layout->apart = (up || down) && layout->run_count != 0;
}

void layout_finish(struct layout **layout)
{
    struct layout *done = *layout;
    struct layout *shrunk;

    find_places(done);
    done->grain = 0;
    for (size_t i = 0; i < done->run_count; i++) {
        const struct run *run = &done->runs[i];

        done->grain =
            common_divisor(run->nested != NULL ? run->nested->grain : run->bytes, done->grain);
    }
    if (done->capacity == done->run_count)
        return;
    shrunk = realloc(done, sizeof *done + done->run_count * sizeof done->runs[0]);
    if (shrunk == NULL)
        return;
    shrunk->capacity = shrunk->run_count;
    *layout = shrunk;
}

const struct run *layout_find(const struct layout *layout, size_t offset)
{
    size_t low = 0;
    size_t high = layout->run_count;

    /* runs[low].start <= offset < runs[high].start, taking that of the end as infinite */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (layout->runs[middle].start <= offset)
            low = middle;
        else
            high = middle;
    }
    return &layout->runs[low];
}
