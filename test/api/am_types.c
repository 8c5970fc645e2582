/*
 * Types of active-message collectives that go before their data has come: what a dispatch function
 * names may be destroyed once it has returned, as with all other transfers. Two broadcasts wait for
 * their id; the dispatch of the second destroys the type of the first, whose data is added to what
 * is there. A source may be given by a type of absolute addresses and no buffer, a contribution
 * by an offset into the own block of the result. A dispatch function that clears the structure it
 * is given, and names a place only, means bytes; a header without data needs no type.
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

static void *place;

static void place_only(pami_recv_t *recv)
{
    memset(recv, 0, sizeof *recv);
    recv->addr = place;
    recv->local_fn = on_landed;
    recv->cookie = &job;
}

static void on_plain_data(pami_context_t context, void *cookie, const void *header,
                          size_t header_bytes, const void *pipe, size_t bytes,
                          pami_endpoint_t origin, pami_geometry_t geometry, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)pipe, (void)origin;
    (void)geometry, (void)bytes;
    place_only(recv);
}

static void on_plain_gather(pami_context_t context, void *cookie, const void *header,
                            size_t header_bytes, size_t bytes, pami_endpoint_t origin,
                            pami_geometry_t geometry, pami_recv_t *send)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)bytes, (void)origin;
    (void)geometry;
    place_only(send);
}

static void on_plain_reduce(pami_context_t context, void *cookie, const void *header,
                            size_t header_bytes, size_t bytes, pami_endpoint_t origin,
                            pami_geometry_t geometry, pami_data_function *op, pami_recv_t *send)
{
    on_plain_gather(context, cookie, header, header_bytes, bytes, origin, geometry, send);
    *op = PAMI_DATA_SUM;
}

static pami_collective_t plain_arguments(pami_xfer_type_t type, void *all, size_t bytes)
{
    const pami_type_t none = type == PAMI_XFER_AMGATHER ? PAMI_TYPE_NULL : (pami_type_t)&job;
    const pami_type_t t = bytes != 0 ? PAMI_TYPE_BYTE : none;
    pami_collective_t cmd;

    if (type == PAMI_XFER_AMBROADCAST)
        cmd.xfer_ambroadcast = (pami_ambroadcast_t){ID, &landed, 1, all, t, bytes};
    else if (type == PAMI_XFER_AMSCATTER)
        cmd.xfer_amscatter = (pami_amscatter_t){ID, NULL, 0, all, t, bytes};
    else if (type == PAMI_XFER_AMGATHER)
        cmd.xfer_amgather = (pami_amgather_t){ID, NULL, 0, all, t, bytes};
    else
        cmd.xfer_amreduce = (pami_amreduce_t){ID, NULL, 0, all, t, bytes, NULL, 1};
    return cmd;
}

/* From task 0, or to it: byte i of task t is i + t. */
static void plain(pami_geometry_t world, pami_xfer_type_t type, pami_dispatch_callback_function fn,
                  size_t bytes)
{
    pami_algorithm_t algorithm = algorithm_of(world, type);
    bool gives = type == PAMI_XFER_AMBROADCAST || type == PAMI_XFER_AMSCATTER;
    bool blocks = type == PAMI_XFER_AMSCATTER || type == PAMI_XFER_AMGATHER;
    unsigned char *all = test_zalloc(job.tasks * bytes), *own = test_zalloc(bytes);
    unsigned char sum = (unsigned char)(job.tasks * (job.tasks - 1) / 2);
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm, &told);

    CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0], algorithm, ID, fn, NULL,
                                            (pami_collective_hint_t){0}));
    place = bytes != 0 ? own : NULL;
    landed = 0;
    for (size_t i = 0; i < bytes && !gives; i++)
        own[i] = (unsigned char)(i + job.task);
    for (size_t i = 0; i < job.tasks * bytes && gives; i++)
        all[i] = (unsigned char)(i % bytes + i / bytes);
    job_barrier(&job);
    if (job.task == 0) {
        xfer.cmd = plain_arguments(type, bytes != 0 ? all : NULL, bytes);
        coll_start(job.context[0], &xfer);
    }
    if (job.task != 0 || type != PAMI_XFER_AMBROADCAST)
        WAIT(&job, landed == 1);
    else
        WAIT(&job, told.count == 1);
    for (size_t i = 0; i < bytes && gives && (job.task != 0 || blocks); i++)
        CHECK_SIZE(own[i], (unsigned char)(i + (blocks ? job.task : 0)));
    for (size_t i = 0; i < (blocks ? job.tasks : 1) * bytes && !gives && job.task == 0; i++)
        CHECK_SIZE(all[i], (unsigned char)(blocks ? i % bytes + i / bytes : job.tasks * i + sum));
    job_barrier(&job);
    free(all), free(own);
}

int main(void)
{
    const pami_dispatch_callback_function data = {.ambroadcast = on_plain_data},
                                          scatter = {.amscatter = on_plain_data},
                                          gather = {.amgather = on_plain_gather},
                                          reduce = {.amreduce = on_plain_reduce};
    static const size_t lengths[] = {0, 5, 2000, 100000};

    job_start(&job, "am-types", 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        count = sizes[i];
        run(world_of(&job));
    }
    gather_shifted(world_of(&job));
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        plain(world_of(&job), PAMI_XFER_AMBROADCAST, data, lengths[i]);
        plain(world_of(&job), PAMI_XFER_AMSCATTER, scatter, lengths[i]);
        plain(world_of(&job), PAMI_XFER_AMGATHER, gather, lengths[i]);
        plain(world_of(&job), PAMI_XFER_AMREDUCE, reduce, lengths[i]);
    }
    job_finish(&job);
    return 0;
}
