/*
 * The lock of a context as the only rule of who owns it: several threads send on whatever context
 * is its turn, under its lock, and advance all of them by PAMI_Context_trylock_advancev, so that
 * contexts change hands all the time. While a callback of a context runs, or somebody holds its
 * lock, nobody else is in it, and the order of two endpoints is that of the calls, whoever made
 * them. What needs no owner is called meanwhile by a thread that takes no lock.
 *
 * Run: tasks=1,2,3
 * Run: tasks=2 nodes=2
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=2 env="PAMI_YIELD=always"
 * Run: tasks=2 env="PAMI_SHM_RING_SLOTS=8 PAMI_SHM_CHUNKS=2"
 * Run: tasks=2 env="PAMI_SHM_SINGLE_COPY=off PAMI_RNDV_BYTES=0"
 */
#include "api_test.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    ID = 1,
    UNUSED_ID = 2,
    CONTEXTS = 2,
    THREADS = 3,
    TASKS_MAX = 3,
    MESSAGES = 60, /* of each thread to each context of each task */
    LARGE = 70000
};

struct place {
    pami_context_t context;
    atomic_bool occupied;
    /* Of who is inside. */
    size_t sent[TASKS_MAX][CONTEXTS], next[TASKS_MAX][CONTEXTS], posted;
};

struct post {
    pami_work_t work;
    struct place *place;
};

static struct job job;
static struct place places[CONTEXTS];
static unsigned char source[LARGE];
static atomic_size_t landed, done, expected, posts;
static atomic_bool over;

static size_t bytes_of(size_t number)
{
    static const size_t sizes[] = {0, 8, 300, 700, 5000, 20000, 40000, LARGE};

    return sizes[number * 7 % 8];
}

static void enter(struct place *place)
{
    CHECK(!atomic_exchange_explicit(&place->occupied, true, memory_order_relaxed));
}

static void leave(struct place *place)
{
    atomic_store_explicit(&place->occupied, false, memory_order_relaxed);
}

static struct place *enter_callback(pami_context_t context)
{
    struct place *place = &places[context == places[1].context];

    CHECK_CALLBACK();
    CHECK(context == place->context);
    enter(place);
    CHECK_OK(PAMI_Context_trylock(context));
    CHECK_OK(PAMI_Context_unlock(context));
    return place;
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    struct place *place = enter_callback(context);

    CHECK(result == PAMI_SUCCESS);
    free(cookie);
    atomic_fetch_add(&landed, 1);
    leave(place);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct place *place = enter_callback(context);
    size_t number, offset;
    pami_task_t task;

    CHECK(place == cookie && header_bytes == sizeof number);
    memcpy(&number, header, sizeof number);
    CHECK_OK(PAMI_Endpoint_query(origin, &task, &offset));
    CHECK_SIZE(number, place->next[task][offset]++);
    CHECK_SIZE(bytes, bytes_of(number));
    if (recv == NULL) {
        CHECK_SIZE(test_differs(data, bytes, 1, 0), bytes);
        atomic_fetch_add(&landed, 1);
    } else {
        recv->addr = recv->cookie = test_alloc(bytes);
        recv->local_fn = on_landed;
    }
    leave(place);
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct place *place = enter_callback(context);

    CHECK(place == cookie && result == PAMI_SUCCESS);
    atomic_fetch_add(&done, 1);
    leave(place);
}

static void advance(void)
{
    test_trylock_advance(job.context, CONTEXTS, 4);
}

/* The caller has the lock. */
static void send_one(struct place *from, size_t task, size_t offset)
{
    size_t number = from->sent[task][offset]++, bytes = bytes_of(number);
    pami_endpoint_t dest = job_endpoint(&job, task, offset);
    pami_send_event_t events = {from, on_done, on_done};

    if (number % 3 == 0 && bytes <= 5000) {
        test_send_immediate(from->context, dest, ID, &number, sizeof number, source, bytes);
        return;
    }
    atomic_fetch_add(&expected, 2);
    test_send(from->context, dest, ID, &number, sizeof number, source, bytes, events);
}

