/*
 * The allocator of shared heaps against an oracle that knows every block: no two overlap, all lie
 * inside and are aligned, what is released belongs to nobody, and when all has been freed the whole
 * range is one piece again.
 *
 * Run: timeout=120
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>
#include <errno.h>

#include "device/heap.h"

#define PAGE 4096u
#define UNIT 16u /* of the oracle's map: blocks start and end at multiples of this */
#define BLOCKS 4096u

struct block {
    size_t offset, bytes;
};

/* `map` has the number of the block, plus 1, that each unit of the range belongs to. */
struct oracle {
    struct heap *heap;
    size_t bytes;
    uint16_t *map;
    uint8_t *touched; /* per page: memory may be behind it */
    struct block block[BLOCKS];
    size_t released;
    uint64_t random;
};

static uint64_t next_random(struct oracle *oracle)
{
    oracle->random ^= oracle->random << 13;
    oracle->random ^= oracle->random >> 7;
    oracle->random ^= oracle->random << 17;
    return oracle->random;
}

static void on_release(void *cookie, size_t offset, size_t bytes)
{
    struct oracle *oracle = cookie;

    assert_int_equal(offset % PAGE, 0);
    assert_int_equal(bytes % PAGE, 0);
    assert_true(bytes != 0 && offset + bytes <= oracle->bytes);
    for (size_t at = offset / UNIT; at < (offset + bytes) / UNIT; at++)
        assert_int_equal(oracle->map[at], 0);
    for (size_t page = offset / PAGE; page < (offset + bytes) / PAGE; page++)
        oracle->touched[page] = 0;
    oracle->released += bytes;
}

static struct oracle *oracle_new(size_t bytes, uint64_t seed)
{
    struct oracle *oracle = calloc(1, sizeof *oracle);

    oracle->bytes = bytes;
    oracle->random = seed * 0x9e3779b97f4a7c15 | 1;
    oracle->map = calloc(bytes / UNIT + 1, sizeof *oracle->map);
    oracle->touched = calloc(bytes / PAGE + 1, 1);
    assert_int_equal(heap_create(bytes, PAGE, on_release, oracle, &oracle->heap), 0);
    return oracle;
}

static void oracle_free(struct oracle *oracle)
{
    heap_destroy(oracle->heap);
    free(oracle->map);
    free(oracle->touched);
    free(oracle);
}

static void mark(struct oracle *oracle, const struct block *block, uint16_t from, uint16_t to)
{
    for (size_t at = block->offset / UNIT; at < (block->offset + block->bytes + UNIT - 1) / UNIT;
         at++) {
        assert_int_equal(oracle->map[at], from);
        oracle->map[at] = to;
    }
}

static int take(struct oracle *oracle, size_t slot, size_t bytes, size_t alignment)
{
    struct block *block = &oracle->block[slot];
    int error = heap_alloc(oracle->heap, bytes, alignment, &block->offset);

    if (error != 0) {
        assert_int_equal(error, -ENOSPC);
        return error;
    }
    block->bytes = bytes;
    assert_int_equal(block->offset % alignment, 0);
    assert_true(block->offset + bytes <= oracle->bytes);
    mark(oracle, block, 0, (uint16_t)(slot + 1));
    for (size_t page = block->offset / PAGE; page <= (block->offset + bytes - 1) / PAGE; page++)
        oracle->touched[page] = 1;
    return 0;
}

static void give_back(struct oracle *oracle, size_t slot)
{
    struct block *block = &oracle->block[slot];

    mark(oracle, block, (uint16_t)(slot + 1), 0);
    assert_int_equal(heap_free(oracle->heap, block->offset), 0);
    block->bytes = 0;
}

static size_t some_size(struct oracle *oracle)
{
    uint64_t dice = next_random(oracle) >> 32;

    if (dice % 8 < 5)
        return 1 + dice / 8 % 700;
    if (dice % 8 < 7)
        return 1 + dice / 8 % 40000;
    return 1 + dice / 8 % (oracle->bytes / 8);
}

