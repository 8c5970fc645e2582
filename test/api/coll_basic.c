/*
 * Barrier, broadcast and allreduce on the world, with every algorithm of list 0 by its own handle:
 * sizes, rotating roots, strided types, all operators, in place, several in flight.
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2 timeout=120
 */
#include <pami/pamix.h>

#include "coll.h"

enum {
    INTS_MAX = 70000
};

static int source[INTS_MAX], target[INTS_MAX];

static void barrier(struct job *job, pami_algorithm_t algorithm)
{
    struct told told;

    for (int i = 0; i < 50; i++) {
        pami_xfer_t xfer = coll_xfer(algorithm, &told);

        coll_run(job, job->context[0], &xfer);
    }
}

static void broadcast(struct job *job, pami_algorithm_t algorithm)
{
    static const size_t counts[] = {0, 1, 7, 100, 1024, 3000, 20000, INTS_MAX};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (size_t root = 0; root < job->tasks; root++) {
            struct told told;
            pami_xfer_t xfer = coll_xfer(algorithm, &told);
            size_t bytes = counts[i] * sizeof(int);

            test_fill(target, bytes, job->task == root ? root + i : 99, 0);
            memset((char *)target + bytes, 0x77, sizeof target - bytes);
            xfer.cmd.xfer_broadcast = (pami_broadcast_t){
                job_endpoint(job, root, 0), (char *)target,
                i % 2 ? PAMI_TYPE_SIGNED_INT : PAMI_TYPE_BYTE, i % 2 ? counts[i] : bytes};
            coll_run(job, job->context[0], &xfer);
            CHECK_SIZE(test_differs(target, bytes, root + i, 0), bytes);
            CHECK(test_all((char *)target + bytes, sizeof target - bytes, 0x77));
        }
}

/* The root sends a column, the others receive a row, or the other way round. */
static void broadcast_strided(struct job *job, pami_algorithm_t algorithm)
{
    enum {
        COUNT = 5000,
        STRIDE = 3
    };
    pami_type_t column;

    CHECK_OK(PAMI_Type_create(&column));
    CHECK_OK(PAMI_Type_add_simple(column, sizeof(int), 0, 1, STRIDE * sizeof(int)));
    CHECK_OK(PAMI_Type_complete(column, sizeof(int)));
    for (int odd = 0; odd < 2; odd++) {
        struct told told;
        pami_xfer_t xfer = coll_xfer(algorithm, &told);
        bool typed = job->task % 2 == (size_t)odd;

        for (size_t i = 0; i < COUNT * STRIDE; i++)
            target[i] = -1;
        for (size_t i = 0; i < COUNT && job->task == 0; i++)
            target[typed ? i * STRIDE : i] = (int)i;
        xfer.cmd.xfer_broadcast = (pami_broadcast_t){job_endpoint(job, 0, 0), (char *)target,
                                                     typed ? column : PAMI_TYPE_SIGNED_INT, COUNT};
        coll_run(job, job->context[0], &xfer);
        for (size_t i = 0; i < COUNT * STRIDE; i++) {
            int expected =
                !typed ? (i < COUNT ? (int)i : -1) : (i % STRIDE == 0 ? (int)(i / STRIDE) : -1);

            if (target[i] != expected)
                FAIL("broadcast: int %zu is %d, expected %d", i, target[i], expected);
        }
    }
    CHECK_OK(PAMI_Type_destroy(&column));
}

static void allreduce(struct job *job, pami_algorithm_t algorithm)
{
    static const size_t counts[] = {0, 1, 2, 3, 33, 1000, 9999, INTS_MAX};
    int tasks = (int)job->tasks;

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int way = 0; way < 3; way++) {
            struct told told;
            pami_xfer_t xfer = coll_xfer(algorithm, &told);
            int *from = way == 0 ? source : target;
            size_t count = counts[i];

            memset(target, 0x77, sizeof target);
            for (size_t x = 0; x < count; x++)
                from[x] = (int)(x * 3 + job->task + i);
            xfer.cmd.xfer_allreduce = (pami_allreduce_t){
                .sndbuf = way == 2 ? PAMI_IN_PLACE : (void *)from,
                .stype = PAMI_TYPE_SIGNED_INT,
                .stypecount = count,
                .rcvbuf = (char *)target,
                .rtype = way == 1 ? PAMI_TYPE_BYTE : PAMI_TYPE_SIGNED_INT,
                .rtypecount = way == 1 ? count * sizeof(int) : count,
                .op = PAMI_DATA_SUM,
                .commutative = way,
            };
            coll_run(job, job->context[0], &xfer);
            for (size_t x = 0; x < count; x++) {
                int expected = tasks * (int)(x * 3 + i) + tasks * (tasks - 1) / 2;

                if (target[x] != expected)
                    FAIL("allreduce of %zu, way %d: int %zu is %d, expected %d", count, way, x,
                         target[x], expected);
            }
            CHECK(test_all(target + count, sizeof target - count * sizeof(int), 0x77));
        }
}

