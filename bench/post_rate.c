/*
 * Handing work to a context: how fast several threads can post to one that advances it.
 *
 *     post_rate [--items N]          (one task; also under pamirun -n 1)
 *
 * post_rate     posts per second for 1, 2 and 4 producer threads, from PAMI_Context_post to the
 *               return of the callback; each producer owns SLOTS work items and re-uses one as soon
 *               as its callback has run
 * post_latency  half of the time from a post to the moment when the poster sees that its callback
 *               has run on the other thread; one producer, one item
 *
 * Every callback is counted, and all counts must be right. Producer 0 and the advancing thread are
 * pinned apart when they are only two, else nothing is pinned and everybody who waits yields.
 */
#include "job.h"

#include <pthread.h>

#define SLOTS 256
#define PRODUCERS 4
#define BATCHES 5
#define PASSES 9

struct item {
    BENCH_ALIGNED pami_work_t work;
    _Atomic uint32_t *busy;
    uint64_t *ran;
};

struct producer {
    BENCH_ALIGNED pthread_t thread;
    struct item items[SLOTS];
    _Atomic uint32_t busy[SLOTS];
    BENCH_ALIGNED uint64_t ran; /* callbacks; written by the advancing thread only */
    BENCH_ALIGNED size_t posts; /* to make */
    pami_context_t context;
    bool latency;
    double ns; /* per post, of the latency run */
};

static struct job job;
static struct producer producers[PRODUCERS];
static _Atomic int start_line, finished;
static int active;

static pami_result_t run_item(pami_context_t context, void *cookie)
{
    struct item *item = cookie;

    (void)context;
    ++*item->ran;
    /* From here on the producer may post the storage again. */
    atomic_store_explicit(item->busy, 0, memory_order_release);
    return PAMI_SUCCESS;
}

static void pause_or_yield(void)
{
    if (active > 1) {
        sched_yield();
    } else {
        bench_relax();
    }
}

static void produce(struct producer *p)
{
    for (size_t i = 0; i < p->posts; i++) {
        size_t slot = i % SLOTS;
        while (atomic_load_explicit(&p->busy[slot], memory_order_acquire) != 0) {
            pause_or_yield();
        }
        atomic_store_explicit(&p->busy[slot], 1, memory_order_relaxed);
        PAMI_OK(PAMI_Context_post(p->context, &p->items[slot].work, run_item, &p->items[slot]));
    }
}

static void produce_one_by_one(struct producer *p)
{
    uint64_t start = bench_now();

    for (size_t i = 0; i < p->posts; i++) {
        atomic_store_explicit(&p->busy[0], 1, memory_order_relaxed);
        PAMI_OK(PAMI_Context_post(p->context, &p->items[0].work, run_item, &p->items[0]));
        while (atomic_load_explicit(&p->busy[0], memory_order_acquire) != 0) {
        }
    }
    p->ns = (double)(bench_now() - start) / (double)p->posts;
}

static void *producer_main(void *argument)
{
    struct producer *p = argument;

    if (active == 1) {
        bench_pin(1);
    }
    atomic_fetch_add(&start_line, 1);
    while (atomic_load(&start_line) <= active) {
        sched_yield();
    }
    if (p->latency) {
        produce_one_by_one(p);
    } else {
        produce(p);
    }
    atomic_fetch_add(&finished, 1);
    return NULL;
}

/* Runs `count` producers to the end; returns the ns it took. */
static double run(int count, size_t posts, bool latency)
{
    uint64_t start, total = (uint64_t)count * posts, ran = 0;
    double elapsed;

    active = count;
    atomic_store(&start_line, 0);
    atomic_store(&finished, 0);
    for (int i = 0; i < count; i++) {
        producers[i].ran = 0;
        producers[i].posts = posts;
        producers[i].latency = latency;
        if (pthread_create(&producers[i].thread, NULL, producer_main, &producers[i]) != 0) {
            bench_die("cannot start a thread");
        }
    }
    while (atomic_load(&start_line) < count) {
        sched_yield();
    }
    start = bench_now();
    atomic_fetch_add(&start_line, 1);
    while (ran < total) {
        if (PAMI_Context_advance(job.contexts[0], PASSES) != PAMI_SUCCESS && count > 1) {
            sched_yield();
        }
        ran = 0;
        for (int i = 0; i < count; i++) {
            ran += producers[i].ran;
        }
    }
    elapsed = (double)(bench_now() - start);
    for (int i = 0; i < count; i++) {
        pthread_join(producers[i].thread, NULL);
        if (producers[i].ran != posts) {
            bench_die("post_rate: %llu of %zu items of producer %d ran",
                      (unsigned long long)producers[i].ran, posts, i);
        }
    }
    return elapsed;
}

int main(int argc, char **argv)
{
    size_t posts = bench_option(argc, argv, "--items", 200000);
    cpu_set_t everywhere;

    /* The threads of the oversubscribed runs may run anywhere. */
    CPU_ZERO(&everywhere);
    sched_getaffinity(0, sizeof(everywhere), &everywhere);
    job_open(&job, 1);
    for (int p = 0; p < PRODUCERS; p++) {
        producers[p].context = job.contexts[0];
        for (int i = 0; i < SLOTS; i++) {
            producers[p].items[i].busy = &producers[p].busy[i];
            producers[p].items[i].ran = &producers[p].ran;
        }
    }
    (void)run(1, posts / 100, true);
    (void)run(1, posts / 10, true);
    bench_emit("post_latency", 1, "us", producers[0].ns / 2 / 1000);
    for (int count = 1; count <= PRODUCERS; count *= 2) {
        double each[BATCHES];
        if (count == 2) {
            sched_setaffinity(0, sizeof(everywhere), &everywhere);
        }
        for (int b = 0; b < BATCHES; b++) {
            size_t share = posts / (size_t)count;
            each[b] = (double)(share * (size_t)count) * 1e3 / run(count, share, false);
        }
        bench_emit("post_rate", (size_t)count, "M/s", bench_median(each, BATCHES));
    }
    job_close(&job);
    return 0;
}
