/*
 * Who has started an active-message collective destroys its geometry, or its context, while the
 * other members have not answered: they do not know the id.
 *
 * Run: tasks=1,2,3 env="GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"
 */
#include "coll.h"

enum {
    ID_GATHER = 3,
    ID_REDUCE,
    BYTES = 64,
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

int main(void)
{
    pami_task_t tasks[MEMBERS_MAX];
    pami_geometry_t geometry;

    job_start(&job, "am-leave", 1);
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
    job_destroy(&job);
    return 0;
}
