/*
 * The lock-free structures by themselves: validated, then measured. No job, no context.
 *
 *     lockfree [--items N]
 *
 * post          items per second through the work queue, from post to the end of the call, with 1,
 *               2 and 4 producer threads and one that runs it
 * inbox         packets per second through the inbox's ring, 1 and 2 senders
 * lane          packets per second through a lane
 * inbox_publish, lane_publish
 *               what claiming, filling and publishing a slot costs its sender while nobody else
 *               touches the ring
 * lane_exchange half a round trip between two threads through two lanes: what active messages that
 *               go by lane can reach when everything else takes no time
 * chunk         taking a chunk and giving it back, both on one core
 *
 * Everything that goes in is counted and its order checked when it comes out; an error ends the
 * program with status 1. Producer 0 and the consumer are pinned apart when they are only two.
 *
 * These structures are internal, so the program compiles them in instead of linking the library.
 */
#include "bench.h"

#include <pthread.h>

#include "device/shm/chunk.c"
#include "device/shm/inbox.c"
#include "device/shm/lane.h"
#include "workqueue/workqueue.c"

#define PRODUCERS 4
#define BATCHES 5
#define ITEMS 256 /* per producer */
#define SLOTS 512u
#define CHUNKS 64u

static _Atomic int at_start;
static int active;
static size_t share; /* of each producer */

static void pause_or_yield(void)
{
    if (active > 1)
        sched_yield();
    else
        bench_relax();
}

/* All producers and the consumer begin together. */
static void line_up(void)
{
    atomic_fetch_add(&at_start, 1);
    while (atomic_load(&at_start) <= active)
        sched_yield();
}

/* ---- the work queue ---- */

struct item {
    BENCH_ALIGNED pami_work_t work;
    _Atomic uint32_t busy;
    size_t number;
    struct producer *producer;
};

struct producer {
    BENCH_ALIGNED pthread_t thread;
    uint32_t index;
    struct item items[ITEMS];
    BENCH_ALIGNED size_t ran; /* the consumer's */
};

static struct workqueue queue;
static struct producer producers[PRODUCERS];

static pami_result_t run_item(pami_context_t context, void *cookie)
{
    struct item *item = cookie;

    (void)context;
    if (item->number != item->producer->ran++)
        bench_die("post: item %zu of producer %u ran out of order", item->number,
                  item->producer->index);
    atomic_store_explicit(&item->busy, 0, memory_order_release);
    return PAMI_SUCCESS;
}

static void *post_all(void *argument)
{
    struct producer *producer = argument;

    if (active == 1)
        bench_pin(1);
    line_up();
    for (size_t i = 0; i < share; i++) {
        struct item *item = &producer->items[i % ITEMS];

        while (atomic_load_explicit(&item->busy, memory_order_acquire) != 0)
            pause_or_yield();
        atomic_store_explicit(&item->busy, 1, memory_order_relaxed);
        item->number = i;
        workqueue_post(&queue, &item->work, run_item, item);
    }
    return NULL;
}

static void start_producers(void *(*function)(void *), int count)
{
    active = count;
    atomic_store(&at_start, 0);
    for (int i = 0; i < count; i++) {
        producers[i].index = (uint32_t)i;
        producers[i].ran = 0;
        for (int k = 0; k < ITEMS; k++)
            producers[i].items[k].producer = &producers[i];
        if (pthread_create(&producers[i].thread, NULL, function, &producers[i]) != 0)
            bench_die("cannot start a thread");
    }
    line_up();
}

static void join_producers(int count, const char *what)
{
    for (int i = 0; i < count; i++) {
        pthread_join(producers[i].thread, NULL);
        if (producers[i].ran != share)
            bench_die("%s: %zu of %zu came from producer %d", what, producers[i].ran, share, i);
    }
}

