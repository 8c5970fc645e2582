/*
 * A table of transfers of many sizes and alignments, laid out in one window with guards around each
 * piece: filled in one task, moved by whatever operation a test is about, verified in another.
 *
 * The same window can be made in several kinds of memory.
 */
#ifndef LIBPAMI_API_RMA_ROWS_H
#define LIBPAMI_API_RMA_ROWS_H

#include "rma.h"

#include <pamix.h>
#include <sys/mman.h>

/* Around 8-byte words, cache lines, packets, chunks and pages; `large` adds the last ones. */
static const size_t rma_rows_bytes[] = {
    0,     1,     2,     3,      4,      5,      7,       8,       9,     12,    15,    16,
    17,    24,    31,    32,     33,     48,     63,      64,      65,    100,   127,   128,
    129,   255,   256,   257,    511,    512,    513,     1000,    1024,  2047,  2048,  4000,
    4095,  4096,  4097,  8191,   8192,   8193,   9999,    12288,   16383, 16384, 16385, 32767,
    32768, 32769, 65536, 100003, 131072, 262147, 1048579, 3000001,
};

enum {
    RMA_ROWS_ALL = sizeof rma_rows_bytes / sizeof rma_rows_bytes[0],
    RMA_ROWS_LARGE = 4,
    RMA_ROWS_STATIC = 1 << 20
};

struct rma_rows {
    size_t count;
};

static inline size_t rma_rows_at(size_t row)
{
    size_t i, at = RMA_GUARD;

    for (i = 0; i < row; i++)
        at += rma_rows_bytes[i] + RMA_GUARD + 16;
    return at + row * 5 % 16;
}

/* Bytes of a window. */
static inline size_t rma_rows_room(const struct rma_rows *rows)
{
    return rma_rows_at(rows->count) + RMA_GUARD;
}

static inline void rma_rows_clear(const struct rma_rows *rows, void *window)
{
    memset(window, RMA_GUARD_BYTE, rma_rows_room(rows));
}

static inline void rma_rows_fill(const struct rma_rows *rows, unsigned char *window, size_t seed)
{
    size_t i;

    rma_rows_clear(rows, window);
    for (i = 0; i < rows->count; i++)
        test_fill(window + rma_rows_at(i), rma_rows_bytes[i], seed + i, 0);
}

/* Every piece holds the pattern, and nothing around it was touched. */
static inline void rma_rows_verify(const struct rma_rows *rows, const unsigned char *window,
                                   size_t seed, const char *what)
{
    size_t i, at, from = 0;

    for (i = 0; i < rows->count; i++) {
        size_t bytes = rma_rows_bytes[i], begin = rma_rows_at(i);

        at = test_differs(window + begin, bytes, seed + i, 0);
        if (at != bytes)
            FAIL("%s: %zu bytes are wrong from byte %zu on", what, bytes, at);
        for (; from < begin; from++)
            if (window[from] != RMA_GUARD_BYTE)
                FAIL("%s: something was written %zu bytes in front of %zu bytes", what,
                     begin - from, bytes);
        from = begin + bytes;
    }
    CHECK(test_all(window + from, rma_rows_room(rows) - from, RMA_GUARD_BYTE));
}

/* ------------------------------------------------------------------------- kinds of memory -- */

enum rma_memory {
    RMA_MEMORY_HEAP,
    RMA_MEMORY_STATIC,
    RMA_MEMORY_STACK,
    RMA_MEMORY_MAPPED,
    RMA_MEMORY_MAPPED_SHARED,
    RMA_MEMORY_NODE, /* shared by the tasks of a node */
    RMA_MEMORY_KINDS
};

static const char *const rma_memory_name[] = {"heap",   "static",        "stack",
                                              "mapped", "mapped shared", "shared heap"};

/* `stack` is memory of the caller's frame, of RMA_ROWS_STATIC bytes at least. */
static inline unsigned char *rma_memory(struct job *job, enum rma_memory kind, size_t bytes,
                                        void *stack)
{
    static unsigned char fixed[RMA_ROWS_STATIC];
    void *mapped, *shared;

    switch (kind) {
    case RMA_MEMORY_STATIC:
        return bytes <= sizeof fixed ? fixed : test_alloc(bytes);
    case RMA_MEMORY_STACK:
        return bytes <= RMA_ROWS_STATIC ? stack : test_alloc(bytes);
    case RMA_MEMORY_MAPPED:
    case RMA_MEMORY_MAPPED_SHARED:
        mapped =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                 MAP_ANONYMOUS | (kind == RMA_MEMORY_MAPPED ? MAP_PRIVATE : MAP_SHARED), -1, 0);
        CHECK(mapped != MAP_FAILED);
        return mapped;
    case RMA_MEMORY_NODE:
        CHECK_OK(PAMIX_Mem_alloc(job->client, bytes, 0, PAMIX_MEM_ANY, &shared));
        return shared;
    default:
        return test_alloc(bytes);
    }
}

static inline void rma_memory_free(struct job *job, enum rma_memory kind, unsigned char *memory,
                                   size_t bytes)
{
    if (kind == RMA_MEMORY_HEAP)
        free(memory);
    else if (kind == RMA_MEMORY_NODE)
        CHECK_OK(PAMIX_Mem_free(job->client, memory));
    else if (kind >= RMA_MEMORY_MAPPED)
        CHECK(munmap(memory, bytes) == 0);
}

#endif /* LIBPAMI_API_RMA_ROWS_H */
