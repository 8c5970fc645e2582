/*
 * Log lines, see log.h.  Allocates nothing and takes no lock, so that it may be called from any
 * thread and while the process is ending.  No cancellation point.
 */
#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/option.h"

/* Longest line written, prefix and newline included; the rest is cut. */
#define LINE_MAX_BYTES 1024

int log_threshold = -1;

static long log_task = -1;

int log_threshold_init(void)
{
    /* Reading the options sets the threshold. */
    option_init();
    return __atomic_load_n(&log_threshold, __ATOMIC_RELAXED);
}

void log_set_threshold(enum log_level level)
{
    __atomic_store_n(&log_threshold, (int)level, __ATOMIC_RELAXED);
}

void log_set_task(long task)
{
    __atomic_store_n(&log_task, task, __ATOMIC_RELAXED);
}

void log_write(enum log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    long task = __atomic_load_n(&log_task, __ATOMIC_RELAXED);
    int saved = errno;
    char line[LINE_MAX_BYTES];
    size_t used;
    va_list arguments;
    int bytes;

    if (task < 0)
        bytes = snprintf(line, sizeof line, "pami: %s: ", names[level]);
    else
        bytes = snprintf(line, sizeof line, "pami[%ld]: %s: ", task, names[level]);
    used = (size_t)bytes;
    va_start(arguments, format);
    bytes = vsnprintf(line + used, sizeof line - used, format, arguments);
    va_end(arguments);
    if (bytes > 0)
        used += (size_t)bytes;
    if (used > sizeof line - 1)
        used = sizeof line - 1;
    line[used++] = '\n';
    while (syscall(SYS_write, STDERR_FILENO, line, used) < 0 && errno == EINTR)
        continue;
    errno = saved;
}
