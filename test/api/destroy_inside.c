/*
 * Contexts and clients are destroyed while threads of the program advance them all the time, or
 * wait for something there: these leave, and find that there is no context any more. A call that is
 * being made ends, also where contexts are created again at once, and a callback comes to its end.
 *
 * Run: tasks=1,2 timeout=60
 * Run: tasks=2 nodes=2 timeout=60
 * Run: tasks=2 args=async timeout=60
 * Run: tasks=2 args=again timeout=60
 * Run: tasks=1 args=array timeout=60
 * Run: tasks=1 args=rings timeout=60
 * Run: tasks=1 args=callback timeout=60
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

/* By the array itself, which is cleared. */
static void *advance_array(void *by_lock)
{
    pami_result_t result;

    atomic_fetch_add(&inside, 1);
    do
        result = by_lock != NULL ? PAMI_Context_trylock_advancev(contexts, CONTEXTS, 100)
                                 : PAMI_Context_advancev(contexts, CONTEXTS, 100);
    while (result == PAMI_SUCCESS || result == PAMI_EAGAIN);
    CHECK_RESULT(result, PAMI_INVAL);
    return NULL;
}

static void clear_array(void)
{
    pami_client_t client;
    pthread_t thread;

    CHECK_OK(PAMI_Client_create("destroy_inside", &client, NULL, 0));
    for (unsigned round = 0; round < 200; round++) {
        CHECK_OK(PAMI_Context_createv(client, NULL, 0, contexts, CONTEXTS));
        atomic_store(&inside, 0);
        CHECK(pthread_create(&thread, NULL, advance_array, round % 2 != 0 ? &inside : NULL) == 0);
        while (atomic_load(&inside) == 0)
            usleep(10);
        usleep(round * 7);
        CHECK_OK(PAMI_Context_destroyv(contexts, CONTEXTS));
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK_OK(PAMI_Client_destroy(&client));
}

static atomic_bool begun, over;

static pami_result_t for_ever(pami_context_t context, void *cookie)
{
    (void)context, (void)cookie;
    atomic_store(&begun, true);
    return PAMI_EAGAIN;
}

/* Now and then, so that helpers have fallen asleep, and are rung for what is left. */
static void *advance_seldom(void *handles)
{
    pami_context_t *context = handles;

    while (PAMI_Context_advance(context[0], 1) != PAMI_INVAL)
        for (size_t i = 1; i < CONTEXTS; i++) {
            (void)PAMI_Context_advance(context[i], 1);
            usleep(20);
        }
    return NULL;
}

/* Helpers have ended by the time that some of them are rung. (Only sanitizers see who rings memory
 * that is somebody else's by then, and seldom.) */
static void destroy_beside_rings(void)
{
    pamix_context_async_t how = {.threads = CONTEXTS};
    pami_context_t known[CONTEXTS];
    pami_work_t work[CONTEXTS];
    pami_client_t client;
    pthread_t thread;

    CHECK_OK(PAMI_Client_create("destroy_inside", &client, NULL, 0));
    for (unsigned round = 0; round < 200; round++) {
        CHECK_OK(PAMI_Context_createv(client, NULL, 0, contexts, CONTEXTS));
        memcpy(known, contexts, sizeof known);
        CHECK_OK(PAMIX_Context_async_enable(contexts, CONTEXTS, &how));
        for (size_t i = 0; i < CONTEXTS; i++)
            CHECK_OK(PAMI_Context_post(contexts[i], &work[i], for_ever, NULL));
        CHECK(pthread_create(&thread, NULL, advance_seldom, known) == 0);
        usleep(1000 + round * 7);
        CHECK_OK(PAMI_Context_destroyv(contexts, CONTEXTS));
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK_OK(PAMI_Client_destroy(&client));
}

static pami_context_t shown;
static atomic_size_t calls, returns;

/* One call for each round, which has no end of its own. */
static void *advance_each(void *rounds)
{
    for (size_t round = 1; round <= *(size_t *)rounds; round++) {
        while (atomic_load(&calls) < round)
            usleep(10);
        CHECK_RESULT(PAMI_Context_advance(shown, SIZE_MAX), PAMI_EAGAIN);
        atomic_store(&returns, round);
    }
    return NULL;
}

static void create_again(void)
{
    size_t rounds = 10;
    pami_client_t client;
    pami_context_t context;
    pami_work_t work;
    pthread_t thread;

    CHECK_OK(PAMI_Client_create("destroy_inside", &client, NULL, 0));
    CHECK_OK(PAMI_Context_createv(client, NULL, 0, &context, 1));
    CHECK(pthread_create(&thread, NULL, advance_each, &rounds) == 0);
    for (size_t round = 1; round <= rounds; round++) {
        shown = context;
        atomic_store(&begun, false);
        CHECK_OK(PAMI_Context_post(context, &work, for_ever, NULL));
        atomic_store(&calls, round);
        while (!atomic_load(&begun))
            usleep(100);
        CHECK_OK(PAMI_Context_destroyv(&context, 1));
        CHECK_OK(PAMI_Context_createv(client, NULL, 0, &context, 1));
        while (atomic_load(&returns) < round)
            usleep(100);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_OK(PAMI_Client_destroy(&client));
}

static pami_result_t take_time(pami_context_t context, void *cookie)
{
    atomic_store(&begun, true);
    if (cookie != NULL)
        PAMIX_Context_wait(context, 60000000);
    else
        usleep(700000);
    atomic_store(&over, true);
    return PAMI_SUCCESS;
}

static void destroy_beside_callback(void *waits)
{
    pami_client_t client;
    pthread_t thread;
    pami_work_t work;

    CHECK_OK(PAMI_Client_create("destroy_inside", &client, NULL, 0));
    CHECK_OK(PAMI_Context_createv(client, NULL, 0, contexts, CONTEXTS));
    CHECK_OK(PAMI_Context_post(contexts[0], &work, take_time, waits));
    atomic_store(&begun, false);
    atomic_store(&over, false);
    CHECK(pthread_create(&thread, NULL, advance_one, &contexts[0]) == 0);
    while (!atomic_load(&begun))
        usleep(100);
    CHECK_OK(PAMI_Client_destroy(&client));
    CHECK(atomic_load(&over));
    CHECK(pthread_join(thread, NULL) == 0);
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
    if (argc > 1 && strcmp(argv[1], "again") == 0) {
        create_again();
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "array") == 0) {
        clear_array();
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "rings") == 0) {
        destroy_beside_rings();
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "callback") == 0) {
        destroy_beside_callback(NULL);
        destroy_beside_callback(&over);
        return 0;
    }
    for (unsigned round = 0; round < ROUNDS; round++)
        round_of(round, async);
    return 0;
}
