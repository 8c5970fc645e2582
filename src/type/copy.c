/*
 * Copies of equal blocks at equal distances.
 *
 * Short blocks are moved by fixed-size loads and stores that the compiler inlines: a call of
 * memcpy would cost more than the copy. Lengths between two powers of two are moved as pieces
 * that overlap, all of them loaded before any is stored. Blocks of more than 64 bytes are left to
 * memmove, which on all C libraries of interest is memcpy that also takes equal addresses.
 */
#include "type/copy.h"

#include <string.h>

typedef uint64_t vector16 __attribute__((vector_size(16)));

/* Where registers of this size exist, both become one instruction. */
#define LOAD(variable, from) memcpy(&(variable), (const void *)(from), sizeof(variable))
#define STORE(to, variable) memcpy((void *)(to), &(variable), sizeof(variable))

/* Loops over all blocks, moving each as one chunk, or as one at either end. */
#define LOOP_OF_ONE(chunk)                                                                         \
    for (; count > 0; count--, target += target_stride, source += source_stride) {                 \
        chunk all;                                                                                 \
        LOAD(all, source);                                                                         \
        STORE(target, all);                                                                        \
    }

#define LOOP_OF_TWO(chunk)                                                                         \
    for (; count > 0; count--, target += target_stride, source += source_stride) {                 \
        chunk head;                                                                                \
        chunk tail;                                                                                \
        LOAD(head, source);                                                                        \
        LOAD(tail, source + bytes - sizeof tail);                                                  \
        STORE(target, head);                                                                       \
        STORE(target + bytes - sizeof tail, tail);                                                 \
    }

/* 33 to 64 bytes. Two larger chunks would be kept on the stack where there is no AVX. */
static void copy_long(uintptr_t target, size_t target_stride, uintptr_t source,
                      size_t source_stride, size_t bytes, size_t count)
{
    for (; count > 0; count--, target += target_stride, source += source_stride) {
        vector16 a, b, c, d;

        LOAD(a, source);
        LOAD(b, source + 16);
        LOAD(c, source + bytes - 32);
        LOAD(d, source + bytes - 16);
        STORE(target, a);
        STORE(target + 16, b);
        STORE(target + bytes - 32, c);
        STORE(target + bytes - 16, d);
    }
}

/* 1 to 64 bytes. */
static void copy_short(uintptr_t target, size_t target_stride, uintptr_t source,
                       size_t source_stride, size_t bytes, size_t count)
{
    if (bytes == 8)
        LOOP_OF_ONE(uint64_t)
    else if (bytes == 4)
        LOOP_OF_ONE(uint32_t)
    else if (bytes == 16)
        LOOP_OF_ONE(vector16)
    else if (bytes > 32)
        copy_long(target, target_stride, source, source_stride, bytes, count);
    else if (bytes > 16)
        LOOP_OF_TWO(vector16)
    else if (bytes > 8)
        LOOP_OF_TWO(uint64_t)
    else if (bytes > 4)
        LOOP_OF_TWO(uint32_t)
    else if (bytes > 1)
        LOOP_OF_TWO(uint16_t)
    else
        LOOP_OF_ONE(uint8_t)
}

void copy_blocks(uintptr_t target, size_t target_stride, uintptr_t source, size_t source_stride,
                 size_t bytes, size_t count)
{
    if (bytes <= 64) {
        copy_short(target, target_stride, source, source_stride, bytes, count);
        return;
    }
    for (; count > 0; count--, target += target_stride, source += source_stride)
        memmove((void *)target, (const void *)source, bytes);
}
