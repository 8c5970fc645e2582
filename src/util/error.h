/*
 * The calling thread's text about its most recent failure, read through PAMI_Error_text.
 *
 * A public function that fails says why exactly once, where the failure is decided:
 *     return error_set(PAMI_INVAL, "PAMI_Send: dest: endpoint %u is outside the job", dest);
 * The text starts with the public function's name and the argument at fault, has no newline, and
 * is cut at ERROR_TEXT_MAX bytes.  Success leaves it alone.
 *
 * Where a callback tells of the failure, and runs later or in another thread, the text goes along:
 * error_copy when the failure is decided, error_recall when the callback is about to run.
 */
#ifndef LIBPAMI_UTIL_ERROR_H
#define LIBPAMI_UTIL_ERROR_H

#include <pami/pami.h>

/* Room for the text with its NUL, in bytes. */
#define ERROR_TEXT_MAX 512

/* Remember the text for this thread and return `result`.  Keeps errno; allocates nothing. */
pami_result_t error_set(pami_result_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* This thread's text, for error_recall, which frees it; NULL: there is none, or no memory. */
char *error_copy(void);

/* It is this thread's text again; NULL leaves what there is. */
void error_recall(char *text);

/* The closest public result for a negative errno (or 0). */
pami_result_t error_from_errno(int negative_errno);

#endif
