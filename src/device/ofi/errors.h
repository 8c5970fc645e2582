/*
 * Errors that do not mean that a peer has ended.
 */
#ifndef LIBPAMI_DEVICE_OFI_ERRORS_H
#define LIBPAMI_DEVICE_OFI_ERRORS_H

#include <errno.h>
#include <stdbool.h>

/* This task lacks something. */
static inline bool ofi_is_lack(int error)
{
    return error == EMFILE || error == ENFILE;
}

/* There is no way to its host, and may be one soon: nothing has been sent. */
static inline bool ofi_is_no_way(int error)
{
    return error == EHOSTUNREACH || error == ENETUNREACH;
}

#endif
