/*
 * The limits of this machine that the small-message rows are divided by: cache lines moving between
 * two cores, a ring, atomics, system calls, context switches. No library, only processes and shared
 * memory; limit_copy.c has the limits of moving bulk data.
 *
 *     limit                   every measure
 *     limit NAME...           only these: pingpong ring atomic syscall switch futex token spawn
 *     limit token --tasks N   the ring of so many processes only, 4, 8 or 16
 *     limit probe [--ms N]    the two-line ping-pong alone, for about N ms: bench/run brackets each
 *                             run of each contender with it
 *
 * Every measure is the median of several batches, so that one interruption does not spoil it.
 */
#include "pair.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#define BATCHES 9

struct lines {
    BENCH_ALIGNED _Atomic uint64_t ping;
    BENCH_ALIGNED _Atomic uint64_t pong;
    BENCH_ALIGNED _Atomic uint32_t word[2 * BENCH_LINE / sizeof(uint32_t)];
    size_t iterations, batches;
    double disturbed; /* out: percent of batches far above the median */
    int mode;
};

/* ---- cache-line ping-pong -------------------------------------------------------------------- */

static double role_pingpong(int rank, int count, struct pair *group, void *shared)
{
    struct lines *l = shared;
    _Atomic uint64_t *ping = &l->ping, *pong = l->mode == 1 ? &l->ping : &l->pong;
    double *half = bench_alloc(l->batches * sizeof(*half)), median;
    /* On one line the values alternate 1, 2, 3, 4...; on two lines both carry the round. */
    uint64_t value = 0, step = l->mode == 1 ? 1 : 0;

    (void)count, (void)group;
    for (size_t b = 0; b < l->batches; b++) {
        uint64_t start = bench_now();
        for (size_t i = 0; i < l->iterations; i++) {
            value++;
            if (rank == 0) {
                atomic_store_explicit(ping, value, memory_order_release);
            }
            while (rank == 1 && atomic_load_explicit(ping, memory_order_acquire) != value) {
            }
            value += step;
            if (rank == 1) {
                atomic_store_explicit(pong, value, memory_order_release);
            }
            while (rank == 0 && atomic_load_explicit(pong, memory_order_acquire) != value) {
            }
        }
        half[b] = (double)(bench_now() - start) / (2.0 * (double)l->iterations);
    }
    median = bench_median(half, l->batches);
    for (size_t b = 0; rank == 0 && b < l->batches; b++) {
        l->disturbed += half[b] > 1.15 * median ? 100.0 / (double)l->batches : 0;
    }
    return median;
}

static double pingpong(int lines, size_t iterations, size_t batches, double *disturbed)
{
    struct lines *l = bench_shared(sizeof(*l));
    double result;

    l->iterations = iterations;
    l->batches = batches;
    l->mode = lines;
    result = pair_run(role_pingpong, l, 2, PAIR_APART);
    if (disturbed != NULL) {
        *disturbed = l->disturbed;
    }
    munmap(l, sizeof(*l));
    return result;
}

static void measure_pingpong(void)
{
    bench_emit("pingpong_one_line", BENCH_LINE, "ns", pingpong(1, 20000, BATCHES, NULL));
    bench_emit("pingpong_two_lines", BENCH_LINE, "ns", pingpong(2, 20000, BATCHES, NULL));
}

/* ---- single-producer single-consumer ring ---------------------------------------------------- */

#define RING_SLOTS 1024u
#define RING_BATCH 128u

struct slot {
    BENCH_ALIGNED _Atomic uint64_t sequence;
    uint64_t message;
};

struct ring {
    struct slot slots[RING_SLOTS];
    BENCH_ALIGNED _Atomic uint64_t consumed;
};

static double ring_produce(struct ring *r, uint64_t first, uint64_t messages)
{
    uint64_t room = atomic_load(&r->consumed) + RING_SLOTS, start = bench_now();

    for (uint64_t i = first; i < first + messages; i++) {
        struct slot *s = &r->slots[i % RING_SLOTS];
        while (i >= room) {
            room = atomic_load_explicit(&r->consumed, memory_order_acquire) + RING_SLOTS;
        }
        __builtin_prefetch(&r->slots[(i + 16) % RING_SLOTS], 1);
        s->message = i;
        atomic_store_explicit(&s->sequence, i + 1, memory_order_release);
    }
    while (atomic_load(&r->consumed) < first + messages) {
    }
    return (double)messages * 1e3 / (double)(bench_now() - start);
}

