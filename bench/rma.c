/*
 * One-sided transfers between two tasks: see onesided.h for what is measured.
 *
 *     pamirun -n 2 rma [--min N] [--max N] [--step N] [--block-min N] [--ms N] [--plain]
 *                      [--regions]
 *
 * The target is memory of the heap that the tasks of a node share; with --plain it is ordinary
 * memory that nobody has announced. The other side is ordinary memory always. Operations are the
 * plain calls by address, each with the callback of its completion at the target; with --regions
 * both sides are memory regions, and put and get are PAMI_Rput and PAMI_Rget.
 */
#include "job.h"
#include "onesided.h"

#include <pami/pamix.h>

enum {
    ADDRESS = JOB_USER
};

static struct {
    struct job job;
    pami_endpoint_t peer;
    unsigned char *target; /* address of rank 1's window */
    bool regions, known, local_known;
    pami_memregion_t window, there, local; /* regions: of this rank, of rank 1, of the other side */
    uint64_t started, ended;
    pami_type_t strided;
    size_t block; /* of `strided` */
} transport;

static void on_address(pami_context_t context, void *cookie, const void *header, size_t header_size,
                       const void *data, size_t bytes, pami_endpoint_t origin, pami_recv_t *recv)
{
    JOB_UNUSED_DISPATCH_ARGUMENTS;
    memcpy(&transport.target, data, sizeof(transport.target));
    memcpy(transport.there, (const char *)data + sizeof(transport.target), sizeof(transport.there));
    transport.known = true;
}

static void on_ended(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    if (result != PAMI_SUCCESS) {
        bench_die("an operation ended with %d", (int)result);
    }
    transport.ended++;
}

static void make_region(void *memory, pami_memregion_t *region)
{
    size_t bytes;

    PAMI_OK(
        PAMI_Memregion_create(transport.job.contexts[0], memory, ONESIDED_WINDOW, &bytes, region));
    if (bytes != ONESIDED_WINDOW) {
        bench_die("a region of %zu bytes has %zu", (size_t)ONESIDED_WINDOW, bytes);
    }
}

/* The other side is as large as the window, and byte `at` of both belong together. */
static pami_rdma_t regions_at(const void *address, size_t at)
{
    if (!transport.local_known) {
        make_region((char *)(uintptr_t)address - at, &transport.local);
        transport.local_known = true;
    }
    return (pami_rdma_t){.local = {&transport.local, at}, .remote = {&transport.there, at}};
}

void transport_put(const void *source, size_t at, size_t bytes)
{
    pami_rput_simple_t rput = {
        .rma = {.dest = transport.peer, .bytes = bytes},
        .put = {on_ended},
    };
    pami_put_simple_t put = {
        .rma = {.dest = transport.peer, .bytes = bytes},
        .addr = {(void *)(uintptr_t)source, transport.target + at},
        .put = {on_ended},
    };

    transport.started++;
    if (transport.regions) {
        rput.rdma = regions_at(source, at);
        PAMI_OK(PAMI_Rput(transport.job.contexts[0], &rput));
        return;
    }
    PAMI_OK(PAMI_Put(transport.job.contexts[0], &put));
}

void transport_get(void *target, size_t at, size_t bytes)
{
    pami_get_simple_t get = {
        .rma = {.dest = transport.peer, .bytes = bytes, .done_fn = on_ended},
        .addr = {target, transport.target + at},
    };

    transport.started++;
    if (transport.regions) {
        pami_rget_simple_t rget = {.rma = get.rma, .rdma = regions_at(target, at)};

        PAMI_OK(PAMI_Rget(transport.job.contexts[0], &rget));
        return;
    }
    PAMI_OK(PAMI_Get(transport.job.contexts[0], &get));
}

void transport_put_strided(const void *source, size_t at, size_t block, size_t bytes)
{
    pami_put_typed_t put = {
        .rma = {.dest = transport.peer, .bytes = bytes},
        .addr = {(void *)(uintptr_t)source, transport.target + at},
        .type = {.local = PAMI_TYPE_BYTE},
        .put = {on_ended},
    };

    if (transport.block != block) {
        if (transport.block != 0) {
            PAMI_OK(PAMI_Type_destroy(&transport.strided));
        }
        PAMI_OK(PAMI_Type_create(&transport.strided));
        PAMI_OK(PAMI_Type_add_simple(transport.strided, block, 0, bytes / block, 2 * block));
        PAMI_OK(PAMI_Type_complete(transport.strided, 8));
        transport.block = block;
    }
    put.type.remote = transport.strided;
    transport.started++;
    PAMI_OK(PAMI_Put_typed(transport.job.contexts[0], &put));
}

void transport_fetch_add(uint64_t *old, size_t at)
{
    static uint64_t one = 1;
    pami_rmw_t rmw = {
        .dest = transport.peer,
        .done_fn = on_ended,
        .local = old,
        .remote = transport.target + at,
        .value = &one,
        .operation = PAMI_ATOMIC_FETCH_ADD,
        .type = PAMI_TYPE_UNSIGNED_LONG,
    };

    transport.started++;
    PAMI_OK(PAMI_Rmw(transport.job.contexts[0], &rmw));
}

void transport_flush(void)
{
    while (transport.ended != transport.started) {
        job_poll_one(transport.job.contexts[0]);
    }
}

void transport_meet(void)
{
    job_meet(&transport.job);
}

int main(int argc, char **argv)
{
    struct job *j = &transport.job;
    struct onesided o = {.atomics = true, .strided = true};
    bool plain = bench_flag(argc, argv, "--plain");
    void *window;
    char told[sizeof(window) + sizeof(pami_memregion_t)];

    job_open(j, 1);
    if (j->tasks != 2) {
        bench_die("start me with 2 tasks: pamirun -n 2 rma");
    }
    o.rank = j->task;
    if (plain) {
        window = bench_alloc(ONESIDED_WINDOW);
    } else {
        PAMI_OK(PAMIX_Mem_alloc(j->client, ONESIDED_WINDOW, 4096, PAMIX_MEM_ANY, &window));
    }
    o.window = window;
    transport.peer = job_endpoint(j, 1 - j->task, 0);
    job_dispatch(j, ADDRESS, on_address, NULL);
    job_meet(j);
    transport.regions = bench_flag(argc, argv, "--regions");
    o.atomics = o.strided = !transport.regions;
    if (transport.regions) {
        make_region(window, &transport.window);
    }
    memcpy(told, &window, sizeof(window));
    memcpy(told + sizeof(window), transport.window, sizeof(transport.window));
    job_send(j, 0, ADDRESS, transport.peer, told, sizeof(told));
    while (!transport.known) {
        job_poll(j);
    }
    onesided_run(&o, argc, argv);
    if (transport.block != 0) {
        PAMI_OK(PAMI_Type_destroy(&transport.strided));
    }
    if (transport.regions) {
        PAMI_OK(PAMI_Memregion_destroy(j->contexts[0], &transport.window));
    }
    if (transport.local_known) {
        PAMI_OK(PAMI_Memregion_destroy(j->contexts[0], &transport.local));
    }
    if (plain) {
        free(window);
    } else {
        PAMI_OK(PAMIX_Mem_free(j->client, window));
    }
    job_close(j);
    return 0;
}
