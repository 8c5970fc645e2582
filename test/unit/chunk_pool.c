/*
 * Chunks: taken by one sender, given back by receivers in any order, none twice and none lost; what
 * a receiver still holds when it goes is taken back, and its late release does no harm.
 *
 * Run: timeout=60
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/shm/chunk.h"

#define CHUNKS 16u
#define BYTES 256u

/* A segment of one task with one context, without a file behind it. */
static struct segment *segment_make(uint32_t chunks)
{
    struct segment *segment = calloc(1, sizeof *segment);
    struct segment_layout *layout = &segment->layout;

    layout->members = 1;
    layout->contexts = 1;
    layout->chunks = chunks;
    layout->chunk_bytes = BYTES;
    layout->chunk_stride = sizeof(struct chunk) + BYTES;
    layout->chunk_offset = SEGMENT_PAGE;
    layout->context_stride = SEGMENT_PAGE + chunks * layout->chunk_stride;
    layout->member_stride = SEGMENT_PAGE + layout->context_stride;
    layout->bytes = SEGMENT_PAGE + layout->member_stride;
    segment->base = aligned_alloc(SEGMENT_PAGE,
                                  (layout->bytes + SEGMENT_PAGE - 1) / SEGMENT_PAGE * SEGMENT_PAGE);
    assert_non_null(segment->base);
    memset(segment->base, 0, layout->bytes);
    return segment;
}

static void segment_unmake(struct segment *segment)
{
    free(segment->base);
    free(segment);
}

static uint32_t use_of(struct chunk *chunk)
{
    return atomic_load(&chunk->busy);
}

static void exhaustion(void **state)
{
    struct segment *segment = segment_make(CHUNKS);
    struct chunk_pool pool;
    struct chunk *chunks[CHUNKS];

    (void)state;
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < CHUNKS; i++) {
            chunks[i] = chunk_get(&pool, i);
            assert_non_null(chunks[i]);
            assert_int_equal((uintptr_t)chunks[i]->data % CACHE_LINE, 0);
            memset(chunks[i]->data, (int)i, BYTES);
            for (uint32_t k = 0; k < i; k++)
                assert_ptr_not_equal(chunks[i], chunks[k]);
        }
        assert_null(chunk_get(&pool, 7));
        for (uint32_t i = 0; i < CHUNKS; i++)
            for (uint32_t k = 0; k < BYTES; k++)
                assert_int_equal(chunks[i]->data[k], i);
        for (uint32_t i = 0; i < CHUNKS; i++)
            chunk_release(chunks[i], use_of(chunks[i]));
    }
    chunk_pool_finish(&pool);
    segment_unmake(segment);
}

/* One that comes back from the middle is found although older ones are still out. */
static void any_order(void **state)
{
    struct segment *segment = segment_make(CHUNKS);
    struct chunk_pool pool;
    struct chunk *out[CHUNKS];
    uint32_t count = 0, random = 5;

    (void)state;
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    for (int step = 0; step < 50000; step++) {
        random = random * 1664525u + 1013904223u;
        if (count < CHUNKS && (random >> 30) != 0) {
            out[count] = chunk_get(&pool, (uint32_t)step);
            assert_non_null(out[count]);
            for (uint32_t k = 0; k < count; k++)
                assert_ptr_not_equal(out[count], out[k]);
            count++;
        } else if (count > 0) {
            uint32_t which = (random >> 8) % count;

            assert_true(count < CHUNKS || chunk_get(&pool, UINT32_MAX) == NULL);
            chunk_release(out[which], use_of(out[which]));
            out[which] = out[--count];
        }
    }
    chunk_pool_finish(&pool);
    segment_unmake(segment);
}

