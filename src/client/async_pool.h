/*
 * The pool of asynchronous progress as its threads (async.c) and who makes, places and ends them
 * (async_pool.c) see it.
 */
#ifndef LIBPAMI_CLIENT_ASYNC_POOL_H
#define LIBPAMI_CLIENT_ASYNC_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/async.h"
#include "client/async_sleep.h"
#include "client/client.h"
#include "context/share.h"

struct async_thread;

struct async_slot {
    struct context *context;
    struct async_thread *thread; /* NULL: never enabled */
    atomic_uint serving;         /* A0, A1: one bit per event */
    atomic_bool running;         /* A1 */
    atomic_bool fresh;           /* was enabled: due whatever wake_at says */
    async_function *progress;
    void *cookie;
    uint64_t wake_at; /* ns; the thread's own, as is all that follows */
    uint32_t nap_us;
    uint32_t locked_us; /* naps in a row because of the lock */
    uint32_t patience;  /* turns that may still be SHARE_EAGER for what is to be tried again */
    uint64_t event_at, awake_until; /* ns: when something happened last; SHARE_EAGER till then */
    enum share_turn turn;           /* what the last one came to */
    bool armed;
    bool light;    /* ... lightly: to sleep long it has to be armed once more */
    bool starving; /* whoever gives up the lock rings */
};

struct async_thread {
    struct async_pool *pool;
    unsigned index;
    pthread_t thread;
    atomic_int id; /* for the system */
    struct async_bell bell;
    atomic_bool stopping;
    struct async_thread *waits_for; /* waits_lock of async.c */
    cpu_set_t cpus;                 /* where it may run; pool->place_lock, as the next one */
    cpu_set_t granted;              /* where it has said that it wants to run */
    uint64_t placed_at;             /* ns: when it last moved; its own, as is all that follows */
    bool clear;                     /* of the processors that its program uses */
    bool realtime;                  /* it runs before its program, whenever it does not sleep */
    uint64_t crowded_until, crowded_for; /* ns; another thread works where it runs */
};

struct async_pool {
    struct client *client;
    pid_t pid;
    atomic_bool spare;  /* there are cores that nobody else needs */
    atomic_bool bound;  /* of places, which only who holds the client's lock looks at */
    atomic_bool avoids; /* likewise: threads keep clear of the program */
    pthread_mutex_t place_lock;
    unsigned thread_count;
    struct async_thread threads[ENDPOINT_OFFSETS_MAX];
    struct async_places places;
    struct async_slot slots[ENDPOINT_OFFSETS_MAX];
};

/* The end of an error text, of what async_pool_make says -EINVAL to. */
#define ASYNC_NO_LIST "'%.64s' is neither any, auto nor a list of processors such as 2,4-6"

/* With client->async_lock held. 0 or negative errno. */
int async_pool_make(struct client *client, unsigned threads, const char *cpus);

/* async_place.c: the thread, which is about to advance the context, moves away from its program if
 * need be. */
void async_place_apart(struct async_thread *thread, struct context *context, uint64_t now);

/* async.c */
void *async_thread_main(void *thread);

#endif
