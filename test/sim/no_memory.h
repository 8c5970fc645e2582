/*
 * malloc that fails now and then, for blocks of one size. Not under sanitizers, which have the
 * memory.
 */
#ifndef LIBPAMI_NO_MEMORY_H
#define LIBPAMI_NO_MEMORY_H

#include "sim_test.h"

static struct {
    size_t bytes;    /* of the blocks that may be refused */
    uint64_t one_in; /* of them is; 0: none */
    struct dice luck;
    size_t refused; /* so many were */
} no_memory;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_REFUSE 1
extern void *__libc_malloc(size_t bytes);

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    if (bytes == no_memory.bytes && no_memory.one_in != 0 &&
        dice_one_in(&no_memory.luck, no_memory.one_in)) {
        no_memory.refused++;
        return NULL;
    }
    return __libc_malloc(bytes);
}
#else
#define CAN_REFUSE 0
#endif

#endif
