/*
 * pamirun's own messages: one line each on standard error, "pamirun: ...".
 */
#ifndef PAMIRUN_SAY_H
#define PAMIRUN_SAY_H

#include <stddef.h>

/* Written at once and whole, or handed to the function set by say_through. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Lines go to `write` from now on, with their newline; NULL: straight to standard error again. */
void say_through(void (*write)(void *cookie, const char *line, size_t length), void *cookie);

#endif
