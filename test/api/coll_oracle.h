/*
 * Collectives that check themselves: of any type, with arguments that a number decides, and what
 * every buffer must hold afterwards, gaps and the words behind the end included.
 *
 * A struct op is one collective on one member. What all members must agree on (sizes, root,
 * operator) is a function of op.seed; the rest (layouts of the two sides, in place or not, what
 * insignificant arguments hold) is drawn by each member for itself from a seed of its own. Data are
 * 32-bit words; word x of what `from` has for `to` is op_value(), so each member computes alone
 * what it must receive.
 *
 * For programs of any kind, which have FAIL, CHECK and a struct told with `count` and `result`.
 * coll_run.h is for those of test/api.
 *
 * lint: not alone
 */
#ifndef LIBPAMI_API_COLL_ORACLE_H
#define LIBPAMI_API_COLL_ORACLE_H

#include "basics.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    OP_GUARD = 8,         /* words behind a buffer */
    OP_EARLY_BYTES = 512, /* contributions up to this are gone when the call has returned */
    OP_FILLER = 0xee
};

/* How an instance of a type lies in memory: `unit` words at off[], the next one `extent` later, or
 * before. */
struct op_layout {
    pami_type_t type;
    size_t unit;
    ptrdiff_t extent;
    size_t off[3];
    size_t scale; /* instances of the type per instance here: 4 for bytes */
    bool kind;    /* predefined operators know what it holds */
};

enum {
    OP_PLAIN,
    OP_BYTES,
    OP_STRIDED,
    OP_LOOSE,
    OP_TRIPLE,
    OP_BACKWARDS,
    OP_LAYOUTS
};

static struct op_layout op_layouts[OP_LAYOUTS]; /* set by op_begin */

enum op_way {
    OP_TWO_BUFFERS,
    OP_ALIAS,
    OP_IN_PLACE
};

/*
 * One side of a member: instances of a layout; blocks start at instance start[rank]. The call gets
 * the address of instance `shift`, and displacements from there; or it gets none, and a type whose
 * displacements are addresses.
 */
struct op_side {
    const struct op_layout *layout;
    uint32_t *memory, *expected;
    size_t words, origin; /* of instance 0 */
    size_t shift;
    pami_type_t absolute;    /* NULL: the layout's */
    size_t *start;           /* NULL: block i at i * count */
    size_t *counts, *displs; /* as the call takes them */
    int *narrow_counts, *narrow_displs;
};

struct op {
    pami_xfer_type_t type, kind; /* kind: without _INT */
    uint64_t seed, own;          /* states: common, and this member's */
    size_t members, self, root;
    size_t count, unit; /* words of a block; all counts are multiples of unit */
    size_t *block;      /* words, of types where they differ: [from * members + to], or [rank] */
    pami_data_function op;
    bool friendly; /* blocks equal, dense and not empty; a commutative operator */
    int exclusive;
    enum op_way way;
    struct op_side send, recv;
    struct told told;
    const char *name;
};

static const pami_xfer_type_t op_types[] = {
    PAMI_XFER_BARRIER,   PAMI_XFER_BROADCAST,  PAMI_XFER_ALLREDUCE,
    PAMI_XFER_REDUCE,    PAMI_XFER_SCAN,       PAMI_XFER_REDUCE_SCATTER,
    PAMI_XFER_ALLGATHER, PAMI_XFER_ALLGATHERV, PAMI_XFER_ALLGATHERV_INT,
    PAMI_XFER_GATHER,    PAMI_XFER_GATHERV,    PAMI_XFER_GATHERV_INT,
    PAMI_XFER_SCATTER,   PAMI_XFER_SCATTERV,   PAMI_XFER_SCATTERV_INT,
    PAMI_XFER_ALLTOALL,  PAMI_XFER_ALLTOALLV,  PAMI_XFER_ALLTOALLV_INT,
};

#define OP_TYPES (sizeof op_types / sizeof op_types[0])

static inline size_t op_below(uint64_t *state, size_t limit)
{
    return (size_t)(test_random(state) % limit);
}

/* ---- types ---- */