static void check_usage(struct oracle *oracle, size_t blocks)
{
    struct heap_usage usage;

    heap_usage(oracle->heap, &usage);
    assert_int_equal(usage.blocks, blocks);
    assert_int_equal(usage.bytes, oracle->bytes);
    assert_true(usage.used <= usage.bytes && usage.dirty <= usage.bytes - usage.used);
}

static void run(uint64_t seed, size_t bytes, unsigned steps, unsigned fullness)
{
    struct oracle *oracle = oracle_new(bytes, seed);
    size_t live = 0;
    size_t refused = 0;
    size_t offset;

    for (unsigned step = 0; step < steps; step++) {
        size_t slot = next_random(oracle) >> 20 & (BLOCKS - 1);

        if (oracle->block[slot].bytes != 0) {
            give_back(oracle, slot);
            live--;
        } else if (next_random(oracle) % 100 < fullness) {
            size_t alignment = (size_t)1 << (next_random(oracle) >> 30) % 14;

            if (take(oracle, slot, some_size(oracle), alignment < UNIT ? UNIT : alignment) == 0)
                live++;
            else
                refused++;
        }
        if (step % 64 == 0) {
            size_t wrong = next_random(oracle) % bytes;

            check_usage(oracle, live);
            if (oracle->map[wrong / UNIT] == 0)
                assert_int_equal(heap_free(oracle->heap, wrong), -EINVAL);
        }
    }
    assert_true(refused < steps);
    for (size_t slot = 0; slot < BLOCKS; slot++)
        if (oracle->block[slot].bytes != 0) {
            give_back(oracle, slot);
            assert_int_equal(heap_free(oracle->heap, oracle->block[slot].offset), -EINVAL);
        }
    check_usage(oracle, 0);
    /* All in one piece. */
    assert_int_equal(heap_alloc(oracle->heap, bytes, PAGE, &offset), 0);
    assert_int_equal(offset, 0);
    assert_int_equal(heap_alloc(oracle->heap, 1, 1, &offset), -ENOSPC);
    assert_int_equal(heap_free(oracle->heap, 0), 0);
    /* That was more than is kept: no page is left. */
    for (size_t page = 0; page < bytes / PAGE; page++)
        if (oracle->touched[page] != 0)
            fail_msg("seed %llu: page %zu was not released", (unsigned long long)seed, page);
    oracle_free(oracle);
}

static void random_blocks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        run(seed, (size_t)8 << 20, 20000, 60);
        run(seed, (size_t)32 << 20, 20000, 100);
    }
}

/* Blocks of one size: what is lost to the allocator's own needs. */
static void fragmentation(void **state)
{
    static const size_t sizes[] = {16, 24, 40, 100, 130, 512, 513, 1000, 4096, 5000, 65536};
    const size_t bytes = (size_t)8 << 20;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct heap *heap;
        size_t count = 0;
        size_t offset;

        assert_int_equal(heap_create(bytes, PAGE, NULL, NULL, &heap), 0);
        while (heap_alloc(heap, sizes[i], 1, &offset) == 0)
            count++;
        if ((double)(count * sizes[i]) < 0.74 * (double)bytes)
            fail_msg("%zu blocks of %zu bytes in %zu", count, sizes[i], bytes);
        heap_destroy(heap);
    }
}

/* Every other block freed, then twice the size: nothing fits between, everything fits again after
 * the others are freed. */
