/*
 * Random collectives: their arguments on each member, and what each buffer must hold afterwards.
 */
#ifndef LIBPAMI_SIM_COLL_ORACLE_H
#define LIBPAMI_SIM_COLL_ORACLE_H

#include "coll_start.h"

enum {
    OPERATIONS = 12,
    FILLER = 0xee,
    USED_AGAIN = 0x5a
};

/* How ints lie in a buffer: every `stride` ints. */
struct side {
    pami_type_t type;
    size_t stride;
    size_t *counts, *places; /* of vector types: ints, and displacement */
    int *narrow_counts, *narrow_places;
    uint32_t *memory, *expected;
    size_t words;
};

struct member {
    struct side send, recv;
    bool in_place;
    bool done;
    bool left_out; /* never started */
    pami_result_t result;
};

struct operation {
    pami_xfer_type_t type, kind; /* kind: without the _INT */
    struct choice choice;
    size_t root, count;
    size_t *block; /* v types: [from * members + to] or [from]; ints */
    pami_data_function op;
    bool exclusive;
    struct member *member;
    const char *name;
};

struct scene {
    struct sim_job job;
    size_t members;
    bool deadly, dead[70];
    bool stops; /* who gets an error starts nothing any more */
    struct dice dice;
    uint64_t key;
    pami_type_t strided;
    size_t operations;
    struct operation operation[OPERATIONS];
};

static const pami_xfer_type_t types[] = {
    PAMI_XFER_BROADCAST,    PAMI_XFER_ALLREDUCE,      PAMI_XFER_REDUCE,    PAMI_XFER_ALLGATHER,
    PAMI_XFER_ALLGATHERV,   PAMI_XFER_ALLGATHERV_INT, PAMI_XFER_SCATTER,   PAMI_XFER_SCATTERV,
    PAMI_XFER_SCATTERV_INT, PAMI_XFER_GATHER,         PAMI_XFER_GATHERV,   PAMI_XFER_GATHERV_INT,
    PAMI_XFER_BARRIER,      PAMI_XFER_ALLTOALL,       PAMI_XFER_ALLTOALLV, PAMI_XFER_ALLTOALLV_INT,
    PAMI_XFER_SCAN,         PAMI_XFER_REDUCE_SCATTER,
};

static bool is_vector(const struct operation *o)
{
    return o->kind == PAMI_XFER_ALLGATHERV || o->kind == PAMI_XFER_GATHERV ||
           o->kind == PAMI_XFER_SCATTERV || o->kind == PAMI_XFER_ALLTOALLV;
}

static bool has_root(const struct operation *o)
{
    return o->kind == PAMI_XFER_BROADCAST || o->kind == PAMI_XFER_REDUCE ||
           o->kind == PAMI_XFER_SCATTER || o->kind == PAMI_XFER_SCATTERV ||
           o->kind == PAMI_XFER_GATHER || o->kind == PAMI_XFER_GATHERV;
}

/* ---- data ---- */

/* Int x of what `from` has for `to`. */
static uint32_t value(const struct scene *s, const struct operation *o, size_t from, size_t to,
                      size_t x)
{
    struct dice dice = {s->key + (size_t)(o - s->operation) * 1000003 + from * 70001 + to * 13 +
                        x * 0x10001};

    return (uint32_t)dice_next(&dice);
}

/* x -> a x + c: composition does not commute. */
static uint32_t compose(uint32_t lower, uint32_t higher)
{
    uint32_t a = (lower >> 16) * (higher >> 16);
    uint32_t c = (lower >> 16) * (higher & 0xffff) + (lower & 0xffff);

    return a << 16 | (c & 0xffff);
}

static void user_operator(void *target, void *source, size_t bytes, void *cookie)
{
    uint32_t *to = target, *from = source;

    CHECK(cookie == &test_seed);
    CHECK(bytes % sizeof(*to) == 0);
    for (size_t i = 0; i < bytes / sizeof(*to); i++)
        to[i] = compose(from[i], to[i]);
}

static uint32_t combine(const struct operation *o, uint32_t lower, uint32_t higher)
{
    if (o->op == PAMI_DATA_SUM)
        return lower + higher;
    if (o->op == PAMI_DATA_MAX)
        return lower > higher ? lower : higher;
    if (o->op == PAMI_DATA_BXOR)
        return lower ^ higher;
    return compose(lower, higher);
}

