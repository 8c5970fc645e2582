/*
 * Copies beside the messages; see aside.h.
 */
#include "coll/aside.h"

#include "util/minmax.h"

/* About 15 us. Two tasks with a processor each, an Intel Xeon, us, the root's block whole and last,
 * and so: 1 MiB, scatter 194 and 151, gather 191 and 161; 4 MiB, 895 and 777, 1077 and 979. */
#define PIECE ((uint64_t)128 << 10)

static void copy_piece(const struct instance *instance, const struct local *local, uint64_t from)
{
    struct local piece = *local;

    piece.source.offset += from;
    piece.target.offset += from;
    piece.source.bytes = piece.target.bytes = smaller(local->target.bytes - from, PIECE);
    stage_local(instance, &piece);
}

/* The instance may be gone afterwards. */
static void finish(struct instance *instance)
{
    struct slot *slot = instance->aside;

    aside_drop(instance);
    slot->flags |= SLOT_SENT;
    step(instance);
}

static int copy_next(struct retry *retry, struct context *context)
{
    struct coll *coll = container_of(retry, struct coll, copy);
    struct instance *instance = list_entry(coll->aside.next, struct instance, copying);
    const struct local *local = &instance->aside->phase.before[0];

    (void)context;
    copy_piece(instance, local, instance->copied);
    instance->copied += PIECE;
    if (instance->copied >= local->target.bytes)
        finish(instance);
    return 1;
}

bool aside_takes(struct instance *instance, struct slot *slot)
{
    const struct phase *phase = &slot->phase;
    struct coll *coll = instance->coll;

    if (phase->from != NOBODY || phase->before[0].kind != LOCAL_COPY ||
        phase->before[0].target.bytes <= PIECE || phase->before[1].kind != LOCAL_NONE ||
        instance->aside != NULL || coll->context->core->simulated)
        return false;
    instance->aside = slot;
    instance->copied = 0;
    list_push_back(&coll->aside, &instance->copying);
    coll->copy.run = copy_next;
    if (list_empty(&coll->copy.link))
        list_push_back(&coll->context->retries, &coll->copy.link);
    return true;
}

void aside_drop(struct instance *instance)
{
    struct coll *coll = instance->coll;

    if (likely(instance->aside == NULL))
        return;
    instance->aside = NULL;
    list_remove(&instance->copying);
    if (list_empty(&coll->aside))
        list_remove(&coll->copy.link);
}
