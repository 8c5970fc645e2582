/*
 * One task dies in the middle of one-sided traffic; the others check what they see of it.
 *
 *     rma_dying [--seed N] [--only put|get|typed|region|rmw|fence] [--way kill|exit|stuck|none]
 *               [--memory heap|plain]
 *
 * The victim is the last task. kill: at any instruction; exit: with status 0, between two calls;
 * stuck: it stops advancing for a while with everything outstanding, and is killed then. Every
 * callback of a survivor runs exactly once, at the latest when the death has been noticed; what is
 * started after that is refused or fails; fences end; and what the survivors do among each other
 * is right to the last byte.
 *
 * rma_killed.sh goes through seeds and ways.
 *
 * Run: tasks=1,3 args="--way none" timeout=30
 * Run: tasks=1,3 args="--way none --memory heap" timeout=30
 */
#include "api/rma.h"

#include <pamix.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

enum {
    TASKS = 8,
    WINDOW = 24, /* operations under way with one task */
    SLOT = 70000,
    FIELD = 256, /* bytes at the end of a window that anybody may read and add to */
    ID_DONE = 1,
    STEPS_ALONE = 300, /* of traffic after the death */
    HANG_SECONDS = 15
};

enum kind {
    KIND_PUT,
    KIND_GET,
    KIND_TYPED,
    KIND_REGION,
    KIND_RMW,
    KIND_FENCE,
    KINDS
};

static const char *const kind_names[] = {"put", "get", "typed", "region", "rmw", "fence"};

/* What is under way with one task; slot i of my area in its window belongs to operation i. */
struct operation {
    struct rma books;
    enum kind kind;
    size_t peer, bytes;
    uint64_t seed, value, old;
    bool busy, too_late;
    bool all;        /* a fence towards everybody */
    bool needs_none; /* succeeds without the peer */
    pami_memregion_t region;
    unsigned char *local;
};

struct card {
    unsigned char *window;
    pami_memregion_t region;
    pid_t pid;
};

static struct job job;
static struct card card[TASKS];
static struct operation operations[TASKS][WINDOW];
static size_t under_way[TASKS], good[TASKS], bad[TASKS], done_messages;
static bool refused[TASKS], dead_known;
static uint64_t dice = 1;
static int only = -1;
static const char *way = "none";
static pami_type_t stripes;
static bool
    in_heap; /* windows are in the shared heap: a put there succeeds until the death is noticed */
static size_t victim;

static size_t window_bytes(void)
{
    return job.tasks * (size_t)SLOT + FIELD;
}

static size_t below(size_t limit)
{
    return (size_t)(test_random(&dice) % limit);
}

static bool somebody_dies(void)
{
    return strcmp(way, "none") != 0 && job.tasks > 1;
}

static void ended(struct operation *op, pami_result_t result)
{
    CHECK(op->busy);
    op->busy = false;
    under_way[op->peer]--;
    if (result == PAMI_SUCCESS) {
        good[op->peer]++;
        CHECK(!op->too_late || op->needs_none || in_heap);
    } else {
        bad[op->peer]++;
        if ((op->peer != victim && !op->all) || !somebody_dies())
            FAIL("a %s with task %zu ended with %d", kind_names[op->kind], op->peer, (int)result);
    }
    if (op->kind == KIND_REGION)
        CHECK_OK(PAMI_Memregion_destroy(job.context[0], &op->region));
}

static void on_transfer(struct rma *books)
{
    struct operation *op = books->of;
    pami_result_t result = books->is_put ? books->rresult : books->result;

    if (result == PAMI_SUCCESS && !books->is_put && op->kind == KIND_GET)
        CHECK_SIZE(test_differs(op->local, FIELD / 2, op->peer, 0), FIELD / 2);
    ended(op, result);
}

/* Of operations that are not puts and gets. */
static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    struct operation *op = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0]);
    ended(op, result);
}

static pami_result_t start_rmw(struct operation *op, pami_endpoint_t to)
{
    pami_rmw_t rmw = {
        .dest = to,
        .cookie = op,
        .done_fn = on_end,
        .local = &op->old,
        .remote = card[op->peer].window + window_bytes() - FIELD / 2,
        .value = &op->value,
        .operation = PAMI_ATOMIC_FETCH_ADD,
        .type = PAMI_TYPE_UNSIGNED_LONG,
    };

    op->value = 1;
    return TEST_CALL(PAMI_Rmw(job.context[0], &rmw));
}