static void ring_consume(struct ring *r, uint64_t first, uint64_t messages)
{
    for (uint64_t i = first; i < first + messages; i++) {
        struct slot *s = &r->slots[i % RING_SLOTS];
        while (atomic_load_explicit(&s->sequence, memory_order_acquire) != i + 1) {
        }
        if (s->message != i) {
            bench_die("ring: message %llu lost", (unsigned long long)i);
        }
        if ((i + 1) % RING_BATCH == 0) {
            atomic_store_explicit(&r->consumed, i + 1, memory_order_release);
        }
    }
}

static double role_ring(int rank, int count, struct pair *group, void *shared)
{
    const uint64_t messages = 512 * 1024;
    double rate[BATCHES];

    (void)count, (void)group;
    for (uint64_t b = 0; b < BATCHES; b++) {
        if (rank == 0) {
            rate[b] = ring_produce(shared, b * messages, messages);
        } else {
            ring_consume(shared, b * messages, messages);
            rate[b] = 0;
        }
    }
    return bench_median(rate, BATCHES);
}

static void measure_ring(void)
{
    struct ring *r = bench_shared(sizeof(*r));

    bench_emit("ring", 8, "M/s", pair_run(role_ring, r, 2, PAIR_APART));
    munmap(r, sizeof(*r));
}

/* ---- atomics, system calls ------------------------------------------------------------------- */

static double role_atomic(int rank, int count, struct pair *group, void *shared)
{
    struct lines *l = shared;
    double each[BATCHES];

    (void)group;
    for (int b = 0; b < BATCHES; b++) {
        uint64_t start;
        /* A meeting before each batch, so that both really work at the same time. */
        atomic_fetch_add(&l->pong, 1);
        while (atomic_load(&l->pong) < (uint64_t)((b + 1) * count)) {
        }
        start = bench_now();
        for (size_t i = 0; i < l->iterations; i++) {
            atomic_fetch_add(&l->ping, 1);
        }
        each[b] = (double)(bench_now() - start) / (double)l->iterations;
    }
    (void)rank;
    return bench_median(each, BATCHES);
}

static void measure_atomic(void)
{
    struct lines *l = bench_shared(sizeof(*l));

    l->iterations = 50000;
    bench_emit("atomic_hot", 8, "ns", pair_run(role_atomic, l, 1, PAIR_APART));
    atomic_store(&l->pong, 0);
    bench_emit("atomic_contended", 8, "ns", pair_run(role_atomic, l, 2, PAIR_APART));
    munmap(l, sizeof(*l));
}

static double role_calls(int rank, int count, struct pair *group, void *shared)
{
    struct lines *l = shared;
    double each[BATCHES];

    (void)rank, (void)count, (void)group;
    for (int b = 0; b < BATCHES; b++) {
        uint64_t start = bench_now();
        for (size_t i = 0; i < l->iterations; i++) {
            if (l->mode == 0) {
                syscall(SYS_getppid);
            } else {
                sched_yield();
            }
        }
        each[b] = (double)(bench_now() - start) / (double)l->iterations / 1000;
    }
    return bench_median(each, BATCHES);
}

static double calls(int mode, int count)
{
    struct lines *l = bench_shared(sizeof(*l));
    double result;

    l->mode = mode;
    l->iterations = 5000;
    result = pair_run(role_calls, l, count, PAIR_TOGETHER);
    munmap(l, sizeof(*l));
    return result;
}

static void measure_syscall(void)
{
    uint64_t start = bench_now();

    for (int i = 0; i < 10000; i++) {
        bench_relax();
    }
    bench_emit("pause", 0, "ns", (double)(bench_now() - start) / 10000);
    bench_emit("syscall", 0, "us", calls(0, 1));
    bench_emit("sched_yield", 1, "us", calls(1, 1));
}

/* Two processes on one core that only yield: every call is a switch, so half of a call each. */
static void measure_switch(void)
{
    bench_emit("context_switch", 2, "us", calls(1, 2) / 2);
}

/* ---- sleeping and waking --------------------------------------------------------------------- */