static void *work(void *thread)
{
    for (size_t i = (uintptr_t)thread; i < (uintptr_t)thread + MESSAGES; i++) {
        for (size_t task = 0; task < job.tasks; task++) {
            for (size_t offset = 0; offset < CONTEXTS; offset++) {
                struct place *from = &places[(i + offset) % CONTEXTS];

                CHECK_OK(PAMI_Context_lock(from->context));
                enter(from);
                send_one(from, task, offset);
                leave(from);
                CHECK_OK(PAMI_Context_unlock(from->context));
                advance();
            }
        }
    }
    WAIT_WITH(advance(), atomic_load(&landed) == job.tasks * CONTEXTS * THREADS * MESSAGES &&
                             atomic_load(&done) == atomic_load(&expected));
    return thread;
}

static pami_result_t on_post(pami_context_t context, void *cookie)
{
    struct place *place = enter_callback(context);
    struct post *post = cookie;

    CHECK(place == post->place);
    place->posted++;
    free(post);
    atomic_fetch_sub(&posts, 1);
    leave(place);
    return PAMI_SUCCESS;
}

static void ask_context(struct place *place)
{
    pami_configuration_t id_max = {.name = PAMI_CONTEXT_DISPATCH_ID_MAX};
    struct post *post;

    CHECK_OK(PAMI_Context_query(place->context, &id_max, 1));
    CHECK(dispatch_attribute(place->context, ID, PAMI_DISPATCH_SEND_IMMEDIATE_MAX) >= 256);
    CHECK_REFUSED(PAMI_Dispatch_query(place->context, UNUSED_ID, &id_max, 1), PAMI_INVAL,
                  "dispatch");
    if (atomic_load(&posts) >= 100)
        return;
    post = test_alloc(sizeof *post);
    post->place = place;
    atomic_fetch_add(&posts, 1);
    CHECK_OK(PAMI_Context_post(place->context, &post->work, on_post, post));
}

/* Once at least: it may get no processor until the others are done. */
static void *ask(void *unused)
{
    double last = 0;

    do {
        pami_configuration_t optimise = {.name = PAMI_GEOMETRY_OPTIMIZE};
        pami_configuration_t size = {.name = PAMI_TYPE_DATA_SIZE};
        double now = PAMI_Wtime(job.client);
        pami_geometry_t world;
        pami_type_t type;

        CHECK(now >= last);
        last = now;
        for (size_t i = 0; i < CONTEXTS; i++)
            ask_context(&places[i]);
        CHECK_SIZE(client_attribute(job.client, PAMI_CLIENT_NUM_TASKS), job.tasks);
        CHECK_OK(PAMI_Geometry_world(job.client, &world));
        CHECK_OK(PAMI_Geometry_query(world, &optimise, 1));
        CHECK_OK(PAMI_Type_create(&type));
        CHECK_OK(PAMI_Type_add_typed(type, PAMI_TYPE_DOUBLE, 0, 3, 16));
        CHECK_OK(PAMI_Type_complete(type, 8));
        CHECK_OK(PAMI_Type_query(type, &size, 1));
        CHECK_SIZE(size.value.intval, 24);
        CHECK_OK(PAMI_Type_destroy(&type));
        CHECK(test_origin(job_endpoint(&job, job.tasks - 1, 1)) == job.tasks - 1);
        test_sleep(1e-5);
    } while (!atomic_load(&over));
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS], asking;
    size_t i;

    test_fill(source, LARGE, 1, 0);
    job_start(&job, "lock_threads", CONTEXTS);
    CHECK(job.tasks <= TASKS_MAX);
    for (i = 0; i < CONTEXTS; i++) {
        places[i].context = job.context[i];
        test_dispatch(job.context[i], ID, on_message, &places[i], test_ordered());
    }
    CHECK(pthread_create(&asking, NULL, ask, NULL) == 0);
    for (i = 1; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    work((void *)0);
    for (i = 1; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_store(&over, true);
    CHECK(pthread_join(asking, NULL) == 0);
    WAIT(&job, atomic_load(&posts) == 0);
    CHECK(places[0].posted != 0 && places[1].posted != 0);
    job_finish(&job);
    return 0;
}
