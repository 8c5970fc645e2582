/*
 * A thread with a small stack, as run-times of languages have them, does everything but create the
 * client: messages of all ways, typed transfers, atomics, collectives. How deep the stack gets is
 * measured, with what libfabric takes.
 *
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=2 nodes=2 env="PAMI_NETWORK=ofi PAMI_OFI_PROVIDER=tcp;ofi_rxm"
 * Run: tasks=4 nodes=2 env="PAMI_NETWORK=ofi"
 * Run: tasks=2
 */
#include <pthread.h>
#include <stdlib.h>

#include "api/coll.h"
#include "api/rma.h"
#include "net/net.h"

enum {
    DATA_ID = 1,
    ROOM = 256 << 10,
    OURS = 8 << 10,    /* bytes at most: half of the least stack that Linux knows */
    FABRIC = 14 << 10, /* ... and with net or tcp;ofi_rxm 1.17, of which 12 KiB are one frame */
    LARGEST = 2 << 20,
    COUNT = 30000,
    PAINT = 0xa5
};

static struct job job;
static size_t arrived;
static unsigned char *source, *target, *window;
static size_t depth;

static void on_arrived(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK_OK(result);
    arrived++;
}

static void on_data(pami_context_t context, void *cookie, const void *header, size_t header_bytes,
                    const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes, (void)data, (void)bytes;
    (void)origin;
    if (recv == NULL) {
        arrived++;
        return;
    }
    recv->addr = target;
    recv->local_fn = on_arrived;
}

static void messages(pami_endpoint_t other)
{
    size_t sent = 0;

    for (size_t bytes = 1; bytes <= LARGEST; bytes *= 4) {
        test_send(job.context[0], other, DATA_ID, NULL, 0, source, bytes, (pami_send_event_t){0});
        WAIT(&job, arrived > sent);
        sent++;
        job_barrier(&job);
    }
}

static void transfers(pami_endpoint_t other, unsigned char *there)
{
    pami_type_t column;
    pami_rma_addr_t put = {source, there}, get = {target, there};
    pami_rma_typed_t types;
    struct rma op = {0};

    CHECK_OK(PAMI_Type_create(&column));
    CHECK_OK(PAMI_Type_add_simple(column, sizeof(int), 0, COUNT, 3 * sizeof(int)));
    CHECK_OK(PAMI_Type_complete(column, sizeof(int)));
    types = (pami_rma_typed_t){column, column};
    rma_put_typed(&op, job.context[0], other, put, types, COUNT * sizeof(int));
    rma_wait(&job);
    rma_get_typed(&op, job.context[0], other, get, types, COUNT * sizeof(int));
    rma_wait(&job);
    rma_put(&op, job.context[0], other, source, there, LARGEST);
    rma_wait(&job);
    rma_get(&op, job.context[0], other, target, there, LARGEST);
    rma_wait(&job);
    CHECK(memcmp(source, target, LARGEST) == 0);
    CHECK_OK(PAMI_Type_destroy(&column));
}

static void collectives(void)
{
    static const size_t counts[] = {1, 1000, COUNT};
    struct told told;
    pami_geometry_t world;
    pami_xfer_t xfer;

    CHECK_OK(PAMI_Geometry_world(job.client, &world));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        xfer = coll_xfer(algorithm_of(world, PAMI_XFER_ALLREDUCE), &told);
        xfer.cmd.xfer_allreduce = (pami_allreduce_t){
            .sndbuf = (char *)source,
            .stype = PAMI_TYPE_SIGNED_INT,
            .stypecount = counts[i],
            .rcvbuf = (char *)target,
            .rtype = PAMI_TYPE_SIGNED_INT,
            .rtypecount = counts[i],
            .op = PAMI_DATA_BOR,
        };
        coll_run(&job, job.context[0], &xfer);
        CHECK(memcmp(source, target, counts[i] * sizeof(int)) == 0);
    }
}

static void *small(void *stack)
{
    unsigned char here = 0, *lowest = stack;
    unsigned char *all[8];
    pami_endpoint_t other = job_endpoint(&job, (job.task + job.tasks / 2) % job.tasks, 0);

    rma_share(&job, &window, sizeof window, all);
    messages(other);
    transfers(other, all[(job.task + job.tasks / 2) % job.tasks]);
    job_barrier(&job);
    collectives();
    while (*lowest == PAINT)
        lowest++;
    depth = (size_t)(&here - lowest);
    return NULL;
}

int main(void)
{
    unsigned char *stack;
    pthread_attr_t attributes;
    pthread_t thread;

    job_start(&job, "small_stack", 1);
    need_module();
    CHECK(job.tasks >= 2 && job.tasks <= 8);
    rma_open(&job);
    test_dispatch(job.context[0], DATA_ID, on_data, NULL, test_ordered());
    source = test_alloc(LARGEST), target = test_alloc(LARGEST), window = test_alloc(LARGEST);
    test_fill(source, LARGEST, 1, 0);
    CHECK(posix_memalign((void **)&stack, 4096, ROOM) == 0);
    memset(stack, PAINT, ROOM);
    job_barrier(&job);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, stack, ROOM) == 0);
    CHECK(pthread_create(&thread, &attributes, small, stack) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
    printf("# %zu bytes of stack\n", depth);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    CHECK(depth <= (is_mapped("pami-ofi.so") ? OURS / 2 + FABRIC : OURS));
#endif
    free(stack), free(source), free(target), free(window);
    rma_close(&job);
    return 0;
}
