/*
 * Failing, time, random numbers, and who is dead as the kernel sees it.
 *
 * Nothing here asks the library: what it says about a death is compared with a pidfd of our own.
 */
#include "fault/dying/dying.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct dying dying;

void fail(const char *format, ...)
{
    char text[512];
    va_list arguments;
    int length;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "dying: task %zu (way %s, seed %llu): %s\n", dying.task,
            dying.way != NULL ? dying.way->name : "?", (unsigned long long)dying.seed, text);
    length = 0;
    for (size_t i = 0; i < dying.tasks; i++) {
        const struct flow *f = &dying.flow[i];

        length += snprintf(text + length, sizeof text - (size_t)length,
                           "  with %zu: issued %zu local %zu good %zu bad %zu, arrived %zu landed "
                           "%zu lost %zu, done %zu%s\n",
                           i, f->issued, f->local, f->good, f->bad, f->arrived, f->landed, f->lost,
                           f->done, f->refused ? ", refused" : "");
        if ((size_t)length >= sizeof text)
            break;
    }
    if (length > 0)
        fputs(text, stderr);
    _exit(FAILED);
}

void check_result(pami_result_t result, pami_result_t expected, const char *call)
{
    char text[256];

    if (result == expected)
        return;
    PAMI_Error_text(text, sizeof text);
    fail("%s gave %d, not %d: %s", call, (int)result, (int)expected, text);
}

uint64_t random_next(void)
{
    static _Thread_local uint64_t state;

    if (state == 0)
        state = (dying.seed + 1) * UINT64_C(0xd1342543de82ef95) + dying.task * 77 + 1;
    return test_random(&state);
}

size_t random_below(size_t limit)
{
    return (size_t)(random_next() % limit);
}

bool is_dead(size_t task)
{
    struct pollfd item = {.fd = dying.pidfd[task], .events = POLLIN};

    if (dying.pid[task] == 0)
        return false;
    return dying.pidfd[task] < 0 || poll(&item, 1, 0) > 0;
}

bool is_victim(void)
{
    return dying.task == dying.victim;
}

void point_reached(enum point point)
{
    if (!is_victim() || dying.way->point != point || dying.countdown == 0)
        return;
    if (--dying.countdown == 0)
        dying.way->act();
}

unsigned char pattern(uint64_t seed, size_t position)
{
    return (unsigned char)(seed + position * 7 + (position >> 8) * 13);
}
