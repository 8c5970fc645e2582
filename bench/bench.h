/*
 * What every benchmark program shares: clock, pinning, buffer patterns, statistics, output.
 *
 * It is included by programs over libpami, by the MPI peers and by the programs that measure the
 * machine itself, so that all of them time, pin, fill and check in the same way. Therefore it must
 * not depend on any run-time under test, only on Linux and the C library.
 *
 * Output: one line per measure, "name,param,unit,value", on the standard output of one process.
 * Exit status: 0 good, 1 wrong data or a failed call, 77 the machine lacks what is needed.
 *
 * Environment, set by bench/run: BENCH_PIN, processors separated by commas. Process r is pinned to
 * entry r modulo their number; without BENCH_PIN the system places the processes.
 */
#ifndef LIBPAMI_BENCH_BENCH_H
#define LIBPAMI_BENCH_BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BENCH_LINE 64
#define BENCH_SKIP 77
#define BENCH_ALIGNED __attribute__((aligned(BENCH_LINE)))

/* ---- ending ---------------------------------------------------------------------------------- */

static inline __attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *format,
                                                                             ...)
{
    va_list arguments;

    fflush(stdout);
    fputs("bench: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    /* Not exit(): with peers alive, the clean-up of a run-time may wait for them for ever. */
    _exit(1);
}

static inline __attribute__((noreturn)) void bench_skip(const char *reason)
{
    printf("SKIP: %s\n", reason);
    fflush(stdout);
    _exit(BENCH_SKIP);
}

/* ---- time ------------------------------------------------------------------------------------ */

static inline uint64_t bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What a pair of bench_now() calls adds to the interval between them, in ns. */
static inline double bench_clock_cost(void)
{
    uint64_t start = bench_now();

    for (int i = 0; i < 999; i++) {
        (void)bench_now();
    }
    return (double)(bench_now() - start) / 1000.0;
}

static inline void bench_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* ---- placement ------------------------------------------------------------------------------- */

/* Pins the calling thread by BENCH_PIN; a no-op without it. */
static inline void bench_pin(int index)
{
    const char *list = getenv("BENCH_PIN");
    int cpus[64], count = 0;
    char *end;
    cpu_set_t set;

    if (list == NULL || index < 0) {
        return;
    }
    while (*list != '\0' && count < 64) {
        cpus[count++] = (int)strtol(list, &end, 10);
        list = *end == ',' ? end + 1 : end;
        if (*end != ',') {
            break;
        }
    }
    if (count == 0) {
        return;
    }
    CPU_ZERO(&set);
    CPU_SET((size_t)cpus[index % count], &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        bench_die("cannot run on processor %d: %s", cpus[index % count], strerror(errno));
    }
}

/*
 * For the programs that measure the machine when they are started by hand: sets BENCH_PIN to the
 * first two processors that this process may use. False on a machine with only one.
 */
static inline bool bench_pin_default(void)
{
    cpu_set_t set;
    int found[2], n = 0;
    char pin[32];

    if (sched_getaffinity(0, sizeof(set), &set) != 0 || CPU_COUNT(&set) < 2) {
        return false;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE && n < 2; cpu++) {
        if (CPU_ISSET((size_t)cpu, &set)) {
            found[n++] = cpu;
        }
    }
    snprintf(pin, sizeof(pin), "%d,%d", found[0], found[1]);
    setenv("BENCH_PIN", pin, 0);
    return true;
}

/* The process's number in its job as its launcher tells it, before any run-time is initialised. */
static inline int bench_launcher_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *text = getenv(names[i]);
        if (text != NULL) {
            return (int)strtol(text, NULL, 10);
        }
    }
    return 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Page-aligned, zeroed, touched by the caller. */
static inline void *bench_alloc(size_t bytes)
{
    void *p = NULL;

    if (posix_memalign(&p, 4096, bytes > 0 ? bytes : 1) != 0) {
        bench_die("no memory for %zu bytes", bytes);
    }
    memset(p, 0, bytes);
    return p;
}

/* Shared with the children of a later fork; zeroed and touched. */
static inline void *bench_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        bench_die("no shared memory for %zu bytes: %s", bytes, strerror(errno));
    }
    memset(p, 0, bytes);
    return p;
}

/* A line "Name:  123 kB" of the process's summary in /proc, e.g. "Pss:". */
static inline double bench_memory_kib(const char *name)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[128];
    unsigned long value = 0;

    if (file == NULL) {
        bench_skip("no /proc/self/smaps_rollup");
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = strtoul(line + strlen(name), NULL, 10);
        }
    }
    fclose(file);
    return (double)value;
}

/* ---- patterns -------------------------------------------------------------------------------- */

typedef uint64_t bench_vector __attribute__((vector_size(16), aligned(8), may_alias));

/*
 * Rewrites a whole buffer: 64-bit word i becomes seed + i. Ordinary vector stores on purpose: a
 * memset may use non-temporal ones, and then the data would not be in the writer's cache. Sizes are
 * multiples of 8. Vectors that every compiler keeps in registers: larger ones went through memory,
 * and rewriting took longer than the collective that was measured.
 */
static inline void bench_fill(void *buffer, size_t bytes, uint64_t seed)
{
    bench_vector *v = buffer;
    bench_vector value = {seed, seed + 1}, next = {seed + 2, seed + 3};
    uint64_t *word = buffer;
    size_t pairs = bytes / (2 * sizeof(*v));

    for (size_t i = 0; i < pairs; i++) {
        v[2 * i] = value;
        v[2 * i + 1] = next;
        value += 4;
        next += 4;
    }
    for (size_t i = pairs * 4; i < bytes / 8; i++) {
        word[i] = seed + i;
    }
}

static inline void bench_check(const void *buffer, size_t bytes, uint64_t seed, const char *what)
{
    const uint64_t *word = buffer;

    for (size_t i = 0; i < bytes / 8; i++) {
        if (word[i] != seed + i) {
            bench_die("%s: %zu bytes, word %zu is %llu instead of %llu", what, bytes, i,
                      (unsigned long long)word[i], (unsigned long long)(seed + i));
        }
    }
}

/* ---- statistics ------------------------------------------------------------------------------ */

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double bench_median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), bench_compare);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- output and arguments -------------------------------------------------------------------- */

static inline void bench_emit(const char *name, size_t param, const char *unit, double value)
{
    printf("%s,%zu,%s,%.6g\n", name, param, unit, value);
    fflush(stdout);
}

/* The value of "--name N" (suffixes k and m: 1024 and 1024 squared), or the default. */
static inline size_t bench_option(int argc, char **argv, const char *name, size_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            char *end;
            size_t value = (size_t)strtoull(argv[i + 1], &end, 10);
            return *end == 'k' ? value << 10 : *end == 'm' ? value << 20 : value;
        }
    }
    return otherwise;
}

static inline bool bench_flag(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* True when no measure is named on the command line, or this one is. */
static inline bool bench_wanted(int argc, char **argv, const char *name)
{
    bool named = false;

    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') {
            break;
        }
        named = true;
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return !named;
}

#endif
