/*
 * The dispatch table of a context: what the user registered for each dispatch id.
 *
 * Two levels, so that an idle context costs little however large the ids may be. Messages for an
 * id that is not registered yet wait in `held`, in order of arrival (src/p2p/hold.c).
 *
 * The table is its owner's. Any thread may ask whether an id is registered: D1 (release store of a
 * new page) pairs with D2 (acquire load), and a row says so by `set`.
 */
#ifndef LIBPAMI_CONTEXT_DISPATCH_H
#define LIBPAMI_CONTEXT_DISPATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pami/pami.h>

#include "util/cpu.h"
#include "util/list.h"

#define DISPATCH_ID_MAX 4095u
/* Ids above that are the library's own (src/p2p/message.h): users cannot name them. */
#define DISPATCH_INTERNAL 8u
#define DISPATCH_PAGE 64u

/* What the hard hints come down to on the paths of a message. */
enum dispatch_flags {
    DISPATCH_NEVER_IMMEDIATE = 1u << 0,  /* recv_immediate disabled: `recv` always given */
    DISPATCH_ALWAYS_IMMEDIATE = 1u << 1, /* recv_immediate enabled */
    DISPATCH_SHORT_HEADER = 1u << 2,     /* long_header disabled */
    DISPATCH_CONTIGUOUS = 1u << 3,       /* recv type and offset ignored */
    DISPATCH_COPY = 1u << 4,             /* recv data function ignored */
    DISPATCH_NO_QUEUE = 1u << 5,         /* queue_immediate disabled */
    DISPATCH_SHARED_ONLY = 1u << 6,      /* use_shmem enabled */
    DISPATCH_PACKETS_ONLY = 1u << 7,     /* use_shmem disabled */
    DISPATCH_NO_RDMA = 1u << 8,          /* use_rdma disabled: no single copy */
    DISPATCH_TRACED = 1u << 9,           /* no hint: the context records a trace */
};

struct dispatch {
    pami_dispatch_p2p_function function; /* NULL: not registered */
    void *cookie;
    uint32_t flags;
    pami_dispatch_hint_t hints;
    atomic_bool set;     /* function is not NULL; for other threads */
    struct list held;    /* zeroed until something is held; see dispatch_has_held */
    struct list release; /* link in the context's list of ids that have held messages to deliver */
};

struct dispatch_table {
    _Atomic(struct dispatch *) pages[(DISPATCH_ID_MAX + 1) / DISPATCH_PAGE];
    struct dispatch internal[DISPATCH_INTERNAL]; /* DISPATCH_ID_MAX + 1 and following */
};

/* The row of an id, or NULL when its page does not exist or the id is too large. */
static inline struct dispatch *dispatch_find(const struct dispatch_table *table, size_t id)
{
    struct dispatch *page;

    if (unlikely(id > DISPATCH_ID_MAX))
        return NULL;
    page = atomic_load_explicit(&table->pages[id / DISPATCH_PAGE], memory_order_relaxed);
    return likely(page != NULL) ? &page[id % DISPATCH_PAGE] : NULL;
}

/* Whether an id is registered. Any thread. */
static inline bool dispatch_is_set(const struct dispatch_table *table, size_t id)
{
    const struct dispatch *page;

    if (id > DISPATCH_ID_MAX)
        return false;
    page = atomic_load_explicit(&table->pages[id / DISPATCH_PAGE], memory_order_acquire); /* D2 */
    return page != NULL &&
           atomic_load_explicit(&page[id % DISPATCH_PAGE].set, memory_order_relaxed);
}

/* The row of a registered id, or NULL. */
static inline struct dispatch *dispatch_registered(const struct dispatch_table *table, size_t id)
{
    struct dispatch *row = dispatch_find(table, id);

    return likely(row != NULL && row->function != NULL) ? row : NULL;
}

/* The row of an id of the library's own that has a handler, or NULL. */
static inline struct dispatch *dispatch_internal(struct dispatch_table *table, size_t id)
{
    size_t index = id - (DISPATCH_ID_MAX + 1);

    return index < DISPATCH_INTERNAL && table->internal[index].function != NULL
               ? &table->internal[index]
               : NULL;
}

/* The row that an arriving message names; NULL: none yet, or no such id. */
static inline struct dispatch *dispatch_arrival(struct dispatch_table *table, size_t id)
{
    return likely(id <= DISPATCH_ID_MAX) ? dispatch_find(table, id) : dispatch_internal(table, id);
}

static inline bool dispatch_is_possible(struct dispatch_table *table, size_t id)
{
    return id <= DISPATCH_ID_MAX || dispatch_internal(table, id) != NULL;
}

static inline bool dispatch_has_held(const struct dispatch *row)
{
    return row->held.next != NULL && !list_empty(&row->held);
}

/* The row of an id <= DISPATCH_ID_MAX, made when it does not exist; NULL without memory. */
struct dispatch *dispatch_row(struct dispatch_table *table, size_t id);

void dispatch_table_finish(struct dispatch_table *table);

#endif
