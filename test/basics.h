/*
 * What tests of all kinds share: clock, random numbers, memory, the text of an error.
 */
#ifndef LIBPAMI_TEST_BASICS_H
#define LIBPAMI_TEST_BASICS_H

#include <pami.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Of the thread's last call that failed. */
static inline const char *test_text(void)
{
    static _Thread_local char text[512];

    PAMI_Error_text(text, sizeof text);
    return text;
}

/* Seconds since some moment. */
static inline double test_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void test_sleep(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};

    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

/* The next number; the same everywhere for one seed. */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline void *test_alloc(size_t bytes)
{
    void *memory = malloc(bytes != 0 ? bytes : 1);

    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        _exit(1);
    }
    return memory;
}

static inline void *test_zalloc(size_t bytes)
{
    return memset(test_alloc(bytes), 0, bytes);
}

#endif
