/*
 * What a slab sends lies in `out` as rows [inner][outer of the slab]: a task's share of the inner
 * index is one piece of that. What comes lies in `in`, slab after slab, and in each slab task after
 * task, as rows [my inner][outer of that task in the slab].
 */
#include "transpose.h"

/* Outer indices of all tasks in a slab, and of the tasks before `task`. */
static size_t outer_of_slab(const struct transpose *t, size_t slab, size_t tasks)
{
    size_t sum = 0;

    for (size_t i = 0; i < tasks; i++) {
        struct share range = transpose_range(t, i, slab);

        sum += range.high - range.low;
    }
    return sum;
}

struct share transpose_range(const struct transpose *t, size_t task, size_t slab)
{
    struct share all = share_of(t->outer, t->background->all->tasks, task);
    struct share part = share_of(all.high - all.low, t->slabs, slab);

    return (struct share){all.low + part.low, all.low + part.high};
}

/* Counts are in doubles, two to a number. */
static void make_slab(struct transpose *t, size_t number)
{
    struct together *all = t->background->all;
    struct transpose_slab *s = &t->slab[number];
    struct share range = transpose_range(t, all->task, number);
    size_t doubles = 2 * t->row, width = t->next.high - t->next.low, at = 0;

    s->to = together_memory(all, 4 * all->tasks, sizeof(size_t));
    s->to_start = s->to + all->tasks;
    s->from = s->to_start + all->tasks;
    s->from_start = s->from + all->tasks;
    s->out_at = (range.low - t->mine.low) * t->inner;
    for (size_t before = 0; before < number; before++)
        s->in_at += outer_of_slab(t, before, all->tasks) * width;
    for (size_t i = 0; i < all->tasks; i++) {
        struct share inner = share_of(t->inner, all->tasks, i);
        struct share outer = transpose_range(t, i, number);

        s->to_start[i] = inner.low * (range.high - range.low) * doubles;
        s->to[i] = (inner.high - inner.low) * (range.high - range.low) * doubles;
        s->from_start[i] = at;
        s->from[i] = width * (outer.high - outer.low) * doubles;
        at += s->from[i];
    }
}

void transpose_make(struct transpose *t, const struct background *background, size_t outer,
                    size_t inner, size_t row, size_t slabs)
{
    struct together *all = background->all;

    *t = (struct transpose){.background = background,
                            .outer = outer,
                            .inner = inner,
                            .row = row,
                            .slabs = slabs,
                            .mine = share_of(outer, all->tasks, all->task),
                            .next = share_of(inner, all->tasks, all->task)};
    t->out = together_memory(all, (t->mine.high - t->mine.low) * inner * row, sizeof(struct pair));
    t->in = together_memory(all, (t->next.high - t->next.low) * outer * row, sizeof(struct pair));
    t->slab = together_memory(all, slabs, sizeof(*t->slab));
    for (size_t i = 0; i < slabs; i++)
        make_slab(t, i);
}

void transpose_free(struct transpose *t)
{
    for (size_t i = 0; i < t->slabs; i++)
        free(t->slab[i].to);
    free(t->slab);
    free(t->out);
    free(t->in);
}

static void copy_row(const struct transpose *t, struct pair *to, const struct pair *from)
{
    memcpy(to, from, t->row * sizeof(*to));
}

void transpose_begin(struct transpose *t, size_t slab, const struct pair *from)
{
    struct transpose_slab *s = &t->slab[slab];
    struct share range = transpose_range(t, t->background->all->task, slab);
    struct pair *out = t->out + s->out_at * t->row, *at = out;

    for (size_t inner = 0; inner < t->inner; inner++)
        for (size_t outer = range.low - t->mine.low; outer < range.high - t->mine.low; outer++) {
            copy_row(t, at, from + (outer * t->inner + inner) * t->row);
            at += t->row;
        }
    background_begin(
        t->background, &s->call, PAMI_XFER_ALLTOALLV,
        (pami_collective_t){.xfer_alltoallv = {.sndbuf = (char *)out,
                                               .stype = PAMI_TYPE_DOUBLE,
                                               .stypecounts = s->to,
                                               .sdispls = s->to_start,
                                               .rcvbuf = (char *)(t->in + s->in_at * t->row),
                                               .rtype = PAMI_TYPE_DOUBLE,
                                               .rtypecounts = s->from,
                                               .rdispls = s->from_start}});
}

void transpose_end(struct transpose *t, size_t slab, struct pair *to)
{
    struct transpose_slab *s = &t->slab[slab];
    const struct pair *at = t->in + s->in_at * t->row;

    background_wait(&s->call);
    for (size_t task = 0; task < t->background->all->tasks; task++) {
        struct share range = transpose_range(t, task, slab);

        for (size_t inner = 0; inner < t->next.high - t->next.low; inner++)
            for (size_t outer = range.low; outer < range.high; outer++) {
                copy_row(t, to + (inner * t->outer + outer) * t->row, at);
                at += t->row;
            }
    }
}