static inline void op_begin(void)
{
    static const size_t triple[] = {4, 0, 2};
    const size_t word = sizeof(uint32_t);
    pami_type_t strided, loose, three, backwards;

    CHECK(PAMI_Type_create(&strided) == PAMI_SUCCESS);
    CHECK(PAMI_Type_add_typed(strided, PAMI_TYPE_UNSIGNED_INT, word, 1, 2 * word) == PAMI_SUCCESS);
    CHECK(PAMI_Type_complete(strided, word) == PAMI_SUCCESS);
    CHECK(PAMI_Type_create(&loose) == PAMI_SUCCESS);
    CHECK(PAMI_Type_add_simple(loose, word, 0, 1, 2 * word) == PAMI_SUCCESS);
    CHECK(PAMI_Type_complete(loose, word) == PAMI_SUCCESS);
    CHECK(PAMI_Type_create(&three) == PAMI_SUCCESS);
    for (size_t i = 0; i < 3; i++) {
        size_t before = i == 0 ? 0 : triple[i - 1];

        CHECK(PAMI_Type_add_typed(three, PAMI_TYPE_UNSIGNED_INT, (triple[i] - before) * word, 1,
                                  i == 2 ? (7 - triple[2]) * word : 0) == PAMI_SUCCESS);
    }
    CHECK(PAMI_Type_complete(three, word) == PAMI_SUCCESS);
    CHECK(PAMI_Type_create(&backwards) == PAMI_SUCCESS);
    CHECK(PAMI_Type_add_typed(backwards, PAMI_TYPE_UNSIGNED_INT, 0, 1, (size_t)-2 * word) ==
          PAMI_SUCCESS);
    CHECK(PAMI_Type_complete(backwards, word) == PAMI_SUCCESS);
    op_layouts[OP_PLAIN] = (struct op_layout){PAMI_TYPE_UNSIGNED_INT, 1, 1, {0}, 1, true};
    op_layouts[OP_BYTES] = (struct op_layout){PAMI_TYPE_BYTE, 1, 1, {0}, word, false};
    op_layouts[OP_STRIDED] = (struct op_layout){strided, 1, 3, {1}, 1, true};
    op_layouts[OP_LOOSE] = (struct op_layout){loose, 1, 2, {0}, 1, false};
    op_layouts[OP_TRIPLE] = (struct op_layout){three, 3, 7, {4, 0, 2}, 1, true};
    op_layouts[OP_BACKWARDS] = (struct op_layout){backwards, 1, -2, {0}, 1, true};
}

static inline void op_end(void)
{
    for (size_t i = OP_STRIDED; i < OP_LAYOUTS; i++)
        CHECK(PAMI_Type_destroy(&op_layouts[i].type) == PAMI_SUCCESS);
}

/* ---- data ---- */

/* Word x of what `from` has for `to`; without regard to `to` where all get the same. */
static inline uint32_t op_value(const struct op *o, size_t from, size_t to, size_t x)
{
    uint64_t state = o->seed + from * 70001 + to * 13;

    return (uint32_t)test_random(&state) + (uint32_t)x * 0x9e3779b1u;
}

/* Words are maps n -> a n + c of 16-bit numbers; their composition does not commute. */
static inline uint32_t op_compose(uint32_t lower, uint32_t higher)
{
    uint32_t a = (lower >> 16) * (higher >> 16);
    uint32_t c = (lower >> 16) * (higher & 0xffff) + (lower & 0xffff);

    return a << 16 | (c & 0xffff);
}

static inline void op_user(void *target, void *source, size_t bytes, void *cookie)
{
    uint32_t *to = target, *from = source;

    CHECK(cookie == &op_layouts);
    CHECK(bytes % sizeof *to == 0);
    for (size_t i = 0; i < bytes / sizeof *to; i++)
        to[i] = op_compose(from[i], to[i]);
}

static inline uint32_t op_combine(const struct op *o, uint32_t lower, uint32_t higher)
{
    if (o->op == PAMI_DATA_SUM)
        return lower + higher;
    if (o->op == PAMI_DATA_MIN)
        return lower < higher ? lower : higher;
    if (o->op == PAMI_DATA_BXOR)
        return lower ^ higher;
    return op_compose(lower, higher);
}

/* Members 0 .. last combined. */
static inline uint32_t op_folded(const struct op *o, size_t last, size_t to, size_t x)
{
    uint32_t all = op_value(o, 0, to, x);

    for (size_t i = 1; i <= last; i++)
        all = op_combine(o, all, op_value(o, i, to, x));
    return all;
}

