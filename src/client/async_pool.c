/*
 * Threads of asynchronous progress: how many there are, where they run, and their end.
 */
#include "client/async_pool.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/error.h"
#include "util/log.h"
#include "util/option.h"

/* Where the places say; nowhere in particular: where the caller may run. */
static void place_thread(struct async_thread *thread)
{
    const struct async_places *places = &thread->pool->places;
    cpu_set_t cpus;
    int error;

    CPU_ZERO(&cpus);
    if (places->bound)
        CPU_SET((size_t)places->cpu[thread->index % places->count], &cpus);
    else
        sched_getaffinity(0, sizeof(cpus), &cpus);
    pthread_mutex_lock(&thread->pool->place_lock);
    error = pthread_setaffinity_np(thread->thread, sizeof(cpus), &cpus);
    thread->cpus = thread->granted = cpus;
    pthread_mutex_unlock(&thread->pool->place_lock);
    if (error != 0)
        log_warn("asynchronous progress: thread %u cannot run on processor %d: %s", thread->index,
                 places->bound ? places->cpu[thread->index % places->count] : -1, strerror(error));
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
    if (error != 0)
        return -error;
    if (pool->places.bound)
        place_thread(thread);
    return 0;
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

static unsigned count_threads(const struct client *client, const struct async_pool *pool,
                              unsigned wanted)
{
    unsigned threads = wanted;

    if (threads == 0)
        threads = (unsigned)option_int(OPT_ASYNC_THREADS);
    if (threads == 0)
        threads = pool->places.bound ? pool->places.count : async_spare(client);
    if (threads > client->context_count)
        threads = (unsigned)client->context_count;
    return threads != 0 ? threads : 1;
}

/* 0 or -EINVAL. */
static int find_places(struct client *client, const char *cpus, struct async_pool *pool)
{
    struct async_places places;
    int error = async_places_find(client, cpus, &places);

    if (error != 0)
        return error;
    pool->places = places;
    pthread_mutex_lock(&pool->place_lock); /* no thread is just moving by the places of before */
    atomic_store_explicit(&pool->avoids, places.avoids, memory_order_relaxed);
    pthread_mutex_unlock(&pool->place_lock);
    atomic_store_explicit(&pool->bound, places.bound, memory_order_relaxed);
    atomic_store_explicit(&pool->spare, places.bound || async_spare(client) != 0,
                          memory_order_relaxed);
    return 0;
}

/* How many threads there are is decided once. */
int async_pool_make(struct client *client, unsigned threads, const char *cpus)
{
    struct async_pool *pool = calloc(1, sizeof(*pool));
    int error = pool != NULL ? 0 : -ENOMEM;

    if (error == 0) {
        pthread_mutex_init(&pool->place_lock, NULL);
        error = find_places(client, cpus, pool);
    }
    if (error != 0) {
        free(pool);
        return error;
    }
    pool->client = client;
    pool->pid = getpid();
    threads = count_threads(client, pool, threads);
    pool->threads = calloc(threads, sizeof(*pool->threads));
    error = pool->threads != NULL ? 0 : -ENOMEM;
    for (size_t i = 0; i < client->context_count; i++) {
        pool->slots[i].context = client->contexts[i];
        pool->slots[i].wake_at = UINT64_MAX;
    }
    for (unsigned i = 0; i < threads && error == 0; i++) {
        error = start_thread(pool, &pool->threads[i], i);
        pool->thread_count += error == 0;
    }
    if (error == 0) {
        client->async = pool;
        return 0;
    }
    stop_threads(pool);
    free(pool->threads);
    free(pool);
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
    free(pool->threads);
    free(pool);
}

pami_result_t PAMIX_Client_async_place(pami_client_t handle, const char *cpus)
{
    static const char function[] = "PAMIX_Client_async_place";
    struct client *client = client_from_handle(handle);
    struct async_pool *pool;
    pami_result_t result = PAMI_SUCCESS;

    if (client == NULL || cpus == NULL)
        return error_set(PAMI_INVAL, "%s: %s", function,
                         client == NULL ? "client: not a client" : "cpus: NULL");
    pthread_mutex_lock(&client->async_lock);
    pool = client->async;
    if (pool == NULL) {
        result = error_set(PAMI_EAGAIN, "%s: client: has no threads yet", function);
    } else if (find_places(client, cpus, pool) != 0) {
        result =
            error_set(PAMI_INVAL, "%s: cpus: '%s' is not a list of processors", function, cpus);
    } else {
        for (unsigned i = 0; i < pool->thread_count; i++)
            place_thread(&pool->threads[i]);
    }
    pthread_mutex_unlock(&client->async_lock);
    return result;
}
