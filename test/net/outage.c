/*
 * Some tasks of a job are lost in the middle of everything: messages, one-sided transfers and
 * collectives with everybody. On every task that lives all that was under way with them ends with
 * an error that names one of them, and none of it touches memory of this task any more; what is
 * started later fails, too, and those that still reach each other go on. Collectives of those that
 * live: test/fault/coll_dying.c.
 *
 *     outage --lost N [--die] [--back]
 *
 * The last N tasks are lost: they kill themselves (--die), or are cut off, by outage.sh, when all
 * have said "streaming". Then each says "lost". --back: when the link is mended, tasks resume each
 * other, "back", and do so many times more, which takes no memory and no descriptors.
 */
#define TEST_LIMIT 40

#include <dirent.h>
#include <signal.h>

#include "api/coll.h"
#include "api/rma.h"

enum {
    TASKS_MAX = 16,
    PLAIN = 100000, /* by packets */
    LARGE = 600000, /* messages are fetched, transfers ask */
    INTS = 20000,
    MESSAGE = 1,
    LIFE = 2,
    STOP = 3,
    ROUNDS = 6, /* of everything before "streaming" */
    CYCLES = 40,
    MARK = 0x5a,
    GROWTH_KIB = 2048
};

enum kind {
    SEND_SHORT,
    SEND_LONG,
    PUT,
    GET,
    LARGE_PUT,
    LARGE_GET,
    RMW,
    KINDS
};

static const char *const kind_names[] = {"short send", "long send", "put", "get",
                                         "large put",  "large get", "rmw"};

struct operation {
    size_t peer, rounds, failures;
    enum kind kind;
    bool busy;
    uint64_t value, old;
    unsigned char *local;
};

struct window {
    unsigned char bytes[LARGE];           /* is read */
    unsigned char from[TASKS_MAX][LARGE]; /* that one writes here */
    uint64_t counter;
};

static struct job job;
static struct operation operations[TASKS_MAX][KINDS];
static struct window window, *windows[TASKS_MAX];
static size_t lost_first, lost_count, landing[TASKS_MAX];
static unsigned char landed[TASKS_MAX][LARGE];
static unsigned lives[TASKS_MAX]; /* heard of since the last look */
static bool stopped[TASKS_MAX];
static int ints[2 * INTS];

static bool is_lost(size_t task)
{
    return (task >= lost_first) != (job.task >= lost_first);
}

/*
 * Where an error is reported the text names a task that is lost. With several lost at once it may
 * be another one: the text is that of the latest error. A member that hears of the end of a
 * collective from another one does not know whom it is about.
 */
static void check_named(const char *what, bool collective)
{
    const char *text = test_text();

    for (size_t i = 0; i < job.tasks; i++) {
        char name[32];
        const char *found;

        snprintf(name, sizeof name, "task %zu", i);
        found = strstr(text, name);
        if (is_lost(i) && found != NULL && (found[strlen(name)] < '0' || found[strlen(name)] > '9'))
            return;
    }
    if (!collective || strstr(text, "a member has g") == NULL)
        FAIL("a %s fails with the text '%s'", what, text);
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    size_t origin = (size_t)((size_t *)cookie - landing);

    (void)context;
    landing[origin]--;
    if (result == PAMI_SUCCESS)
        return;
    CHECK(is_lost(origin));
    check_named("receive", false);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    size_t from = test_origin(origin);

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    if (recv == NULL)
        return;
    memset(recv, 0, sizeof *recv);
    recv->type = PAMI_TYPE_BYTE;
    recv->addr = landed[from];
    recv->local_fn = on_landed;
    recv->cookie = &landing[from];
    landing[from]++;
}

static void on_life(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)recv;
    lives[test_origin(origin)]++;
}

static void on_stop(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)recv;
    stopped[test_origin(origin)] = true;
}

static void ended(struct operation *op, pami_result_t result)
{
    op->busy = false;
    if (result == PAMI_SUCCESS) {
        op->rounds++;
        return;
    }
    op->failures++;
    if (!is_lost(op->peer))
        FAIL("a %s with task %zu fails: %s", kind_names[op->kind], op->peer, test_text());
    check_named(kind_names[op->kind], false);
}

static void on_end(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    ended(cookie, result);
}

static pami_result_t start_send(struct operation *op)
{
    pami_send_t send = {0};

    send.send.dispatch = MESSAGE;
    send.send.dest = job_endpoint(&job, op->peer, 0);
    send.send.data.iov_base = op->local;
    send.send.data.iov_len = op->kind == SEND_LONG ? LARGE : 8;
    send.events.cookie = op;
    send.events.remote_fn = on_end;
    return PAMI_Send(job.context[0], &send);
}

