/*
 * PAMI_Rmw: every operation with every type against a model, on words of the shared heap and on
 * static ones, at oneself and at others; counters that all tasks, contexts and threads fight for,
 * by PAMI_Rmw, by the inline functions and by plain atomics; wrong arguments and addresses.
 *
 * Run: tasks=1,2,4,8
 * Run: tasks=4 nodes=2
 * Run: tasks=3 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=5 env="PAMI_SHM_RING_SLOTS=8"
 */
#include "rma.h"

#include <pamix.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum {
    CONTEXTS = 2,
    TASKS_MAX = 16,
    OPERATIONS = 21,
    TYPES = 6,
    WORDS = 2 * OPERATIONS * TYPES, /* of one origin at one target: with and without a match */
    COUNTERS = 6
};

struct told {
    uint64_t heap, fixed, counters, fixed_counters;
};

static struct job job;
static struct told told[TASKS_MAX];
static uint64_t fixed[TASKS_MAX * WORDS];
static uint64_t fixed_counters[COUNTERS];
static uint64_t *heap, *heap_counters;

static size_t width_of(size_t type)
{
    return type < 2 ? 4 : 8;
}

static pami_type_t type_of(size_t type)
{
    const pami_type_t types[TYPES] = {PAMI_TYPE_SIGNED_INT,       PAMI_TYPE_UNSIGNED_INT,
                                      PAMI_TYPE_SIGNED_LONG,      PAMI_TYPE_UNSIGNED_LONG,
                                      PAMI_TYPE_SIGNED_LONG_LONG, PAMI_TYPE_UNSIGNED_LONG_LONG};

    return types[type];
}

static pami_atomic_t operation_of(size_t number)
{
    return (pami_atomic_t)(number == 0 ? PAMI_ATOMIC_FETCH : PAMI_ATOMIC_SET + number - 1);
}

/* ---- one operation ---- */

struct call {
    int done;
    uint64_t got, guard;
};

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct call *call = cookie;

    CHECK_CALLBACK();
    CHECK(context != NULL && result == PAMI_SUCCESS);
    call->done++;
}

static void rmw(pami_context_t context, pami_endpoint_t dest, uint64_t address, int operation,
                pami_type_t type, uint64_t value, uint64_t test, struct call *call)
{
    uint64_t operands[2] = {value, test};
    pami_rmw_t parameters = {
        .dest = dest,
        .hints = test_garbage_hints(),
        .cookie = call,
        .done_fn = on_done,
        .local = operation & PAMI_ATOMIC_FETCH ? (char *)&call->got : NULL,
        .remote = (void *)(uintptr_t)address,
        .value = operation >= 4 ? &operands[0] : NULL,
        .test = operation & PAMI_ATOMIC_COMPARE ? &operands[1] : NULL,
        .operation = (pami_atomic_t)operation,
        .type = type,
    };

    *call = (struct call){.got = 0x5a5a5a5a5a5a5a5a, .guard = 0x1234};
    CHECK_OK(TEST_CALL(PAMI_Rmw(context, &parameters)));
    memset(&parameters, 0x5a, sizeof parameters);
    memset(operands, 0xa5, sizeof operands);
}

/* ---- the model ---- */

static uint64_t low(uint64_t word, size_t width)
{
    return width == 8 ? word : word & 0xffffffff;
}

static uint64_t model(uint64_t old, int operation, size_t width, uint64_t value, uint64_t test)
{
    uint64_t before = low(old, width), after = before;

    if ((operation & PAMI_ATOMIC_COMPARE) && before != low(test, width))
        return old;
    switch (operation & 28) {
    case PAMI_ATOMIC_SET:
        after = value;
        break;
    case PAMI_ATOMIC_ADD:
        after = before + value;
        break;
    case PAMI_ATOMIC_OR:
        after = before | value;
        break;
    case PAMI_ATOMIC_AND:
        after = before & value;
        break;
    case PAMI_ATOMIC_XOR:
        after = before ^ value;
        break;
    }
    return width == 8 ? after : (old & ~(uint64_t)0xffffffff) | low(after, 4);
}

