/*
 * PAMI_Rmw: atomic operations on a word of another task.
 *
 * Where the word is mapped here, in this task or in a neighbour's heap, the caller executes it
 * inside the call, unless a hint forbids that. Else it travels to the target in one packet, its
 * advance executes it, and the answer completes it: RMW_REPLY with the old value, or an ACK.
 * Atomicity is in atomic.h.
 *
 * What comes in a packet is checked, the address by the kernel, before the word is touched: a
 * wrong one is answered with an error.
 */
#include <errno.h>

#include "p2p/atomic.h"
#include "p2p/p2p.h"
#include "type/handle.h"
#include "util/error.h"
#include "util/order.h"
#include "util/probe.h"

#define PROBE_PAGE UINT64_C(4096)

/* Meta of an RMW packet; aux is the handle to answer to. */
struct rmw_meta {
    uint64_t address;
    struct atomic_request request;
};

_Static_assert(sizeof(struct rmw_meta) == 32 && offsetof(struct atomic_request, unused) == 20,
               "meta is counted in words, and has no holes");

/* An operation that waits for the target. */
struct rmw {
    struct operation op;
    struct rmw_meta meta;
    void *local;    /* NULL: the old value is not asked for */
    bool answered;  /* the old value has come */
    uint32_t epoch; /* of the fences */
    pami_event_function done_fn;
    void *cookie;
};

/* ---- the initiator ---- */

/* Bytes of an integer type that the operation is defined for; 0: it is not for this one. */
static inline unsigned width_of(pami_type_t type)
{
    static const uint8_t width[TYPE_KIND_COUNT] = {
        [TYPE_KIND_SIGNED_INT] = sizeof(int),
        [TYPE_KIND_UNSIGNED_INT] = sizeof(int),
        [TYPE_KIND_SIGNED_LONG] = sizeof(long),
        [TYPE_KIND_UNSIGNED_LONG] = sizeof(long),
        [TYPE_KIND_SIGNED_LONG_LONG] = sizeof(long long),
        [TYPE_KIND_UNSIGNED_LONG_LONG] = sizeof(long long),
    };
    uintptr_t kind = ((uintptr_t)type - HANDLE_VALUE(0, 1)) >> 4;

    return kind < TYPE_KIND_COUNT && type == HANDLE_PREDEFINED(kind) ? width[kind] : 0;
}

/* Why the call is refused. Only what the fast path has seen to be wrong comes here. */
__attribute__((noinline)) static pami_result_t refuse(const pami_rmw_t *rmw)
{
    unsigned operation = rmw->operation;
    unsigned width = width_of(rmw->type);

    if (!atomic_is_valid(operation))
        return error_set(PAMI_INVAL, "PAMI_Rmw: operation: %u is no pami_atomic_t", operation);
    if (width == 0)
        return error_set(PAMI_INVAL,
                         "PAMI_Rmw: type: not a predefined int, long or long long type");
    if (rmw->remote == NULL)
        return error_set(PAMI_INVAL, "PAMI_Rmw: remote: NULL");
    if ((uintptr_t)rmw->remote % width != 0)
        return error_set(PAMI_INVAL, "PAMI_Rmw: remote: %p is not aligned to %u bytes", rmw->remote,
                         width);
    if ((operation & PAMI_ATOMIC_FETCH) && rmw->local == NULL)
        return error_set(PAMI_INVAL, "PAMI_Rmw: local: NULL, but operation %u fetches", operation);
    if ((operation & PAMI_ATOMIC_COMPARE) && rmw->test == NULL)
        return error_set(PAMI_INVAL, "PAMI_Rmw: test: NULL, but operation %u compares", operation);
    return error_set(PAMI_INVAL, "PAMI_Rmw: value: NULL, but operation %u stores", operation);
}

static inline bool is_valid(const pami_rmw_t *rmw, unsigned width)
{
    unsigned operation = rmw->operation;

    return likely(width != 0 && atomic_is_valid(operation) && rmw->remote != NULL &&
                  (uintptr_t)rmw->remote % width == 0 &&
                  (!(operation & PAMI_ATOMIC_FETCH) || rmw->local != NULL) &&
                  (!(operation & PAMI_ATOMIC_COMPARE) || rmw->test != NULL) &&
                  (!(operation & ATOMIC_MODIFY) || rmw->value != NULL));
}

static inline uint64_t read_word(const void *address, unsigned width)
{
    uint32_t half;
    uint64_t word;

    if (width == 8) {
        memcpy(&word, address, 8);
        return word;
    }
    memcpy(&half, address, 4);
    return half;
}

static inline void write_word(void *address, uint64_t word, unsigned width)
{
    uint32_t half = (uint32_t)word;

    if (width == 8)
        memcpy(address, &word, 8);
    else
        memcpy(address, &half, 4);
}

static inline struct atomic_request request_of(const pami_rmw_t *rmw, unsigned width)
{
    unsigned operation = rmw->operation;

    return (struct atomic_request){
        .value = operation & ATOMIC_MODIFY ? read_word(rmw->value, width) : 0,
        .test = operation & PAMI_ATOMIC_COMPARE ? read_word(rmw->test, width) : 0,
        .operation = (uint16_t)operation,
        .width = (uint16_t)width,
    };
}

