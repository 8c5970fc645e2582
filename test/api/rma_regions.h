/*
 * What rput.c and rget.c share: the same tests for both directions, through memory regions.
 *
 * A region travels as plain bytes in a message and is used with an offset, on any context, in the
 * middle of it, while other regions overlap it.
 */
#ifndef LIBPAMI_API_RMA_REGIONS_H
#define LIBPAMI_API_RMA_REGIONS_H

#include "rma_layouts.h"
#include "rma_rows.h"

enum {
    REGIONS_CONTEXTS = 3,
    REGIONS_EACH = 16, /* typed transfers */
    REGIONS_MOST = 6000,
    REGIONS_BITS = sizeof(pami_memregion_t) * 8,
    REGIONS_FORGED = 256 /* bytes of the window that forged regions aim at */
};

struct regions {
    struct job job;
    struct rma_rows rows;
    size_t next, previous;
    bool is_put;
};

static struct regions regions;

/* A region as an array element can be. */
struct region {
    pami_memregion_t bytes;
};

static inline void regions_start(const char *name, bool is_put, int argc, char **argv)
{
    bool large = argc > 1 && strcmp(argv[1], "large") == 0;

    regions.is_put = is_put;
    regions.rows.count = large ? RMA_ROWS_ALL : RMA_ROWS_ALL - RMA_ROWS_LARGE;
    job_start(&regions.job, name, REGIONS_CONTEXTS);
    rma_open(&regions.job);
    regions.next = (regions.job.task + 1) % regions.job.tasks;
    regions.previous = (regions.job.task + regions.job.tasks - 1) % regions.job.tasks;
}

/* Between my memory and another task's; `type` is empty for plain transfers. */
static inline void regions_move(struct rma *op, size_t context, size_t task, pami_rma_mr_t local,
                                pami_rma_mr_t remote, pami_rma_typed_t type, size_t bytes)
{
    struct job *job = &regions.job;

    rma_rmove(op, regions.is_put, job->context[context],
              job_endpoint(job, task, (context + 1) % REGIONS_CONTEXTS),
              (pami_rdma_t){local, remote}, type, bytes);
}

/* Every size, all contexts in turn; regions begin before the window and end behind it. */
static inline void regions_every_size(enum rma_memory kind, void *stack)
{
    struct job *job = &regions.job;
    size_t i, room = rma_rows_room(&regions.rows), task = regions.next;
    unsigned char *window = rma_memory(job, kind, room, stack), *local = test_alloc(room);
    struct region mine, near, *all = test_alloc(job->tasks * sizeof *all);
    struct rma *op = test_zalloc(regions.rows.count * sizeof *op);

    rma_rows_fill(&regions.rows, regions.is_put ? local : window, job->task);
    rma_rows_clear(&regions.rows, regions.is_put ? window : local);
    rma_region(job->context[1], window, room, &mine.bytes);
    rma_region(job->context[2], local + 7, room - 7, &near.bytes);
    rma_share(job, &mine, sizeof mine, all);
    for (i = 0; i < regions.rows.count; i++) {
        size_t at = rma_rows_at(i);

        regions_move(&op[i], i % REGIONS_CONTEXTS, task, (pami_rma_mr_t){&near.bytes, at - 7},
                     (pami_rma_mr_t){&all[task].bytes, at}, (pami_rma_typed_t){0},
                     rma_rows_bytes[i]);
    }
    rma_wait(job);
    job_barrier(job);
    if (regions.is_put)
        rma_rows_verify(&regions.rows, window, regions.previous, rma_memory_name[kind]);
    else
        rma_rows_verify(&regions.rows, local, regions.next, rma_memory_name[kind]);
    job_barrier(job);
    CHECK_OK(PAMI_Memregion_destroy(job->context[0], &mine.bytes));
    CHECK_OK(PAMI_Memregion_destroy(job->context[0], &near.bytes));
    free(op), free(all), free(local);
    rma_memory_free(job, kind, window, room);
}