/* Int x of the combination of members first .. last; the block of `to` in reduce_scatter. */
static uint32_t folded(const struct scene *s, const struct operation *o, size_t last, size_t to,
                       size_t x)
{
    uint32_t all = value(s, o, 0, to, x);

    for (size_t i = 1; i <= last; i++)
        all = combine(o, all, value(s, o, i, to, x));
    return all;
}

/* Ints of the block that goes from one member to another. */
static size_t block(const struct scene *s, const struct operation *o, size_t from, size_t to)
{
    switch (o->kind) {
    case PAMI_XFER_ALLGATHERV:
    case PAMI_XFER_GATHERV:
        return o->block[from];
    case PAMI_XFER_SCATTERV:
    case PAMI_XFER_REDUCE_SCATTER:
        return o->block[to];
    case PAMI_XFER_ALLTOALLV:
        return o->block[from * s->members + to];
    default:
        return o->count;
    }
}

/* ---- buffers ---- */

static void side_init(struct scene *s, struct side *side, size_t words)
{
    bool strided = dice_one_in(&s->dice, 3);

    side->type = strided ? s->strided : PAMI_TYPE_UNSIGNED_INT;
    side->stride = strided ? 3 : 1;
    side->words = (words + 1) * side->stride + 5;
    side->memory = malloc(side->words * sizeof(uint32_t));
    side->expected = malloc(side->words * sizeof(uint32_t));
    memset(side->memory, FILLER, side->words * sizeof(uint32_t));
    memset(side->expected, FILLER, side->words * sizeof(uint32_t));
}

static void vector_init(struct scene *s, struct side *side, size_t *words)
{
    side->counts = calloc(s->members, sizeof(size_t));
    side->places = calloc(s->members, sizeof(size_t));
    side->narrow_counts = calloc(s->members, sizeof(int));
    side->narrow_places = calloc(s->members, sizeof(int));
    *words = 0;
}

/* Block of so many ints as number i of a vector, behind a gap. */
static void vector_add(struct scene *s, struct side *side, size_t i, size_t count, size_t *words)
{
    *words += dice_below(&s->dice, 3);
    side->counts[i] = count;
    side->places[i] = *words;
    side->narrow_counts[i] = (int)count;
    side->narrow_places[i] = (int)*words;
    *words += count;
}

static size_t place(const struct side *side, size_t i, size_t count)
{
    return side->places != NULL ? side->places[i] : i * count;
}

static void put(uint32_t *memory, const struct side *side, size_t at, uint32_t number)
{
    memory[at * side->stride] = number;
}

/* The ints that `self` contributes, into a buffer of blocks or of one. */
static void fill_send(const struct scene *s, const struct operation *o, size_t self,
                      const struct side *side, uint32_t *memory, bool blocks, size_t base)
{
    size_t at = base;

    if (!blocks) {
        for (size_t x = 0; x < block(s, o, self, self); x++)
            put(memory, side, base + x, value(s, o, self, 0, x));
        return;
    }
    for (size_t to = 0; to < s->members; to++) {
        size_t count = block(s, o, self, to);

        if (o->kind != PAMI_XFER_REDUCE_SCATTER)
            at = place(side, to, o->count);
        for (size_t x = 0; x < count; x++)
            put(memory, side, at + x, value(s, o, self, to, x));
        at += count;
    }
}

static void expect_recv(const struct scene *s, const struct operation *o, size_t self,
                        struct side *side)
{
    bool personal = o->kind == PAMI_XFER_ALLTOALL || o->kind == PAMI_XFER_ALLTOALLV;

    for (size_t from = 0; from < s->members; from++)
        for (size_t x = 0; x < block(s, o, from, self); x++)
            put(side->expected, side, place(side, from, o->count) + x,
                value(s, o, from, personal ? self : 0, x));
}

/* ---- making operations ---- */

static size_t random_count(struct scene *s)
{
    return dice_one_in(&s->dice, 12) ? dice_below(&s->dice, 30000) : dice_size(&s->dice, 300);
}