/* The word as this task may access it, or NULL. */
static void *mapped(const struct p2p *p2p, const struct peer *peer, void *remote, unsigned width)
{
    if (endpoint_task(peer->endpoint) == p2p->context->core->task)
        return remote;
    return path_map(peer->path, (uint64_t)(uintptr_t)remote, width);
}

static inline bool avoids_memory(const struct context *context, const pami_rmw_t *rmw)
{
    return rmw->hints.use_shmem == PAMI_HINT_DISABLE &&
           endpoint_task(rmw->dest) != context->core->task;
}

static void rmw_free(struct p2p *p2p, struct operation *operation)
{
    handle_drop(&p2p->handles, operation->handle);
    list_remove(&operation->link);
    pool_put(&p2p->rmws, container_of(operation, struct rmw, op));
}

static void rmw_finish(struct p2p *p2p, struct operation *operation, pami_result_t result)
{
    struct rmw *rmw = container_of(operation, struct rmw, op);

    /* An answer that lacks what was asked for. */
    if (result == PAMI_SUCCESS && rmw->local != NULL && !rmw->answered)
        result = error_set(PAMI_ERROR, "rmw: endpoint %u answered what it was not asked",
                           operation->peer->endpoint);
    /* PAMI_ERROR is never the target's word: the peer has gone, or is about to be known as gone. */
    operation_end(p2p, operation->peer, rmw->epoch, result == PAMI_ERROR ? PAMI_SHUTDOWN : result);
    if (result == PAMI_INVAL)
        result = error_set(PAMI_ERROR, "rmw: address 0x%llx of endpoint %u is not accessible",
                           (unsigned long long)rmw->meta.address, operation->peer->endpoint);
    else if (unlikely(result != PAMI_SUCCESS && result != PAMI_ERROR))
        result = p2p_answered("rmw", operation->peer, result);
    context_keep(p2p->context, rmw->done_fn, rmw->cookie, result);
    rmw_free(p2p, operation);
}

static int rmw_progress(struct p2p *p2p, struct operation *operation)
{
    struct rmw *rmw = container_of(operation, struct rmw, op);
    const struct packet packet = {
        .head = {.protocol = PROTOCOL_RMW,
                 .meta_words = sizeof(rmw->meta) / 8,
                 .origin = p2p->context->endpoint,
                 .aux = operation->handle},
        .meta = &rmw->meta,
    };
    int error = operation->path->am(operation->path, &packet);

    if (error != 0)
        return error;
    p2p->packets++;
    list_remove(&operation->link);
    return 0;
}

static const struct operation_ops rmw_ops = {
    .progress = rmw_progress,
    .finish = rmw_finish,
    .free = rmw_free,
};

/* The destination cannot be had. That it has left is no fault of the caller, who learns of it from
 * the callback. */
__attribute__((noinline)) static pami_result_t no_peer(struct context *context,
                                                       const pami_rmw_t *rmw, int error)
{
    pami_result_t result;

    if (error == -EPIPE && completion_reserve(&context->completions, 1) != 0)
        error = -ENOMEM;
    result = p2p_no_peer("PAMI_Rmw", rmw->dest, context->p2p, error);
    if (error != -EPIPE)
        return result;
    fence_refused(context->p2p, rmw->dest);
    context_complete(context, rmw->done_fn, rmw->cookie, PAMI_ERROR);
    return PAMI_SUCCESS;
}

__attribute__((noinline)) static pami_result_t send_rmw(struct p2p *p2p, struct peer *peer,
                                                        const pami_rmw_t *from, unsigned width)
{
    struct rmw *rmw = pool_get(&p2p->rmws);
    int error = 0;

    if (rmw == NULL)
        return error_set(PAMI_ENOMEM, "PAMI_Rmw: out of memory");
    *rmw = (struct rmw){
        .meta = {.address = (uint64_t)(uintptr_t)from->remote, .request = request_of(from, width)},
        .local = from->operation & PAMI_ATOMIC_FETCH ? from->local : NULL,
        .done_fn = from->done_fn,
        .cookie = from->cookie,
    };
    operation_init(&rmw->op, &rmw_ops, peer);
    if (from->hints.use_shmem == PAMI_HINT_DISABLE)
        error = peer_packet_path(p2p, peer, &rmw->op.path);
    if (error == 0 && (rmw->op.handle = handle_new(&p2p->handles, rmw)) == 0)
        error = -ENOMEM;
    if (error == 0)
        error = context_promise(p2p->context, rmw->done_fn, NULL);
    if (error != 0) {
        handle_drop(&p2p->handles, rmw->op.handle);
        pool_put(&p2p->rmws, rmw);
        return no_peer(p2p->context, from, error);
    }
    rmw->epoch = operation_begin(peer);
    p2p->context->counters[COUNTER_RMW_SENT]++;
    operation_launch(p2p, &rmw->op);
    return PAMI_SUCCESS;
}

