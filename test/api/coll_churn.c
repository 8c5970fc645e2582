/*
 * Random collectives while everything around them changes: geometries that are destroyed as soon as
 * this member has what it wants, and made again at once under the same id with other members; rows
 * of both lists; sizes around the thresholds; messages of all sizes between the same tasks; work
 * that another thread posts; and a geometry whose collectives are each started from the callback of
 * the one before.
 *
 *     coll_churn [--seed N] [--steps N] [--most BYTES]
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2 timeout=120
 * Run: tasks=5 nodes=1,3 args="--seed 2" env="PAMI_COLL_LEVELS=package:2,core:2" timeout=120
 * Run: tasks=4 nodes=2 args="--seed 3" env="PAMI_COLL_SHARED_BYTES=0 PAMI_COLL_SEGMENT=256"
 * Run: tasks=3 args="--seed 4 --most 5242880" timeout=120
 */
#include <pthread.h>

#include "coll_run.h"

enum {
    GEOMETRIES = 6, /* besides the world */
    FLIGHTS = 16,
    MESSAGE = 201, /* dispatch id */
    MESSAGE_MOST = 70000,
    OUTSTANDING = 16,
    FIRST_ID = 7
};

struct place {
    pami_geometry_t geometry;
    pami_task_t *tasks;
    size_t size, self; /* self == size: not a member */
    unsigned life;     /* geometries before this one here */
};

struct flight {
    struct op *op;
    size_t place;
};

/* A message: header its seed, data a pattern of it. */
struct arrival {
    size_t seed, bytes;
    unsigned char *data;
};

struct posted {
    pami_work_t work;
    size_t seed;
};

static struct job job;
static struct place places[GEOMETRIES + 1];
static struct flight flights[FLIGHTS];
static size_t began, ended;
static uint64_t seed = 1;
static size_t steps = 300, most = 80000;
static size_t *sent, arrived; /* messages to each task; here */
static size_t outstanding;    /* messages that are not out yet, or posted */
static bool stop;

/* ---- messages ---- */

static void on_data(pami_context_t context, void *cookie, pami_result_t result)
{
    struct arrival *a = cookie;
    size_t at;

    (void)context;
    CHECK_CALLBACK();
    CHECK(result == PAMI_SUCCESS);
    at = test_differs(a->data, a->bytes, a->seed, 0);
    if (at != a->bytes)
        FAIL("byte %zu of a message of %zu", at, a->bytes);
    free(a->data);
    free(a);
    arrived++;
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    struct arrival *a;
    size_t number;

    (void)context, (void)cookie, (void)origin;
    CHECK_CALLBACK();
    CHECK(header_bytes == sizeof number);
    memcpy(&number, header, sizeof number);
    if (recv == NULL) {
        CHECK(test_differs(data, bytes, number, 0) == bytes);
        arrived++;
        return;
    }
    a = test_alloc(sizeof *a);
    *a = (struct arrival){number, bytes, test_alloc(bytes)};
    recv->cookie = a;
    recv->local_fn = on_data;
    recv->addr = a->data;
}

static void on_sent(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context;
    CHECK(result == PAMI_SUCCESS);
    __atomic_fetch_sub(&outstanding, 1, __ATOMIC_RELAXED);
    free(cookie);
}

static void send_one(size_t number)
{
    uint64_t state = number;
    size_t to = op_below(&state, job.tasks), bytes = op_below(&state, 3) == 0
                                                         ? op_below(&state, MESSAGE_MOST)
                                                         : op_below(&state, 600);
    unsigned char *data = test_alloc(bytes);
    pami_send_event_t events = {.cookie = data, .local_fn = on_sent};

    test_fill(data, bytes, number, 0);
    test_send(job.context[0], job_endpoint(&job, to, 0), MESSAGE, &number, sizeof number, data,
              bytes, events);
    __atomic_fetch_add(&outstanding, 1, __ATOMIC_RELAXED);
    sent[to]++;
}

static pami_result_t on_work(pami_context_t context, void *cookie)
{
    struct posted *posted = cookie;

    (void)context;
    __atomic_fetch_sub(&outstanding, 1, __ATOMIC_RELAXED);
    send_one(posted->seed);
    free(posted);
    return PAMI_SUCCESS;
}

