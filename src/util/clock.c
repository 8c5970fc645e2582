/*
 * Clocks, see clock.h.
 *
 * The rate of the time stamp counter is measured against CLOCK_MONOTONIC: its nominal rate
 * (cpuid leaf 0x15) is absent on many processors and hidden by most hypervisors.
 */
#include "util/clock.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Shortest stretch the rate is measured over: 2 ms against about 50 ns of jitter is 25 ppm. */
#define MEASURE_NS 2000000u

int clock_source = CLOCK_SOURCE_UNKNOWN;

static pthread_once_t source_once = PTHREAD_ONCE_INIT;
static pthread_once_t rate_once = PTHREAD_ONCE_INIT;
static double ticks_per_us = 1000.0;

/* Where measuring starts: the first use of the clock. */
static uint64_t base_ticks, base_ns;

uint64_t clock_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double clock_now(void)
{
    return (double)clock_now_ns() * 1e-9;
}

#if defined(__x86_64__)
/* A kernel that keeps time by one of these has found the time stamp counter unusable. */
static bool kernel_distrusts_tsc(void)
{
    static const char path[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    char name[32] = "";
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return false;
    if (fscanf(file, "%31s", name) != 1)
        name[0] = '\0';
    fclose(file);
    return strcmp(name, "hpet") == 0 || strcmp(name, "acpi_pm") == 0 ||
           strcmp(name, "jiffies") == 0;
}

static bool tsc_usable(void)
{
    unsigned eax, ebx, ecx, edx;

    /* Leaf 0x80000007, edx bit 8: constant rate in all power states. */
    if (!__get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) || !(edx & (1u << 8)))
        return false;
    return !kernel_distrusts_tsc();
}

static uint64_t tsc_read(void)
{
    return __builtin_ia32_rdtsc();
}
#else
static bool tsc_usable(void)
{
    return false;
}

static uint64_t tsc_read(void)
{
    return 0;
}
#endif

/* A counter value and the time it was read at: the best of a few tries, as one of them may be
 * interrupted in the middle. */
static void read_pair(uint64_t *ticks, uint64_t *ns)
{
    uint64_t best = UINT64_MAX;
    int i;

    *ticks = 0;
    *ns = 0;

    for (i = 0; i < 4; i++) {
        uint64_t before = tsc_read();
        uint64_t now = clock_now_ns();
        uint64_t after = tsc_read();

        if (after - before < best) {
            best = after - before;
            *ticks = before + (after - before) / 2;
            *ns = now;
        }
    }
}

static void source_init(void)
{
    int source = CLOCK_SOURCE_MONOTONIC;

    if (tsc_usable()) {
        source = CLOCK_SOURCE_TSC;
        read_pair(&base_ticks, &base_ns);
    }
    __atomic_store_n(&clock_source, source, __ATOMIC_RELEASE);
}

static void rate_init(void)
{
    uint64_t ticks, ns;

    pthread_once(&source_once, source_init);
    if (clock_source != CLOCK_SOURCE_TSC)
        return;
    do
        read_pair(&ticks, &ns);
    while (ns - base_ns < MEASURE_NS);
    ticks_per_us = (double)(ticks - base_ticks) * 1000.0 / (double)(ns - base_ns);
}

uint64_t clock_ticks_slow(void)
{
    pthread_once(&source_once, source_init);
    return clock_source == CLOCK_SOURCE_TSC ? tsc_read() : clock_now_ns();
}

double clock_ticks_per_us(void)
{
    pthread_once(&rate_once, rate_init);
    return ticks_per_us;
}