static pami_result_t start_transfer(struct operation *op)
{
    pami_endpoint_t to = job_endpoint(&job, op->peer, 0);
    pami_rma_t head = {.dest = to, .bytes = op->kind >= LARGE_PUT ? LARGE : PLAIN, .cookie = op};
    pami_put_simple_t put = {.rma = head,
                             .addr = {op->local, windows[op->peer]->from[job.task]},
                             .put.rdone_fn = on_end};
    pami_get_simple_t get = {.rma = head, .addr = {op->local, windows[op->peer]->bytes}};
    pami_rmw_t rmw = {.dest = to,
                      .cookie = op,
                      .done_fn = on_end,
                      .local = &op->old,
                      .remote = &windows[op->peer]->counter,
                      .value = &op->value,
                      .operation = PAMI_ATOMIC_FETCH_ADD,
                      .type = PAMI_TYPE_UNSIGNED_LONG};

    get.rma.done_fn = on_end;
    op->value = 1;
    return op->kind == PUT || op->kind == LARGE_PUT   ? PAMI_Put(job.context[0], &put)
           : op->kind == GET || op->kind == LARGE_GET ? PAMI_Get(job.context[0], &get)
                                                      : PAMI_Rmw(job.context[0], &rmw);
}

/* A call that refuses says so as a callback would. */
static void start(struct operation *op)
{
    pami_result_t result;

    op->busy = true;
    result = op->kind <= SEND_LONG ? start_send(op) : start_transfer(op);
    if (result != PAMI_SUCCESS)
        ended(op, result);
}

/* Whatever has ended, and has not failed, begins again. True: with all peers at least `rounds` were
 * done, or one of each kind has failed. */
static bool stir(size_t rounds)
{
    bool done = true;

    for (size_t peer = 0; peer < job.tasks; peer++) {
        if (peer == job.task)
            continue;
        for (int kind = 0; kind < KINDS; kind++) {
            struct operation *op = &operations[peer][kind];

            if (!op->busy && op->failures == 0)
                start(op);
            done = done && (op->rounds >= rounds || op->failures != 0);
        }
    }
    return done;
}

/* ---- collectives ---- */

struct chain {
    pami_geometry_t geometry;
    struct told told;
    size_t rounds, failures;
    bool busy;
};

static void chain_step(struct chain *chain)
{
    static const pami_xfer_type_t types[] = {PAMI_XFER_BARRIER, PAMI_XFER_ALLREDUCE,
                                             PAMI_XFER_ALLREDUCE, PAMI_XFER_BROADCAST};
    pami_xfer_t xfer;
    size_t which;

    if (chain->busy && chain->told.count != 0) {
        chain->busy = false;
        chain->rounds += chain->told.result == PAMI_SUCCESS;
        chain->failures += chain->told.result != PAMI_SUCCESS;
    }
    if (chain->busy || chain->failures != 0)
        return;
    which = chain->rounds % 4;
    xfer = coll_xfer(algorithm_of(chain->geometry, types[which]), &chain->told);
    if (types[which] == PAMI_XFER_ALLREDUCE)
        xfer.cmd.xfer_allreduce =
            coll_sum(ints, ints + INTS, PAMI_TYPE_SIGNED_INT, which == 1 ? 2 : INTS);
    else if (types[which] == PAMI_XFER_BROADCAST)
        xfer.cmd.xfer_broadcast =
            (pami_broadcast_t){job_endpoint(&job, 0, 0), (char *)ints, PAMI_TYPE_SIGNED_INT, INTS};
    chain->busy = true;
    coll_start(job.context[0], &xfer);
}

/* ---- the end of an outage ---- */

/* What the lost ones may still be sending must not get here any more. */
static void mark(unsigned char value)
{
    for (size_t peer = 0; peer < job.tasks; peer++) {
        unsigned char *const places[] = {operations[peer][GET].local,
                                         operations[peer][LARGE_GET].local, window.from[peer],
                                         landed[peer]};

        if (!is_lost(peer))
            continue;
        WAIT(&job, landing[peer] == 0);
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
            if (value != 0)
                memset(places[i], value, LARGE);
            else if (!test_all(places[i], LARGE, MARK))
                FAIL("something of task %zu still arrives, in place %zu", peer, i);
    }
}

