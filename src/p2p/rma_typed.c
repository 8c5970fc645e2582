/*
 * Typed one-sided transfers: both layouts are the origin's, and are walked here, side by side.
 *
 * A cursor only computes addresses, so the target's layout is applied to the target's address
 * without anybody having to be told what the layout is: what travels is runs, pieces of memory at
 * equal distances. A regular layout is one run whatever its size.
 */
#include <errno.h>
#include <stdlib.h>

#include "p2p/rma.h"
#include "util/error.h"
#include "util/minmax.h"

/* See rma_typed_is_fine. */
#define FINE_PIECE 512
#define FINE_PIECES 16
#define FINE_RUNS 32

int rma_typed_new(const struct rma_call *call, struct rma_typed **out)
{
    struct rma_typed *typed = malloc(sizeof(*typed));

    if (typed == NULL)
        return -ENOMEM;
    typed->local_type = type_ref(call->local_type);
    typed->remote_type = type_ref(call->remote_type);
    type_cursor_init(&typed->local, typed->local_type, call->local, 0);
    type_cursor_init(&typed->remote, typed->remote_type, (const void *)(uintptr_t)call->remote, 0);
    typed->no_spans = typed->staged = false;
    *out = typed;
    return 0;
}

void rma_typed_free(struct rma_typed *typed)
{
    type_unref(typed->local_type);
    type_unref(typed->remote_type);
    free(typed);
}

/* Both cursors to data byte `done`. */
void rma_typed_seek(struct rma *rma)
{
    struct rma_typed *typed = rma->typed;

    type_cursor_init(&typed->local, typed->local_type, rma->local, rma->done);
    type_cursor_init(&typed->remote, typed->remote_type, (const void *)(uintptr_t)rma->remote,
                     rma->done);
}

/* The next run of a layout that is not empty, at most `most` bytes (> 0), and step over it. */
size_t rma_next_run(struct type_cursor *cursor, struct rma_run *run, size_t most)
{
    size_t count;

    if (!type_cursor_refill(cursor)) {
        *run = (struct rma_run){0};
        return 0;
    }
    run->address = cursor->at;
    run->stride = cursor->stride;
    if (cursor->left != cursor->piece || cursor->reps == 0 || most / 2 < cursor->piece) {
        run->piece = smaller(cursor->left, most);
        run->count = 1;
        cursor->at += run->piece;
        cursor->left -= run->piece;
        return run->piece;
    }
    count = smaller(cursor->reps, most / cursor->piece - 1) + 1;
    run->piece = cursor->piece;
    run->count = count;
    cursor->at += (count - 1) * cursor->stride + cursor->piece;
    cursor->reps -= count - 1;
    cursor->left = 0;
    return count * cursor->piece;
}

static bool piece_is_within(const struct rma_area *area, uint64_t address, uint64_t bytes)
{
    uint64_t offset = address - area->start;

    return offset < area->bytes && bytes <= area->bytes - offset;
}

/* The first and the last piece of the run, `shift` further on, and so all between them. */
static bool run_is_within(const struct rma_area *area, const struct rma_run *run, uint64_t shift)
{
    int64_t span;

    if (__builtin_mul_overflow((int64_t)run->stride, (int64_t)(run->count - 1), &span))
        return false;
    return piece_is_within(area, run->address + shift, run->piece) &&
           piece_is_within(area, run->address + shift + (uint64_t)span, run->piece);
}

/* `bytes` data bytes from data byte `from` on, there and `shift` further on. */
static bool part_is_within(const struct type *type, uint64_t base, size_t from, size_t bytes,
                           uint64_t shift, const struct rma_area *area)
{
    struct type_cursor cursor;
    struct rma_run run;

    type_cursor_init(&cursor, type, (const void *)(uintptr_t)base, from);
    while (bytes != 0) {
        bytes -= rma_next_run(&cursor, &run, bytes);
        if (!run_is_within(area, &run, 0) || (shift != 0 && !run_is_within(area, &run, shift)))
            return false;
    }
    return true;
}

/* Every piece of the layout at `base` lies in the area. Takes as long as one instance has runs:
 * of whole instances the first and the last one are looked at. */