/* All operations and types at one target: first words are set, then all at once, then read. */
static void check_all(size_t target, uint64_t base, uint64_t seed)
{
    static struct call call[WORDS];
    static uint64_t start[WORDS], value[WORDS], test[WORDS];
    pami_endpoint_t dest = job_endpoint(&job, target, seed % CONTEXTS);
    uint64_t state = seed * 977 + job.task;
    uint64_t mine = base + job.task * sizeof start;

    for (size_t i = 0; i < WORDS; i++) {
        start[i] = test_random(&state);
        rmw(job.context[0], dest, mine + 8 * i, PAMI_ATOMIC_SET, PAMI_TYPE_UNSIGNED_LONG, start[i],
            0, &call[i]);
    }
    for (size_t i = 0; i < WORDS; i++)
        WAIT(&job, call[i].done == 1);
    for (size_t i = 0; i < WORDS; i++) {
        size_t type = i / 2 % TYPES;

        value[i] = test_random(&state);
        test[i] = i % 2 ? start[i] : start[i] ^ 1u << i % 32;
        rmw(job.context[0], dest, mine + 8 * i, (int)operation_of(i / 2 / TYPES), type_of(type),
            value[i], test[i], &call[i]);
    }
    for (size_t i = 0; i < WORDS; i++) {
        size_t width = width_of(i / 2 % TYPES);
        int operation = (int)operation_of(i / 2 / TYPES);

        WAIT(&job, call[i].done == 1);
        CHECK(call[i].guard == 0x1234);
        if (!(operation & PAMI_ATOMIC_FETCH))
            CHECK(call[i].got == 0x5a5a5a5a5a5a5a5a);
        else if (call[i].got != (width == 8 ? start[i] : low(start[i], 4) | 0x5a5a5a5a00000000))
            FAIL("operation %d, type %zu: fetched %llx, was %llx", operation, i / 2 % TYPES,
                 (unsigned long long)call[i].got, (unsigned long long)start[i]);
        rmw(job.context[0], dest, mine + 8 * i, PAMI_ATOMIC_FETCH, PAMI_TYPE_SIGNED_LONG_LONG, 0, 0,
            &call[i]);
    }
    for (size_t i = 0; i < WORDS; i++) {
        int operation = (int)operation_of(i / 2 / TYPES);
        uint64_t expected = model(start[i], operation, width_of(i / 2 % TYPES), value[i], test[i]);

        WAIT(&job, call[i].done == 1);
        if (call[i].got != expected)
            FAIL("operation %d, type %zu, value %llx, test %llx: %llx became %llx, not %llx",
                 operation, i / 2 % TYPES, (unsigned long long)value[i],
                 (unsigned long long)test[i], (unsigned long long)start[i],
                 (unsigned long long)call[i].got, (unsigned long long)expected);
    }
}

/* ---- many at one word ---- */

enum {
    TURNS = 300,
    /* What each actor does with a counter, TURNS times. */
    ADD_3 = 0,   /* to the sum */
    ADD_INT = 1, /* the same in 4 bytes */
    TAKE = 2,    /* fetch-add 1: all answers differ */
    CLIMB = 3,   /* compare-add until it works */
    FLIP = 4,    /* xor of a bit of its own, an even number of times */
    RAISE = 5    /* or of a bit of its own */
};

struct actor {
    size_t context;
    pthread_t thread;
    uint64_t taken[TURNS];
};

static struct actor actor[CONTEXTS];
static atomic_int acting, finished;

/* Without the books of job_advance, which are the main thread's. */
static void wait_for(pami_context_t context, struct call *call)
{
    double until = test_now() + 3 * test_limit();

    while (call->done == 0) {
        if (test_advance(context, 1) == PAMI_EAGAIN)
            sched_yield();
        if (test_now() > until)
            FAIL("an atomic operation is not done");
    }
    CHECK(call->done == 1);
}

