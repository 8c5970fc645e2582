/*
 * The handle table; see handle.h.
 *
 * Slots live in chunks of doubling size that are never moved or freed, so a lookup needs no lock:
 * it reads the chunk pointer, compares the slot's current handle and reads its type. Opening and
 * closing take a mutex. A handle is never used twice: the generation of its slot has 36 bits.
 */
#include "type/handle.h"

#include <pthread.h>
#include <stdlib.h>

#define FIRST_CHUNK 64u /* slots in chunks 0 and 1; every further chunk doubles the total */
#define CHUNKS 19u      /* 2^24 slots, as many as the handle has bits for */
#define SLOT_BITS 24u

struct slot {
    _Atomic uintptr_t handle; /* 0: free */
    struct type *_Atomic type;
    uintptr_t generation; /* of the latest handle; under the mutex */
    uint32_t next_free;   /* under the mutex */
};

static struct slot first_chunk[FIRST_CHUNK];
static struct slot *_Atomic chunks[CHUNKS] = {first_chunk};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint32_t slots_used = TYPE_KIND_COUNT; /* high-water mark; the first ones are predefined */
static uint32_t free_list;                    /* slot number; 0 (predefined) ends the list */

static unsigned chunk_of(uint32_t number)
{
    return number < FIRST_CHUNK ? 0 : 26u - (unsigned)__builtin_clz(number);
}

/* The slot, or NULL if its chunk does not exist. */
static struct slot *slot_of(uint32_t number)
{
    unsigned chunk = chunk_of(number);
    uint32_t first = chunk == 0 ? 0 : FIRST_CHUNK << (chunk - 1);
    /* A1: pairs with R1 in new_slot */
    struct slot *slots = atomic_load_explicit(&chunks[chunk], memory_order_acquire);

    return slots != NULL ? slots + (number - first) : NULL;
}

/* The slot of a live handle, NULL: it is none, or a predefined type's. */
static struct slot *slot_from_handle(uintptr_t value)
{
    uint32_t number = (uint32_t)(value >> 4) & ((1u << SLOT_BITS) - 1);
    struct slot *slot = number < TYPE_KIND_COUNT ? NULL : slot_of(number);

    /* A2: pairs with R2 in handle_open; the type is the one stored before this handle */
    if (slot == NULL || value == 0 ||
        atomic_load_explicit(&slot->handle, memory_order_acquire) != value)
        return NULL;
    return slot;
}

struct type *type_from_handle(pami_type_t handle)
{
    uintptr_t value = (uintptr_t)handle;
    uint32_t number = (uint32_t)(value >> 4) & ((1u << SLOT_BITS) - 1);
    struct slot *slot;

    if (number < TYPE_KIND_COUNT)
        return value == HANDLE_VALUE(number, 1) ? &type_predefined[number] : NULL;
    slot = slot_from_handle(value);
    return slot != NULL ? atomic_load_explicit(&slot->type, memory_order_relaxed) : NULL;
}

/* Under the mutex. NULL: no memory, or the handle has no bits for more slots. */
static struct slot *new_slot(uint32_t *number)
{
    unsigned chunk;

    if (free_list != 0) {
        *number = free_list;
        free_list = slot_of(free_list)->next_free;
        return slot_of(*number);
    }
    if (slots_used == 1u << SLOT_BITS)
        return NULL;
    chunk = chunk_of(slots_used);
    if (atomic_load_explicit(&chunks[chunk], memory_order_relaxed) == NULL) {
        struct slot *slots = calloc((size_t)FIRST_CHUNK << (chunk - 1), sizeof *slots);

        if (slots == NULL)
            return NULL;
        atomic_store_explicit(&chunks[chunk], slots, memory_order_release); /* R1 */
    }
    *number = slots_used++;
    return slot_of(*number);
}

pami_type_t handle_open(struct type *type)
{
    uintptr_t value = 0;
    uint32_t number;
    struct slot *slot;

    pthread_mutex_lock(&mutex);
    slot = new_slot(&number);
    if (slot != NULL) {
        slot->generation++;
        value = HANDLE_VALUE(number, slot->generation);
        atomic_store_explicit(&slot->type, type, memory_order_relaxed);
        atomic_store_explicit(&slot->handle, value, memory_order_release); /* R2 */
    }
    pthread_mutex_unlock(&mutex);
    return (pami_type_t)value;
}

struct type *handle_close(pami_type_t handle)
{
    struct type *type = NULL;
    struct slot *slot;

    pthread_mutex_lock(&mutex);
    slot = slot_from_handle((uintptr_t)handle);
    if (slot != NULL) {
        type = atomic_load_explicit(&slot->type, memory_order_relaxed);
        atomic_store_explicit(&slot->handle, 0, memory_order_relaxed);
        atomic_store_explicit(&slot->type, NULL, memory_order_relaxed);
        slot->next_free = free_list;
        free_list = (uint32_t)((uintptr_t)handle >> 4) & ((1u << SLOT_BITS) - 1);
    }
    pthread_mutex_unlock(&mutex);
    return type;
}
