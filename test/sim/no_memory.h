/*
 * malloc that fails now and then, for blocks of one size; malloc, calloc, realloc, aligned_alloc
 * that fail once, or some times in a row. Not under sanitizers, which have the memory.
 */
#ifndef LIBPAMI_NO_MEMORY_H
#define LIBPAMI_NO_MEMORY_H

#include "sim_test.h"

static struct {
    size_t bytes;    /* of the blocks that may be refused */
    uint64_t one_in; /* of them is; 0: none */
    struct dice luck;
    size_t refused; /* so many were */
    size_t left;    /* so many are not, ... */
    size_t row;     /* ... then so many are; refuse_row */
    bool armed;
} no_memory;

/* Of what is allocated from now on, allocation number `which` and those behind it fail, `count`. */
static inline void refuse_row(size_t which, size_t count)
{
    no_memory.left = which;
    no_memory.row = count;
    no_memory.armed = which != SIZE_MAX;
}

/* Only allocation number `which` fails; SIZE_MAX: none. */
static inline void refuse_only(size_t which)
{
    refuse_row(which, 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_REFUSE 1
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static inline bool no_memory_now(void)
{
    if (!no_memory.armed)
        return false;
    if (no_memory.left != 0) {
        no_memory.left--;
        return false;
    }
    no_memory.armed = --no_memory.row != 0;
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

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes)
{
    return no_memory_now() ? NULL : __libc_memalign(alignment, bytes);
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