bool rma_layout_is_within(const struct type *type, uint64_t base, size_t bytes,
                          const struct rma_area *area)
{
    size_t size = type_data_size(type);
    size_t whole = bytes / size;
    int64_t shift;

    if (whole < 2)
        return part_is_within(type, base, 0, bytes, 0, area);
    if (__builtin_mul_overflow((int64_t)type_extent(type), (int64_t)(whole - 1), &shift))
        return false;
    return part_is_within(type, base, 0, size, (uint64_t)shift, area) &&
           part_is_within(type, base, whole * size, bytes - whole * size, 0, area);
}

/* Where the base of the target's layout would be mapped, if all of its pieces are; else NULL. */
void *rma_typed_heap(const struct type *remote, const struct path *path, uint64_t base,
                     size_t bytes)
{
    const struct rma_area area = {path->heap_remote, path->heap_bytes};

    if (path->heap_bytes == 0 || !rma_layout_is_within(remote, base, bytes, &area))
        return NULL;
    return (void *)((uintptr_t)path->heap_local + (uintptr_t)(base - path->heap_remote));
}

/*
 * So fine at the target that packets are quicker than single copy: each piece costs the kernel
 * about 0.5 us, and the target a fraction of that. 256 KiB in pieces of 8, 64, 512, 2048 bytes, put
 * by single copy 40000, 1430, 187, 53 us, by packets 456, 154, 122, 130 us (measured 2026-11-21,
 * 2 tasks on 2 busy cores). The mean of the first runs tells, as structures often begin with
 * something short, or long.
 *
 * So fine at the origin that a copy more, by way of batch->span, is quicker as well.
 */
bool rma_typed_is_fine(struct type_cursor cursor, size_t bytes)
{
    size_t seen = 0, pieces = 0, mean;
    struct rma_run run;

    for (int i = 0; i < FINE_RUNS && seen < bytes; i++) {
        seen += rma_next_run(&cursor, &run, bytes - seen);
        pieces += run.count;
    }
    mean = pieces != 0 ? seen / pieces : 0;
    return mean < FINE_PIECE && mean <= bytes / FINE_PIECES;
}

/* Pieces from `cursor` on, at most `most` bytes; returns the bytes. */
static size_t gather(struct type_cursor *cursor, struct iovec *pieces, size_t *count, size_t most)
{
    size_t bytes = 0;

    for (*count = 0; *count < RMA_BATCH && bytes < most; ++*count) {
        struct iovec *piece = &pieces[*count];

        piece->iov_len = type_cursor_next(cursor, &piece->iov_base, most - bytes);
        bytes += piece->iov_len;
    }
    return bytes;
}

struct rma_batch *rma_batch_get(struct p2p *p2p)
{
    if (p2p->batch == NULL)
        p2p->batch = malloc(sizeof(*p2p->batch));
    return p2p->batch;
}

/* The other side's pieces, and for those of this one the memory that they go by way of. */
static void stage(const struct rma *rma, struct rma_batch *batch, size_t most)
{
    most = smaller(most, RMA_SPAN_BYTES);
    batch->bytes = gather(&batch->remote_next, batch->remote, &batch->remote_count, most);
    batch->local[0] = (struct iovec){batch->span, batch->bytes};
    batch->local_count = 1;
    if (rma->put)
        type_pack(batch->span, &batch->local_next, batch->bytes, PAMI_DATA_COPY, NULL);
}

/* Fill p2p->batch with what comes next on both sides. False: no memory for it. */
bool rma_typed_batch(struct p2p *p2p, const struct rma *rma)
{
    const struct rma_typed *typed = rma->typed;
    size_t most = smaller(rma->bytes - rma->done, RMA_STEP_BYTES);
    struct rma_batch *batch = rma_batch_get(p2p);

    if (batch == NULL)
        return false;
    batch->local_next = typed->local;
    batch->remote_next = typed->remote;
    if (typed->staged) {
        stage(rma, batch, most);
        return true;
    }
    most = gather(&batch->local_next, batch->local, &batch->local_count, most);
    batch->bytes = gather(&batch->remote_next, batch->remote, &batch->remote_count, most);
    if (batch->bytes < most) {
        batch->local_next = typed->local;
        gather(&batch->local_next, batch->local, &batch->local_count, batch->bytes);
    }
    return true;
}

