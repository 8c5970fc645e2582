/*
 * Types of active-message collectives that go before their data has come: what a dispatch function
 * names may be destroyed once it has returned, as with all other transfers. Two broadcasts wait for
 * their id; the dispatch of the second destroys the type of the first, whose data is added to what
 * is there. A source may be given by a type of absolute addresses and no buffer, a contribution
 * by an offset into the own block of the result.
 *
 * Run: tasks=2,3,5 nodes=1,2
 * Run: tasks=3 env="PAMI_SHM_SINGLE_COPY=off"
 * Run: tasks=2 env="PAMI_RNDV_BYTES=0"
 */
#include "coll.h"

enum {
    ID = 9,
    ROUNDS = 2
};

static struct job job;
static const size_t sizes[] = {3, 300, 40000}; /* integers */
static size_t count;
static pami_type_t odd[ROUNDS]; /* on members */
static int *target[ROUNDS];
static size_t dispatched, landed;

static pami_type_t odd_words(void)
{
    const size_t word = sizeof(int);
    pami_type_t type;

    CHECK_OK(PAMI_Type_create(&type));
    CHECK_OK(PAMI_Type_add_typed(type, PAMI_TYPE_SIGNED_INT, word, 1, word));
    CHECK_OK(PAMI_Type_complete(type, word));
    return type;
}

static void on_landed(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK_CALLBACK();
    CHECK(context == job.context[0] && cookie == &job);
    if (result != PAMI_SUCCESS)
        FAIL("%zu integers: ended with %d: %s", count, (int)result, test_text());
    landed++;
}

static void on_broadcast(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *pipe, size_t bytes,
                         pami_endpoint_t origin, pami_geometry_t geometry, pami_recv_t *recv)
{
    size_t i = dispatched++;

    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)origin, (void)geometry;
    CHECK(i < ROUNDS && pipe == NULL && recv != NULL);
    CHECK_SIZE(bytes, count * sizeof(int));
    odd[i] = odd_words();
    if (i > 0)
        CHECK_OK(PAMI_Type_destroy(&odd[i - 1]));
    recv->addr = target[i];
    recv->type = odd[i];
    recv->data_fn = PAMI_DATA_SUM;
    recv->local_fn = on_landed;
    recv->cookie = &job;
}

static void set(pami_geometry_t geometry)
{
    pami_dispatch_callback_function fn = {.ambroadcast = on_broadcast};

    CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0],
                                            algorithm_of(geometry, PAMI_XFER_AMBROADCAST), ID, fn,
                                            NULL, (pami_collective_hint_t){0}));
}

/* All of `source`, wherever the type is applied to NULL. */
static pami_type_t absolute(const int *source)
{
    pami_type_t type;

    CHECK_OK(PAMI_Type_create(&type));
    CHECK_OK(PAMI_Type_add_simple(type, count * sizeof(int), (uintptr_t)source, 1, 0));
    CHECK_OK(PAMI_Type_complete(type, 1));
    return type;
}

static void start(pami_geometry_t geometry, int *source, struct told *told)
{
    pami_algorithm_t algorithm = algorithm_of(geometry, PAMI_XFER_AMBROADCAST);

    for (size_t i = 0; i < ROUNDS; i++) {
        pami_xfer_t xfer = coll_xfer(algorithm, &told[i]);
        pami_type_t type = absolute(source);

        xfer.cmd.xfer_ambroadcast =
            (pami_ambroadcast_t){.dispatch = ID, .stype = type, .stypecount = 1};
        coll_start(job.context[0], &xfer);
        CHECK_OK(PAMI_Type_destroy(&type));
    }
}

static void receive(void)
{
    WAIT(&job, landed == ROUNDS);
    CHECK_OK(PAMI_Type_destroy(&odd[ROUNDS - 1]));
    for (size_t i = 0; i < ROUNDS; i++) {
        for (size_t x = 0; x < count; x++)
            CHECK(target[i][2 * x] == 1 && target[i][2 * x + 1] == 1 + (int)x);
        free(target[i]);
    }
}

static void run(pami_geometry_t world)
{
    pami_task_t all[64];
    pami_geometry_t geometry;
    struct told told[ROUNDS];
    int *source = test_alloc(count * sizeof *source);

    for (size_t i = 0; i < job.tasks; i++)
        all[i] = (pami_task_t)i;
    create_list(&job, &geometry, world, 3, all, job.tasks, 0);
    dispatched = landed = 0;
    for (size_t x = 0; x < count; x++)
        source[x] = (int)x;
    for (size_t i = 0; i < ROUNDS && job.task != 0; i++) {
        target[i] = test_alloc((2 * count + 1) * sizeof(int));
        for (size_t x = 0; x < 2 * count + 1; x++)
            target[i][x] = 1;
    }
    if (job.task == 0) {
        set(geometry);
        start(geometry, source, told);
    }
    job_barrier(&job);
    job_linger(&job, 0.01);
    if (job.task != 0) {
        set(geometry);
        receive();
    } else {
        WAIT(&job, told[0].count + told[1].count == ROUNDS);
        CHECK(told[0].result == PAMI_SUCCESS && told[1].result == PAMI_SUCCESS);
    }
    job_barrier(&job);
    destroy_geometry(&job, &geometry);
    free(source);
}

/* The contribution of the initiator, the last task, is in its own block, but a word further on. */
static void on_gather(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_recv_t *send)
{
    bool initiator = job.task == job.tasks - 1;

    (void)context, (void)header, (void)header_bytes, (void)origin, (void)geometry;
    CHECK_SIZE(bytes, sizeof(int));
    send->addr = (int *)cookie + job.task;
    send->type = PAMI_TYPE_SIGNED_INT;
    send->offset = initiator ? sizeof(int) : 0;
    send->local_fn = on_landed;
    send->cookie = &job;
}

static void gather_shifted(pami_geometry_t world)
{
    pami_algorithm_t algorithm = algorithm_of(world, PAMI_XFER_AMGATHER);
    pami_dispatch_callback_function fn = {.amgather = on_gather};
    int *words = test_zalloc((job.tasks + 1) * sizeof *words);
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm, &told);

    words[job.task + (job.task == job.tasks - 1)] = 100 + (int)job.task;
    landed = 0;
    count = 1;
    CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0], algorithm, ID, fn, words,
                                            (pami_collective_hint_t){0}));
    job_barrier(&job);
    xfer.cmd.xfer_amgather = (pami_amgather_t){
        .dispatch = ID, .rcvbuf = words, .rtype = PAMI_TYPE_SIGNED_INT, .rtypecount = 1};
    if (job.task == job.tasks - 1)
        coll_start(job.context[0], &xfer);
    WAIT(&job, landed == 1);
    for (size_t i = 0; i < job.tasks && job.task == job.tasks - 1; i++)
        CHECK(words[i] == 100 + (int)i);
    job_barrier(&job);
    free(words);
}

int main(void)
{
    job_start(&job, "am-types", 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        count = sizes[i];
        run(world_of(&job));
    }
    gather_shifted(world_of(&job));
    job_finish(&job);
    return 0;
}
