/*
 * The system starts no thread, or no more than one: who asks for asynchronous progress, or starts
 * servers, hears PAMI_ERROR, nothing is enabled, and the same call works later.
 *
 * Run: tasks=1
 */
#include "servers.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int main(void)
{
    test_skip("the sanitizer has the function");
}
#else

enum {
    THREADS = 2
};

typedef int create_function(pthread_t *thread, const pthread_attr_t *attributes,
                            void *(*function)(void *), void *argument);

static struct job job;
static int left = -1; /* so many threads can be started; -1: any number */
static int started;

/* As the C library's, for whoever calls it. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*function)(void *), void *argument)
{
    static create_function *usual;
    void *symbol = usual == NULL ? dlsym(RTLD_NEXT, "pthread_create") : NULL;
    int error;

    if (symbol != NULL)
        memcpy(&usual, &symbol, sizeof usual);
    if (left == 0)
        return EAGAIN;
    error = usual(thread, attributes, function, argument);
    left -= left > 0 && error == 0;
    started += error == 0;
    return error;
}

static int is_enabled(size_t context)
{
    pamix_context_async_status_t status;

    CHECK_OK(PAMIX_Context_async_query(job.context[context], &status));
    return status.enabled;
}

static void refuse_progress(void)
{
    const pamix_context_async_t how = {.threads = THREADS};

    CHECK_REFUSED(PAMIX_Context_async_enable(job.context, THREADS, &how), PAMI_ERROR, "thread");
    for (size_t i = 0; i < THREADS; i++)
        CHECK(!is_enabled(i));
}

static void refuse_servers(void)
{
    pamix_servers_t servers = servers_make(&job, 1, THREADS, NULL);

    CHECK_RESULT(PAMIX_Servers_start(servers), PAMI_ERROR);
    CHECK(strstr(test_text(), "thread") != NULL);
    CHECK(!servers_status(servers).running);
    CHECK_OK(PAMIX_Servers_destroy(&servers));
}

int main(void)
{
    const pamix_context_async_t how = {.threads = THREADS};
    pamix_servers_t servers;

    for (int some = 0; some < THREADS; some++) {
        job_start(&job, "async_refused", 1 + THREADS);
        left = some;
        refuse_progress();
        left = some;
        refuse_servers();
        left = -1;
        started = 0;
        CHECK_OK(PAMIX_Context_async_enable(job.context, 1, &how));
        CHECK(started == THREADS);
        CHECK(is_enabled(0));
        CHECK_OK(PAMIX_Context_async_disable(job.context, 1));
        servers = servers_make(&job, 1, THREADS, NULL);
        CHECK_OK(PAMIX_Servers_start(servers));
        servers_end(&job, &servers);
        job_destroy(&job);
    }
    return 0;
}
#endif