static void blocks_init(struct scene *s, struct operation *o)
{
    size_t entries = s->members * s->members;

    o->block = calloc(entries, sizeof(size_t));
    for (size_t i = 0; i < entries; i++)
        o->block[i] = dice_one_in(&s->dice, 3) ? 0 : dice_size(&s->dice, 200);
}

static void make_one_to_one(struct scene *s, struct operation *o, size_t self, struct member *m,
                            bool receives)
{
    bool scan = o->kind == PAMI_XFER_SCAN;

    side_init(s, &m->send, o->count);
    side_init(s, &m->recv, o->count);
    m->in_place = receives && dice_one_in(&s->dice, 4);
    fill_send(s, o, self, m->in_place ? &m->recv : &m->send,
              m->in_place ? m->recv.memory : m->send.memory, false, 0);
    if (m->in_place)
        memcpy(m->recv.expected, m->recv.memory, m->recv.words * sizeof(uint32_t));
    if (!receives)
        return;
    if (scan && o->exclusive && self == 0)
        return;
    for (size_t x = 0; x < o->count; x++)
        put(m->recv.expected, &m->recv, x,
            folded(s, o,
                   !scan          ? s->members - 1
                   : o->exclusive ? self - 1
                                  : self,
                   0, x));
}

static void make_reduce_scatter(struct scene *s, struct operation *o, size_t self, struct member *m)
{
    size_t total = 0;

    for (size_t i = 0; i < s->members; i++)
        total += o->block[i];
    side_init(s, &m->send, total);
    side_init(s, &m->recv, total);
    m->in_place = dice_one_in(&s->dice, 4);
    m->recv.counts = calloc(s->members, sizeof(size_t));
    memcpy(m->recv.counts, o->block, s->members * sizeof(size_t));
    fill_send(s, o, self, m->in_place ? &m->recv : &m->send,
              m->in_place ? m->recv.memory : m->send.memory, true, 0);
    for (size_t x = 0; x < o->block[self]; x++)
        put(m->recv.expected, &m->recv, x, folded(s, o, s->members - 1, self, x));
}

static void make_gather(struct scene *s, struct operation *o, size_t self, struct member *m,
                        bool receives)
{
    size_t own = block(s, o, self, self), words = s->members * o->count;

    if (is_vector(o)) {
        vector_init(s, &m->recv, &words);
        for (size_t i = 0; i < s->members; i++)
            vector_add(s, &m->recv, i, o->block[i], &words);
    }
    side_init(s, &m->send, own);
    side_init(s, &m->recv, receives ? words : 0);
    m->in_place = receives && dice_one_in(&s->dice, 4);
    if (m->in_place)
        fill_send(s, o, self, &m->recv, m->recv.memory, false, place(&m->recv, self, o->count));
    else
        fill_send(s, o, self, &m->send, m->send.memory, false, 0);
    if (receives)
        expect_recv(s, o, self, &m->recv);
}

static void make_scatter(struct scene *s, struct operation *o, size_t self, struct member *m)
{
    size_t own = block(s, o, self, self), words = s->members * o->count;
    bool sends = self == o->root;

    if (is_vector(o)) {
        vector_init(s, &m->send, &words);
        for (size_t i = 0; i < s->members; i++)
            vector_add(s, &m->send, i, o->block[i], &words);
    }
    side_init(s, &m->send, sends ? words : 0);
    side_init(s, &m->recv, own);
    m->in_place = sends && dice_one_in(&s->dice, 4);
    if (sends)
        fill_send(s, o, self, &m->send, m->send.memory, true, 0);
    for (size_t x = 0; x < own && !m->in_place; x++)
        put(m->recv.expected, &m->recv, x, value(s, o, o->root, self, x));
}

static void make_alltoall(struct scene *s, struct operation *o, size_t self, struct member *m,
                          bool in_place)
{
    size_t words[2] = {s->members * o->count, s->members * o->count};

    m->in_place = in_place;
    if (is_vector(o)) {
        vector_init(s, &m->send, &words[0]);
        vector_init(s, &m->recv, &words[1]);
        for (size_t i = 0; i < s->members; i++) {
            vector_add(s, &m->send, i, o->block[self * s->members + i], &words[0]);
            vector_add(s, &m->recv, i, o->block[i * s->members + self], &words[1]);
        }
    }
    side_init(s, &m->send, words[0]);
    side_init(s, &m->recv, words[1]);
    fill_send(s, o, self, in_place ? &m->recv : &m->send,
              in_place ? m->recv.memory : m->send.memory, true, 0);
    expect_recv(s, o, self, &m->recv);
}

