/*
 * Who leaves active-message collectives that are under way: who has started one destroys its
 * geometry, or its context, while the other members have not answered, as they do not know the id.
 * With `exit` these end in the dispatch function of one whose data is still to come, and another
 * one waits behind it.
 *
 * Run: tasks=1,2,3 env="GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"
 * Run: tasks=2,3 nodes=1,2 args="exit"
 * Run: tasks=2 nodes=2 args="exit" env="PAMI_NETWORK=ofi"
 */
#include "coll.h"

enum {
    ID_GATHER = 3,
    ID_REDUCE,
    ID_BROADCAST,
    BYTES = 64,
    LARGE = 300000,
    MEMBERS_MAX = 8
};

static struct job job;
static unsigned char mine[BYTES], all[BYTES * MEMBERS_MAX];

static void on_gather(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)origin, (void)geometry;
    CHECK_SIZE(bytes, BYTES);
    recv->addr = mine;
    recv->type = PAMI_TYPE_BYTE;
    recv->local_fn = NULL;
}

static void on_reduce(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                      size_t bytes, pami_endpoint_t origin, pami_geometry_t geometry,
                      pami_data_function *op, pami_recv_t *recv)
{
    on_gather(context, cookie, header, header_bytes, bytes, origin, geometry, recv);
    *op = PAMI_DATA_BXOR;
}

static void begin(pami_geometry_t geometry, pami_xfer_type_t type,
                  pami_dispatch_callback_function fn)
{
    pami_xfer_t xfer = {.algorithm = algorithm_of(geometry, type)};
    pami_collective_hint_t hints = {0};
    size_t id = type == PAMI_XFER_AMGATHER ? ID_GATHER : ID_REDUCE;

    CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0], xfer.algorithm, id, fn, NULL, hints));
    if (type == PAMI_XFER_AMGATHER)
        xfer.cmd.xfer_amgather = (pami_amgather_t){
            .dispatch = id, .rcvbuf = all, .rtype = PAMI_TYPE_BYTE, .rtypecount = BYTES};
    else
        xfer.cmd.xfer_amreduce = (pami_amreduce_t){
            .dispatch = id, .rcvbuf = all, .rtype = PAMI_TYPE_BYTE, .rtypecount = BYTES};
    CHECK_OK(TEST_CALL(PAMI_Collective(job.context[0], &xfer)));
}

static void begin_both(pami_geometry_t geometry)
{
    begin(geometry, PAMI_XFER_AMGATHER, (pami_dispatch_callback_function){.amgather = on_gather});
    begin(geometry, PAMI_XFER_AMREDUCE, (pami_dispatch_callback_function){.amreduce = on_reduce});
}

static void on_broadcast(pami_context_t context, void *cookie, const void *header,
                         size_t header_bytes, const void *pipe, size_t bytes,
                         pami_endpoint_t origin, pami_geometry_t geometry, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)pipe;
    (void)origin, (void)geometry, (void)recv;
    CHECK_SIZE(bytes, LARGE);
    exit(0);
}

/* Both wait for the id. */
static void leave_by_exit(void)
{
    static char data[LARGE];
    pami_geometry_t world = world_of(&job);
    pami_dispatch_callback_function fn = {.ambroadcast = on_broadcast};
    pami_algorithm_t algorithm = algorithm_of(world, PAMI_XFER_AMBROADCAST);
    struct told told[2];

    if (job.task == 0)
        CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0], algorithm, ID_BROADCAST, fn, NULL,
                                                (pami_collective_hint_t){0}));
    for (size_t i = 0; i < 2 && job.task == 0; i++) {
        pami_xfer_t xfer = coll_xfer(algorithm, &told[i]);

        xfer.cmd.xfer_ambroadcast = (pami_ambroadcast_t){
            .dispatch = ID_BROADCAST, .sndbuf = data, .stype = PAMI_TYPE_BYTE, .stypecount = LARGE};
        coll_start(job.context[0], &xfer);
    }
    job_barrier(&job);
    job_linger(&job, 0.05);
    if (job.task == 0) {
        WAIT(&job, told[0].count != 0 && told[1].count != 0);
        return;
    }
    CHECK_OK(PAMI_AMCollective_dispatch_set(job.context[0], algorithm, ID_BROADCAST, fn, NULL,
                                            (pami_collective_hint_t){0}));
    WAIT(&job, false);
}

static void leave_by_destroying(void)
{
    pami_task_t tasks[MEMBERS_MAX];
    pami_geometry_t geometry;

    CHECK(job.tasks <= MEMBERS_MAX);
    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)i;
    create_list(&job, &geometry, PAMI_GEOMETRY_NULL, 1, tasks, job.tasks, 0);
    if (job.task == 0)
        begin_both(geometry);
    destroy_geometry(&job, &geometry);
    job_linger(&job, 0.1);
    job_barrier(&job);
    if (job.task == 0)
        begin_both(world_of(&job));
    job_destroy_contexts(&job);
}

int main(int argc, char **argv)
{
    bool exits = argc > 1 && strcmp(argv[1], "exit") == 0;

    job_start(&job, "am-leave", 1);
    if (exits)
        leave_by_exit();
    else
        leave_by_destroying();
    job_destroy(&job);
    return 0;
}