static void unget(void **state)
{
    struct segment *segment = segment_make(2);
    struct chunk_pool pool;
    struct chunk *first, *second;

    (void)state;
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    for (int i = 0; i < 1000; i++) {
        first = chunk_get(&pool, 1);
        second = chunk_get(&pool, 2);
        assert_non_null(first);
        assert_non_null(second);
        assert_null(chunk_get(&pool, 3));
        chunk_unget(&pool, second);
        assert_ptr_equal(chunk_get(&pool, 2), second);
        chunk_unget(&pool, second);
        chunk_release(first, use_of(first));
    }
    chunk_pool_finish(&pool);
    segment_unmake(segment);
}

/* A quiet exchange uses one chunk, which stays in the cache. */
static void quiet_exchange(void **state)
{
    struct segment *segment = segment_make(CHUNKS);
    struct chunk_pool pool;
    struct chunk *first;

    (void)state;
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    first = chunk_get(&pool, 0);
    for (int i = 0; i < 100; i++) {
        chunk_release(first, use_of(first));
        assert_ptr_equal(chunk_get(&pool, 0), first);
    }
    chunk_pool_finish(&pool);
    segment_unmake(segment);
}

/* Who does not read has all but one, and that is for those who have none. */
static void last(void **state)
{
    struct segment *segment = segment_make(CHUNKS);
    struct chunk_pool pool;
    struct chunk *slow[CHUNKS], *chunk;

    (void)state;
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    chunk = chunk_get(&pool, 8); /* comes back as the oldest */
    for (uint32_t i = 0; i < CHUNKS - 2; i++) {
        slow[i] = chunk_get(&pool, 7);
        assert_non_null(slow[i]);
    }
    for (int i = 0; i < 10; i++) {
        assert_null(chunk_get(&pool, 8)); /* it has one, the last is for others */
        chunk_release(chunk, use_of(chunk));
        if (i == 0)
            assert_non_null(slow[CHUNKS - 2] = chunk_get(&pool, 7));
        assert_null(chunk_get(&pool, 7));
        chunk = chunk_get(&pool, 8);
        assert_non_null(chunk);
        assert_null(chunk_get(&pool, 7));
        assert_null(chunk_get(&pool, 9));
    }
    chunk_release(slow[3], use_of(slow[3]));
    assert_null(chunk_get(&pool, 7));
    assert_ptr_equal(chunk_get(&pool, 9), slow[3]);
    chunk_pool_finish(&pool);
    segment_unmake(segment);
}

