/*
 * Stepping through the phases of a run; see engine.h.
 *
 * step() goes on until nothing moves. It is never entered twice for one run: what happens inside,
 * such as a message that completes while it is being asked for, is noted and looked at by the one
 * that is already there.
 */
#include <errno.h>

#include "coll/aside.h"
#include "coll/engine.h"
#include "coll/gone.h"
#include "coll/levels.h"
#include "util/error.h"

static inline struct slot *slot_of(const struct instance *instance, uint32_t phase)
{
    return &instance->slots[phase & instance->mask];
}

static inline uint32_t endpoint_of(const struct instance *instance, uint32_t rank)
{
    return topology_endpoint(instance->machine.group->topology, rank);
}

/* ---- where a domain has one voice: see levels.h ---- */

static inline bool has_voices(const struct instance *instance)
{
    return instance->machine.group->channel == COLL_CHANNEL_NODES;
}

static const struct levels *levels_above(const struct instance *instance)
{
    return instance->machine.group->state->top->state->levels;
}

uint32_t step_source(const struct instance *instance, uint32_t origin)
{
    if (likely(!has_voices(instance)))
        return origin;
    return levels_voice(levels_above(instance), instance->machine.group, origin);
}

/* Of the members that may speak for that domain, the i-th; NOBODY: there are no more. */
static uint32_t speaker(const struct instance *instance, uint32_t voice, uint32_t i)
{
    const struct group *group = instance->machine.group;
    const struct levels *levels = levels_above(instance);
    uint32_t domain = levels_domain(levels, topology_rank(group->topology, voice));

    return i < levels_count(levels, domain) ? levels_rank(levels, domain, i) : NOBODY;
}

/* None of them will say anything any more. */
static bool is_silent(const struct instance *instance, uint32_t voice)
{
    uint32_t i = 0, rank;

    while ((rank = speaker(instance, voice, i)) != NOBODY && instance->over >> rank & 1)
        i++;
    return rank == NOBODY;
}

/* All that may send what is expected of `from`. 0; -ENOMEM; or nobody is left. */
static int expect(struct instance *instance, uint32_t from)
{
    struct context *context = instance->coll->context;
    uint32_t rank;

    if (likely(!has_voices(instance)))
        return message_expect(context, from);
    for (uint32_t i = 0; (rank = speaker(instance, from, i)) != NOBODY; i++) {
        int error = message_expect(context, endpoint_of(instance, rank));

        if (error == -ENOMEM)
            return error;
        if (error != 0)
            instance->over |= UINT64_C(1) << rank;
    }
    return is_silent(instance, from) ? -ESRCH : 0;
}

static void phase_preset(struct phase *phase, uint32_t index)
{
    phase->to = NOBODY;
    phase->from = NOBODY;
    phase->send.bytes = 0;
    phase->recv.bytes = 0;
    for (int i = 0; i < PHASE_LOCALS; i++) {
        phase->before[i].kind = LOCAL_NONE;
        phase->after[i].kind = LOCAL_NONE;
    }
    phase->send_needs = index;
    phase->recv_needs = index;
    phase->sum = 0;
}

static void fill(struct instance *instance)
{
    while (instance->filled < instance->phases &&
           instance->filled - instance->complete <= instance->mask) {
        uint32_t index = instance->filled++;
        struct slot *slot = slot_of(instance, index);

        slot->flags = 0;
        slot->receive = NULL;
        phase_preset(&slot->phase, index);
        instance->algorithm->schedule->phase(&instance->shape, index, &slot->phase);
    }
}

static void run_locals(const struct instance *instance, const struct local locals[PHASE_LOCALS])
{
    for (int i = 0; i < PHASE_LOCALS; i++)
        if (locals[i].kind != LOCAL_NONE)
            stage_local(instance, &locals[i]);
}

/* One of p2p's callbacks has come, which a slot with `held` waits for. The instance may be gone
 * afterwards. */
static void answered(struct slot *slot, uint32_t held, pami_result_t result)
{
    struct instance *instance = slot->instance;

    instance->pending--;
    if (unlikely(!instance->running)) {
        instance->held -= (slot->flags & held) != 0;
        engine_settle(instance);
    } else if (unlikely(result != PAMI_SUCCESS)) {
        engine_fail(instance, result);
    } else {
        step(instance);
    }
}

