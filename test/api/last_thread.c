/*
 * A program whose threads end by pthread_exit, the first one before the others, ends with the last
 * of them, although threads of the library are left: not earlier, with status 0, with what it has
 * registered by atexit, and what it has sent arrives. Meanwhile data moves in all ways, although a
 * process whose first thread has ended has no memory by its own number. The process may have no
 * descriptor left to find out about threads: it still does not end early, nor take others for dead.
 *
 * Run: tasks=1,3
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=1 args="destroyed"
 * Run: tasks=2 args="descriptors"
 */
#include "rma.h"

#include <pamix.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

enum {
    ID = 1,
    BYTES = 100000,
    DESCRIPTORS = 128
};

#ifdef __SANITIZE_ADDRESS__
/* What threads that have ended kept in memory of their own, glibc its last error, is lost. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}
#endif

static struct job job;
static size_t arrived;
static bool last_ended, starves;
static unsigned char from[BYTES], to[BYTES], window[BYTES], *mine = window, *window_of[16];
static bool put_done;

static void on_data(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_SIZE((size_t)result, PAMI_SUCCESS);
    arrived++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)origin;
    CHECK(recv != NULL && bytes == BYTES);
    recv->addr = to;
    recv->local_fn = on_data;
}

static void on_put(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_SIZE((size_t)result, PAMI_SUCCESS);
    put_done = true;
}

/* Into the neighbour's window, by single copy if that is possible, and by packets. */
static void put(size_t to_task, bool packets)
{
    pami_put_simple_t call = {
        .rma = {.dest = job_endpoint(&job, to_task, 0), .bytes = BYTES},
        .addr = {.local = from, .remote = window_of[to_task]},
        .put = {.rdone_fn = on_put},
    };

    call.rma.hints.use_shmem = packets ? PAMI_HINT_DISABLE : PAMI_HINT_DEFAULT;
    put_done = false;
    CHECK_OK(TEST_CALL(PAMI_Put(job.context[0], &call)));
    WAIT(&job, put_done);
}

static int taken[DESCRIPTORS];
static size_t taken_count;

static void give_back(size_t count)
{
    while (count-- != 0)
        CHECK(close(taken[--taken_count]) == 0);
}

/* Leaves the process so many descriptors. */
static void take_descriptors(size_t left)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = DESCRIPTORS;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (taken_count < DESCRIPTORS && (taken[taken_count] = open("/dev/null", O_RDONLY)) >= 0)
        taken_count++;
    CHECK(taken_count < DESCRIPTORS && errno == EMFILE && left <= taken_count);
    give_back(left);
}

/* The thread that outlives main: the contexts still work, also with a thread of the library. */
static void *work(void *cookie)
{
    size_t next = (job.task + 1) % job.tasks, previous = (job.task + job.tasks - 1) % job.tasks;
    pami_send_event_t none = {0};

    (void)cookie;
    CHECK_OK(PAMIX_Context_async_enable(&job.context[1], 1, NULL));
    if (starves)
        take_descriptors(1);
    test_sleep(0.5);
    if (starves)
        take_descriptors(0);
    for (int packets = 0; packets < 2; packets++) {
        memset(window, 0, BYTES);
        job_barrier(&job);
        put(next, packets != 0);
        job_barrier(&job);
        CHECK_SIZE(test_differs(window, BYTES, previous, 0), BYTES);
        job_barrier(&job);
    }
    test_send(job.context[0], job_endpoint(&job, next, 0), ID, NULL, 0, from, BYTES, none);
    WAIT(&job, arrived == 1);
    CHECK_SIZE(test_differs(to, BYTES, previous, 0), BYTES);
    give_back(taken_count);
    last_ended = true;
    return NULL;
}

static void at_exit(void)
{
    if (!last_ended)
        FAIL("the process ends before its last thread");
}

static void *create_and_destroy(void *cookie)
{
    pami_client_t client;

    CHECK_OK(PAMI_Client_create("short-lived", &client, NULL, 0));
    CHECK_OK(PAMI_Client_destroy(&client));
    return cookie;
}

static size_t count_threads(void)
{
    DIR *threads = opendir("/proc/self/task");
    size_t count = 0;

    CHECK(threads != NULL);
    while (readdir(threads) != NULL)
        count++;
    closedir(threads);
    return count - 2; /* . and .. */
}

/* Nothing stays behind of a thread whose client ended before it did. */
static void destroyed(void)
{
    size_t before = count_threads();
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, create_and_destroy, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    WAIT_WITH(test_sleep(1e-3), count_threads() == before);
}

int main(int argc, char **argv)
{
    pami_dispatch_hint_t hints = {0};
    pthread_t thread;

#ifdef __SANITIZE_THREAD__
    test_skip("the sanitizer has a thread of its own, which counts as the program's");
#endif
    if (argc > 1 && strcmp(argv[1], "destroyed") == 0) {
        destroyed();
        return 0;
    }
    starves = argc > 1 && strcmp(argv[1], "descriptors") == 0;
    job_start(&job, "last thread", 2);
    rma_open(&job);
    job.driven = 1;
    test_dispatch(job.context[0], ID, on_message, NULL, hints);
    test_fill(from, BYTES, job.task, 0);
    CHECK(job.tasks <= 16);
    rma_share(&job, &mine, sizeof mine, window_of);
    CHECK(atexit(at_exit) == 0);
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
    pthread_exit(NULL);
}
