/*
 * malloc that fails now and then, for blocks of one size; malloc, calloc, realloc, aligned_alloc
 * that fail once, or some times in a row (refusing.h).
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

static inline bool is_refused(size_t bytes)
{
    if (no_memory.armed) {
        if (no_memory.left == 0) {
            no_memory.armed = --no_memory.row != 0;
            no_memory.refused++;
            return true;
        }
        no_memory.left--;
    }
    if (bytes == 0 || bytes != no_memory.bytes || no_memory.one_in == 0 ||
        !dice_one_in(&no_memory.luck, no_memory.one_in))
        return false;
    no_memory.refused++;
    return true;
}

#include "refusing.h"

#endif