/* ---- what kind of transfer ---- */

static inline bool op_is_vector(const struct op *o)
{
    return o->kind == PAMI_XFER_ALLGATHERV || o->kind == PAMI_XFER_GATHERV ||
           o->kind == PAMI_XFER_SCATTERV || o->kind == PAMI_XFER_ALLTOALLV;
}

static inline bool op_reduces(const struct op *o)
{
    return o->kind == PAMI_XFER_ALLREDUCE || o->kind == PAMI_XFER_REDUCE ||
           o->kind == PAMI_XFER_SCAN || o->kind == PAMI_XFER_REDUCE_SCATTER;
}

static inline bool op_scatters(const struct op *o)
{
    return o->kind == PAMI_XFER_SCATTER || o->kind == PAMI_XFER_SCATTERV;
}

static inline bool op_gathers_at_root(const struct op *o)
{
    return o->kind == PAMI_XFER_GATHER || o->kind == PAMI_XFER_GATHERV;
}

static inline bool op_is_alltoall(const struct op *o)
{
    return o->kind == PAMI_XFER_ALLTOALL || o->kind == PAMI_XFER_ALLTOALLV;
}

/* Words from one member to another; of a reduction, of the part that is for `to`. */
static inline size_t op_block(const struct op *o, size_t from, size_t to)
{
    switch (o->kind) {
    case PAMI_XFER_ALLGATHERV:
    case PAMI_XFER_GATHERV:
        return o->block[from];
    case PAMI_XFER_SCATTERV:
    case PAMI_XFER_REDUCE_SCATTER:
        return o->block[to];
    case PAMI_XFER_ALLTOALLV:
        return o->block[from * o->members + to];
    default:
        return o->count;
    }
}

/* ---- buffers ---- */

static inline uint32_t *op_word(uint32_t *memory, const struct op_side *side, size_t instance,
                                size_t x)
{
    const struct op_layout *l = side->layout;

    return memory + side->origin + (ptrdiff_t)(instance + x / l->unit) * l->extent +
           l->off[x % l->unit];
}

/* What the call gets, but for a type of addresses. */
static inline char *op_base(const struct op_side *side)
{
    return (char *)(side->memory + side->origin + (ptrdiff_t)side->shift * side->layout->extent);
}

static inline size_t op_extent(const struct op_side *side)
{
    return (size_t)labs(side->layout->extent);
}

static inline size_t op_start_of(const struct op *o, const struct op_side *side, size_t rank)
{
    return side->start != NULL ? side->start[rank] : rank * (o->count / side->layout->unit);
}

/* Set by tests that count on the ways which data takes: all layouts grow upwards, and all buffers
 * have an address. */
static bool op_upwards;

/* Choose a layout; predefined operators need to know the kind, user's a whole word. */
static inline void op_layout(struct op *o, struct op_side *side, bool operand)
{
    size_t layouts = op_upwards ? OP_BACKWARDS : OP_LAYOUTS;

    if (o->friendly && op_below(&o->own, 2) == 0)
        layouts = OP_STRIDED; /* without gaps, as some ways want them */
    do
        side->layout = &op_layouts[op_below(&o->own, layouts)];
    while (o->unit % side->layout->unit != 0 ||
           (operand && !side->layout->kind &&
            (o->op != op_user || side->layout == &op_layouts[OP_BYTES])) ||
           (o->kind == PAMI_XFER_REDUCE_SCATTER &&
            (side->layout->unit != 1 || side->layout->extent < 0)));
}

