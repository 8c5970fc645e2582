/*
 * Every predefined operator on every kind it is defined for, in allreduce, reduce, scan (inclusive
 * and exclusive) and reduce_scatter, with every algorithm of list 0; floating-point results have
 * the same bits on all members, whatever they are, with every algorithm of both lists.
 *
 * Run: tasks=1,2,3,5 nodes=1,2 timeout=60
 * Run: tasks=8 timeout=60
 * Run: tasks=4 nodes=2 env="PAMI_COLL_SHARED_BYTES=0" timeout=60
 * Run: tasks=5,8 env="PAMI_COLL_SHARED_RELAY=64" timeout=60
 */
#include <complex.h>

#include "coll.h"

enum {
    ELEMENTS = 10, /* of each member's block */
    ROOM = 8 * 2 * ELEMENTS * 32,
    MOST = 8 /* members */
};

static struct job job;

/* to := to . from, element by element, as the contract has it. */
typedef void combine_function(pami_data_function op, void *to, const void *from, size_t count);
typedef void fill_function(void *to, size_t member, size_t count);
typedef bool equal_function(const void *a, const void *b, size_t count);

/* Small values: whatever the order, floating-point results are exact. */
static int value_of(size_t member, size_t i)
{
    static const int few[] = {1, 0, 2, 1, 3, 1, 2, 0, 1};

    return few[(member * 5 + i * 7) % (sizeof few / sizeof few[0])];
}

#define BASICS(name, ctype)                                                                        \
    static void fill_##name(void *to, size_t member, size_t count)                                 \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            ((ctype *)to)[i] = (ctype)value_of(member, i);                                         \
    }                                                                                              \
    static bool equal_##name(const void *a, const void *b, size_t count)                           \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            if (((const ctype *)a)[i] != ((const ctype *)b)[i])                                    \
                return false;                                                                      \
        return true;                                                                               \
    }

#define ORDERED(name, ctype)                                                                       \
    BASICS(name, ctype)                                                                            \
    static void order_##name(pami_data_function op, ctype *t, ctype s)                             \
    {                                                                                              \
        if (op == PAMI_DATA_MAX)                                                                   \
            *t = s > *t ? s : *t;                                                                  \
        else if (op == PAMI_DATA_MIN)                                                              \
            *t = s < *t ? s : *t;                                                                  \
        else if (op == PAMI_DATA_SUM)                                                              \
            *t = (ctype)(*t + s);                                                                  \
        else if (op == PAMI_DATA_PROD)                                                             \
            *t = (ctype)(*t * s);                                                                  \
    }

#define LOGIC(name, ctype)                                                                         \
    static void logic_##name(pami_data_function op, ctype *t, ctype s)                             \
    {                                                                                              \
        if (op == PAMI_DATA_LAND)                                                                  \
            *t = *t && s;                                                                          \
        else if (op == PAMI_DATA_LOR)                                                              \
            *t = *t || s;                                                                          \
        else if (op == PAMI_DATA_LXOR)                                                             \
            *t = !*t != !s;                                                                        \
    }

#define FLOATING(name, ctype)                                                                      \
    ORDERED(name, ctype)                                                                           \
    static void combine_##name(pami_data_function op, void *to, const void *from, size_t count)    \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            order_##name(op, (ctype *)to + i, ((const ctype *)from)[i]);                           \
    }

#define INTEGER(name, ctype)                                                                       \
    ORDERED(name, ctype)                                                                           \
    LOGIC(name, ctype)                                                                             \
    static void combine_##name(pami_data_function op, void *to, const void *from, size_t count)    \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            ctype *t = (ctype *)to + i, s = ((const ctype *)from)[i];                              \
                                                                                                   \
            order_##name(op, t, s);                                                                \
            logic_##name(op, t, s);                                                                \
            if (op == PAMI_DATA_BAND)                                                              \
                *t = (ctype)(*t & s);                                                              \
            else if (op == PAMI_DATA_BOR)                                                          \
                *t = (ctype)(*t | s);                                                              \
            else if (op == PAMI_DATA_BXOR)                                                         \
                *t = (ctype)(*t ^ s);                                                              \
        }                                                                                          \
    }