/* ---- receiving ---- */

/* p2p has written a message to its place, or never will. */
static void received(pami_context_t context, void *cookie, pami_result_t result)
{
    struct slot *slot = cookie;

    (void)context;
    slot->receive = NULL;
    slot->flags |= SLOT_RECEIVED;
    answered(slot, SLOT_WRITTEN, result);
}

static bool is_expected(struct instance *instance, const struct slot *slot, uint32_t word,
                        size_t bytes)
{
    if (likely(((word ^ instance->check) & FLIGHT_CHECK_MASK) == 0 &&
               bytes == slot->phase.recv.bytes))
        return true;
    engine_disagree(
        instance,
        error_set(PAMI_INVAL,
                  "%s: endpoint %u sent %zu bytes where %zu were expected, or called it "
                  "with other arguments or another algorithm",
                  instance->algorithm->name, slot->from, bytes, (size_t)slot->phase.recv.bytes));
    return false;
}

static void take_early(struct instance *instance, struct slot *slot, struct early *early)
{
    struct receive *receive = early->receive;

    if (early->lost) {
        engine_fail(instance, gone_found(instance->coll->context, slot->from));
    } else if (!is_expected(instance, slot, early->word, early->bytes)) {
        const struct message_place nowhere = {NULL, NULL, 0};

        if (receive != NULL)
            message_resume(receive, &nowhere, NULL, NULL);
    } else if (receive == NULL) {
        stage_fill(instance, &slot->phase.recv, early->data);
        slot->flags |= SLOT_RECEIVED;
    } else {
        const struct message_place place = stage_place(instance, &slot->phase.recv);

        instance->pending++;
        slot->receive = receive;
        message_resume(receive, &place, received, slot);
    }
    early_free(early);
}

static void post(struct instance *instance, struct slot *slot)
{
    struct early *early;
    int error;

    slot->instance = instance;
    if (slot->phase.from == NOBODY) {
        slot->flags |= SLOT_POSTED | SLOT_RECEIVED;
        return;
    }
    slot->from = endpoint_of(instance, slot->phase.from);
    slot->flags |= SLOT_POSTED;
    early = list_empty(&instance->flight.early) ? NULL : flight_take(&instance->flight, slot->from);
    if (early != NULL) {
        take_early(instance, slot, early);
        return;
    }
    error = expect(instance, slot->from);
    if (error == -ENOMEM)
        engine_fail(instance, error_set(PAMI_ENOMEM, "out of memory"));
    else if (error != 0)
        engine_fail(instance, gone_found(instance->coll->context, slot->from));
}

static void post_all(struct instance *instance)
{
    while (instance->recv_next < instance->filled && !instance->failed) {
        struct slot *slot = slot_of(instance, instance->recv_next);

        if (slot->phase.recv_needs > instance->complete)
            return;
        instance->recv_next++;
        post(instance, slot);
    }
}

/* The oldest phase that waits for a message of this endpoint. */
static struct slot *waiting(const struct instance *instance, uint32_t endpoint)
{
    for (uint32_t i = instance->complete; i < instance->recv_next; i++) {
        struct slot *slot = slot_of(instance, i);

        if ((slot->flags & SLOT_RECEIVED) == 0 && slot->receive == NULL && slot->from == endpoint)
            return slot;
    }
    return NULL;
}

bool step_misses(struct instance *instance, uint32_t endpoint)
{
    uint32_t source = step_source(instance, endpoint);

    if (waiting(instance, source) == NULL)
        return false;
    if (likely(!has_voices(instance)))
        return true;
    instance->over |= UINT64_C(1) << topology_rank(instance->machine.group->topology, endpoint);
    return is_silent(instance, source);
}

/* Somebody has still to fetch what this phase sends. */
static bool is_owed(const struct slot *slot)
{
    return slot->phase.to != NOBODY && (slot->flags & SLOT_SENT) == 0;
}

bool step_owes(const struct instance *instance, uint32_t endpoint)
{
    for (uint32_t i = instance->complete; i < instance->send_next; i++) {
        const struct slot *slot = slot_of(instance, i);

        if (is_owed(slot) && endpoint_of(instance, slot->phase.to) == endpoint)
            return true;
    }
    return false;
}