static uint64_t act(struct actor *a, uint64_t address, int operation, uint64_t value, uint64_t test)
{
    struct call call;

    rmw(job.context[a->context], job_endpoint(&job, 0, a->context), address, operation,
        PAMI_TYPE_UNSIGNED_LONG, value, test, &call);
    wait_for(job.context[a->context], &call);
    return call.got;
}

/* One turn with words at task 0; `cast` is where they are mapped here, or NULL. */
static void turn(struct actor *a, uint64_t base, uint64_t *cast, int number, bool take)
{
    uint64_t bit = (uint64_t)1 << (job.task * CONTEXTS + a->context);
    struct call call;
    uint64_t seen;

    if (cast != NULL && number % 3 == 0) {
        PAMIX_Mem_fetch_add8(&cast[ADD_3], 3);
        PAMIX_Mem_fetch_add4(&cast[ADD_INT], 5);
    } else {
        act(a, base + 8 * ADD_3, PAMI_ATOMIC_ADD, 3, 0);
        rmw(job.context[a->context], job_endpoint(&job, 0, a->context), base + 8 * ADD_INT,
            PAMI_ATOMIC_FETCH_ADD, PAMI_TYPE_SIGNED_INT, 5, 0, &call);
        wait_for(job.context[a->context], &call);
    }
    if (take)
        a->taken[number] = act(a, base + 8 * TAKE, PAMI_ATOMIC_FETCH_ADD, 1, 0);
    do
        seen = act(a, base + 8 * CLIMB, PAMI_ATOMIC_FETCH, 0, 0);
    while (act(a, base + 8 * CLIMB, PAMI_ATOMIC_FETCH_COMPARE_ADD, 7, seen) != seen);
    act(a, base + 8 * FLIP, number % 2 ? PAMI_ATOMIC_XOR : PAMI_ATOMIC_FETCH_XOR, bit, 0);
    act(a, base + 8 * RAISE, PAMI_ATOMIC_OR, bit, 0);
}

static void *act_all(void *argument)
{
    struct actor *a = argument;
    uint64_t *cast =
        PAMIX_Mem_local_address(job.client, 0, (void *)(uintptr_t)told[0].counters, COUNTERS * 8);
    uint64_t fixed_at = told[0].fixed_counters;

    for (int i = 0; i < TURNS; i++) {
        turn(a, told[0].counters, cast, i, true);
        turn(a, fixed_at, job.task == 0 ? fixed_counters : NULL, i, false);
        CHECK(i == 0 || a->taken[i] > a->taken[i - 1]);
    }
    atomic_fetch_add(&finished, 1);
    while (a->context != 0 && atomic_load(&acting))
        if (test_advance(job.context[a->context], 1) == PAMI_EAGAIN)
            sched_yield();
    return NULL;
}

static void check_counters(const uint64_t *counters, bool taken)
{
    uint64_t actors = job.tasks * CONTEXTS;
    uint64_t bits = actors == 64 ? UINT64_MAX : ((uint64_t)1 << actors) - 1;

    CHECK_SIZE(counters[ADD_3], 3 * TURNS * actors);
    CHECK_SIZE(counters[ADD_INT], 5 * TURNS * actors);
    if (taken)
        CHECK_SIZE(counters[TAKE], TURNS * actors);
    CHECK_SIZE(counters[CLIMB], 7 * TURNS * actors);
    CHECK_SIZE(counters[FLIP], 0);
    CHECK_SIZE(counters[RAISE], bits);
}

static void contend(void)
{
    atomic_store(&acting, 1);
    for (size_t i = 0; i < CONTEXTS; i++)
        actor[i].context = i;
    for (size_t i = 1; i < CONTEXTS; i++)
        CHECK(pthread_create(&actor[i].thread, NULL, act_all, &actor[i]) == 0);
    job.driven = 1;
    act_all(&actor[0]);
    WAIT(&job, atomic_load(&finished) == CONTEXTS);
    job_barrier(&job);
    atomic_store(&acting, 0);
    for (size_t i = 1; i < CONTEXTS; i++)
        pthread_join(actor[i].thread, NULL);
    job.driven = CONTEXTS;
    if (job.task == 0) {
        check_counters(heap_counters, true);
        check_counters(fixed_counters, false);
    }
}

