/*
 * Fences of PMIx with a time limit, which PMIx_Fence does not keep by itself.
 *
 * A fence that ran out of time may still complete: its memory belongs to both who waits for it and
 * who completes it, and the last of them frees it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "bootstrap/pmix_abi.h"

struct fence {
    pthread_mutex_t lock;
    pthread_cond_t done_cond;
    bool done;
    int status;
    atomic_uint holders;
    struct pmix_abi_info collect; /* must last as long as the fence */
};

static void fence_put(struct fence *fence)
{
    if (atomic_fetch_sub(&fence->holders, 1) != 1)
        return;
    pthread_mutex_destroy(&fence->lock);
    pthread_cond_destroy(&fence->done_cond);
    free(fence);
}

static struct fence *fence_new(void)
{
    struct fence *fence = calloc(1, sizeof *fence);
    pthread_condattr_t monotonic;

    if (fence == NULL)
        return NULL;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&fence->lock, NULL);
    pthread_cond_init(&fence->done_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    atomic_init(&fence->holders, 2);
    fence->collect = pmix_flag("pmix.collect");
    return fence;
}

static void fence_done(int status, void *cookie)
{
    struct fence *fence = cookie;

    pthread_mutex_lock(&fence->lock);
    fence->done = true;
    fence->status = status;
    pthread_cond_signal(&fence->done_cond);
    pthread_mutex_unlock(&fence->lock);
    fence_put(fence);
}

/* The fence's status, or that of running out of time. */
static int fence_wait(struct fence *fence, double seconds)
{
    struct timespec limit;
    int error = 0, status;

    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += (time_t)seconds;
    limit.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (limit.tv_nsec >= 1000000000) {
        limit.tv_nsec -= 1000000000;
        limit.tv_sec++;
    }
    pthread_mutex_lock(&fence->lock);
    while (!fence->done && error == 0)
        error = pthread_cond_timedwait(&fence->done_cond, &fence->lock, &limit);
    status = fence->done ? fence->status : PMIX_ABI_ERR_TIMEOUT;
    pthread_mutex_unlock(&fence->lock);
    return status;
}

int pmix_library_fence(const struct pmix_library *library, double seconds)
{
    struct fence *fence = fence_new();
    int status;

    if (fence == NULL)
        return PMIX_ABI_ERR_NOMEM;
    status = library->fence(NULL, 0, &fence->collect, 1, fence_done, fence);
    if (status == PMIX_ABI_SUCCESS) {
        status = fence_wait(fence, seconds);
    } else {
        fence_put(fence); /* there will be no callback */
        if (status == PMIX_ABI_OPERATION_SUCCEEDED)
            status = PMIX_ABI_SUCCESS;
    }
    fence_put(fence);
    return status;
}