#define COMBINE(name, expression)                                                                  \
    static int name(int a, int b)                                                                  \
    {                                                                                              \
        return expression;                                                                         \
    }

COMBINE(max, a > b ? a : b)
COMBINE(min, a < b ? a : b)
COMBINE(sum, a + b)
COMBINE(product, a *b)
COMBINE(both, a &&b)
COMBINE(any, a || b)
COMBINE(one, !a != !b)
COMBINE(band, a &b)
COMBINE(bor, a | b)
COMBINE(bxor, a ^ b)

/* Every operator on ints, one value per task. */
static void operators(struct job *job, pami_algorithm_t algorithm)
{
    const struct {
        pami_data_function op;
        int (*combine)(int, int);
    } rows[] = {{PAMI_DATA_MAX, max},      {PAMI_DATA_MIN, min},   {PAMI_DATA_SUM, sum},
                {PAMI_DATA_PROD, product}, {PAMI_DATA_LAND, both}, {PAMI_DATA_LOR, any},
                {PAMI_DATA_LXOR, one},     {PAMI_DATA_BAND, band}, {PAMI_DATA_BOR, bor},
                {PAMI_DATA_BXOR, bxor}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct told told;
        pami_xfer_t xfer = coll_xfer(algorithm, &told);
        int mine = (int)(job->task * 5 % 7), result = -1, expected = 0;

        for (int task = 1; task < (int)job->tasks; task++)
            expected = rows[i].combine(expected, task * 5 % 7);
        xfer.cmd.xfer_allreduce = coll_sum(&mine, &result, PAMI_TYPE_SIGNED_INT, 1);
        xfer.cmd.xfer_allreduce.op = rows[i].op;
        coll_run(job, job->context[0], &xfer);
        if (result != expected)
            FAIL("operator %zu gives %d, expected %d", i, result, expected);
    }
}

/* Many at once, matched by the order of their start. */
static void in_flight(struct job *job, pami_algorithm_t algorithm)
{
    enum {
        FLIGHTS = 1000
    };
    static struct told told[FLIGHTS];
    static long results[FLIGHTS];

    for (long i = 0; i < FLIGHTS; i++) {
        pami_xfer_t xfer = coll_xfer(algorithm, &told[i]);
        long mine = i * 10 + (long)job->task; /* gone when the call returns */

        xfer.cmd.xfer_allreduce = coll_sum(&mine, &results[i], PAMI_TYPE_SIGNED_LONG, 1);
        coll_start(job->context[0], &xfer);
        mine = -1;
    }
    for (long i = 0; i < FLIGHTS; i++) {
        long tasks = (long)job->tasks;

        WAIT(job, told[i].count != 0);
        CHECK(told[i].result == PAMI_SUCCESS);
        CHECK(results[i] == tasks * i * 10 + tasks * (tasks - 1) / 2);
    }
}

static void each(struct job *job, pami_xfer_type_t type,
                 void (*run)(struct job *, pami_algorithm_t))
{
    struct algorithms all = algorithms_of(world_of(job), type);

    for (size_t i = 0; i < all.count[0]; i++) {
        if (job->task == 0 && getenv("TEST_VERBOSE") != NULL)
            printf("%s\n", all.metadata[0][i].name);
        run(job, all.handle[0][i]);
    }
    algorithms_free(&all);
}

int main(void)
{
    struct job job;

    job_start(&job, "coll-basic", 1);
    each(&job, PAMI_XFER_BARRIER, barrier);
    each(&job, PAMI_XFER_BROADCAST, broadcast);
    each(&job, PAMI_XFER_BROADCAST, broadcast_strided);
    each(&job, PAMI_XFER_ALLREDUCE, allreduce);
    each(&job, PAMI_XFER_ALLREDUCE, operators);
    each(&job, PAMI_XFER_ALLREDUCE, in_flight);
    job_finish(&job);
    return 0;
}