/* A fence ends when the operations before it have been executed, those without done_fn too. */
static void fence(void)
{
    enum {
        ADDS = 100
    };
    struct call fenced = {0}, read[TASKS_MAX];
    uint64_t one = 1, before[TASKS_MAX];

    for (size_t task = 0; task < job.tasks; task++) {
        rmw(job.context[0], job_endpoint(&job, task, 0), told[task].fixed + 8 * job.task,
            PAMI_ATOMIC_FETCH, PAMI_TYPE_UNSIGNED_LONG, 0, 0, &read[task]);
        WAIT(&job, read[task].done == 1);
        before[task] = read[task].got;
    }
    for (size_t i = 0; i < ADDS * job.tasks; i++) {
        pami_rmw_t add = {.dest = job_endpoint(&job, i % job.tasks, i % CONTEXTS),
                          .remote = (uint64_t *)(uintptr_t)told[i % job.tasks].fixed + job.task,
                          .value = &one,
                          .operation = PAMI_ATOMIC_ADD,
                          .type = PAMI_TYPE_UNSIGNED_LONG};

        CHECK_OK(PAMI_Rmw(job.context[0], &add));
    }
    CHECK_OK(PAMI_Fence_all(job.context[0], on_done, &fenced));
    WAIT(&job, fenced.done == 1);
    for (size_t task = 0; task < job.tasks; task++) {
        /* Through another context: nothing is in order with what came before but by the fence. */
        rmw(job.context[CONTEXTS - 1], job_endpoint(&job, task, CONTEXTS - 1),
            told[task].fixed + 8 * job.task, PAMI_ATOMIC_FETCH, PAMI_TYPE_UNSIGNED_LONG, 0, 0,
            &read[task]);
        WAIT(&job, read[task].done == 1);
        CHECK_SIZE(read[task].got, before[task] + ADDS);
    }
    job_barrier(&job);
}

/* Only the target's word is aligned: the operands lie anywhere, and `local` may be one of them. */
static void operands(void)
{
    unsigned char bytes[25] = {0};
    struct call call = {0};
    uint64_t before, value = 5;

    for (size_t task = 0; task < job.tasks; task++) {
        pami_rmw_t at = {.dest = job_endpoint(&job, task, 0),
                         .cookie = &call,
                         .done_fn = on_done,
                         .local = bytes + 1,
                         .remote = (uint64_t *)(uintptr_t)told[task].fixed + job.task,
                         .value = bytes + 9,
                         .test = bytes + 17,
                         .operation = PAMI_ATOMIC_FETCH,
                         .type = PAMI_TYPE_UNSIGNED_LONG};

        call.done = 0;
        CHECK_OK(PAMI_Rmw(job.context[0], &at));
        WAIT(&job, call.done == 1);
        memcpy(&before, bytes + 1, 8);
        memcpy(bytes + 9, &value, 8);
        memcpy(bytes + 17, &before, 8);
        at.operation = PAMI_ATOMIC_FETCH_COMPARE_ADD;
        CHECK_OK(PAMI_Rmw(job.context[0], &at));
        memset(bytes + 9, 0xa5, 16);
        WAIT(&job, call.done == 2);
        CHECK(memcmp(bytes + 1, &before, 8) == 0 && test_all(bytes + 9, 16, 0xa5));
        memcpy(bytes + 1, &value, 8);
        at.value = at.local;
        at.operation = PAMI_ATOMIC_FETCH_SET;
        CHECK_OK(PAMI_Rmw(job.context[0], &at));
        WAIT(&job, call.done == 3);
        before += value;
        CHECK(memcmp(bytes + 1, &before, 8) == 0);
    }
    job_barrier(&job);
}

/* ---- what is refused ---- */