static size_t descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    size_t count = 0;

    CHECK(directory != NULL);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;

    CHECK(file != NULL && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Purge, resume and try, until a message gets through to each. */
static void meet_again(size_t tries_max)
{
    for (size_t peer = 0; peer < job.tasks; peer++) {
        struct operation *op = &operations[peer][SEND_SHORT];
        size_t tries = 0;
        double until = test_now() + test_limit();

        if (!is_lost(peer))
            continue;
        for (op->rounds = 0; op->rounds == 0; tries++) {
            pami_endpoint_t endpoint = job_endpoint(&job, peer, 0);
            double next = test_now() + 0.2;

            if (test_now() > until || tries > tries_max)
                FAIL("task %zu does not come back: %s", peer, test_text());
            CHECK_OK(PAMI_Purge(job.context[0], &endpoint, 1));
            CHECK_OK(PAMI_Resume(job.context[0], &endpoint, 1));
            start(op);
            WAIT(&job, !op->busy);
            while (op->rounds == 0 && test_now() < next)
                job_advance(&job);
        }
    }
}

/* Until the others have got through to us, too, so often. */
static void hear(unsigned times)
{
    for (size_t peer = 0; peer < job.tasks; peer++)
        if (is_lost(peer))
            test_send_immediate(job.context[0], job_endpoint(&job, peer, 0), LIFE, "l", 1, NULL, 0);
    for (size_t peer = 0; peer < job.tasks; peer++)
        WAIT(&job, !is_lost(peer) || lives[peer] >= times);
}

static void come_back(void)
{
    size_t before;
    long kib;

    meet_again(1000);
    hear(1);
    mark(0);
    puts("back");
    fflush(stdout);
    before = descriptors();
    kib = resident_kib();
    for (unsigned i = 0; i < CYCLES; i++)
        meet_again(0);
    hear(2);
    if (descriptors() > before)
        FAIL("%zu descriptors have become %zu", before, descriptors());
    if (resident_kib() > kib + GROWTH_KIB)
        FAIL("%ld KiB have become %ld", kib, resident_kib());
    printf("%d times: %zu descriptors, %ld KiB, then %zu and %ld\n", CYCLES, before, kib,
           descriptors(), resident_kib());
}

/* ---- all of it ---- */

static void prepare(struct chain *world)
{
    struct window *mine = &window;

    job_start(&job, "outage", 1);
    CHECK(job.tasks <= TASKS_MAX && lost_count < job.tasks);
    lost_first = job.tasks - lost_count;
    test_dispatch(job.context[0], MESSAGE, on_message, NULL, (pami_dispatch_hint_t){0});
    test_dispatch(job.context[0], LIFE, on_life, NULL, (pami_dispatch_hint_t){0});
    test_dispatch(job.context[0], STOP, on_stop, NULL, (pami_dispatch_hint_t){0});
    rma_open(&job);
    rma_share(&job, &mine, sizeof mine, windows);
    for (size_t peer = 0; peer < job.tasks; peer++) {
        for (int kind = 0; kind < KINDS; kind++)
            operations[peer][kind] = (struct operation){
                .peer = peer, .kind = (enum kind)kind, .local = test_zalloc(LARGE)};
    }
    world->geometry = world_of(&job);
    job_barrier(&job);
}

/* Until all that has to do with the lost ones has failed. */
static void lose(struct chain *world)
{
    size_t failed = 0;

    while (failed < (job.tasks - (job.task < lost_first ? lost_first : lost_count)) * KINDS ||
           world->failures == 0) {
        size_t failures = world->failures;

        stir(0);
        chain_step(world);
        job_advance(&job);
        if (world->busy && world->told.count != 0 && world->told.result != PAMI_SUCCESS &&
            failures == 0)
            check_named("collective", true);
        failed = 0;
        for (size_t peer = 0; peer < job.tasks; peer++)
            for (int kind = 0; kind < KINDS; kind++)
                failed += operations[peer][kind].failures != 0;
    }
    mark(MARK);
    puts("lost");
    fflush(stdout);
}

/* Those that live end together. */
static void stop(void)
{
    for (size_t peer = 0; peer < job.tasks; peer++)
        for (int kind = 0; kind < KINDS; kind++)
            WAIT(&job, !operations[peer][kind].busy);
    for (size_t peer = 0; peer < job.tasks; peer++)
        if (!is_lost(peer))
            test_send_immediate(job.context[0], job_endpoint(&job, peer, 0), STOP, "s", 1, NULL, 0);
    for (size_t peer = 0; peer < job.tasks; peer++)
        WAIT(&job, is_lost(peer) || stopped[peer]);
}

/* What is started now fails soon, and who lives works on. */
static void live_on(void)
{
    double begin = test_now();

    for (size_t peer = 0; peer < job.tasks; peer++)
        for (int kind = 0; kind < KINDS && is_lost(peer); kind++) {
            struct operation *op = &operations[peer][kind];

            op->failures = 0;
            start(op);
            WAIT(&job, !op->busy);
            CHECK(op->failures == 1);
        }
    if (test_now() - begin > 2 * test_factor())
        FAIL("later operations take %.2f s to fail", test_now() - begin);
    for (size_t peer = 0; peer < job.tasks; peer++)
        for (int kind = 0; kind < KINDS; kind++)
            operations[peer][kind].rounds = 0;
    WAIT(&job, stir(ROUNDS));
    stop();
}

int main(int argc, char **argv)
{
    static struct chain world;
    bool die = false, back = false;

    for (int i = 1; i < argc; i++) {
        die = die || strcmp(argv[i], "--die") == 0;
        back = back || strcmp(argv[i], "--back") == 0;
        if (strcmp(argv[i], "--lost") == 0 && i + 1 < argc)
            lost_count = (size_t)atoi(argv[i + 1]);
    }
    if (lost_count == 0) {
        puts("SKIP: outage.sh runs it");
        return 77;
    }
    prepare(&world);
    WAIT_WITH((chain_step(&world), job_advance(&job)), stir(ROUNDS) && world.rounds >= ROUNDS);
    puts("streaming");
    fflush(stdout);
    if (die && job.task >= lost_first)
        kill(getpid(), SIGKILL);
    lose(&world);
    live_on();
    if (back)
        come_back();
    job_destroy(&job);
    puts("done");
    return 0;
}
