/*
 * What fuzz programs that are called as NAME [ROUNDS [SEED]] share: the arguments, a stream of
 * random numbers, and a check that says in which round and with which seed it failed.
 */
#ifndef LIBPAMI_TEST_FUZZ_ROUNDS_H
#define LIBPAMI_TEST_FUZZ_ROUNDS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static long current; /* round */
static uint64_t seed = 1, first_seed = 1;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            rounds_fail(__LINE__, #condition);                                                     \
    } while (0)

__attribute__((noreturn)) static inline void rounds_fail(int line, const char *condition)
{
    fprintf(stderr, "seed %llu, round %ld: line %d: %s\n", (unsigned long long)first_seed, current,
            line, condition);
    exit(1);
}

static inline uint32_t pick(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

/* Reads the arguments; returns how many rounds to run. */
static inline long rounds_wanted(int argc, char **argv, long usual)
{
    if (argc > 2)
        seed = first_seed = strtoull(argv[2], NULL, 10);
    return argc > 1 ? atol(argv[1]) : usual;
}

#endif