static void futex_signal(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futex_await(_Atomic uint32_t *word, uint32_t value)
{
    uint32_t seen;

    while ((seen = atomic_load(word)) != value) {
        syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
    }
}

/*
 * Both sides sleep before they are woken: apart, each lets FUTEX_PAUSE_NS go by before it wakes the
 * other, which is then asleep for sure, and the pauses are subtracted. On one core the other one
 * sleeps anyway, or this one would not be running.
 */
#define FUTEX_PAUSE_NS 30000

static double role_futex(int rank, int count, struct pair *group, void *shared)
{
    struct lines *l = shared;
    _Atomic uint32_t *mine = &l->word[rank * (BENCH_LINE / 4)];
    _Atomic uint32_t *theirs = &l->word[(1 - rank) * (BENCH_LINE / 4)];
    double round[BATCHES];
    uint32_t value = 0;

    (void)count, (void)group;
    for (int b = 0; b < BATCHES; b++) {
        uint64_t start = bench_now(), paused = 0;
        for (size_t i = 0; i < l->iterations; i++) {
            value++;
            if (rank == 1) {
                futex_await(mine, value);
            }
            for (uint64_t from = bench_now(), now = from; l->mode == PAIR_APART;
                 now = bench_now()) {
                if (now - from >= FUTEX_PAUSE_NS) {
                    paused += 2 * (now - from);
                    break;
                }
            }
            futex_signal(theirs, value);
            if (rank == 0) {
                futex_await(mine, value);
            }
        }
        round[b] = (double)(bench_now() - start - paused) / (double)l->iterations / 1000;
    }
    return bench_median(round, BATCHES);
}

static double futex(enum pair_placement where)
{
    struct lines *l = bench_shared(sizeof(*l));
    double result;

    l->iterations = 100;
    l->mode = where;
    result = pair_run(role_futex, l, 2, where);
    munmap(l, sizeof(*l));
    return result;
}

static void measure_futex(void)
{
    bench_emit("futex_other_core", 2, "us", futex(PAIR_APART));
    bench_emit("futex_same_core", 2, "us", futex(PAIR_TOGETHER));
}

/* ---- a word passed round --------------------------------------------------------------------- */

static double role_token(int rank, int count, struct pair *group, void *shared)
{
    struct lines *l = shared;
    uint64_t n = (uint64_t)count, turn = (uint64_t)rank;
    double hop[BATCHES];

    (void)group;
    for (int b = 0; b < BATCHES; b++) {
        uint64_t start = bench_now();
        for (size_t i = 0; i < l->iterations; i++, turn += n) {
            while (atomic_load_explicit(&l->ping, memory_order_acquire) != turn) {
                sched_yield();
            }
            atomic_store_explicit(&l->ping, turn + 1, memory_order_release);
        }
        hop[b] = (double)(bench_now() - start) / (double)(l->iterations * n) / 1000;
    }
    return bench_median(hop, BATCHES);
}

static size_t token_tasks; /* 0: the usual ones */

static void measure_token(void)
{
    static const size_t counts[] = {4, 8, 16};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct lines *l;
        if (token_tasks != 0 && token_tasks != counts[i]) {
            continue;
        }
        l = bench_shared(sizeof(*l));
        l->iterations = 300;
        bench_emit("token_ring", counts[i], "us",
                   pair_run(role_token, l, (int)counts[i], PAIR_ANYWHERE));
        munmap(l, sizeof(*l));
    }
}

/* ---- starting processes ---------------------------------------------------------------------- */

/* Fork, execute and reap 16 processes that end at once. */
static void measure_spawn(void)
{
    const int count = 16;
    uint64_t start = bench_now();

    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
    }
    for (int i = 0; i < count; i++) {
        int status;
        if (wait(&status) < 0 || status != 0) {
            bench_die("cannot run /bin/true");
        }
    }
    bench_emit("spawn", (size_t)count, "ms", (double)(bench_now() - start) / 1e6);
}

/* ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool two_cores; /* meaningless on one processor */
    void (*measure)(void);
} measures[] = {
    {"pingpong", true, measure_pingpong}, {"ring", true, measure_ring},
    {"atomic", true, measure_atomic},     {"syscall", false, measure_syscall},
    {"switch", false, measure_switch},    {"futex", true, measure_futex},
    {"token", false, measure_token},      {"spawn", false, measure_spawn},
};

int main(int argc, char **argv)
{
    bool two_cores = bench_pin_default();

    token_tasks = bench_option(argc, argv, "--tasks", 0);
    if (argc > 1 && strcmp(argv[1], "probe") == 0) {
        /* Batches of about 1 ms: the probe follows the machine's state, not one interruption. */
        size_t ms = bench_option(argc, argv, "--ms", 20);
        double ns, disturbed;
        if (!two_cores) {
            bench_skip("one processor");
        }
        ns = pingpong(2, 3500, ms > 0 ? ms : 1, &disturbed);
        bench_emit("pingpong_two_lines", BENCH_LINE, "ns", ns);
        bench_emit("pingpong_disturbed", BENCH_LINE, "percent", disturbed);
        return 0;
    }
    for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]); i++) {
        if (bench_wanted(argc, argv, measures[i].name) && (!measures[i].two_cores || two_cores)) {
            measures[i].measure();
        }
    }
    return 0;
}
