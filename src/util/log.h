/*
 * Messages for people, on standard error, one write(2) per line so that tasks do not mix.
 *
 *     pami[3]: warn: PAMI_RNDV_BYTES=12x: not a number of bytes
 *
 * The threshold is the option PAMI_LOG (default: warn).  A message below it costs one load and a
 * branch; its arguments are not evaluated.  Never log on a hot path above debug, and log a
 * failure once, where it is decided.  No newline at the end of the format.
 */
#ifndef LIBPAMI_UTIL_LOG_H
#define LIBPAMI_UTIL_LOG_H

#include <stdbool.h>

/* In the order of the choices of PAMI_LOG. */
enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
};

/* Messages above this level are dropped; -1 until the options have been read. */
extern int log_threshold;

/* Reads the options if need be; returns the threshold. */
int log_threshold_init(void);

/* Set by the option registry; a program may move it at any time. */
void log_set_threshold(enum log_level level);

/* The task shown in the prefix from now on; negative: none. */
void log_set_task(long task);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool log_enabled(enum log_level level)
{
    int threshold = __atomic_load_n(&log_threshold, __ATOMIC_RELAXED);

    if (__builtin_expect(threshold < 0, 0))
        threshold = log_threshold_init();
    return (int)level <= threshold;
}

#define log_at(level, ...)                                                                         \
    do {                                                                                           \
        if (__builtin_expect(log_enabled(level), 0))                                               \
            log_write(level, __VA_ARGS__);                                                         \
    } while (0)

#define log_error(...) log_at(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