/* Another thread, that has messages sent. */
static void *post(void *unused)
{
    uint64_t state = seed * 31 + job.task;

    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        struct posted *posted;

        test_sleep(0.0005);
        if (__atomic_load_n(&outstanding, __ATOMIC_RELAXED) >= OUTSTANDING)
            continue;
        posted = test_alloc(sizeof *posted);
        __atomic_fetch_add(&outstanding, 1, __ATOMIC_RELAXED);
        posted->seed = (size_t)test_random(&state);
        CHECK_OK(PAMI_Context_post(job.context[0], &posted->work, on_work, posted));
    }
    return NULL;
}

/* ---- geometries ---- */

/* Who is in this life of a place, and in which order, is the same everywhere. */
static void choose_members(size_t index)
{
    struct place *place = &places[index];
    uint64_t state = seed * 65537 + index * 257 + place->life;
    size_t kind = op_below(&state, 4);

    place->size = 0;
    for (size_t i = 0; i < job.tasks; i++) {
        size_t at = op_below(&state, place->size + 1);
        bool in = kind == 0 || (kind == 1 && i % 2 == index % 2) ||
                  (kind == 2 && (i < job.tasks / 2) == (index % 2 == 0)) ||
                  (kind == 3 && op_below(&state, 2) == 0);

        if (!in && !(place->size == 0 && i == job.tasks - 1))
            continue;
        place->tasks[place->size++] = place->tasks[at];
        place->tasks[at] = (pami_task_t)i;
    }
    place->self = place->size;
    for (size_t i = 0; i < place->size; i++)
        if (place->tasks[i] == job.task)
            place->self = i;
}

static void create(size_t index)
{
    struct place *place = &places[index];

    choose_members(index);
    place->geometry = NULL;
    if (place->self != place->size)
        create_list(&job, &place->geometry, NULL, FIRST_ID + (unsigned)index, place->tasks,
                    place->size, 0);
}

/* ---- collectives ---- */

static void end_oldest(void)
{
    struct op *o = flights[ended++ % FLIGHTS].op;

    WAIT(&job, o->told.count != 0);
    op_check(o);
    op_free(o);
}

/* Pending collectives of a place must be done when it is destroyed; those of others need not. */
static void replace(size_t index)
{
    struct place *place = &places[index];

    for (size_t i = ended; i < began; i++)
        if (flights[i % FLIGHTS].place == index)
            WAIT(&job, flights[i % FLIGHTS].op->told.count != 0);
    if (place->geometry != NULL)
        destroy_geometry(&job, &place->geometry);
    place->life++;
    create(index);
}

static size_t choose_bytes(uint64_t *state)
{
    static const size_t edges[] = {0,    4,     8,     56,    64,     104,    512,     1024,   4096,
                                   8192, 16384, 32768, 65536, 131072, 524288, 1048576, 5242880};
    size_t bytes;

    if (op_below(state, 3) != 0)
        return op_below(state, 2000);
    do
        bytes = edges[op_below(state, sizeof edges / sizeof edges[0])];
    while (bytes > most);
    bytes += 4 * op_below(state, 3);
    return bytes >= 4 ? bytes - 4 : 0;
}

static void start(size_t index, uint64_t *state)
{
    struct place *place = &places[index];
    pami_xfer_type_t type = op_types[op_below(state, OP_TYPES)];
    size_t words = choose_bytes(state) / 4, list = op_below(state, 3) == 0;
    size_t position = op_below(state, 1000);
    uint64_t own = test_random(state);
    pami_metadata_function check = NULL;
    struct algorithms all;
    struct op *o;

    if (place->self == place->size)
        return;
    if (began == ended + FLIGHTS)
        end_oldest();
    all = algorithms_of(place->geometry, type);
    list = list && all.count[1] != 0;
    position = !list && position < 400 ? 0 : position % all.count[list];
    o = op_make(type, place->size, place->self, words, own, list);
    o->name = all.metadata[list][position].name;
    if (list)
        check = all.metadata[1][position].check_fn;
    op_start(o, job.context[0], all.handle[list][position],
             job_endpoint(&job, place->tasks[o->root], 0), check, all.handle[0][0]);
    algorithms_free(&all);
    flights[began++ % FLIGHTS] = (struct flight){o, index};
}

static void step(size_t number)
{
    uint64_t state = seed * 1000003 + number * 7919;
    uint64_t own = state ^ (job.task + 1) * 0x51ed270b7u;
    size_t index = op_below(&state, GEOMETRIES + 1);

    if (index != 0 && op_below(&state, 12) == 0)
        replace(index);
    start(index, &state);
    if (op_below(&own, 3) == 0)
        send_one((size_t)test_random(&own));
    if (op_below(&own, 3) == 0)
        test_advance(job.context[0], 1 + op_below(&own, 5));
    if (op_below(&own, 80) == 0)
        test_sleep(0.003);
    if (op_below(&own, 40) == 0)
        while (ended != began)
            end_oldest();
}