static void make_broadcast(struct scene *s, struct operation *o, size_t self, struct member *m)
{
    side_init(s, &m->recv, o->count);
    for (size_t x = 0; x < o->count; x++) {
        put(m->recv.expected, &m->recv, x, value(s, o, o->root, 0, x));
        if (self == o->root)
            put(m->recv.memory, &m->recv, x, value(s, o, o->root, 0, x));
    }
}

static void make_member(struct scene *s, struct operation *o, size_t self, bool in_place)
{
    struct member *m = &o->member[self];

    switch (o->kind) {
    case PAMI_XFER_BARRIER:
        break;
    case PAMI_XFER_BROADCAST:
        make_broadcast(s, o, self, m);
        break;
    case PAMI_XFER_ALLREDUCE:
    case PAMI_XFER_SCAN:
        make_one_to_one(s, o, self, m, true);
        break;
    case PAMI_XFER_REDUCE:
        make_one_to_one(s, o, self, m, self == o->root);
        break;
    case PAMI_XFER_REDUCE_SCATTER:
        make_reduce_scatter(s, o, self, m);
        break;
    case PAMI_XFER_ALLGATHER:
    case PAMI_XFER_ALLGATHERV:
        make_gather(s, o, self, m, true);
        break;
    case PAMI_XFER_GATHER:
    case PAMI_XFER_GATHERV:
        make_gather(s, o, self, m, self == o->root);
        break;
    case PAMI_XFER_SCATTER:
    case PAMI_XFER_SCATTERV:
        make_scatter(s, o, self, m);
        break;
    default:
        make_alltoall(s, o, self, m, in_place);
    }
}

static pami_xfer_type_t without_int(pami_xfer_type_t type)
{
    switch (type) {
    case PAMI_XFER_ALLGATHERV_INT:
    case PAMI_XFER_SCATTERV_INT:
    case PAMI_XFER_GATHERV_INT:
    case PAMI_XFER_ALLTOALLV_INT:
        return (pami_xfer_type_t)(type - 1);
    default:
        return type;
    }
}

static inline void make_operation(struct scene *s, struct operation *o)
{
    const pami_data_function ops[] = {PAMI_DATA_SUM, PAMI_DATA_MAX, PAMI_DATA_BXOR, user_operator};
    bool in_place = dice_one_in(&s->dice, 3);

    memset(o, 0, sizeof(*o));
    o->type = types[dice_below(&s->dice, sizeof(types) / sizeof(types[0]))];
    o->kind = without_int(o->type);
    o->root = dice_below(&s->dice, s->members);
    o->count = random_count(s);
    if (o->kind == PAMI_XFER_ALLTOALL || o->kind == PAMI_XFER_ALLGATHER ||
        o->kind == PAMI_XFER_GATHER || o->kind == PAMI_XFER_SCATTER)
        o->count /= s->members;
    o->op = ops[dice_below(&s->dice, 4)];
    o->exclusive = dice_one_in(&s->dice, 2);
    blocks_init(s, o);
    if (o->kind == PAMI_XFER_ALLTOALLV && in_place)
        /* What goes to and fro is equal then. */
        for (size_t i = 0; i < s->members; i++)
            for (size_t j = 0; j < i; j++)
                o->block[i * s->members + j] = o->block[j * s->members + i];
    o->member = calloc(s->members, sizeof(*o->member));
    for (size_t i = 0; i < s->members; i++)
        make_member(s, o, i, in_place);
}

static void free_side(struct side *side)
{
    free(side->counts);
    free(side->places);
    free(side->narrow_counts);
    free(side->narrow_places);
    free(side->memory);
    free(side->expected);
}

static inline void free_operation(const struct scene *s, struct operation *o)
{
    for (size_t i = 0; i < s->members; i++) {
        free_side(&o->member[i].send);
        free_side(&o->member[i].recv);
    }
    free(o->member);
    free(o->block);
}

#endif
