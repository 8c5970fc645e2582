/*
 * Messages, see say.h.
 */
#include "say.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024

static void (*through)(void *cookie, const char *line, size_t length);
static void *through_cookie;

void say_through(void (*write_line)(void *cookie, const char *line, size_t length), void *cookie)
{
    through = write_line;
    through_cookie = cookie;
}

void say(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    int used = snprintf(line, sizeof line, "pamirun: ");
    size_t length;
    va_list arguments;

    va_start(arguments, format);
    used += vsnprintf(line + used, sizeof line - (size_t)used, format, arguments);
    va_end(arguments);
    length = used < (int)sizeof line - 1 ? (size_t)used : sizeof line - 2;
    line[length++] = '\n';
    if (through != NULL)
        through(through_cookie, line, length);
    else
        (void)!write(STDERR_FILENO, line, length);
}
