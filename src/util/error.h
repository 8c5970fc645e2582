/*
 * The calling thread's text about its most recent failure, read through PAMI_Error_text.
 *
 * A public function that fails says why exactly once, where the failure is decided:
 *     return error_set(PAMI_INVAL, "PAMI_Send: dest: endpoint %u is outside the job", dest);
 * The text starts with the public function's name and the argument at fault, has no newline, and
 * is cut at ERROR_TEXT_MAX bytes.  Success leaves it alone.
 */
#ifndef LIBPAMI_UTIL_ERROR_H
#define LIBPAMI_UTIL_ERROR_H

#include <pami/pami.h>

/* Room for the text with its NUL, in bytes. */
#define ERROR_TEXT_MAX 512

/* Remember the text for this thread and return `result`.  Keeps errno; allocates nothing. */
pami_result_t error_set(pami_result_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The closest public result for a negative errno (or 0). */
pami_result_t error_from_errno(int negative_errno);

#endif