static void merging(void **state)
{
    const size_t bytes = (size_t)4 << 20;
    struct heap *heap;
    size_t offset[1024];
    size_t large;

    (void)state;
    assert_int_equal(heap_create(bytes, PAGE, on_release, NULL, &heap), 0);
    for (size_t i = 0; i < 1024; i++)
        assert_int_equal(heap_alloc(heap, PAGE, PAGE, &offset[i]), 0);
    assert_int_equal(heap_alloc(heap, 16, 1, &large), -ENOSPC);
    for (size_t i = 0; i < 1024; i += 2)
        assert_int_equal(heap_free(heap, offset[i]), 0);
    assert_int_equal(heap_alloc(heap, PAGE + 1, 1, &large), -ENOSPC);
    for (size_t i = 1; i < 1023; i += 2)
        assert_int_equal(heap_free(heap, offset[i]), 0);
    assert_int_equal(heap_alloc(heap, 1023 * PAGE, 1, &large), 0);
    heap_destroy(heap);
}

static void limits(void **state)
{
    struct heap *heap;
    size_t offset;

    (void)state;
    assert_int_equal(heap_create(0, PAGE, NULL, NULL, &heap), 0);
    assert_int_equal(heap_alloc(heap, 1, 1, &offset), -ENOSPC);
    assert_int_equal(heap_free(heap, 0), -EINVAL);
    heap_destroy(heap);
    heap_destroy(NULL);
    assert_int_equal(heap_create((size_t)1 << 46, PAGE, NULL, NULL, &heap), 0);
    assert_int_equal(heap_alloc(heap, SIZE_MAX, 1, &offset), -ENOSPC);
    assert_int_equal(heap_alloc(heap, SIZE_MAX - 20, 1, &offset), -ENOSPC);
    assert_int_equal(heap_alloc(heap, (size_t)1 << 45, 1, &offset), 0);
    assert_int_equal(heap_alloc(heap, (size_t)1 << 45, 1, &offset), 0);
    assert_int_equal(heap_alloc(heap, 1, 1, &offset), -ENOSPC);
    heap_destroy(heap);
}

/* ---- threads ---- */

#define THREADS 4
#define SHARED_BYTES ((size_t)16 << 20)

struct crowd {
    struct heap *heap;
    unsigned char *memory;
    pthread_barrier_t start;
};

struct one {
    struct crowd *crowd;
    unsigned number;
    unsigned faults;
};

static void forget(void *cookie, size_t offset, size_t bytes)
{
    struct crowd *crowd = cookie;

    memset(crowd->memory + offset, 0xee, bytes);
}

static void *work(void *argument)
{
    struct one *one = argument;
    struct crowd *crowd = one->crowd;
    struct block block[64] = {{0, 0}};
    uint64_t random = one->number * 77u + 1;

    pthread_barrier_wait(&crowd->start);
    for (unsigned step = 0; step < 20000; step++) {
        struct block *b = &block[(random = random * 6364136223846793005u + 1) >> 58];

        if (b->bytes == 0) {
            size_t bytes = 1 + (random >> 20) % (step % 16 == 0 ? 100000 : 600);

            if (heap_alloc(crowd->heap, bytes, 16, &b->offset) != 0)
                continue;
            b->bytes = bytes;
            memset(crowd->memory + b->offset, (int)one->number, bytes);
        } else {
            for (size_t i = 0; i < b->bytes; i++)
                one->faults += crowd->memory[b->offset + i] != one->number;
            one->faults += heap_free(crowd->heap, b->offset) != 0;
            b->bytes = 0;
        }
    }
    return NULL;
}

static void threads(void **state)
{
    struct crowd crowd = {.memory = malloc(SHARED_BYTES)};
    struct one one[THREADS];
    pthread_t thread[THREADS];

    (void)state;
    assert_int_equal(heap_create(SHARED_BYTES, PAGE, forget, &crowd, &crowd.heap), 0);
    pthread_barrier_init(&crowd.start, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        one[i] = (struct one){.crowd = &crowd, .number = i + 1};
        pthread_create(&thread[i], NULL, work, &one[i]);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(one[i].faults, 0);
    }
    pthread_barrier_destroy(&crowd.start);
    heap_destroy(crowd.heap);
    free(crowd.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_blocks), cmocka_unit_test(fragmentation), cmocka_unit_test(merging),
        cmocka_unit_test(limits),        cmocka_unit_test(threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
