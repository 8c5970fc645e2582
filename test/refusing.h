/*
 * malloc, calloc, realloc and aligned_alloc of a program, and of its libraries, that fail when its
 * is_refused says so, which stands before this is included; `bytes` is 0 for calloc and realloc.
 * Not under sanitizers, which have the memory.
 *
 * lint: not alone
 */
#ifndef LIBPAMI_TEST_REFUSING_H
#define LIBPAMI_TEST_REFUSING_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_REFUSE 1
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    return is_refused(bytes) ? NULL : __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    return is_refused(0) ? NULL : __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t bytes)
{
    return is_refused(0) ? NULL : __libc_realloc(memory, bytes);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes)
{
    return is_refused(bytes) ? NULL : __libc_memalign(alignment, bytes);
}
#else
#define CAN_REFUSE 0
#endif

/* Ends the program, as skipped, where nothing can be refused. */
static inline void need_refusing(void)
{
    (void)is_refused;
    if (CAN_REFUSE)
        return;
    printf("SKIP: the sanitizer has the memory\n");
    exit(77);
}

#endif