/* The calls themselves, as their results are of interest here. */
static pami_result_t start(struct operation *op, size_t slot)
{
    pami_context_t context = job.context[0];
    pami_endpoint_t to = job_endpoint(&job, op->peer, 0);
    bool is_put = op->kind != KIND_GET;
    size_t share = SLOT / WINDOW;
    size_t offset = job.task * (size_t)SLOT + slot * share;
    unsigned char *remote = card[op->peer].window + offset;
    size_t usable;
    pami_put_simple_t put;
    pami_put_typed_t typed;
    pami_get_simple_t get;
    pami_rput_simple_t rput;
    pami_result_t result;

    if (op->kind == KIND_RMW)
        return start_rmw(op, to);
    if (op->kind == KIND_FENCE) {
        op->all = below(2);
        return op->all ? TEST_CALL(PAMI_Fence_all(context, on_end, op))
                       : TEST_CALL(PAMI_Fence_endpoint(context, on_end, op, to));
    }
    op->books = (struct rma){.expect = RMA_ANY, .then = on_transfer, .of = op};
    put.rma = rma_head(&op->books, is_put, context, to, op->bytes);
    put.addr = (pami_rma_addr_t){op->local, remote};
    put.put = rma_tail(&op->books);
    if (op->kind == KIND_PUT) {
        result = TEST_CALL(PAMI_Put(context, &put));
    } else if (op->kind == KIND_GET) {
        get = (pami_get_simple_t){put.rma, put.addr};
        get.addr.remote = card[op->peer].window + window_bytes() - FIELD;
        get.rma.bytes = FIELD / 2;
        result = TEST_CALL(PAMI_Get(context, &get));
    } else if (op->kind == KIND_TYPED) {
        typed = (pami_put_typed_t){put.rma, put.addr, {PAMI_TYPE_BYTE, stripes}, put.put};
        typed.rma.bytes /= 2;
        result = TEST_CALL(PAMI_Put_typed(context, &typed));
    } else {
        CHECK_OK(PAMI_Memregion_create(context, op->local, SLOT, &usable, &op->region));
        rput = (pami_rput_simple_t){
            put.rma, {{&op->region, 0}, {&card[op->peer].region, offset}}, put.put};
        result = TEST_CALL(PAMI_Rput(context, &rput));
        if (result != PAMI_SUCCESS)
            CHECK_OK(PAMI_Memregion_destroy(context, &op->region));
    }
    if (result != PAMI_SUCCESS)
        rma_pending--;
    return result;
}

/* Fences end with what there is; data of no bytes is there. */
static bool needs_none(const struct operation *op)
{
    switch (op->kind) {
    case KIND_FENCE:
        return true;
    case KIND_PUT:
    case KIND_REGION:
        return op->bytes == 0;
    case KIND_TYPED:
        return op->bytes < 2;
    default:
        return false;
    }
}

static void start_one(size_t peer)
{
    size_t slot = 0;
    struct operation *op;
    pami_result_t result;

    while (slot < WINDOW && operations[peer][slot].busy)
        slot++;
    if (slot == WINDOW)
        return;
    op = &operations[peer][slot];
    op->kind = only >= 0 && below(4) ? (enum kind)only : (enum kind)below(KINDS);
    op->peer = peer;
    op->bytes = below(3) ? below(200) : below(SLOT / WINDOW);
    op->too_late = peer == victim && dead_known;
    op->busy = true;
    op->all = false;
    op->needs_none = needs_none(op);
    test_fill(op->local, op->bytes, job.task + slot, 0);
    under_way[peer]++;
    result = start(op, slot);
    if (result == PAMI_SUCCESS)
        return;
    op->busy = false;
    under_way[peer]--;
    refused[peer] = true;
    if (peer != victim || !somebody_dies())
        FAIL("a %s to task %zu gave %d: %s", kind_names[op->kind], peer, (int)result, test_text());
}

static void traffic(void)
{
    for (size_t peer = 0; peer < job.tasks; peer++)
        if (!(peer == victim && dead_known))
            start_one(peer);
    job_advance(&job);
}

/* ------------------------------------------------------------------------------ the victim -- */