static void doubt_source(const struct instance *instance, const struct slot *slot, step_tell *tell)
{
    uint32_t rank;

    if (!has_voices(instance))
        tell(instance, slot->from);
    for (uint32_t k = 0;
         has_voices(instance) && (rank = speaker(instance, slot->from, k)) != NOBODY; k++)
        tell(instance, endpoint_of(instance, rank));
}

void step_doubts(const struct instance *instance, step_tell *tell)
{
    for (uint32_t i = instance->complete; i < instance->send_next; i++) {
        const struct slot *slot = slot_of(instance, i);

        if (is_owed(slot))
            tell(instance, endpoint_of(instance, slot->phase.to));
    }
    for (uint32_t i = instance->complete; i < instance->recv_next; i++) {
        const struct slot *slot = slot_of(instance, i);

        if ((slot->flags & SLOT_RECEIVED) == 0 && slot->receive == NULL)
            doubt_source(instance, slot, tell);
    }
}

/* What is not wanted yet, or never: of another collective than this one? Then it fails. */
static bool disagrees(struct instance *instance, uint32_t word, uint32_t origin)
{
    if (likely(((word ^ instance->check) & FLIGHT_CHECK_MASK) == 0))
        return false;
    engine_disagree(instance,
                    error_set(PAMI_INVAL, "%s: endpoint %u called it with other arguments",
                              instance->algorithm->name, origin));
    return true;
}

bool engine_arrive(struct instance *instance, uint32_t word, const void *data, size_t bytes,
                   uint32_t origin, pami_recv_t *recv)
{
    struct slot *slot;

    if (unlikely(word & FLIGHT_ABORT)) {
        engine_fail(instance,
                    engine_aborted(instance->machine.group, (word & FLIGHT_DISAGREE) != 0));
        return true;
    }
    slot = waiting(instance, step_source(instance, origin));
    if (slot == NULL)
        return disagrees(instance, word, origin);
    if (!is_expected(instance, slot, word, bytes))
        return true;
    if (likely(recv == NULL)) {
        stage_fill(instance, &slot->phase.recv, data);
        slot->flags |= SLOT_RECEIVED;
        step(instance);
    } else {
        const struct message_place place = stage_place(instance, &slot->phase.recv);

        instance->pending++;
        slot->receive = message_receive(recv);
        message_accept(recv, &place, received, slot);
    }
    return true;
}

/* ---- sending ---- */

static void sent(pami_context_t context, void *cookie, pami_result_t result)
{
    struct slot *slot = cookie;

    (void)context;
    slot->flags |= SLOT_SENT;
    answered(slot, SLOT_READ, result);
}

static struct flight_head head_of(const struct instance *instance)
{
    return (struct flight_head){
        .identity = instance->flight.identity,
        .sequence = instance->flight.sequence,
        .word = instance->check | instance->flight.channel,
    };
}

static void send(struct instance *instance, struct slot *slot)
{
    const struct flight_head head = head_of(instance);
    struct message_place place = {NULL, NULL, 0};
    uint32_t to = endpoint_of(instance, slot->phase.to);
    int sending;

    slot->instance = instance;
    if (slot->phase.send.bytes != 0)
        place = stage_place(instance, &slot->phase.send);
    sending = message_send_by(instance->algorithm->way, slot->phase.sum, instance->coll->context,
                              to, MESSAGE_COLLECTIVE, &head, sizeof(head), &place,
                              slot->phase.send.bytes, sent, slot);
    if (likely(sending == MESSAGE_SENT))
        slot->flags |= SLOT_SENT;
    else if (sending == 0)
        instance->pending++;
    else if (sending == -ENOMEM)
        engine_fail(instance, error_set(PAMI_ENOMEM, "out of memory"));
    else
        engine_fail(instance, gone_found(instance->coll->context, to));
}

static void send_all(struct instance *instance)
{
    while (instance->send_next < instance->filled && !instance->failed) {
        struct slot *slot = slot_of(instance, instance->send_next);

        if (slot->phase.send_needs > instance->complete)
            return;
        instance->send_next++;
        if (slot->phase.to == NOBODY && aside_takes(instance, slot))
            continue;
        run_locals(instance, slot->phase.before);
        if (slot->phase.to == NOBODY)
            slot->flags |= SLOT_SENT;
        else
            send(instance, slot);
    }
}

