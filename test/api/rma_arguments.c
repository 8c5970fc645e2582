/*
 * Wrong arguments of one-sided calls: refused with PAMI_INVAL and a text that names function and
 * argument, without side effects, whatever else the structure holds.
 *
 * Run: tasks=1,2
 * Run: tasks=2 nodes=2
 */
#include "rma.h"

static struct job job;
static unsigned char memory[64];
static pami_memregion_t region;

static void on_event(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie, (void)result;
    FAIL("an event of an operation that was refused");
}

/* All eight calls with the same destination, on the same context. */
static void refuse(pami_context_t context, pami_endpoint_t dest, const char *word)
{
    pami_rma_t head = {.dest = dest,
                       .hints = test_garbage_hints(),
                       .bytes = 8,
                       .cookie = &job,
                       .done_fn = on_event};
    pami_rma_addr_t addr = {memory, memory + 8};
    pami_rma_typed_t type = {PAMI_TYPE_BYTE, PAMI_TYPE_DOUBLE};
    pami_rdma_t rdma = {{&region, 0}, {&region, 8}};
    pami_rma_put_t tail = {on_event};
    pami_put_simple_t put = {head, addr, tail};
    pami_put_typed_t put_typed = {head, addr, type, tail};
    pami_get_simple_t get = {head, addr};
    pami_get_typed_t get_typed = {head, addr, type};
    pami_rput_simple_t rput = {head, rdma, tail};
    pami_rput_typed_t rput_typed = {head, rdma, type, tail};
    pami_rget_simple_t rget = {head, rdma};
    pami_rget_typed_t rget_typed = {head, rdma, type};

    CHECK_REFUSED(PAMI_Put(context, &put), PAMI_INVAL, word);
    CHECK_REFUSED(PAMI_Put_typed(context, &put_typed), PAMI_INVAL, word);
    CHECK_REFUSED(PAMI_Get(context, &get), PAMI_INVAL, word);
    CHECK_REFUSED(PAMI_Get_typed(context, &get_typed), PAMI_INVAL, word);
    CHECK_REFUSED(PAMI_Rput(context, &rput), PAMI_INVAL, word);
    CHECK_REFUSED(PAMI_Rput_typed(context, &rput_typed), PAMI_INVAL, word);
    CHECK_REFUSED(PAMI_Rget(context, &rget), PAMI_INVAL, word);
    CHECK_REFUSED(PAMI_Rget_typed(context, &rget_typed), PAMI_INVAL, word);
}

/* More bytes than any transfer has, though there are as many addresses. */
static void refuse_bytes(pami_context_t context, pami_endpoint_t dest)
{
    pami_rma_t head = {.dest = dest,
                       .hints = test_garbage_hints(),
                       .bytes = ((size_t)1 << 62) + 8,
                       .cookie = &job,
                       .done_fn = on_event};
    pami_rma_addr_t addr = {memory, memory + 8};
    pami_rma_put_t tail = {on_event};
    pami_put_simple_t put = {head, addr, tail};
    pami_get_simple_t get = {head, addr};
    pami_type_t rows;

    CHECK_OK(PAMI_Type_create(&rows));
    CHECK_OK(PAMI_Type_add_simple(rows, 1, 0, 1, 2));
    CHECK_OK(PAMI_Type_complete(rows, 1));

    pami_rma_typed_t type = {rows, rows};
    pami_put_typed_t put_typed = {head, addr, type, tail};
    pami_get_typed_t get_typed = {head, addr, type};

    CHECK_REFUSED(PAMI_Put(context, &put), PAMI_INVAL, "bytes");
    CHECK_REFUSED(PAMI_Put_typed(context, &put_typed), PAMI_INVAL, "bytes");
    CHECK_REFUSED(PAMI_Get(context, &get), PAMI_INVAL, "bytes");
    CHECK_REFUSED(PAMI_Get_typed(context, &get_typed), PAMI_INVAL, "bytes");
    CHECK_OK(PAMI_Type_destroy(&rows));
}

/* No address where the type has none of its own, whatever the other side's type is. */
static void refuse_nowhere(pami_context_t context, pami_endpoint_t dest)
{
    pami_rma_t head = {.dest = dest,
                       .hints = test_garbage_hints(),
                       .bytes = 8,
                       .cookie = &job,
                       .done_fn = on_event};
    pami_put_typed_t put = {.rma = head, .put = {on_event}};
    pami_get_typed_t get = {.rma = head};
    pami_type_t rows;

    CHECK_OK(PAMI_Type_create(&rows));
    CHECK_OK(PAMI_Type_add_simple(rows, 1, 0, 1, 2));
    CHECK_OK(PAMI_Type_complete(rows, 1));

    get.addr = put.addr = (pami_rma_addr_t){NULL, memory};
    get.type = put.type = (pami_rma_typed_t){PAMI_TYPE_BYTE, rows};
    CHECK_REFUSED(PAMI_Put_typed(context, &put), PAMI_INVAL, "addr.local");
    CHECK_REFUSED(PAMI_Get_typed(context, &get), PAMI_INVAL, "addr.local");
    get.addr = put.addr = (pami_rma_addr_t){memory, NULL};
    get.type = put.type = (pami_rma_typed_t){rows, PAMI_TYPE_BYTE};
    CHECK_REFUSED(PAMI_Put_typed(context, &put), PAMI_INVAL, "addr.remote");
    CHECK_REFUSED(PAMI_Get_typed(context, &get), PAMI_INVAL, "addr.remote");
    CHECK_OK(PAMI_Type_destroy(&rows));
}

int main(void)
{
    pami_context_t context;
    pami_endpoint_t self, absent;
    size_t limit;

    job_start(&job, "rma_arguments", 2);
    context = job.context[0];
    self = job_endpoint(&job, job.task, 0);
    limit = client_attribute(job.client, PAMI_CLIENT_NUM_CONTEXTS);
    absent = (pami_endpoint_t)(job_endpoint(&job, 0, limit - 1) + job_endpoint(&job, 0, 1));
    test_fill(memory, sizeof memory, 1, 0);
    rma_region(context, memory, sizeof memory, &region);

    refuse(context, (pami_endpoint_t)job.tasks, "dest"); /* no such task */
    refuse(context, PAMI_ENDPOINT_NULL, "dest");
    refuse(context, absent, "dest"); /* no such context */
    refuse(PAMI_CONTEXT_NULL, self, "context");
    refuse_bytes(context, job_endpoint(&job, job.tasks - 1, 0));
    refuse_nowhere(context, self);
    refuse_nowhere(context, job_endpoint(&job, job.tasks - 1, 0));
    CHECK_REFUSED(PAMI_Put(context, NULL), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMI_Put_typed(context, NULL), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMI_Get(context, NULL), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMI_Get_typed(context, NULL), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMI_Rput(context, NULL), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMI_Rput_typed(context, NULL), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMI_Rget(context, NULL), PAMI_INVAL, "parameters");
    CHECK_REFUSED(PAMI_Rget_typed(context, NULL), PAMI_INVAL, "parameters");
    job_linger(&job, 0.01);
    CHECK_SIZE(test_differs(memory, sizeof memory, 1, 0), sizeof memory);
    CHECK_OK(PAMI_Memregion_destroy(context, &region));
    job_finish(&job);
    return 0;
}
