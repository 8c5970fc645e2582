/*
 * Asynchronous progress under load, switched on and off all the time: a context stays
 * single-threaded whichever way its program uses it, nothing is lost, nobody is inside after a
 * disable, and contexts may be destroyed while they are enabled.
 *
 * Three contexts of each task are enabled and disabled at random by one thread while messages come
 * from everywhere: one is only posted to, one is locked around everything that is done with it, one
 * is advanced without a lock, beside the library's thread.
 *
 * Run: tasks=1,2,5 timeout=120
 * Run: tasks=2 env="PAMI_ASYNC_THREADS=3" timeout=120
 * Run: tasks=2 env="PAMI_ASYNC_THREADS=1 PAMI_ASYNC_CPUS=0" timeout=120
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2" timeout=120
 * Run: tasks=4 nodes=2 timeout=120
 */
#include "async.h"

enum {
    MAIN, /* driven by main, never enabled */
    POSTED,
    LOCKED,
    OWNED,
    CONTEXTS,
    DATA = 1,
    REPLY = 2,
    MESSAGES = 10000,
    ROUNDS = 2
};

/* What the callbacks of a context touch; plain members on purpose: two threads are an error. */
struct lane {
    size_t inside, work;
    size_t arrived, replies; /* published */
    size_t by_helper;
};

static struct job job;
static struct lane lanes[CONTEXTS];
static bool finished, sent;
static _Thread_local bool is_ours;

static void add(size_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELEASE);
}

static size_t offset_of(pami_context_t context)
{
    for (size_t i = 0; i < CONTEXTS; i++)
        if (job.context[i] == context)
            return i;
    FAIL("a callback with a context that is not ours");
}

static struct lane *enter(pami_context_t context)
{
    struct lane *lane = &lanes[offset_of(context)];

    CHECK_SIZE(++lane->inside, 1);
    lane->work++;
    if (!is_ours)
        add(&lane->by_helper);
    return lane;
}