/* Random layouts; a region is the whole memory of one, guards included. */
static inline void regions_typed(void)
{
    struct job *job = &regions.job;
    size_t origin = regions.previous, task = regions.next, i;
    struct region mine[REGIONS_EACH], near, *all = test_alloc(job->tasks * sizeof mine);
    unsigned char *window[REGIONS_EACH], *local[REGIONS_EACH];
    struct rma_typed mover[REGIONS_EACH], theirs[REGIONS_EACH];
    struct rma op[REGIONS_EACH] = {0};

    for (i = 0; i < REGIONS_EACH; i++) {
        struct rma_typed *t = &theirs[i];
        size_t room;

        *t = rma_typed_random(origin * REGIONS_EACH + i + 77, REGIONS_MOST);
        room = regions.is_put ? t->to.room : t->from.room;
        window[i] = memset(test_alloc(room), RMA_GUARD_BYTE, room);
        if (!regions.is_put)
            test_fill(window[i], room, t->seed, 0);
        rma_region(job->context[0], window[i], room, &mine[i].bytes);
    }
    rma_share(job, mine, sizeof mine, all);
    for (i = 0; i < REGIONS_EACH; i++) {
        struct rma_typed *t = &mover[i];
        const struct rma_layout *here, *there;

        *t = rma_typed_random(job->task * REGIONS_EACH + i + 77, REGIONS_MOST);
        here = regions.is_put ? &t->from : &t->to;
        there = regions.is_put ? &t->to : &t->from;
        local[i] = memset(test_alloc(here->room), RMA_GUARD_BYTE, here->room);
        if (regions.is_put)
            test_fill(local[i], here->room, t->seed, 0);
        rma_region(job->context[1], local[i], here->room, &near.bytes);
        regions_move(&op[i], i % REGIONS_CONTEXTS, task, (pami_rma_mr_t){&near.bytes, here->base},
                     (pami_rma_mr_t){&all[task * REGIONS_EACH + i].bytes, there->base},
                     (pami_rma_typed_t){here->type, there->type}, t->bytes);
        rma_wait(job);
        CHECK_OK(PAMI_Memregion_destroy(job->context[1], &near.bytes));
        if (!regions.is_put)
            rma_typed_verify(t, local[i], t->seed);
    }
    job_barrier(job);
    for (i = 0; i < REGIONS_EACH; i++) {
        if (regions.is_put)
            rma_typed_verify(&theirs[i], window[i], theirs[i].seed);
        CHECK_OK(PAMI_Memregion_destroy(job->context[2], &mine[i].bytes));
        rma_typed_free(&theirs[i]), rma_typed_free(&mover[i]);
        free(window[i]), free(local[i]);
    }
    job_barrier(job);
    free(all);
}

/* ------------------------------------------------------------------------------- refusals -- */

static inline pami_result_t regions_try(struct rma *op, size_t task, pami_rma_mr_t local,
                                        pami_rma_mr_t remote, size_t bytes)
{
    struct job *job = &regions.job;
    pami_context_t context = job->context[0];
    pami_rput_simple_t put = {
        .rma = rma_head(op, regions.is_put, context, job_endpoint(job, task, 0), bytes),
        .rdma = {local, remote},
        .put = rma_tail(op),
    };
    pami_rget_simple_t get = {.rma = put.rma, .rdma = put.rdma};
    pami_result_t result =
        regions.is_put ? TEST_CALL(PAMI_Rput(context, &put)) : TEST_CALL(PAMI_Rget(context, &get));

    if (result != PAMI_SUCCESS)
        rma_pending--;
    return result;
}

static inline pami_result_t regions_try_typed(struct rma *op, size_t task, pami_rdma_t rdma,
                                              pami_rma_typed_t type, size_t bytes)
{
    struct job *job = &regions.job;
    pami_context_t context = job->context[0];
    pami_rput_typed_t put = {
        .rma = rma_head(op, regions.is_put, context, job_endpoint(job, task, 0), bytes),
        .rdma = rdma,
        .type = type,
        .put = rma_tail(op),
    };
    pami_rget_typed_t get = {.rma = put.rma, .rdma = rdma, .type = type};
    pami_result_t result = regions.is_put ? TEST_CALL(PAMI_Rput_typed(context, &put))
                                          : TEST_CALL(PAMI_Rget_typed(context, &get));

    if (result != PAMI_SUCCESS)
        rma_pending--;
    return result;
}

/* It is refused by the call, or ends with an error. */
static inline void regions_must_fail(size_t task, pami_rma_mr_t local, pami_rma_mr_t remote,
                                     size_t bytes)
{
    struct rma op = {.expect = RMA_BAD};

    if (regions_try(&op, task, local, remote, bytes) == PAMI_SUCCESS)
        rma_wait(&regions.job);
    else
        CHECK(op.done == 0 && op.rdone == 0);
}