#define LOGICAL(name, ctype)                                                                       \
    BASICS(name, ctype)                                                                            \
    LOGIC(name, ctype)                                                                             \
    static void combine_##name(pami_data_function op, void *to, const void *from, size_t count)    \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            logic_##name(op, (ctype *)to + i, ((const ctype *)from)[i]);                           \
    }

#define COMPLEX(name, ctype)                                                                       \
    BASICS(name, ctype)                                                                            \
    static void combine_##name(pami_data_function op, void *to, const void *from, size_t count)    \
    {                                                                                              \
        for (size_t i = 0; i < count; i++)                                                         \
            if (op == PAMI_DATA_SUM)                                                               \
                ((ctype *)to)[i] += ((const ctype *)from)[i];                                      \
            else                                                                                   \
                ((ctype *)to)[i] *= ((const ctype *)from)[i];                                      \
    }

/* Equal values: the smaller index. */
#define PAIR(name, vtype, itype)                                                                   \
    struct pair_##name {                                                                           \
        vtype value;                                                                               \
        itype index;                                                                               \
    };                                                                                             \
    static void fill_##name(void *to, size_t member, size_t count)                                 \
    {                                                                                              \
        memset(to, 0, count * sizeof(struct pair_##name));                                         \
        for (size_t i = 0; i < count; i++)                                                         \
            ((struct pair_##name *)to)[i] =                                                        \
                (struct pair_##name){(vtype)value_of(member, i), (itype)((member * 3 + i) % 7)};   \
    }                                                                                              \
    static bool equal_##name(const void *a, const void *b, size_t count)                           \
    {                                                                                              \
        const struct pair_##name *x = a, *y = b;                                                   \
                                                                                                   \
        for (size_t i = 0; i < count; i++)                                                         \
            if (x[i].value != y[i].value || x[i].index != y[i].index)                              \
                return false;                                                                      \
        return true;                                                                               \
    }                                                                                              \
    static void combine_##name(pami_data_function op, void *to, const void *from, size_t count)    \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            struct pair_##name *t = (struct pair_##name *)to + i;                                  \
            const struct pair_##name *s = (const struct pair_##name *)from + i;                    \
            bool better = op == PAMI_DATA_MAXLOC ? s->value > t->value : s->value < t->value;      \
                                                                                                   \
            if (better || (s->value == t->value && s->index < t->index))                           \
                *t = *s;                                                                           \
        }                                                                                          \
    }

INTEGER(byte, uint8_t)
INTEGER(signed_char, signed char)
INTEGER(unsigned_char, unsigned char)
INTEGER(short, short)
INTEGER(unsigned_short, unsigned short)
INTEGER(int, int)
INTEGER(unsigned, unsigned)
INTEGER(long, long)
INTEGER(unsigned_long, unsigned long)
INTEGER(long_long, long long)
INTEGER(unsigned_long_long, unsigned long long)
FLOATING(float, float)
FLOATING(double, double)
FLOATING(long_double, long double)
LOGICAL(logical1, uint8_t)
LOGICAL(logical2, uint16_t)
LOGICAL(logical4, uint32_t)
LOGICAL(logical8, uint64_t)
COMPLEX(single_complex, float complex)
COMPLEX(double_complex, double complex)
PAIR(2int, int, int)
PAIR(2float, float, float)
PAIR(2double, double, double)
PAIR(short_int, short, int)
PAIR(float_int, float, int)
PAIR(double_int, double, int)
PAIR(long_int, long, int)
PAIR(longdouble_int, long double, int)

enum {
    TAKES_ORDER = 1, /* MAX MIN */
    TAKES_SUMS = 2,  /* SUM PROD */
    TAKES_LOGIC = 4,
    TAKES_BITS = 8,
    TAKES_PLACES = 16,
    TAKES_FLOATING = TAKES_ORDER | TAKES_SUMS,
    TAKES_INTEGER = TAKES_FLOATING | TAKES_LOGIC | TAKES_BITS
};

static const struct kind {
    pami_type_t *type;
    size_t bytes;
    unsigned takes;
    combine_function *combine;
    fill_function *fill;
    equal_function *equal;
} kinds[] = {
#define KIND(TYPE, name, ctype, takes)                                                             \
    {                                                                                              \
        &PAMI_TYPE_##TYPE, sizeof(ctype), takes, combine_##name, fill_##name, equal_##name         \
    }
    KIND(BYTE, byte, uint8_t, TAKES_INTEGER),
    KIND(SIGNED_CHAR, signed_char, signed char, TAKES_INTEGER),
    KIND(UNSIGNED_CHAR, unsigned_char, unsigned char, TAKES_INTEGER),
    KIND(SIGNED_SHORT, short, short, TAKES_INTEGER),
    KIND(UNSIGNED_SHORT, unsigned_short, unsigned short, TAKES_INTEGER),
    KIND(SIGNED_INT, int, int, TAKES_INTEGER),
    KIND(UNSIGNED_INT, unsigned, unsigned, TAKES_INTEGER),
    KIND(SIGNED_LONG, long, long, TAKES_INTEGER),
    KIND(UNSIGNED_LONG, unsigned_long, unsigned long, TAKES_INTEGER),
    KIND(SIGNED_LONG_LONG, long_long, long long, TAKES_INTEGER),
    KIND(UNSIGNED_LONG_LONG, unsigned_long_long, unsigned long long, TAKES_INTEGER),
    KIND(FLOAT, float, float, TAKES_FLOATING),
    KIND(DOUBLE, double, double, TAKES_FLOATING),
    KIND(LONG_DOUBLE, long_double, long double, TAKES_FLOATING),
    KIND(LOGICAL1, logical1, uint8_t, TAKES_LOGIC),
    KIND(LOGICAL2, logical2, uint16_t, TAKES_LOGIC),
    KIND(LOGICAL4, logical4, uint32_t, TAKES_LOGIC),
    KIND(LOGICAL8, logical8, uint64_t, TAKES_LOGIC),
    KIND(SINGLE_COMPLEX, single_complex, float complex, TAKES_SUMS),
    KIND(DOUBLE_COMPLEX, double_complex, double complex, TAKES_SUMS),
    KIND(LOC_2INT, 2int, struct pair_2int, TAKES_PLACES),
    KIND(LOC_2FLOAT, 2float, struct pair_2float, TAKES_PLACES),
    KIND(LOC_2DOUBLE, 2double, struct pair_2double, TAKES_PLACES),
    KIND(LOC_SHORT_INT, short_int, struct pair_short_int, TAKES_PLACES),
    KIND(LOC_FLOAT_INT, float_int, struct pair_float_int, TAKES_PLACES),
    KIND(LOC_DOUBLE_INT, double_int, struct pair_double_int, TAKES_PLACES),
    KIND(LOC_LONG_INT, long_int, struct pair_long_int, TAKES_PLACES),
    KIND(LOC_LONGDOUBLE_INT, longdouble_int, struct pair_longdouble_int, TAKES_PLACES),
};

static const struct {
    pami_data_function *op;
    unsigned needs;
} operators[] = {
    {&PAMI_DATA_MAX, TAKES_ORDER},     {&PAMI_DATA_MIN, TAKES_ORDER},
    {&PAMI_DATA_SUM, TAKES_SUMS},      {&PAMI_DATA_PROD, TAKES_SUMS},
    {&PAMI_DATA_LAND, TAKES_LOGIC},    {&PAMI_DATA_LOR, TAKES_LOGIC},
    {&PAMI_DATA_LXOR, TAKES_LOGIC},    {&PAMI_DATA_BAND, TAKES_BITS},
    {&PAMI_DATA_BOR, TAKES_BITS},      {&PAMI_DATA_BXOR, TAKES_BITS},
    {&PAMI_DATA_MAXLOC, TAKES_PLACES}, {&PAMI_DATA_MINLOC, TAKES_PLACES},
};

#define KINDS (sizeof kinds / sizeof kinds[0])
#define OPERATORS (sizeof operators / sizeof operators[0])

static const struct {
    pami_xfer_type_t type;
    int exclusive;
} transfers[] = {{PAMI_XFER_ALLREDUCE, 0},
                 {PAMI_XFER_REDUCE, 0},
                 {PAMI_XFER_SCAN, 0},
                 {PAMI_XFER_SCAN, 1},
                 {PAMI_XFER_REDUCE_SCATTER, 0}};

/* One operation of many that are in flight. */
struct flight {
    struct told told;
    _Alignas(32) char send[ROOM], recv[ROOM], expected[ROOM];
    size_t checked; /* elements */
};

static size_t rcounts[MOST];

/* Members 0 .. last of a scan, all otherwise. */
static void expect(struct flight *f, const struct kind *kind, pami_data_function op, size_t last,
                   size_t total)
{
    static _Alignas(32) char other[ROOM];

    kind->fill(f->expected, 0, total);
    for (size_t i = 1; i <= last; i++) {
        kind->fill(other, i, total);
        kind->combine(op, f->expected, other, total);
    }
    /* Of a reduction of one member nothing is combined: its values stay as they are. */
}

static void start(struct flight *f, const struct kind *kind, pami_data_function op, size_t t,
                  pami_algorithm_t algorithm)
{
    pami_xfer_t xfer = coll_xfer(algorithm, &f->told);
    pami_type_t type = *kind->type;
    size_t total = job.tasks * ELEMENTS, root = (size_t)(kind - kinds) % job.tasks;
    size_t last = job.tasks - 1;
    bool last_is_here = true;

    f->checked = total;
    if (transfers[t].type == PAMI_XFER_SCAN) {
        last_is_here = job.task != 0 || !transfers[t].exclusive;
        last = job.task - (transfers[t].exclusive && last_is_here ? 1 : 0);
    }
    kind->fill(f->send, job.task, total);
    memset(f->recv, 0x66, sizeof f->recv);
    expect(f, kind, op, last, total);
    if (transfers[t].type == PAMI_XFER_ALLREDUCE) {
        xfer.cmd.xfer_allreduce =
            (pami_allreduce_t){f->send, type, total, f->recv, type, total, op, NULL, 1};
    } else if (transfers[t].type == PAMI_XFER_REDUCE) {
        xfer.cmd.xfer_reduce = (pami_reduce_t){
            job_endpoint(&job, root, 0), f->send, type, total, f->recv, type, total, op, NULL, 1};
        f->checked = job.task == root ? total : 0;
    } else if (transfers[t].type == PAMI_XFER_SCAN) {
        xfer.cmd.xfer_scan = (pami_scan_t){
            f->send, type, total, f->recv, type, total, op, NULL, transfers[t].exclusive};
        f->checked = last_is_here ? total : 0;
    } else {
        xfer.cmd.xfer_reduce_scatter =
            (pami_reduce_scatter_t){f->send, type, total, f->recv, type, rcounts, op, NULL, 1};
        memmove(f->expected, f->expected + job.task * ELEMENTS * kind->bytes,
                ELEMENTS * kind->bytes);
        f->checked = ELEMENTS;
    }
    coll_start(job.context[0], &xfer);
}

static void all_pairs(pami_xfer_type_t type, size_t t)
{
    static struct flight flight[OPERATORS];
    struct algorithms all = algorithms_of(world_of(&job), type);

    for (size_t a = 0; a < all.count[0]; a++)
        for (size_t k = 0; k < KINDS; k++) {
            for (size_t i = 0; i < OPERATORS; i++)
                if (operators[i].needs & kinds[k].takes)
                    start(&flight[i], &kinds[k], *operators[i].op, t, all.handle[0][a]);
            for (size_t i = 0; i < OPERATORS; i++) {
                struct flight *f = &flight[i];

                if (!(operators[i].needs & kinds[k].takes))
                    continue;
                WAIT(&job, f->told.count != 0);
                CHECK(f->told.result == PAMI_SUCCESS);
                if (!kinds[k].equal(f->recv, f->expected, f->checked))
                    FAIL("type %d, %s: operator %zu on kind %zu is wrong", (int)type,
                         all.metadata[0][a].name, i, k);
                CHECK(test_all(f->recv + f->checked * kinds[k].bytes,
                               ROOM - f->checked * kinds[k].bytes, 0x66));
            }
        }
    algorithms_free(&all);
}

/* An operator that is not defined for a kind is refused by name. */
static void undefined(void)
{
    static struct flight f;

    for (size_t k = 0; k < KINDS; k++)
        for (size_t i = 0; i < OPERATORS; i++) {
            pami_xfer_t xfer =
                coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_ALLREDUCE), &f.told);

            if (operators[i].needs & kinds[k].takes)
                continue;
            xfer.cmd.xfer_allreduce = (pami_allreduce_t){
                f.send, *kinds[k].type, 1, f.recv, *kinds[k].type, 1, *operators[i].op, NULL, 1};
            CHECK_REFUSED(PAMI_Collective(job.context[0], &xfer), PAMI_INVAL, "op");
        }
}

/* Sums whose last bits depend on the order of adding, and the least of zeros of both signs: what
 * the order is, is up to the algorithm. */
static void same_bits(int list, pami_data_function op)
{
    enum {
        COUNT = 5000
    };
    static double mine[COUNT], got[2][COUNT], first[COUNT];
    struct algorithms all = algorithms_of(world_of(&job), PAMI_XFER_ALLREDUCE);
    pami_algorithm_t broadcast = algorithm_of(world_of(&job), PAMI_XFER_BROADCAST);
    uint64_t state = job.task;

    for (size_t i = 0; i < COUNT; i++) {
        uint64_t value = test_random(&state);

        mine[i] = op == PAMI_DATA_SUM ? (double)value * 1e-9 : value % 2 != 0 ? 0.0 : -0.0;
    }
    for (size_t a = 0; a < all.count[list]; a++) {
        struct told told;
        pami_xfer_t xfer;

        for (int again = 0; again < 2; again++) {
            xfer = coll_xfer(all.handle[list][a], &told);
            xfer.cmd.xfer_allreduce = (pami_allreduce_t){
                (char *)mine, PAMI_TYPE_DOUBLE, COUNT, (char *)got[again], PAMI_TYPE_DOUBLE, COUNT,
                op,           (void *)0x5a5a,   0x5a5a};
            coll_run(&job, job.context[0], &xfer);
        }
        memcpy(first, got[0], sizeof first);
        xfer = coll_xfer(broadcast, &told);
        xfer.cmd.xfer_broadcast =
            (pami_broadcast_t){job_endpoint(&job, 0, 0), (char *)first, PAMI_TYPE_DOUBLE, COUNT};
        coll_run(&job, job.context[0], &xfer);
        if (memcmp(first, got[0], sizeof first) != 0)
            FAIL("%s: results differ between members", all.metadata[list][a].name);
        if (memcmp(got[0], got[1], sizeof first) != 0)
            FAIL("%s: results differ between runs", all.metadata[list][a].name);
    }
    algorithms_free(&all);
}

int main(void)
{
    job_start(&job, "coll-operators", 1);
    CHECK(job.tasks <= MOST);
    for (size_t i = 0; i < job.tasks; i++)
        rcounts[i] = ELEMENTS;
    for (size_t t = 0; t < sizeof transfers / sizeof transfers[0]; t++)
        all_pairs(transfers[t].type, t);
    undefined();
    for (int list = 0; list < 2; list++) {
        same_bits(list, PAMI_DATA_SUM);
        same_bits(list, PAMI_DATA_MIN);
    }
    job_finish(&job);
    return 0;
}
