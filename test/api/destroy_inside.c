/*
 * Contexts and clients are destroyed while threads of the program advance them all the time, or
 * wait for something there: these leave, and find that there is no context any more.
 *
 * Run: tasks=1,2 timeout=60
 * Run: tasks=2 nodes=2 timeout=60
 * Run: tasks=2 args=async timeout=60
 */
#include "api_test.h"

#include <pami/pamix.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    CONTEXTS = 3,
    ROUNDS = 24
};

static pami_context_t contexts[CONTEXTS];
static atomic_size_t inside; /* threads that advance */

static void *advance_one(void *which)
{
    pami_context_t context = *(pami_context_t *)which;
    pami_result_t result;

    atomic_fetch_add(&inside, 1);
    do
        result = PAMI_Context_advance(context, 100);
    while (result == PAMI_SUCCESS || result == PAMI_EAGAIN);
    CHECK_RESULT(result, PAMI_INVAL);
    return NULL;
}

static void *advance_all(void *unused)
{
    pami_context_t own[CONTEXTS];
    pami_result_t result;

    memcpy(own, contexts, sizeof own);
    atomic_fetch_add(&inside, 1);
    do
        result = PAMI_Context_trylock_advancev(own, CONTEXTS, 1);
    while (result == PAMI_SUCCESS || result == PAMI_EAGAIN);
    CHECK_RESULT(result, PAMI_INVAL);
    return unused;
}

static void *wait_for_one(void *which)
{
    pami_context_t context = *(pami_context_t *)which;
    pami_result_t result;

    atomic_fetch_add(&inside, 1);
    do
        result = PAMIX_Context_wait(context, 1000000);
    while (result == PAMI_SUCCESS || result == PAMI_EAGAIN);
    CHECK_RESULT(result, PAMI_INVAL);
    return NULL;
}

static pami_result_t for_ever(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    return PAMI_EAGAIN;
}

static void round_of(unsigned round, bool async)
{
    static void *(*const use[])(void *) = {advance_one, advance_all, wait_for_one};
    size_t threads = round % 3 == 1 ? 1 : CONTEXTS;
    pthread_t thread[CONTEXTS];
    pami_work_t work;
    pami_client_t client;

    CHECK_OK(PAMI_Client_create("destroy_inside", &client, NULL, 0));
    CHECK_OK(PAMI_Context_createv(client, NULL, 0, contexts, CONTEXTS));
    if (round % 3 != 2)
        CHECK_OK(PAMI_Context_post(contexts[0], &work, for_ever, NULL));
    if (async)
        CHECK_OK(PAMIX_Context_async_enable(contexts, CONTEXTS, NULL));
    atomic_store(&inside, 0);
    for (size_t i = 0; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, use[round % 3], &contexts[i]) == 0);
    while (atomic_load(&inside) < threads)
        usleep(100);
    usleep((useconds_t)(round * 97));
    if (round % 4 >= 2)
        CHECK_OK(PAMI_Context_destroyv(contexts, CONTEXTS));
    CHECK_OK(PAMI_Client_destroy(&client));
    for (size_t i = 0; i < threads; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    bool async = argc > 1 && strcmp(argv[1], "async") == 0;

#ifdef __SANITIZE_THREAD__
    test_skip("by the letter these are races");
#endif
    for (unsigned round = 0; round < ROUNDS; round++)
        round_of(round, async);
    return 0;
}