/* A range that leaves its region is refused at once, also when the sum wraps around. */
static inline void regions_ranges(void)
{
    static unsigned char window[1000], local[2000];
    static const struct {
        size_t offset, bytes;
        bool good;
    } rows[] = {
        {0, 1000, true},
        {999, 1, true},
        {1000, 0, true},
        {0, 1001, false},
        {1, 1000, false},
        {1000, 1, false},
        {1001, 1, false},
        {(size_t)-1, 1, false},
        {(size_t)-1, 2, false},
        {(size_t)-8, 16, false},
        {8, (size_t)-8, false},
        {500, (size_t)-499, false},
        {2, (size_t)-1, false},
        {(size_t)1 << 63, (size_t)1 << 63, false},
        {0, (size_t)1 << 40, false},
    };
    struct job *job = &regions.job;
    struct region mine, near, *all = test_alloc(job->tasks * sizeof *all);

    rma_region(job->context[0], window, sizeof window, &mine.bytes);
    rma_region(job->context[0], local, sizeof local, &near.bytes);
    rma_share(job, &mine, sizeof mine, all);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rma op = {0};
        pami_rma_mr_t here = {&near.bytes, 0}, there = {&all[regions.next].bytes, rows[i].offset};
        pami_result_t wanted = rows[i].good ? PAMI_SUCCESS : PAMI_INVAL, got;

        got = regions_try(&op, regions.next, here, there, rows[i].bytes);
        if (got != wanted)
            FAIL("remote offset %zu, %zu bytes: %d", rows[i].offset, rows[i].bytes, (int)got);
        rma_wait(job);
        /* The same range of my own region; the other side would have room. */
        if (rows[i].good)
            continue;
        here = (pami_rma_mr_t){&mine.bytes, rows[i].offset};
        there = (pami_rma_mr_t){&all[regions.next].bytes, 0};
        got = regions_try(&op, regions.next, here, there, rows[i].bytes);
        if (got != PAMI_INVAL)
            FAIL("local offset %zu, %zu bytes: %d", rows[i].offset, rows[i].bytes, (int)got);
    }
    job_barrier(job);
    CHECK_OK(PAMI_Memregion_destroy(job->context[0], &mine.bytes));
    CHECK_OK(PAMI_Memregion_destroy(job->context[0], &near.bytes));
    free(all);
}

/* A layout may leave its region at either end, in its last piece only. */
static inline void regions_typed_ranges(void)
{
    static unsigned char window[1000], local[1000];
    static const struct {
        size_t first, stride, offset, bytes; /* pieces of 8: the first one at `first` */
        bool good;
    } rows[] = {
        {0, 16, 0, 504, true},
        {0, 16, 8, 496, true},
        {0, 16, 0, 505, false},
        {0, 16, 500, 248, true},
        {0, 16, 500, 256, false},
        {0, (size_t)-16, 992, 504, true},
        {0, (size_t)-16, 992, 505, false},
        {0, (size_t)-16, 0, 8, true},
        {0, (size_t)-16, 0, 9, false},
        {(size_t)-8, 16, 8, 8, true},
        {(size_t)-8, 16, 7, 1, false},
        {(size_t)-8, 16, 0, 8, false},
        {(size_t)1 << 63, 16, 0, 8, false},
        {(size_t)-1, 1, 0, 1, false},
        {(size_t)-100, 16, 1050, 26, true}, /* the base behind the region, the data in it */
        {(size_t)-100, 16, 1050, 27, false},
        {100, 16, (size_t)-100, 504, true}, /* ... and before it */
        {100, 16, (size_t)-101, 1, false},
        {100, 16, (size_t)-100, 505, false},
        {0, (size_t)1 << 61, 0, 8, true},
        {0, (size_t)1 << 61, 0, 16, false},
        {0, (size_t)1 << 63, 0, 24, false}, /* the third piece is where the first one is */
        {0, 0, 992, 5000, true},
        {0, 0, 993, 5000, false},
    };
    struct job *job = &regions.job;
    struct region mine, near, *all = test_alloc(job->tasks * sizeof *all);

    rma_region(job->context[0], window, sizeof window, &mine.bytes);
    rma_region(job->context[0], local, sizeof local, &near.bytes);
    rma_share(job, &mine, sizeof mine, all);
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        bool is_local = i % 2;
        size_t row = i / 2;
        pami_rma_mr_t there = {&all[regions.next].bytes, 0}, here = {&near.bytes, 0};
        pami_result_t wanted = rows[row].good ? PAMI_SUCCESS : PAMI_INVAL, got;
        struct rma op = {0};
        pami_type_t type, ring;

        CHECK_OK(PAMI_Type_create(&type));
        CHECK_OK(PAMI_Type_add_simple(type, 8, rows[row].first, 1, rows[row].stride));
        CHECK_OK(PAMI_Type_add_simple(type, 0, -rows[row].first, 1, 0));
        CHECK_OK(PAMI_Type_complete(type, 8));
        CHECK_OK(PAMI_Type_create(&ring)); /* room for anything */
        CHECK_OK(PAMI_Type_add_simple(ring, 1000, 0, 1, 0));
        CHECK_OK(PAMI_Type_complete(ring, 1));
        (is_local ? &here : &there)->offset = rows[row].offset;
        got = regions_try_typed(&op, regions.next, (pami_rdma_t){here, there},
                                is_local ? (pami_rma_typed_t){type, ring}
                                         : (pami_rma_typed_t){ring, type},
                                rows[row].bytes);
        if (got != wanted)
            FAIL("row %zu, %s: result %d", row, is_local ? "local" : "remote", (int)got);
        CHECK_OK(PAMI_Type_destroy(&type));
        CHECK_OK(PAMI_Type_destroy(&ring));
        rma_wait(job);
    }
    job_barrier(job);
    CHECK_OK(PAMI_Memregion_destroy(job->context[0], &mine.bytes));
    CHECK_OK(PAMI_Memregion_destroy(job->context[0], &near.bytes));
    free(all);
}