/* Blocks in any order with gaps between them; dense and in order when friendly. */
static inline size_t op_place_blocks(struct op *o, struct op_side *side, const size_t *words)
{
    size_t n = o->members, next = 0;
    size_t *order = test_alloc(n * sizeof *order);

    side->start = test_zalloc(n * sizeof(size_t));
    side->counts = test_zalloc(n * sizeof(size_t));
    side->displs = test_zalloc(n * sizeof(size_t));
    side->narrow_counts = test_zalloc(n * sizeof(int));
    side->narrow_displs = test_zalloc(n * sizeof(int));
    side->shift = o->friendly ? 0 : op_below(&o->own, 4);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1 && !o->friendly; i--) {
        size_t other = op_below(&o->own, i), kept = order[other];

        order[other] = order[i - 1];
        order[i - 1] = kept;
    }
    for (size_t i = 0; i < n; i++) {
        size_t rank = order[i], count = words[rank] / side->layout->unit;

        next += o->friendly ? 0 : op_below(&o->own, 4);
        side->start[rank] = next;
        side->counts[rank] = count * side->layout->scale;
        side->displs[rank] = (next - side->shift) * side->layout->scale;
        side->narrow_counts[rank] = (int)side->counts[rank];
        side->narrow_displs[rank] = (int)side->displs[rank];
        next += count;
    }
    free(order);
    return next;
}

static inline void op_allocate(struct op_side *side, size_t instances)
{
    size_t bytes;

    side->words = instances * op_extent(side) + OP_GUARD;
    side->origin = side->layout->extent < 0 && instances != 0 ? side->words - OP_GUARD - 2 : 0;
    bytes = side->words * sizeof(uint32_t);
    side->memory = memset(test_alloc(bytes), OP_FILLER, bytes);
    side->expected = memset(test_alloc(bytes), OP_FILLER, bytes);
}

/* A side with one block of so many words, or one per member. */
static inline void op_one(struct op_side *side, size_t words)
{
    op_allocate(side, words / side->layout->unit);
}

static inline void op_many(struct op *o, struct op_side *side, const size_t *words)
{
    if (words != NULL)
        op_allocate(side, op_place_blocks(o, side, words));
    else
        op_allocate(side, o->members * (o->count / side->layout->unit));
}

/* Contents of the block for `to`, at an instance. */
static inline void op_fill(struct op *o, struct op_side *side, size_t instance, size_t to,
                           size_t words)
{
    for (size_t x = 0; x < words; x++)
        *op_word(side->memory, side, instance, x) = op_value(o, o->self, to, x);
}

/* From now on the expected contents are the present ones, but for what is set later. */
static inline void op_keep(struct op_side *side)
{
    memcpy(side->expected, side->memory, side->words * sizeof(uint32_t));
}

/* ---- making the member's part ---- */

static inline void op_make_reduction(struct op *o)
{
    bool whole = o->kind != PAMI_XFER_REDUCE_SCATTER, receives = true;
    size_t total = o->count, at = 0;

    if (!whole)
        for (size_t i = total = 0; i < o->members; i++)
            total += o->block[i];
    if (o->kind == PAMI_XFER_REDUCE)
        receives = o->self == o->root;
    o->way = receives ? o->way : OP_TWO_BUFFERS;
    op_layout(o, &o->send, true);
    op_layout(o, &o->recv, false);
    if (o->way != OP_TWO_BUFFERS)
        o->recv.layout = o->send.layout;
    op_one(&o->send, total);
    op_one(&o->recv, total);
    for (size_t to = 0; to < (whole ? 1 : o->members); to++) {
        size_t words = whole ? total : o->block[to];
        struct op_side *side = o->way == OP_TWO_BUFFERS ? &o->send : &o->recv;

        op_fill(o, side, at / side->layout->unit, to, words);
        at += words;
    }
    op_keep(&o->recv);
    if (!receives || (o->kind == PAMI_XFER_SCAN && o->exclusive && o->self == 0))
        return;
    for (size_t x = 0; x < (whole ? total : o->block[o->self]); x++)
        *op_word(o->recv.expected, &o->recv, 0, x) =
            o->kind != PAMI_XFER_SCAN ? op_folded(o, o->members - 1, whole ? 0 : o->self, x)
                                      : op_folded(o, o->self - (o->exclusive ? 1 : 0), 0, x);
}

