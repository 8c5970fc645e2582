/*
 * Pool of objects of one size, for one owner at a time (no locking).
 *
 * Memory comes in slabs that grow with the pool (doubling up to about 256 KiB) and goes back to
 * the system only in pool_finish.  Objects are not cleared.  Under AddressSanitizer an object
 * that is not handed out is poisoned.
 */
#ifndef LIBPAMI_UTIL_POOL_H
#define LIBPAMI_UTIL_POOL_H

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_ASAN
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define POOL_ASAN
#endif

#ifdef POOL_ASAN
#include <sanitizer/asan_interface.h>
#define POOL_POISON(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define POOL_UNPOISON(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#define POOL_POISON(address, bytes) ((void)(address), (void)(bytes))
#define POOL_UNPOISON(address, bytes) ((void)(address), (void)(bytes))
#endif

struct pool_item {
    struct pool_item *next;
};

struct pool {
    struct pool_item *free;  /* objects ready to hand out */
    struct pool_slab *slabs; /* all memory, for pool_finish */
    size_t stride;           /* bytes from one object to the next, a multiple of align */
    size_t align;            /* power of two */
    size_t grow;             /* objects in the next slab */
};

/* `align` is a power of two, 0 means that of a pointer.  Allocates nothing yet. */
void pool_init(struct pool *pool, size_t object_size, size_t align);

/* Frees all memory, also of objects not put back.  The pool may be initialised again. */
void pool_finish(struct pool *pool);

/* Adds a slab; 0 or -ENOMEM. */
int pool_grow(struct pool *pool);

/* An object with undefined content; NULL when memory is exhausted. */
static inline void *pool_get(struct pool *pool)
{
    struct pool_item *item = pool->free;

    if (__builtin_expect(item == NULL, 0)) {
        if (pool_grow(pool) != 0)
            return NULL;
        item = pool->free;
    }
    POOL_UNPOISON(item, pool->stride);
    pool->free = item->next;
    return item;
}

/* Takes back an object that pool_get of the same pool gave. */
static inline void pool_put(struct pool *pool, void *object)
{
    struct pool_item *item = object;

    item->next = pool->free;
    pool->free = item;
    POOL_POISON(object, pool->stride);
}

#endif
