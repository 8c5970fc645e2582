/*
 * malloc that fails now and then, for blocks of one size; malloc, calloc, realloc that fail once.
 * Not under sanitizers, which have the memory.
 */
#ifndef LIBPAMI_NO_MEMORY_H
#define LIBPAMI_NO_MEMORY_H

#include "sim_test.h"

static struct {
    size_t bytes;    /* of the blocks that may be refused */
    uint64_t one_in; /* of them is; 0: none */
    struct dice luck;
    size_t refused; /* so many were */
    size_t left;    /* so many are not, then one is; refuse_only */
    bool armed;
} no_memory;

/* Of what is allocated from now on, only allocation number `which` fails; SIZE_MAX: none. */
static inline void refuse_only(size_t which)
{
    no_memory.left = which;
    no_memory.armed = which != SIZE_MAX;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_REFUSE 1
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);

static inline bool no_memory_now(void)
{
    if (!no_memory.armed || no_memory.left-- != 0)
        return false;
    no_memory.armed = false;
    no_memory.refused++;
    return true;
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    return no_memory_now() ? NULL : __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t bytes)
{
    return no_memory_now() ? NULL : __libc_realloc(memory, bytes);
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    if (no_memory_now())
        return NULL;
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