/* Returns million items per second. */
static double post_rate(int count)
{
    size_t total = share * (size_t)count, done = 0;
    uint64_t start;
    double elapsed;

    workqueue_init(&queue);
    start_producers(post_all, count);
    start = bench_now();
    while (done < total) {
        int ran = workqueue_idle(&queue) ? 0 : workqueue_run(&queue, NULL);

        done += (size_t)ran;
        if (ran == 0)
            pause_or_yield();
    }
    elapsed = (double)(bench_now() - start);
    join_producers(count, "post");
    return (double)total * 1e3 / elapsed;
}

/* ---- the inbox ---- */

static struct inbox *inbox;

static struct inbox *inbox_new(void)
{
    size_t bytes = sizeof(struct inbox) + SLOTS * sizeof(struct slot);

    free(inbox);
    inbox = bench_alloc(bytes);
    return inbox;
}

static void fill(struct slot *slot, uint32_t origin, size_t number)
{
    slot->head.origin = origin;
    slot->head.aux = (uint32_t)number;
    memcpy(slot->body, &number, sizeof(number));
}

/* Account for a packet that has come. */
static void take(const struct slot *slot)
{
    struct producer *producer = &producers[slot->head.origin % PRODUCERS];
    size_t number;

    memcpy(&number, slot->body, sizeof(number));
    if (number != producer->ran || slot->head.aux != (uint32_t)number)
        bench_die("packet %zu of sender %u out of order", number, slot->head.origin);
    producer->ran++;
}

static void *send_all(void *argument)
{
    struct producer *producer = argument;
    struct inbox_sender sender = {.inbox = inbox, .slots = SLOTS, .self = producer->index};

    if (active == 1)
        bench_pin(1);
    line_up();
    for (size_t i = 0; i < share;) {
        struct slot *slot = inbox_claim(&sender);

        if (slot == NULL) {
            pause_or_yield();
            continue;
        }
        fill(slot, producer->index, i++);
        inbox_publish(&sender, slot);
    }
    return NULL;
}

static double inbox_rate(int count)
{
    struct inbox_reader reader = {.inbox = inbox_new(), .slots = SLOTS};
    size_t total = share * (size_t)count, done = 0;
    uint64_t start;
    double elapsed;

    start_producers(send_all, count);
    start = bench_now();
    while (done < total) {
        struct slot *slot = inbox_ready(&reader);

        if (slot == NULL) {
            inbox_release(&reader);
            pause_or_yield();
            continue;
        }
        take(slot);
        inbox_consume(&reader);
        done++;
    }
    elapsed = (double)(bench_now() - start);
    join_producers(count, "inbox");
    return (double)total * 1e3 / elapsed;
}

/* ns for claim, fill and publish; the reader empties the ring between the timed parts. */
static double inbox_publish_cost(void)
{
    struct inbox_sender sender = {.inbox = inbox_new(), .slots = SLOTS};
    struct inbox_reader reader = {.inbox = inbox, .slots = SLOTS};
    double spent = 0;
    size_t number = 0;

    producers[0].ran = 0;
    for (size_t round = 0; round < 2000; round++) {
        uint64_t start = bench_now();
        struct slot *slot;

        for (uint32_t i = 0; i < SLOTS / 2; i++) {
            slot = inbox_claim(&sender);
            if (slot == NULL)
                bench_die("inbox: full when it should be empty");
            fill(slot, 0, number++);
            inbox_publish(&sender, slot);
        }
        spent += (double)(bench_now() - start);
        while ((slot = inbox_ready(&reader)) != NULL) {
            take(slot);
            inbox_consume(&reader);
        }
        inbox_release(&reader);
    }
    if (producers[0].ran != number)
        bench_die("inbox: %zu of %zu packets came", producers[0].ran, number);
    return spent / (double)number;
}

/* ---- a lane ---- */

static struct lane *lane;