static pami_rmw_t good(uint64_t *words)
{
    return (pami_rmw_t){.dest = job_endpoint(&job, job.task, 0),
                        .local = &words[0],
                        .remote = &words[1],
                        .value = &words[2],
                        .test = &words[3],
                        .operation = PAMI_ATOMIC_FETCH_COMPARE_ADD,
                        .type = PAMI_TYPE_SIGNED_LONG};
}

#define REFUSED(word, ...)                                                                         \
    do {                                                                                           \
        pami_rmw_t bad = good(words);                                                              \
                                                                                                   \
        __VA_ARGS__;                                                                               \
        CHECK_REFUSED(PAMI_Rmw(job.context[0], &bad), PAMI_INVAL, word);                           \
    } while (0)

static void arguments(void)
{
    uint64_t words[5] = {1, 2, 3, 2, 0};
    uint32_t halves[2];
    const pami_type_t wrong[] = {PAMI_TYPE_BYTE,
                                 PAMI_TYPE_SIGNED_CHAR,
                                 PAMI_TYPE_UNSIGNED_SHORT,
                                 PAMI_TYPE_FLOAT,
                                 PAMI_TYPE_DOUBLE,
                                 PAMI_TYPE_LOGICAL8,
                                 PAMI_TYPE_LOC_2INT,
                                 NULL,
                                 words};
    const int none[] = {0, 2, 3, 24, 25, 64, -1};
    pami_type_t user;
    pami_rmw_t fine = good(words);

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        REFUSED("type", bad.type = wrong[i]);
    CHECK_OK(PAMI_Type_create(&user));
    REFUSED("type", bad.type = user);
    CHECK_OK(PAMI_Type_destroy(&user));
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        REFUSED("operation", bad.operation = (pami_atomic_t)none[i]);
    REFUSED("remote", bad.remote = NULL);
    REFUSED("remote", bad.remote = (char *)&words[1] + 4);
    REFUSED("remote", bad.remote = (char *)&words[1] + 2; bad.type = PAMI_TYPE_SIGNED_INT);
    REFUSED("value", bad.value = NULL);
    REFUSED("test", bad.test = NULL);
    REFUSED("local", bad.local = NULL);
    REFUSED("dest", bad.dest = 0x7fffffff);
    REFUSED("dest", bad.dest = (pami_endpoint_t)job.tasks);
    CHECK_REFUSED(PAMI_Rmw(NULL, &fine), PAMI_INVAL, "context");
    CHECK_REFUSED(PAMI_Rmw(job.context[0], NULL), PAMI_INVAL, "parameters");
    CHECK(words[0] == 1 && words[1] == 2);
    CHECK_OK(PAMI_Rmw(job.context[0], &fine)); /* without done_fn */
    CHECK(words[0] == 2 && words[1] == 5);
    /* A word of 4 bytes need not be aligned to 8. */
    fine.remote = (char *)&words[4] + 4;
    fine.type = PAMI_TYPE_UNSIGNED_INT;
    fine.operation = PAMI_ATOMIC_SET;
    fine.local = fine.test = NULL;
    CHECK_OK(PAMI_Rmw(job.context[0], &fine));
    memcpy(halves, &words[4], sizeof halves);
    CHECK(halves[0] == 0 && halves[1] == 3);
}

struct failure {
    int done;
    pami_result_t result;
};

static void on_failure(pami_context_t context, void *cookie, pami_result_t result)
{
    struct failure *failure = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0]);
    failure->done++;
    failure->result = result;
}

static pami_result_t at_address(size_t target, uint64_t address, pami_atomic_t operation)
{
    struct failure failure = {0, PAMI_SUCCESS};
    uint64_t words[2] = {1, 1};
    pami_rmw_t parameters = {.dest = job_endpoint(&job, target, 0),
                             .cookie = &failure,
                             .done_fn = on_failure,
                             .local = &words[0],
                             .remote = (void *)(uintptr_t)address,
                             .value = &words[1],
                             .operation = operation,
                             .type = PAMI_TYPE_UNSIGNED_LONG};

    CHECK_OK(TEST_CALL(PAMI_Rmw(job.context[0], &parameters)));
    WAIT(&job, failure.done == 1);
    CHECK(failure.result == PAMI_SUCCESS || words[0] == 1);
    return failure.result;
}