static void leave(struct lane *lane)
{
    CHECK_SIZE(lane->inside--, 1);
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct lane *lane = enter(context);

    (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes, (void)recv;
    if (lane == &lanes[OWNED])
        test_send_immediate(context, job_endpoint(&job, test_origin(origin), OWNED), REPLY, NULL, 0,
                            NULL, 0);
    leave(lane);
    add(&lane->arrived);
}

static void on_reply(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                     const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    struct lane *lane = enter(context);

    (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
    leave(lane);
    add(&lane->replies);
}

static void send_to_neighbour(size_t from, size_t to)
{
    test_send_immediate(job.context[from], job_endpoint(&job, (job.task + 1) % job.tasks, to), DATA,
                        NULL, 0, NULL, 0);
}

/* ---- the threads of the program ---- */

static pami_result_t post_function(pami_context_t context, void *cookie)
{
    struct lane *lane = enter(context);

    (void)cookie;
    send_to_neighbour(POSTED, POSTED);
    leave(lane);
    return PAMI_SUCCESS;
}

static void *poster(void *argument)
{
    pami_work_t *work = argument;

    is_ours = true;
    for (size_t i = 0; i < MESSAGES; i++) {
        CHECK_OK(PAMI_Context_post(job.context[POSTED], &work[i], post_function, NULL));
        if (i % 64 == 0)
            test_sleep(100e-6);
    }
    return NULL;
}

static void *locker(void *argument)
{
    pami_context_t *context = &job.context[LOCKED];
    (void)argument;

    is_ours = true;
    for (size_t i = 0; i < MESSAGES; i++) {
        if (i % 3 == 0) {
            WAIT_WITH((void)0, PAMI_Context_trylock(*context) == PAMI_SUCCESS);
        } else {
            CHECK_OK(PAMI_Context_lock(*context));
        }
        lanes[LOCKED].work++;
        send_to_neighbour(LOCKED, LOCKED);
        if (i % 5 == 0)
            test_advance(*context, 1);
        CHECK_OK(PAMI_Context_unlock(*context));
        if (i % 7 == 0)
            test_trylock_advance(context, 1, 2);
        if (i % 100 == 0)
            test_sleep(200e-6);
    }
    return NULL;
}

/* Advances and waits without the lock: everything it sends, it sends from callbacks. */
static void *owner(void *argument)
{
    uint64_t random = job.task;
    (void)argument;

    is_ours = true;
    while (!__atomic_load_n(&finished, __ATOMIC_ACQUIRE)) {
        test_advance(job.context[OWNED], 1 + test_random(&random) % 8);
        if (test_random(&random) % 16 == 0)
            test_sleep(300e-6);
        if (test_random(&random) % 16 == 0)
            CHECK(PAMIX_Context_wait(job.context[OWNED], 100) != PAMI_INVAL);
    }
    return NULL;
}

/* Nobody of the library's is inside after a disable. */
static void *switcher(void *argument)
{
    uint64_t random = 77 + job.task;
    (void)argument;

    is_ours = true;
    while (!__atomic_load_n(&sent, __ATOMIC_ACQUIRE)) {
        size_t offset = 1 + test_random(&random) % (CONTEXTS - 1);
        size_t before;

        CHECK_OK(PAMIX_Context_async_disable(&job.context[offset], 1));
        before = load(&lanes[offset].by_helper);
        if (test_random(&random) % 4 == 0)
            test_sleep(200e-6);
        CHECK_SIZE(load(&lanes[offset].by_helper), before);
        CHECK_OK(PAMIX_Context_async_enable(&job.context[offset], 1, NULL));
        test_sleep(1e-6 * (double)(test_random(&random) % 500));
    }
    return NULL;
}

/* ---- */

static void start(pthread_t *thread, void *(*function)(void *), void *argument)
{
    CHECK(pthread_create(thread, NULL, function, argument) == 0);
}

static void send_all(void)
{
    for (size_t i = 0; i < MESSAGES; i++) {
        for (size_t to = POSTED; to < CONTEXTS; to++)
            send_to_neighbour(MAIN, to);
        if (i % 16 == 0)
            job_advance(&job);
    }
}

static void wait_for_all(void)
{
    WAIT(&job, load(&lanes[POSTED].arrived) == 2 * MESSAGES);
    WAIT(&job, load(&lanes[LOCKED].arrived) == 2 * MESSAGES);
    WAIT(&job, load(&lanes[OWNED].arrived) == MESSAGES);
    WAIT(&job, load(&lanes[OWNED].replies) == MESSAGES);
}

static void play(void)
{
    pami_work_t *work = test_zalloc(MESSAGES * sizeof *work);
    pthread_t threads[4];
    pamix_context_async_status_t status;

    memset(lanes, 0, sizeof lanes);
    finished = sent = false;
    for (size_t i = 0; i < CONTEXTS; i++) {
        test_dispatch(job.context[i], DATA, on_data, NULL, test_ordered());
        test_dispatch(job.context[i], REPLY, on_reply, NULL, test_ordered());
    }
    job_barrier(&job);
    CHECK_OK(PAMIX_Context_async_enable(&job.context[POSTED], CONTEXTS - 1, NULL));
    start(&threads[0], poster, work);
    start(&threads[1], locker, NULL);
    start(&threads[2], owner, NULL);
    start(&threads[3], switcher, NULL);
    send_all();
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    __atomic_store_n(&sent, true, __ATOMIC_RELEASE);
    pthread_join(threads[3], NULL);
    wait_for_all();
    job_barrier(&job);
    __atomic_store_n(&finished, true, __ATOMIC_RELEASE);
    pthread_join(threads[2], NULL);
    CHECK_OK(PAMIX_Context_async_query(job.context[LOCKED], &status));
    CHECK(status.enabled && status.thread >= 0 && (unsigned)status.thread < status.threads);
    CHECK_OK(PAMIX_Context_async_query(job.context[MAIN], &status));
    CHECK(!status.enabled && status.thread == -1 && status.events == 0);
    free(work);
}

int main(void)
{
    is_ours = true;
    for (int round = 0; round < ROUNDS; round++) {
        memset(&job, 0, sizeof job);
        job_start(&job, "async_load", CONTEXTS);
        job.driven = 1;
        play();
        /* Destroyed while they are enabled, and one of them locked. */
        CHECK_OK(PAMI_Context_lock(job.context[LOCKED]));
        job_finish(&job);
    }
    return 0;
}