static void *kill_soon(void *argument)
{
    test_sleep(1e-6 * (double)*(size_t *)argument);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void be_victim(void)
{
    static size_t delay_us;
    pthread_t thread;

    delay_us = 100 + below(12000);
    if (strcmp(way, "kill") == 0)
        CHECK(pthread_create(&thread, NULL, kill_soon, &delay_us) == 0);
    for (size_t steps = below(400); strcmp(way, "kill") == 0 || steps > 0; steps--)
        traffic();
    if (strcmp(way, "exit") == 0)
        exit(0);
    test_sleep(0.05);
    kill(getpid(), SIGKILL);
}

/* --------------------------------------------------------------------------- the survivors -- */

static bool is_dead(int pidfd)
{
    struct pollfd one = {.fd = pidfd, .events = POLLIN};

    return pidfd < 0 || poll(&one, 1, 0) == 1;
}

static void survive(void)
{
    int pidfd = (int)syscall(SYS_pidfd_open, card[victim].pid, 0);
    double until;
    size_t before, advances = 0;

    while (!is_dead(pidfd))
        traffic();
    dead_known = true;
    until = test_now() + 2 * test_factor();
    before = under_way[victim] > 0 ? 0 : bad[victim];
    while (under_way[victim] > 0 || !(refused[victim] || bad[victim] > before)) {
        if (test_now() > until && advances > 500) /* it may have got no processor */
            FAIL("2 s after its death %zu operations with the victim are under way, %zu were good "
                 "and %zu bad%s",
                 under_way[victim], good[victim], bad[victim],
                 refused[victim] ? ", and it is known to be dead" : "");
        if (under_way[victim] == 0)
            start_one(victim);
        job_advance(&job);
        advances++;
    }
    rma_fence(&job, 1);
    for (size_t i = 0; i < STEPS_ALONE; i++)
        traffic();
}

static void on_done(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    done_messages++;
}

/* Whoever is left writes its whole area everywhere, and all look at what has come. */
static void part(void)
{
    size_t left = job.tasks - somebody_dies();
    unsigned char *source = test_alloc(SLOT);

    WAIT(&job, rma_pending == 0);
    for (size_t peer = 0; peer < job.tasks; peer++)
        WAIT(&job, under_way[peer] == 0);
    test_fill(source, SLOT, job.task, 0);
    for (size_t peer = 0; peer < left; peer++) {
        struct rma op = {0};

        rma_put(&op, job.context[0], job_endpoint(&job, peer, 0), source,
                card[peer].window + job.task * (size_t)SLOT, SLOT);
        rma_wait(&job);
        test_send_immediate(job.context[0], job_endpoint(&job, peer, 0), ID_DONE, NULL, 0, NULL, 0);
    }
    WAIT(&job, done_messages == left);
    for (size_t peer = 0; peer < left; peer++)
        CHECK_SIZE(test_differs(card[job.task].window + peer * (size_t)SLOT, SLOT, peer, 0), SLOT);
    free(source);
}

static void on_alarm(int signal)
{
    (void)signal;
    FAIL("hangs");
}

static void read_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            dice = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--way") == 0)
            way = argv[i + 1];
        else if (strcmp(argv[i], "--memory") == 0)
            in_heap = strcmp(argv[i + 1], "heap") == 0;
        else if (strcmp(argv[i], "--only") == 0)
            for (int kind = 0; kind < KINDS; kind++)
                only = strcmp(kind_names[kind], argv[i + 1]) == 0 ? kind : only;
    }
}

static void get_ready(void)
{
    struct card mine = {.pid = getpid()};
    void *heap;

    CHECK(job.tasks <= TASKS);
    victim = job.tasks - 1;
    dice = dice * 100 + job.task;
    test_dispatch(job.context[0], ID_DONE, on_done, NULL, test_ordered());
    CHECK_OK(PAMI_Type_create(&stripes));
    CHECK_OK(PAMI_Type_add_simple(stripes, 8, 0, 1, 16));
    CHECK_OK(PAMI_Type_complete(stripes, 8));
    for (size_t i = 0; i < job.tasks * WINDOW; i++)
        operations[i / WINDOW][i % WINDOW].local = test_zalloc(SLOT);
    if (in_heap) {
        CHECK_OK(PAMIX_Mem_alloc(job.client, window_bytes(), 0, PAMIX_MEM_ANY, &heap));
        mine.window = memset(heap, 0, window_bytes());
    } else {
        mine.window = test_zalloc(window_bytes());
    }
    test_fill(mine.window + window_bytes() - FIELD, FIELD / 2, job.task, 0);
    rma_region(job.context[0], mine.window, window_bytes(), &mine.region);
    rma_share(&job, &mine, sizeof mine, card);
}

int main(int argc, char **argv)
{
    static const struct rlimit no_core;

    read_options(argc, argv);
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGALRM, on_alarm);
    alarm((unsigned)(HANG_SECONDS * test_factor()));
    job_start(&job, "rma_dying", 2);
    rma_open(&job);
    get_ready();
    if (somebody_dies() && job.task == victim)
        be_victim();
    else if (somebody_dies())
        survive();
    else
        for (size_t i = 0; i < STEPS_ALONE; i++)
            traffic();
    part();
    CHECK_OK(PAMI_Memregion_destroy(job.context[0], &card[job.task].region));
    CHECK_OK(PAMI_Type_destroy(&stripes));
    job_destroy(&job);
    printf("task %zu done\n", job.task);
    return 0;
}