/* A wrong address is the initiator's error; the target lives on. */
static void addresses(void)
{
    static const uint64_t constant __attribute__((aligned(8))) = 77;
    size_t target = (job.task + 1) % job.tasks;
    char *page = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct told mine;

    CHECK(page != MAP_FAILED);
    CHECK(mprotect(page + 4096, 4096, PROT_READ) == 0 && munmap(page + 2 * 4096, 4096) == 0);
    mine =
        (struct told){.heap = (uint64_t)(uintptr_t)page, .fixed = (uint64_t)(uintptr_t)&constant};
    job_barrier(&job);
    rma_share(&job, &mine, sizeof mine, told);
    if (target != job.task) {
        CHECK(at_address(target, told[target].heap + 8, PAMI_ATOMIC_FETCH_ADD) == PAMI_SUCCESS);
        CHECK(at_address(target, told[target].heap + 4096, PAMI_ATOMIC_FETCH_ADD) == PAMI_ERROR);
        CHECK(at_address(target, told[target].heap + 4096, PAMI_ATOMIC_ADD) == PAMI_ERROR);
        CHECK(at_address(target, told[target].heap + 4096, PAMI_ATOMIC_FETCH) == PAMI_SUCCESS);
        CHECK(at_address(target, told[target].heap + 8192, PAMI_ATOMIC_FETCH) == PAMI_ERROR);
        CHECK(at_address(target, told[target].heap + 8192, PAMI_ATOMIC_SET) == PAMI_ERROR);
        CHECK(at_address(target, told[target].fixed, PAMI_ATOMIC_FETCH) == PAMI_SUCCESS);
        CHECK(at_address(target, told[target].fixed, PAMI_ATOMIC_SET) == PAMI_ERROR);
        CHECK(at_address(target, 8, PAMI_ATOMIC_SET) == PAMI_ERROR);
        CHECK(at_address(target, UINT64_C(0xffff800000000000), PAMI_ATOMIC_FETCH) == PAMI_ERROR);
        CHECK(at_address(target, UINT64_C(0x1234567812345678), PAMI_ATOMIC_ADD) == PAMI_ERROR);
    }
    job_barrier(&job);
    CHECK(constant == 77);
    munmap(page, 2 * 4096);
}

static void introduce(void)
{
    struct told mine;

    CHECK(job.tasks <= TASKS_MAX);
    CHECK_OK(
        PAMIX_Mem_alloc(job.client, job.tasks * WORDS * 8, 8, PAMIX_MEM_LOCAL, (void **)&heap));
    CHECK_OK(
        PAMIX_Mem_alloc(job.client, COUNTERS * 8, 64, PAMIX_MEM_LOCAL, (void **)&heap_counters));
    memset(heap_counters, 0, COUNTERS * 8);
    mine = (struct told){.heap = (uint64_t)(uintptr_t)heap,
                         .fixed = (uint64_t)(uintptr_t)fixed,
                         .counters = (uint64_t)(uintptr_t)heap_counters,
                         .fixed_counters = (uint64_t)(uintptr_t)fixed_counters};
    rma_share(&job, &mine, sizeof mine, told);
}

int main(void)
{
    job_start(&job, "rmw", CONTEXTS);
    rma_open(&job);
    job_barrier(&job);
    introduce();
    arguments();
    for (size_t i = 0; i < job.tasks; i++) {
        size_t target = (job.task + i) % job.tasks;

        check_all(target, told[target].heap, 2 * i);
        check_all(target, told[target].fixed, 2 * i + 1);
    }
    job_barrier(&job);
    contend();
    fence();
    operands();
    addresses();
    rma_close(&job);
    return 0;
}