/* Bytes that no PAMI_Memregion_create has made: never a success at another place, never a crash. */
static inline void regions_forged(void)
{
    static unsigned char window[REGIONS_FORGED], local[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct job *job = &regions.job;
    const size_t aim = REGIONS_FORGED / 2, task = regions.next;
    struct region mine, near, *all = test_alloc(job->tasks * sizeof *all), forged;
    uint64_t random = job->task;

    memset(window, RMA_GUARD_BYTE, sizeof window);
    rma_region(job->context[0], window, sizeof window, &mine.bytes);
    rma_region(job->context[0], local, sizeof local, &near.bytes);
    rma_share(job, &mine, sizeof mine, all);
    for (size_t bit = 0; bit < REGIONS_BITS; bit++) {
        struct rma op = {.expect = RMA_ANY};

        forged = all[task];
        ((unsigned char *)&forged)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        regions_try(&op, task, (pami_rma_mr_t){&near.bytes, 0}, (pami_rma_mr_t){&forged.bytes, aim},
                    sizeof local);
        rma_wait(job);
        if (!regions.is_put && op.done == 1 && op.result == PAMI_SUCCESS)
            CHECK(test_all(local, sizeof local, RMA_GUARD_BYTE));
    }
    for (size_t i = 0; i < 100; i++) {
        for (size_t x = 0; x < sizeof forged; x++)
            ((unsigned char *)&forged)[x] = (unsigned char)(i == 0 ? 0 : test_random(&random));
        regions_must_fail(task, (pami_rma_mr_t){&near.bytes, 0},
                          (pami_rma_mr_t){&forged.bytes, aim}, sizeof local);
        regions_must_fail(task, (pami_rma_mr_t){&forged.bytes, 0},
                          (pami_rma_mr_t){&all[task].bytes, aim}, sizeof local);
    }
    regions_must_fail(task, (pami_rma_mr_t){NULL, 0}, (pami_rma_mr_t){&all[task].bytes, 0}, 8);
    regions_must_fail(task, (pami_rma_mr_t){&near.bytes, 0}, (pami_rma_mr_t){NULL, 0}, 8);
    if (job->tasks > 1) /* the region of one task, and another one's endpoint */
        regions_must_fail((task + 1) % job->tasks, (pami_rma_mr_t){&near.bytes, 0},
                          (pami_rma_mr_t){&all[task].bytes, 0}, 8);
    job_barrier(job);
    CHECK(test_all(window, aim, RMA_GUARD_BYTE));
    CHECK(test_all(window + aim + 8, sizeof window - aim - 8, RMA_GUARD_BYTE));
    CHECK_OK(PAMI_Memregion_destroy(job->context[0], &mine.bytes));
    CHECK_OK(PAMI_Memregion_destroy(job->context[0], &near.bytes));
    free(all);
}

static inline int regions_run(int argc, char **argv)
{
    unsigned char stack[RMA_ROWS_STATIC];

    if (argc > 1) {
        regions_every_size(RMA_MEMORY_HEAP, NULL);
        regions_every_size(RMA_MEMORY_NODE, NULL);
    } else {
        for (int kind = 0; kind < RMA_MEMORY_KINDS; kind++)
            regions_every_size((enum rma_memory)kind, stack);
        regions_typed();
        regions_ranges();
        regions_typed_ranges();
        regions_forged();
    }
    (void)argv;
    rma_close(&regions.job);
    return 0;
}

#endif /* LIBPAMI_API_RMA_REGIONS_H */