pami_result_t PAMI_Rmw(pami_context_t handle, pami_rmw_t *parameters)
{
    struct context *context = context_from_handle(handle);
    struct atomic_request request;
    struct peer *peer;
    unsigned width;
    uint64_t old;
    void *word;
    int error = 0;

    if (unlikely(context == NULL))
        return error_set(PAMI_INVAL, "PAMI_Rmw: context: %s", context_fault(handle));
    misuse_check(context, "PAMI_Rmw");
    if (unlikely(parameters == NULL))
        return error_set(PAMI_INVAL, "PAMI_Rmw: parameters: NULL");
    width = width_of(parameters->type);
    if (unlikely(!is_valid(parameters, width)))
        return refuse(parameters);
    peer = peer_get(context->p2p, parameters->dest, &error);
    if (unlikely(peer == NULL))
        return no_peer(context, parameters, error);
    word = path_address(peer->path, (uint64_t)(uintptr_t)parameters->remote, width);
    if (word == NULL)
        word = mapped(context->p2p, peer, parameters->remote, width);
    if (word == NULL || unlikely(avoids_memory(context, parameters)))
        return send_rmw(context->p2p, peer, parameters, width);
    if (unlikely(completion_reserve(&context->completions, 1) != 0))
        return error_set(PAMI_ENOMEM, "PAMI_Rmw: out of memory");
    request = request_of(parameters, width);
    old = atomic_apply(word, &request);
    if (parameters->operation & PAMI_ATOMIC_FETCH)
        write_word(parameters->local, old, width);
    if (!order_all_by_atomics() && parameters->done_fn != NULL)
        context->unseen = true;
    context->counters[COUNTER_RMW_DIRECT]++;
    context_complete(context, parameters->done_fn, parameters->cookie, PAMI_SUCCESS);
    return PAMI_SUCCESS;
}

void rmw_handle_reply(struct context *context, const struct packet_header *head, void *body)
{
    struct p2p *p2p = context->p2p;
    struct operation *operation = handle_find(&p2p->handles, head->aux);
    struct rmw *rmw;
    uint64_t old;

    if (head->meta_words != 1 || operation == NULL || operation->kind != OPERATION_OUTGOING ||
        operation->ops != &rmw_ops || operation->peer->endpoint != head->origin) {
        context->counters[COUNTER_FOREIGN]++;
        return;
    }
    rmw = container_of(operation, struct rmw, op);
    memcpy(&old, body, sizeof(old));
    if (rmw->local != NULL)
        write_word(rmw->local, old, rmw->meta.request.width);
    rmw->answered = true;
    rmw_finish(p2p, operation, PAMI_SUCCESS);
}

/* ---- the target ---- */

/*
 * May the word be accessed for this? Variables of the program always may. Any other page that was
 * found writable is not asked about again while nothing of the program can have run on this thread
 * (see p2p_distrust): what another thread unmaps could also go between the question and the access.
 */
static bool is_accessible(struct p2p *p2p, void *word, const struct atomic_request *request)
{
    const struct context *context = p2p->context;
    uint64_t page = (uint64_t)(uintptr_t)word / PROBE_PAGE;
    uint64_t moment = context->passes + context->counters[COUNTER_DISPATCHES] + 1;

    if ((uint64_t)(uintptr_t)word - p2p->program.start < p2p->program.end - p2p->program.start)
        return true;
    if (p2p->probed_page == page && p2p->probed_moment == moment)
        return true;
    if (probe_writable(word)) {
        p2p->probed_page = page;
        p2p->probed_moment = moment;
        return true;
    }
    return request->operation == PAMI_ATOMIC_FETCH && probe_readable(word);
}

void rmw_handle(struct context *context, const struct packet_header *head, void *body)
{
    struct p2p *p2p = context->p2p;
    struct rmw_meta meta;
    struct peer *peer;
    uint64_t old;
    void *word;

    if (head->meta_words != sizeof(meta) / 8) {
        context->counters[COUNTER_FOREIGN]++;
        return;
    }
    memcpy(&meta, body, sizeof(meta));
    if ((meta.request.width != 4 && meta.request.width != 8) ||
        !atomic_is_valid(meta.request.operation) || meta.address % meta.request.width != 0) {
        context->counters[COUNTER_FOREIGN]++;
        return;
    }
    word = (void *)(uintptr_t)meta.address;
    peer = p2p_origin(p2p, head);
    if (peer == NULL)
        return;
    if (!is_accessible(p2p, word, &meta.request)) {
        p2p_answer(p2p, peer, head->aux, PAMI_INVAL);
        return;
    }
    old = atomic_apply(word, &meta.request);
    context->counters[COUNTER_RMW_SERVED]++;
    if (meta.request.operation & PAMI_ATOMIC_FETCH)
        p2p_answer_old(p2p, peer, head->aux, old); /* not lost: it has been done */
    else
        p2p_answer(p2p, peer, head->aux, PAMI_SUCCESS);
}

void rmw_attach(struct p2p *p2p)
{
    p2p->program = probe_program();
    pool_init(&p2p->rmws, sizeof(struct rmw), 0);
}
