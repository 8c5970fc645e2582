/*
 * Threads of asynchronous progress: how many there are, where they run, and their end.
 */
#include "client/async_pool.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "util/error.h"
#include "util/keep.h"
#include "util/log.h"
#include "util/option.h"

/* Where the places say that thread number `index` runs; nowhere in particular: where the caller
 * may. */
static void find_place(const struct async_places *places, unsigned index, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    if (places->bound)
        CPU_SET((size_t)places->cpu[index % places->count], cpus);
    else
        sched_getaffinity(0, sizeof(*cpus), cpus);
}

/* From now on. With place_lock held, or before there is anything to advance: no thread is just
 * moving by the places of before. */
static void set_places(struct async_pool *pool, const struct async_places *places)
{
    bool spare = places->bound || async_spare(pool->client) != 0;

    pool->places = *places;
    atomic_store_explicit(&pool->avoids, places->avoids, memory_order_relaxed);
    atomic_store_explicit(&pool->bound, places->bound, memory_order_relaxed);
    atomic_store_explicit(&pool->spare, spare, memory_order_relaxed);
}

/* All threads move, or none: 0, or a positive errno when one may not run there. */
static int move_threads(struct async_pool *pool, const struct async_places *places)
{
    unsigned moved = 0;
    int error = 0;
    cpu_set_t cpus;

    pthread_mutex_lock(&pool->place_lock);
    while (moved < pool->thread_count && error == 0) {
        find_place(places, moved, &cpus);
        error = pthread_setaffinity_np(pool->threads[moved].thread, sizeof(cpus), &cpus);
        moved += error == 0;
    }
    for (unsigned i = 0; i < moved; i++) {
        struct async_thread *thread = &pool->threads[i];

        if (error == 0) {
            find_place(places, i, &thread->cpus);
            thread->granted = thread->cpus;
        } else {
            pthread_setaffinity_np(thread->thread, sizeof(cpus), &thread->granted);
        }
    }
    if (error == 0)
        set_places(pool, places);
    pthread_mutex_unlock(&pool->place_lock);
    return error;
}

/*
 * A real-time program that computes lets no thread of its own priority run. One of the next higher
 * runs when it is woken, and must not wait awake then. 0, or a positive errno: may not be done.
 */
static int create_realtime(struct async_thread *thread)
{
    struct sched_param param;
    pthread_attr_t attributes;
    int policy;
    int error = pthread_getschedparam(pthread_self(), &policy, &param);

    if (error != 0 || (policy != SCHED_FIFO && policy != SCHED_RR) ||
        param.sched_priority >= sched_get_priority_max(policy))
        return EINVAL;
    error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    param.sched_priority++;
    thread->realtime = true;
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, policy);
    pthread_attr_setschedparam(&attributes, &param);
    error = pthread_create(&thread->thread, &attributes, async_thread_main, thread);
    if (error != 0)
        thread->realtime = false;
    pthread_attr_destroy(&attributes);
    return error;
}