/* ---- a collective from the callback of the one before ---- */

struct echo {
    pami_geometry_t geometry;
    pami_algorithm_t algorithm;
    int mine, total;
    size_t done, rounds;
};

static void echo_start(struct echo *echo);

static void on_echo(pami_context_t context, void *cookie, pami_result_t result)
{
    struct echo *echo = cookie;

    CHECK_CALLBACK();
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    CHECK(echo->total == (int)(echo->done * job.tasks + job.tasks * (job.tasks - 1) / 2));
    if (++echo->done < echo->rounds)
        echo_start(echo);
}

static void echo_start(struct echo *echo)
{
    pami_xfer_t xfer = coll_xfer(echo->algorithm, NULL);

    xfer.cb_done = on_echo;
    xfer.cookie = echo;
    echo->mine = (int)(echo->done + job.task);
    echo->total = -1;
    xfer.cmd.xfer_allreduce = coll_sum(&echo->mine, &echo->total, PAMI_TYPE_SIGNED_INT, 1);
    CHECK_OK(TEST_CALL(PAMI_Collective(job.context[0], &xfer)));
}

static void echo_begin(struct echo *echo)
{
    pami_task_t *tasks = test_alloc(job.tasks * sizeof *tasks);

    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)((i + 1) % job.tasks);
    create_list(&job, &echo->geometry, world_of(&job), 5, tasks, job.tasks, 0);
    free(tasks);
    echo->algorithm = algorithm_of(echo->geometry, PAMI_XFER_ALLREDUCE);
    echo->rounds = steps;
    echo_start(echo);
}

/* ---- all of it ---- */

/* Everybody has started and ended all its collectives; then what has been sent must come. */
static void finish_messages(pthread_t thread)
{
    int *from = test_alloc(job.tasks * sizeof *from), *to = test_alloc(job.tasks * sizeof *to);
    struct told told;
    pami_xfer_t xfer;
    size_t expected = 0;

    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);
    job_linger(&job, 0.02); /* posted work runs */
    for (size_t i = 0; i < job.tasks; i++)
        to[i] = (int)sent[i];
    xfer = coll_xfer(algorithm_of(world_of(&job), PAMI_XFER_ALLTOALL), &told);
    xfer.cmd.xfer_alltoall = (pami_alltoall_t){(char *)to,   PAMI_TYPE_SIGNED_INT, 1,
                                               (char *)from, PAMI_TYPE_SIGNED_INT, 1};
    coll_run(&job, job.context[0], &xfer);
    for (size_t i = 0; i < job.tasks; i++)
        expected += (size_t)from[i];
    WAIT(&job, arrived >= expected);
    CHECK_SIZE(arrived, expected);
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    static struct echo echo;
    pthread_t thread;

    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);

        if (strcmp(argv[i], "--seed") == 0)
            seed = value;
        else if (strcmp(argv[i], "--steps") == 0)
            steps = value;
        else if (strcmp(argv[i], "--most") == 0)
            most = value;
    }
    job_start(&job, "coll-churn", 1);
    test_dispatch(job.context[0], MESSAGE, on_message, NULL, test_ordered());
    op_begin();
    sent = test_zalloc(job.tasks * sizeof *sent);
    for (size_t i = 0; i <= GEOMETRIES; i++)
        places[i].tasks = test_alloc(job.tasks * sizeof(pami_task_t));
    for (size_t i = 0; i < job.tasks; i++)
        places[0].tasks[i] = (pami_task_t)i;
    places[0].size = job.tasks;
    places[0].self = job.task;
    places[0].geometry = world_of(&job);
    for (size_t i = 1; i <= GEOMETRIES; i++)
        create(i);
    echo_begin(&echo);
    CHECK(pthread_create(&thread, NULL, post, NULL) == 0);
    for (size_t number = 0; number < steps; number++)
        step(number);
    while (ended != began)
        end_oldest();
    WAIT(&job, echo.done == echo.rounds);
    finish_messages(thread);
    for (size_t i = 1; i <= GEOMETRIES; i++)
        if (places[i].geometry != NULL)
            destroy_geometry(&job, &places[i].geometry);
    destroy_geometry(&job, &echo.geometry);
    for (size_t i = 0; i <= GEOMETRIES; i++)
        free(places[i].tasks);
    op_end();
    job_finish(&job);
    free(sent);
    return 0;
}