static void *send_in_lane(void *argument)
{
    struct producer *producer = argument;
    struct lane_sender sender = {0};

    bench_pin(1);
    if (!lane_take(&sender, lane, producer->index))
        bench_die("lane: taken");
    line_up();
    for (size_t i = 0; i < share;) {
        struct slot *slot = lane_claim(&sender);

        if (slot == NULL) {
            bench_relax();
            continue;
        }
        fill(slot, producer->index, i++);
        lane_publish(&sender, slot);
    }
    return NULL;
}

static double lane_rate(void)
{
    struct lane_reader reader = {0};
    size_t done = 0;
    uint64_t start;
    double elapsed;

    free(lane);
    reader.lane = lane = bench_alloc(sizeof(*lane));
    start_producers(send_in_lane, 1);
    start = bench_now();
    while (done < share) {
        uint32_t ready = lane_look(&reader, false);

        for (uint32_t i = 0; i < ready; i++) {
            take(&lane->slots[reader.head % LANE_SLOTS]);
            lane_consume(&reader);
        }
        done += ready;
        if (ready == 0) {
            lane_release(&reader);
            bench_relax();
        }
    }
    elapsed = (double)(bench_now() - start);
    join_producers(1, "lane");
    return (double)share * 1e3 / elapsed;
}

static double lane_publish_cost(void)
{
    struct lane_sender sender = {0};
    struct lane_reader reader = {0};
    double spent = 0;
    size_t number = 0;

    free(lane);
    reader.lane = lane = bench_alloc(sizeof(*lane));
    if (!lane_take(&sender, lane, 0))
        bench_die("lane: taken");
    producers[0].ran = 0;
    for (size_t round = 0; round < 8000; round++) {
        uint64_t start = bench_now();
        struct slot *slot;

        for (uint32_t i = 0; i < LANE_SLOTS / 2; i++) {
            slot = lane_claim(&sender);
            if (slot == NULL)
                bench_die("lane: full when it should be empty");
            fill(slot, 0, number++);
            lane_publish(&sender, slot);
        }
        spent += (double)(bench_now() - start);
        while ((slot = lane_ready(&reader)) != NULL) {
            take(slot);
            lane_consume(&reader);
        }
        lane_release(&reader);
    }
    if (producers[0].ran != number)
        bench_die("lane: %zu of %zu packets came", producers[0].ran, number);
    return spent / (double)number;
}

/* ---- chunks ---- */

static double chunk_cost(size_t rounds)
{
    struct segment segment = {.layout = {.members = 1,
                                         .contexts = 1,
                                         .chunks = CHUNKS,
                                         .chunk_bytes = 4096,
                                         .chunk_stride = sizeof(struct chunk) + 4096,
                                         .chunk_offset = SEGMENT_PAGE}};
    struct chunk_pool pool;
    uint64_t start;
    double elapsed;

    segment.base = bench_alloc(4 * SEGMENT_PAGE + CHUNKS * segment.layout.chunk_stride);
    if (chunk_pool_init(&pool, &segment, 0) != 0)
        bench_die("chunk: no memory");
    start = bench_now();
    for (size_t i = 0; i < rounds; i++) {
        struct chunk *chunk = chunk_get(&pool, 0);

        if (chunk == NULL)
            bench_die("chunk: none is free");
        chunk_release(chunk, atomic_load_explicit(&chunk->busy, memory_order_relaxed));
    }
    elapsed = (double)(bench_now() - start);
    chunk_pool_finish(&pool);
    free(segment.base);
    return elapsed / (double)rounds;
}

/* ---- all ---- */

static void measure_rate(const char *name, double (*rate)(int), int count, size_t items)
{
    double each[BATCHES];

    share = items / (size_t)count;
    for (int b = 0; b < BATCHES; b++)
        each[b] = rate(count);
    bench_emit(name, (size_t)count, "M/s", bench_median(each, BATCHES));
}

/* ---- an exchange in two lanes ---- */

#define TURNS 200000u
#define HOLDS 5