/* Signals are the program's, and its threads' to take. */
static int start_thread(struct async_pool *pool, struct async_thread *thread, unsigned index)
{
    sigset_t all, before;
    int error;

    thread->pool = pool;
    thread->index = index;
    sched_getaffinity(0, sizeof(thread->cpus), &thread->cpus);
    thread->granted = thread->cpus;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = create_realtime(thread);
    if (error != 0)
        error = pthread_create(&thread->thread, NULL, async_thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

static void stop_threads(struct async_pool *pool)
{
    for (unsigned i = 0; i < pool->thread_count; i++) {
        atomic_store_explicit(&pool->threads[i].stopping, true, memory_order_release);
        async_bell_ring(&pool->threads[i].bell);
    }
    for (unsigned i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i].thread, NULL);
    pool->thread_count = 0;
}

static unsigned count_threads(const struct client *client, const struct async_places *places,
                              unsigned wanted)
{
    unsigned threads = wanted;

    if (threads == 0)
        threads = (unsigned)option_int(OPT_ASYNC_THREADS);
    if (threads == 0)
        threads = places->bound ? places->count : async_spare(client);
    if (threads > client->context_count)
        threads = (unsigned)client->context_count;
    return threads != 0 ? threads : 1;
}

/* The first places. What may not be used is not worth going without threads. */
static void take_places(struct async_pool *pool, const struct async_places *places)
{
    static const struct async_places any;
    int error = places->bound ? move_threads(pool, places) : 0;

    if (error != 0)
        log_warn("asynchronous progress: a thread may not run where it was told to, so all run "
                 "where the system puts them: %s",
                 strerror(error));
    if (error != 0 || !places->bound)
        set_places(pool, error != 0 ? &any : places);
}

/* For threads of the program that are about to ring for one that has ended: they have left an
 * advance, and then its contexts are destroyed. */
static struct keep pools = KEEP_OF(struct async_pool);

/* How many threads there are is decided once. */
int async_pool_make(struct client *client, unsigned threads, const char *cpus)
{
    struct async_places places;
    struct async_pool *pool;
    int error = async_places_find(client, cpus, &places);

    if (error != 0)
        return error;
    pool = keep_get(&pools);
    if (pool == NULL)
        return -ENOMEM;
    pthread_mutex_init(&pool->place_lock, NULL);
    pool->client = client;
    pool->pid = getpid();
    threads = count_threads(client, &places, threads);
    for (size_t i = 0; i < client->context_count; i++) {
        pool->slots[i].context = client->contexts[i];
        pool->slots[i].wake_at = UINT64_MAX;
    }
    for (unsigned i = 0; i < threads && error == 0; i++) {
        error = start_thread(pool, &pool->threads[i], i);
        pool->thread_count += error == 0;
    }
    if (error == 0) {
        take_places(pool, &places);
        client->async = pool;
        return 0;
    }
    stop_threads(pool);
    keep_put(&pools, pool);
    return error;
}

bool async_has_thread(struct client *client, pid_t id)
{
    const struct async_pool *pool;
    bool found = false;

    if (pthread_mutex_trylock(&client->async_lock) != 0)
        return false;
    pool = client->async;
    for (unsigned i = 0; pool != NULL && !found && i < pool->thread_count; i++)
        found = atomic_load(&pool->threads[i].id) == id;
    pthread_mutex_unlock(&client->async_lock);
    return found;
}

void async_finish(struct client *client)
{
    struct async_pool *pool;

    pthread_mutex_lock(&client->async_lock); /* async_has_thread may look */
    pool = client->async;
    client->async = NULL;
    pthread_mutex_unlock(&client->async_lock);
    if (pool == NULL)
        return;
    /* A child of fork has the memory but not the threads. */
    if (pool->pid == getpid())
        stop_threads(pool);
    for (size_t i = 0; i < client->context_count; i++)
        if (pool->slots[i].thread != NULL)
            share_end(pool->slots[i].context);
    keep_put(&pools, pool);
}

pami_result_t PAMIX_Client_async_place(pami_client_t handle, const char *cpus)
{
    static const char function[] = "PAMIX_Client_async_place";
    struct client *client = client_from_handle(handle);
    struct async_places places;
    struct async_pool *pool;
    pami_result_t result = PAMI_SUCCESS;
    int error;

    if (client == NULL || cpus == NULL)
        return error_set(PAMI_INVAL, "%s: %s", function,
                         client == NULL ? "client: not a client" : "cpus: NULL");
    pthread_mutex_lock(&client->async_lock);
    pool = client->async;
    if (pool == NULL) {
        result = error_set(PAMI_EAGAIN, "%s: client: has no threads yet", function);
    } else if (async_places_find(client, cpus, &places) != 0) {
        result = error_set(PAMI_INVAL, "%s: cpus: " ASYNC_NO_LIST, function, cpus);
    } else {
        error = move_threads(pool, &places);
        if (error != 0)
            result = error_set(PAMI_INVAL, "%s: cpus: '%.64s': a thread may not run there: %s",
                               function, cpus, strerror(error));
    }
    pthread_mutex_unlock(&client->async_lock);
    return result;
}