static inline void op_make_gather(struct op *o)
{
    size_t own = op_block(o, o->self, 0);
    bool receives = !op_gathers_at_root(o) || o->self == o->root;

    o->way = receives ? o->way : OP_TWO_BUFFERS;
    op_layout(o, &o->send, false);
    op_layout(o, &o->recv, false);
    if (o->way != OP_TWO_BUFFERS)
        o->send.layout = o->recv.layout;
    op_one(&o->send, own);
    op_many(o, &o->recv, op_is_vector(o) ? o->block : NULL);
    if (o->way == OP_TWO_BUFFERS)
        op_fill(o, &o->send, 0, 0, own);
    else
        op_fill(o, &o->recv, op_start_of(o, &o->recv, o->self), 0, own);
    op_keep(&o->recv);
    for (size_t from = 0; from < o->members && receives; from++)
        for (size_t x = 0; x < op_block(o, from, 0); x++)
            *op_word(o->recv.expected, &o->recv, op_start_of(o, &o->recv, from), x) =
                op_value(o, from, 0, x);
}

static inline void op_make_scatter(struct op *o)
{
    size_t own = op_block(o, 0, o->self);
    bool sends = o->self == o->root;

    o->way = sends ? o->way : OP_TWO_BUFFERS;
    op_layout(o, &o->send, false);
    op_layout(o, &o->recv, false);
    if (o->way != OP_TWO_BUFFERS)
        o->recv.layout = o->send.layout;
    op_many(o, &o->send, op_is_vector(o) ? o->block : NULL);
    op_one(&o->recv, own);
    for (size_t to = 0; to < o->members && sends; to++)
        op_fill(o, &o->send, op_start_of(o, &o->send, to), to, op_block(o, 0, to));
    for (size_t x = 0; x < own && o->way == OP_TWO_BUFFERS; x++)
        *op_word(o->recv.expected, &o->recv, 0, x) = op_value(o, o->root, o->self, x);
}

static inline void op_make_alltoall(struct op *o)
{
    size_t *out = NULL, *in = NULL;
    struct op_side *from;

    op_layout(o, &o->send, false);
    op_layout(o, &o->recv, false);
    if (op_is_vector(o)) {
        out = test_alloc(o->members * sizeof *out);
        in = test_alloc(o->members * sizeof *in);
        for (size_t i = 0; i < o->members; i++) {
            out[i] = op_block(o, o->self, i);
            in[i] = op_block(o, i, o->self);
        }
    }
    op_many(o, &o->send, out);
    op_many(o, &o->recv, in);
    from = o->way == OP_TWO_BUFFERS ? &o->send : &o->recv;
    for (size_t to = 0; to < o->members; to++)
        op_fill(o, from, op_start_of(o, from, to), to, op_block(o, o->self, to));
    op_keep(&o->recv);
    for (size_t rank = 0; rank < o->members; rank++)
        for (size_t x = 0; x < op_block(o, rank, o->self); x++)
            *op_word(o->recv.expected, &o->recv, op_start_of(o, &o->recv, rank), x) =
                op_value(o, rank, o->self, x);
    free(out);
    free(in);
}

static inline void op_make_broadcast(struct op *o)
{
    o->way = OP_TWO_BUFFERS;
    op_layout(o, &o->send, false);
    op_layout(o, &o->recv, false);
    op_one(&o->send, 0);
    op_one(&o->recv, o->count);
    if (o->self == o->root)
        op_fill(o, &o->recv, 0, 0, o->count);
    for (size_t x = 0; x < o->count; x++)
        *op_word(o->recv.expected, &o->recv, 0, x) = op_value(o, o->root, 0, x);
}

/* The call gets the same layout, whose displacements are addresses of the buffer. */
static inline void op_make_absolute(struct op_side *side)
{
    size_t unit = side->layout->scale == 1 ? sizeof(uint32_t) : 1;
    size_t base = (uintptr_t)op_base(side);

    CHECK(PAMI_Type_create(&side->absolute) == PAMI_SUCCESS);
    CHECK(PAMI_Type_add_typed(side->absolute, side->layout->type, base, 1,
                              (size_t)side->layout->extent * unit - base) == PAMI_SUCCESS);
    CHECK(PAMI_Type_complete(side->absolute, unit) == PAMI_SUCCESS);
}

/* Sizes of blocks; some are empty. Equal both ways for an alltoall in place. */
static inline void op_make_blocks(struct op *o, uint64_t *state)
{
    size_t n = o->members, all = o->kind == PAMI_XFER_ALLTOALLV ? n * n : n;

    o->block = test_alloc(all * sizeof(size_t));
    for (size_t i = 0; i < all; i++)
        o->block[i] = o->friendly ? o->count
                      : op_below(state, 3) == 0
                          ? 0
                          : op_below(state, 2 * o->count / o->unit + 1) * o->unit;
    if (o->kind == PAMI_XFER_ALLTOALLV && o->way != OP_TWO_BUFFERS)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < i; j++)
                o->block[i * n + j] = o->block[j * n + i];
}