static struct lane *there, *back;

/* One packet out, or one in, as a port does it, and nothing else. */
static void put_one(struct lane_sender *sender, uint32_t origin, size_t number)
{
    struct slot *slot = lane_claim(sender);

    if (slot == NULL)
        bench_die("lane: full in an exchange");
    fill(slot, origin, number);
    lane_publish(sender, slot);
    cpu_prefetch_write(&sender->lane->slots[(sender->tail + LANE_PREFETCH) % LANE_SLOTS]);
}

static void get_one(struct lane_reader *reader, int hold)
{
    for (int i = 0; i < hold; i++)
        bench_relax();
    while (lane_ready(reader) == NULL)
        continue;
    take(&reader->lane->slots[reader->head % LANE_SLOTS]);
    lane_consume(reader);
}

static void *answer_in_lane(void *argument)
{
    struct lane_sender sender = {0};
    struct lane_reader reader = {.lane = there};

    bench_pin(1);
    if (!lane_take(&sender, back, 1))
        bench_die("lane: taken");
    line_up();
    for (size_t i = 0; i < TURNS; i++) {
        get_one(&reader, *(int *)argument);
        put_one(&sender, 1, i);
    }
    return NULL;
}

/* Half a round trip with so many pauses before the first look, ns. */
static double exchange(int hold)
{
    struct lane_sender sender = {0};
    struct lane_reader reader;
    pthread_t thread;
    uint64_t start;
    double elapsed;

    there = bench_alloc(sizeof(*there));
    back = bench_alloc(sizeof(*back));
    reader = (struct lane_reader){.lane = back};
    producers[0].ran = producers[1].ran = 0;
    at_start = 0;
    active = 1;
    if (!lane_take(&sender, there, 0) || pthread_create(&thread, NULL, answer_in_lane, &hold) != 0)
        bench_die("lane: no partner");
    line_up();
    start = bench_now();
    for (size_t i = 0; i < TURNS; i++) {
        put_one(&sender, 0, i);
        get_one(&reader, hold);
    }
    elapsed = (double)(bench_now() - start);
    pthread_join(thread, NULL);
    free(there);
    free(back);
    return elapsed / TURNS / 2;
}

/* With the best number of pauses: a port finds it by trial. */
static double lane_exchange(void)
{
    double best = 0;

    for (int hold = 0; hold < HOLDS; hold++) {
        double each = exchange(hold);

        best = best == 0 || each < best ? each : best;
    }
    return best;
}

static double one_lane(int count)
{
    (void)count;
    return lane_rate();
}

static void measure_cost(const char *name, double (*cost)(void), size_t param)
{
    double each[BATCHES];

    for (int b = 0; b < BATCHES; b++)
        each[b] = cost();
    bench_emit(name, param, "ns", bench_median(each, BATCHES));
}

static double chunk_costs(void)
{
    return chunk_cost(500000);
}

int main(int argc, char **argv)
{
    size_t items = bench_option(argc, argv, "--items", 1000000);
    cpu_set_t everywhere;

    CPU_ZERO(&everywhere);
    sched_getaffinity(0, sizeof(everywhere), &everywhere);
    bench_pin_default();
    bench_pin(0);
    measure_cost("inbox_publish", inbox_publish_cost, 8);
    measure_cost("lane_publish", lane_publish_cost, 8);
    measure_cost("chunk", chunk_costs, 4096);
    measure_cost("lane_exchange", lane_exchange, 8);
    measure_rate("lane", one_lane, 1, items);
    measure_rate("inbox", inbox_rate, 1, items);
    measure_rate("post", post_rate, 1, items);
    /* More than two threads may run anywhere. */
    sched_setaffinity(0, sizeof(everywhere), &everywhere);
    measure_rate("inbox", inbox_rate, 2, items);
    measure_rate("post", post_rate, 2, items);
    measure_rate("post", post_rate, 4, items);
    return 0;
}
