/*
 * One thread per context: all of them send and receive at the same time, each advancing its own
 * context only, and post work onto each other's contexts.
 *
 * Run: tasks=1,2,3
 * Run: tasks=2 args="4"
 * Run: tasks=4 nodes=2
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off PAMI_RNDV_BYTES=0"
 */
#include "api_test.h"

#include <pthread.h>

enum {
    ID = 1,
    THREADS_MAX = 4,
    MESSAGES = 400, /* of each thread to each thread of the next task */
    LARGE = 70000
};

struct worker {
    size_t number;
    pami_context_t context;
    pthread_t thread, self;
    size_t next[THREADS_MAX]; /* messages from each context of the previous task */
    size_t landed, done, expected, posted;
    unsigned char source[LARGE];
};

struct landing {
    struct worker *worker;
    size_t from, bytes;
    unsigned char data[];
};

struct post {
    pami_work_t work;
    struct worker *worker;
};

static struct job job;
static size_t threads = 2;
static struct worker workers[THREADS_MAX];
static pthread_barrier_t together;
static size_t finished;
static bool stop;

static size_t bytes_of(size_t index)
{
    static const size_t sizes[] = {0, 8, 300, 700, 5000, 20000, 40000, LARGE};

    return sizes[index * 7 % 8];
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct landing *landing = cookie;

    CHECK_CALLBACK();
    CHECK(context == landing->worker->context && result == PAMI_SUCCESS);
    CHECK_SIZE(test_differs(landing->data, landing->bytes, landing->from, 0), landing->bytes);
    landing->worker->landed++;
    free(landing);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct worker *worker = cookie;
    struct landing *landing;
    pami_task_t task;
    size_t from, index;

    CHECK_CALLBACK();
    CHECK(context == worker->context && pthread_equal(pthread_self(), worker->self));
    CHECK_OK(PAMI_Endpoint_query(origin, &task, &from));
    CHECK(task == (job.task + job.tasks - 1) % job.tasks && from < threads);
    CHECK_SIZE(header_bytes, sizeof index);
    memcpy(&index, header, sizeof index);
    CHECK_SIZE(index, worker->next[from]++);
    CHECK_SIZE(bytes, bytes_of(index));
    if (recv == NULL) {
        CHECK_SIZE(test_differs(data, bytes, from, 0), bytes);
        worker->landed++;
        return;
    }
    landing = test_alloc(sizeof *landing + bytes);
    landing->worker = worker;
    landing->from = from;
    landing->bytes = bytes;
    recv->addr = landing->data;
    recv->cookie = landing;
    recv->local_fn = on_landed;
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct worker *worker = cookie;

    CHECK_CALLBACK();
    CHECK(context == worker->context && result == PAMI_SUCCESS);
    CHECK(pthread_equal(pthread_self(), worker->self));
    worker->done++;
}

static pami_result_t on_post(pami_context_t context, void *cookie)
{
    struct post *post = cookie;

    CHECK_CALLBACK();
    CHECK(context == post->worker->context);
    CHECK(pthread_equal(pthread_self(), post->worker->self));
    post->worker->posted++;
    free(post);
    return PAMI_SUCCESS;
}

static void work_step(struct worker *me, size_t to, size_t index)
{
    pami_endpoint_t dest = job_endpoint(&job, (job.task + 1) % job.tasks, to);
    pami_send_event_t events = {me, on_done, on_done};
    struct post *post = test_alloc(sizeof *post);

    if (index % 3 == 0 && bytes_of(index) <= 5000) {
        test_send_immediate(me->context, dest, ID, &index, sizeof index, me->source,
                            bytes_of(index));
    } else {
        test_send(me->context, dest, ID, &index, sizeof index, me->source, bytes_of(index), events);
        me->expected += 2;
    }
    post->worker = &workers[to];
    CHECK_OK(PAMI_Context_post(workers[to].context, &post->work, on_post, post));
    test_advance(me->context, 1);
}

static void *work(void *cookie)
{
    struct worker *me = cookie;
    size_t index, to;

    me->self = pthread_self();
    pthread_barrier_wait(&together);
    for (index = 0; index < MESSAGES; index++)
        for (to = 0; to < threads; to++)
            work_step(me, to, index);
    WAIT_WITH(test_advance(me->context, 10), me->done == me->expected &&
                                                 me->landed == threads * MESSAGES &&
                                                 me->posted == threads * MESSAGES);
    __atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
    if (me->number == 0)
        return NULL;
    /* Others may still need this context: it owes them acknowledgements. */
    WAIT_WITH(test_advance(me->context, 10), __atomic_load_n(&stop, __ATOMIC_ACQUIRE));
    return NULL;
}

int main(int argc, char **argv)
{
    size_t i;

    if (argc > 1)
        threads = strtoul(argv[1], NULL, 10);
    CHECK(threads >= 1 && threads <= THREADS_MAX);
    job_start(&job, "threads", threads);
    job.driven = 1; /* the others belong to their threads */
    for (i = 0; i < threads; i++) {
        workers[i].number = i;
        workers[i].context = job.context[i];
        test_fill(workers[i].source, LARGE, i, 0);
        test_dispatch(job.context[i], ID, on_message, &workers[i], test_ordered());
    }
    workers[0].self = pthread_self(); /* the first messages may come during the barrier */
    job_barrier(&job);
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (i = 1; i < threads; i++)
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    work(&workers[0]);
    WAIT(&job, __atomic_load_n(&finished, __ATOMIC_ACQUIRE) == threads);
    job_barrier(&job);
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    for (i = 1; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    job_finish(&job);
    return 0;
}