/* ---- the calls ---- */

/* Complete types with something in them; two contiguous ones are left out of the call. */
static pami_result_t call_typed(struct rma_call *call, const pami_rma_typed_t *types)
{
    struct type *local = type_complete_from_handle(types->local);
    struct type *remote = type_complete_from_handle(types->remote);
    size_t bytes = call->rma->bytes;

    if (local == NULL)
        return error_set(PAMI_INVAL, "%s: type.local: not a complete type", call->function);
    if (remote == NULL)
        return error_set(PAMI_INVAL, "%s: type.remote: not a complete type", call->function);
    if (bytes != 0 && type_data_size(local) == 0)
        return error_set(PAMI_INVAL, "%s: type.local: is empty, but there are %zu bytes",
                         call->function, bytes);
    if (bytes != 0 && type_data_size(remote) == 0)
        return error_set(PAMI_INVAL, "%s: type.remote: is empty, but there are %zu bytes",
                         call->function, bytes);
    /* Others may have absolute displacements. */
    if (bytes != 0 && call->local == NULL && type_is_contiguous(local))
        return rma_null_address(call, "local");
    if (bytes != 0 && call->remote == 0 && type_is_contiguous(remote))
        return rma_null_address(call, "remote");
    if (!type_is_contiguous(local) || !type_is_contiguous(remote)) {
        call->local_type = local;
        call->remote_type = remote;
    }
    return rma_call(call);
}

pami_result_t PAMI_Put_typed(pami_context_t handle, pami_put_typed_t *parameters)
{
    struct context *context = context_from_handle(handle);
    struct rma_call call = {.function = "PAMI_Put_typed", .context = context, .put = true};

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Put_typed: context: %s", context_fault(handle));
    if (parameters == NULL)
        return error_set(PAMI_INVAL, "PAMI_Put_typed: parameters: NULL");
    call.rma = &parameters->rma;
    call.local = parameters->addr.local;
    call.remote = (uint64_t)(uintptr_t)parameters->addr.remote;
    call.rdone_fn = parameters->put.rdone_fn;
    return call_typed(&call, &parameters->type);
}

pami_result_t PAMI_Get_typed(pami_context_t handle, pami_get_typed_t *parameters)
{
    struct context *context = context_from_handle(handle);
    struct rma_call call = {.function = "PAMI_Get_typed", .context = context};

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Get_typed: context: %s", context_fault(handle));
    if (parameters == NULL)
        return error_set(PAMI_INVAL, "PAMI_Get_typed: parameters: NULL");
    call.rma = &parameters->rma;
    call.local = parameters->addr.local;
    call.remote = (uint64_t)(uintptr_t)parameters->addr.remote;
    return call_typed(&call, &parameters->type);
}

pami_result_t PAMI_Rput_typed(pami_context_t handle, pami_rput_typed_t *parameters)
{
    struct context *context = context_from_handle(handle);
    struct rma_call call = {.function = "PAMI_Rput_typed", .context = context, .put = true};
    pami_result_t result;

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Rput_typed: context: %s", context_fault(handle));
    if (parameters == NULL)
        return error_set(PAMI_INVAL, "PAMI_Rput_typed: parameters: NULL");
    call.rma = &parameters->rma;
    call.rdone_fn = parameters->put.rdone_fn;
    result = memregion_resolve(&call, &parameters->rdma, &parameters->type);
    return result == PAMI_SUCCESS ? call_typed(&call, &parameters->type) : result;
}

pami_result_t PAMI_Rget_typed(pami_context_t handle, pami_rget_typed_t *parameters)
{
    struct context *context = context_from_handle(handle);
    struct rma_call call = {.function = "PAMI_Rget_typed", .context = context};
    pami_result_t result;

    if (context == NULL)
        return error_set(PAMI_INVAL, "PAMI_Rget_typed: context: %s", context_fault(handle));
    if (parameters == NULL)
        return error_set(PAMI_INVAL, "PAMI_Rget_typed: parameters: NULL");
    call.rma = &parameters->rma;
    result = memregion_resolve(&call, &parameters->rdma, &parameters->type);
    return result == PAMI_SUCCESS ? call_typed(&call, &parameters->type) : result;
}
