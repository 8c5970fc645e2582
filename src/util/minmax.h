/*
 * The smaller and the larger of two sizes, and the largest that divides both.
 */
#ifndef LIBPAMI_UTIL_MINMAX_H
#define LIBPAMI_UTIL_MINMAX_H

#include <stdint.h>

static inline uint64_t smaller(uint64_t first, uint64_t second)
{
    return first < second ? first : second;
}

static inline uint64_t larger(uint64_t first, uint64_t second)
{
    return first > second ? first : second;
}

static inline uint64_t common_divisor(uint64_t first, uint64_t second)
{
    while (second != 0) {
        uint64_t rest = first % second;

        first = second;
        second = rest;
    }
    return first;
}

#endif