bool step_is_silent(const struct instance *instance, uint32_t endpoint)
{
    for (uint32_t i = instance->send_next; has_voices(instance) && i < instance->phases; i++) {
        struct phase phase;

        phase_preset(&phase, i);
        instance->algorithm->schedule->phase(&instance->shape, i, &phase);
        if (phase.to != NOBODY && endpoint_of(instance, phase.to) == endpoint)
            return false;
    }
    return has_voices(instance);
}

/* Tells a member that the run has been given up here, and why. */
static void tell_abort(const struct instance *instance, uint32_t rank)
{
    const struct flight_head head = head_of(instance);

    flight_tell(instance->coll->context, &head, endpoint_of(instance, rank),
                FLIGHT_ABORT | (instance->result == PAMI_INVAL ? FLIGHT_DISAGREE : 0));
}

/* Tells the members that still wait for something of this one that it will not come. */
void step_abort(struct instance *instance)
{
    uint32_t last = NOBODY;

    if (has_voices(instance)) { /* who would have spoken here is not known */
        flight_abort_all(instance->machine.group, instance->flight.sequence, instance->result);
        return;
    }
    for (uint32_t i = instance->send_next; i < instance->phases; i++) {
        struct phase phase;

        phase_preset(&phase, i);
        instance->algorithm->schedule->phase(&instance->shape, i, &phase);
        if (phase.to == NOBODY || phase.to == last)
            continue;
        last = phase.to;
        tell_abort(instance, phase.to);
    }
}

/* A member that may be reading a message here is told to let go, so it need not want it first. */
static void hold_for(struct instance *instance, struct slot *slot)
{
    slot->flags |= SLOT_READ;
    instance->held++;
    if (!instance->disagrees)
        tell_abort(instance, slot->phase.to);
}

void step_remind(const struct instance *instance)
{
    for (uint32_t i = instance->complete; i < instance->send_next; i++) {
        const struct slot *slot = slot_of(instance, i);

        if ((slot->flags & (SLOT_READ | SLOT_SENT)) == SLOT_READ)
            tell_abort(instance, slot->phase.to);
    }
}

void step_let_go(struct instance *instance)
{
    for (uint32_t i = instance->complete; i < instance->send_next; i++) {
        struct slot *slot = slot_of(instance, i);

        if ((slot->flags & SLOT_SENT) == 0 && slot->phase.to != NOBODY &&
            !message_disown(instance->coll->context, endpoint_of(instance, slot->phase.to), slot))
            hold_for(instance, slot);
    }
    for (uint32_t i = instance->complete; i < instance->recv_next; i++) {
        struct slot *slot = slot_of(instance, i);

        if (slot->receive != NULL && !message_discard(slot->receive)) {
            slot->flags |= SLOT_WRITTEN;
            instance->held++;
        }
    }
}

/* ---- going on ---- */

static bool retire(struct instance *instance)
{
    const uint32_t whole = SLOT_SENT | SLOT_RECEIVED;
    uint32_t before = instance->complete;

    while (instance->complete < instance->send_next && instance->complete < instance->recv_next) {
        const struct slot *slot = slot_of(instance, instance->complete);

        if ((slot->flags & whole) != whole)
            break;
        run_locals(instance, slot->phase.after);
        if (unlikely(instance->coll->context->trace != NULL))
            trace_add(instance->coll->context, TRACE_STEP, instance->algorithm->name, 0,
                      (uintptr_t)instance, 0, instance->complete);
        instance->complete++;
    }
    return instance->complete != before;
}

void step(struct instance *instance)
{
    if (instance->stepping) {
        instance->again = true;
        return;
    }
    instance->stepping = true;
    do {
        instance->again = false;
        fill(instance);
        post_all(instance);
        send_all(instance);
        if (instance->failed)
            break;
        if (retire(instance))
            instance->again = true;
    } while (instance->again && instance->complete < instance->phases);
    instance->stepping = false;
    if (instance->failed || instance->complete == instance->phases)
        engine_end(instance);
}