/* One of about so many words in all. */
static inline struct op *op_make(pami_xfer_type_t type, size_t members, size_t self, size_t words,
                                 uint64_t seed, bool friendly)
{
    static const pami_data_function ops[] = {NULL, NULL, op_user, op_user};
    struct op *o = test_zalloc(sizeof *o);
    uint64_t state = seed;

    o->type = o->kind = type;
    if (type == PAMI_XFER_ALLGATHERV_INT || type == PAMI_XFER_SCATTERV_INT ||
        type == PAMI_XFER_GATHERV_INT || type == PAMI_XFER_ALLTOALLV_INT)
        o->kind = (pami_xfer_type_t)(type - 1);
    o->seed = seed;
    o->own = seed ^ (self + 1) * 0x51ed270b7u;
    o->members = members;
    o->self = self;
    o->friendly = friendly;
    o->root = op_below(&state, members);
    o->unit = op_below(&state, 3) == 0 ? 3 : 1;
    o->op = ops[op_below(&state, friendly ? 1 : 4)];
    if (o->op == NULL)
        o->op = op_below(&state, 3) == 0   ? PAMI_DATA_BXOR
                : op_below(&state, 2) == 0 ? PAMI_DATA_MIN
                                           : PAMI_DATA_SUM;
    o->exclusive = op_below(&state, 2) == 0 ? 0 : (int)op_below(&state, 9);
    o->way = (enum op_way)(op_below(&state, 2) * (1 + op_below(&state, 2)));
    if (!op_is_alltoall(o))
        o->way = (enum op_way)(op_below(&o->own, 2) * (1 + op_below(&o->own, 2)));
    if (op_is_alltoall(o) || op_scatters(o) || op_gathers_at_root(o) ||
        o->kind == PAMI_XFER_ALLGATHER || o->kind == PAMI_XFER_ALLGATHERV ||
        o->kind == PAMI_XFER_REDUCE_SCATTER)
        words = (words + members - 1) / members;
    o->count = words / o->unit * o->unit;
    if (o->kind == PAMI_XFER_BARRIER)
        o->count = 0;
    else if (friendly && o->count < members)
        o->count = (members + 2) * o->unit;
    if (op_is_vector(o) || o->kind == PAMI_XFER_REDUCE_SCATTER)
        op_make_blocks(o, &state);
    if (op_reduces(o))
        op_make_reduction(o);
    else if (op_scatters(o))
        op_make_scatter(o);
    else if (op_is_alltoall(o))
        op_make_alltoall(o);
    else if (o->kind == PAMI_XFER_BROADCAST || o->kind == PAMI_XFER_BARRIER)
        op_make_broadcast(o);
    else
        op_make_gather(o);
    if (op_upwards)
        return o;
    if (o->way == OP_TWO_BUFFERS && o->send.layout != NULL && op_below(&o->own, 4) == 0)
        op_make_absolute(&o->send);
    if (o->way == OP_TWO_BUFFERS && o->recv.layout != NULL && op_below(&o->own, 4) == 0)
        op_make_absolute(&o->recv);
    /* Where the other buffer is in place. */
    if (o->way == OP_IN_PLACE && op_below(&o->own, 4) == 0)
        op_make_absolute(op_scatters(o) ? &o->send : &o->recv);
    return o;
}

static inline void op_free(struct op *o)
{
    struct op_side *side[] = {&o->send, &o->recv};

    for (size_t i = 0; i < 2; i++) {
        if (side[i]->absolute != NULL)
            CHECK(PAMI_Type_destroy(&side[i]->absolute) == PAMI_SUCCESS);
        free(side[i]->memory);
        free(side[i]->expected);
        free(side[i]->start);
        free(side[i]->counts);
        free(side[i]->displs);
        free(side[i]->narrow_counts);
        free(side[i]->narrow_displs);
    }
    free(o->block);
    free(o);
}

#include "api/coll_compare.h"

#endif
