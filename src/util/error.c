/*
 * Error text: one thread-local buffer, see error.h.
 *
 * Must not depend on the log or the option registry: it is usable from anywhere, at any time.
 */
#include "util/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char error_text[ERROR_TEXT_MAX];

pami_result_t error_set(pami_result_t result, const char *format, ...)
{
    int saved = errno;
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(error_text, sizeof error_text, format, arguments) < 0)
        error_text[0] = '\0';
    va_end(arguments);
    errno = saved;
    return result;
}

char *error_copy(void)
{
    return error_text[0] != '\0' ? strdup(error_text) : NULL;
}

void error_recall(char *text)
{
    if (text == NULL)
        return;
    snprintf(error_text, sizeof(error_text), "%s", text);
    free(text);
}

pami_result_t error_from_errno(int negative_errno)
{
    switch (-negative_errno) {
    case 0:
        return PAMI_SUCCESS;
    case EAGAIN:
        return PAMI_EAGAIN;
    case ENOMEM:
        return PAMI_ENOMEM;
    case EINVAL:
        return PAMI_INVAL;
    case ENOSYS:
    case EOPNOTSUPP:
        return PAMI_UNIMPL;
    default:
        return PAMI_ERROR;
    }
}

size_t PAMI_Error_text(char *string, size_t length)
{
    size_t bytes = strlen(error_text);

    if (string == NULL || length == 0)
        return 0;
    if (bytes > length - 1)
        bytes = length - 1;
    memcpy(string, error_text, bytes);
    string[bytes] = '\0';
    return bytes;
}
