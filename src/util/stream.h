/*
 * Copying into shared memory past the cache.
 *
 * The lines of a buffer that another task has read are in its cache. An ordinary store has to take
 * each of them back, one transfer between processors a line; a non-temporal one writes to memory
 * and only tells the others, and readers then read ahead. Where such transfers are fast that costs
 * more: see gauge.h.
 *
 * Two tasks, lines slow (a cross-core memcpy of 64 KiB takes 3.9 us, of 1 MiB 43), by ordinary
 * stores and past the cache: broadcast 64 KiB 32 and 5.9 us, 1 MiB 463 and 58; alltoall 35 and 9.0,
 * 556 and 145. Broadcasts that read the source by process_vm_readv take 13 and 155, and leave lines
 * behind that make rewriting it three times as slow (2026-11-21).
 */
#ifndef LIBPAMI_UTIL_STREAM_H
#define LIBPAMI_UTIL_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

/* Ordered before the next release store. */
static inline void stream_copy(char *to, const char *from, size_t bytes)
{
    size_t head = (64 - (uintptr_t)to % 64) % 64;

    head = head < bytes ? head : bytes;
    memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
        const __m128i *source = (const void *)from;
        __m128i *target = (void *)to;
        __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
        __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);

        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    memcpy(to, from, bytes);
    _mm_sfence();
}
#else
static inline void stream_copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif

#endif