/* Chunks that no life of the context has used are not even looked at: they have no memory. */
static void untouched(void **state)
{
    struct segment *segment = segment_make(4);
    struct chunk_pool pool;
    struct chunk *held, *fresh;

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        atomic_store(&segment_chunk(segment, 0, 0, i)->busy, 77);
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    assert_int_equal(pool.free_count, 4);
    held = chunk_get(&pool, 5);
    fresh = chunk_get(&pool, 6);
    chunk_release(fresh, use_of(fresh));
    chunk_pool_finish(&pool);
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    assert_int_equal(pool.free_count, 3);
    assert_int_equal(pool.sent_count, 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_ptr_not_equal(chunk_get(&pool, i), held);
    chunk_pool_finish(&pool);
    segment_unmake(segment);
}

/* The next life of a context knows what receivers still hold from the last one. */
static void reopened(void **state)
{
    struct segment *segment = segment_make(4);
    struct chunk_pool pool;
    struct chunk *held[2];
    uint32_t uses[2];

    (void)state;
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    for (int i = 0; i < 2; i++) {
        held[i] = chunk_get(&pool, 5 + (uint32_t)i);
        uses[i] = use_of(held[i]);
    }
    chunk_pool_finish(&pool);
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    for (int i = 0; i < 2; i++) {
        struct chunk *chunk = chunk_get(&pool, (uint32_t)i);

        assert_non_null(chunk);
        assert_true(chunk != held[0] && chunk != held[1]);
    }
    chunk_reclaim(&pool, 4);
    assert_null(chunk_get(&pool, 9));
    chunk_reclaim(&pool, 5);
    assert_ptr_equal(chunk_get(&pool, 9), held[0]);
    assert_null(chunk_get(&pool, 9));
    chunk_release_late(held[0], uses[0]);
    assert_null(chunk_get(&pool, 9));
    chunk_release(held[1], uses[1]);
    assert_ptr_equal(chunk_get(&pool, 8), held[1]);
    assert_null(chunk_get(&pool, 9));
    chunk_pool_finish(&pool);
    segment_unmake(segment);
}

/* What a destination that has gone still holds comes back, and nobody else's. */
static void reclaimed(void **state)
{
    struct segment *segment = segment_make(CHUNKS);
    struct chunk_pool pool;
    struct chunk *gone[CHUNKS / 2], *alive[CHUNKS / 2];
    uint32_t uses[CHUNKS / 2];

    (void)state;
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    for (uint32_t i = 0; i < CHUNKS / 2; i++) {
        gone[i] = chunk_get(&pool, 5);
        alive[i] = chunk_get(&pool, 10 + i);
        uses[i] = use_of(gone[i]);
    }
    chunk_reclaim(&pool, 4);
    assert_null(chunk_get(&pool, 6));
    chunk_reclaim(&pool, 5);
    for (uint32_t i = 0; i < CHUNKS / 2; i++) {
        struct chunk *chunk = chunk_get(&pool, 30 + i);

        assert_non_null(chunk);
        for (uint32_t k = 0; k < CHUNKS / 2; k++)
            assert_ptr_not_equal(chunk, alive[k]);
    }
    assert_null(chunk_get(&pool, 6));
    /* A release by the one who had gone comes too late: the chunks are in use again. */
    for (uint32_t i = 0; i < CHUNKS / 2; i++)
        chunk_release_late(gone[i], uses[i]);
    assert_null(chunk_get(&pool, 6));
    chunk_pool_finish(&pool);
    segment_unmake(segment);
}

/* ---- a receiver in another thread ---- */

#define MESSAGES 200000u

struct mail {
    _Atomic(struct chunk *) chunk;
};

static struct mail mail[CHUNKS];

static void *receive(void *argument)
{
    uint64_t *wrong = argument;

    for (uint32_t i = 0, at = 0; i < MESSAGES; at++) {
        struct chunk *chunk = atomic_exchange(&mail[at % CHUNKS].chunk, NULL);

        if (chunk == NULL) {
            if (at % CHUNKS == 0)
                sched_yield();
            continue;
        }
        for (uint32_t k = 1; k < BYTES; k++)
            *wrong += chunk->data[k] != chunk->data[0];
        chunk_release(chunk, atomic_load_explicit(&chunk->busy, memory_order_relaxed));
        i++;
    }
    return NULL;
}

static void another_thread(void **state)
{
    struct segment *segment = segment_make(CHUNKS);
    struct chunk_pool pool;
    pthread_t thread;
    uint64_t wrong = 0;

    (void)state;
    assert_int_equal(chunk_pool_init(&pool, segment, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, receive, &wrong), 0);
    for (uint32_t i = 0; i < MESSAGES;) {
        struct chunk *chunk = chunk_get(&pool, 0), *nothing;

        if (chunk == NULL) {
            sched_yield();
            continue;
        }
        memset(chunk->data, (int)i, BYTES);
        do
            nothing = NULL;
        while (!atomic_compare_exchange_strong(&mail[i * 7 % CHUNKS].chunk, &nothing, chunk) &&
               sched_yield() == 0);
        i++;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrong, 0);
    chunk_pool_finish(&pool);
    segment_unmake(segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exhaustion), cmocka_unit_test(any_order),
        cmocka_unit_test(unget),      cmocka_unit_test(quiet_exchange),
        cmocka_unit_test(untouched),  cmocka_unit_test(reopened),
        cmocka_unit_test(reclaimed),  cmocka_unit_test(another_thread),
        cmocka_unit_test(last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
