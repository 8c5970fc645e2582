/*
 * Members that have gone; see gone.h. All of this is off the paths of what goes well.
 */
#include "coll/gone.h"

#include <errno.h>

#include "coll/coll.h"
#include "util/error.h"

/* Where a message's word has its check, whose bits are as many as those of a task. */
#define WORD_SHIFT 8

void gone_note(struct context *context, uint32_t mark)
{
    if (mark != 0)
        context->coll->gone = mark;
}

uint32_t gone_mark(struct context *context, uint64_t identity)
{
    const struct group *group = geometry_find(context, identity);

    return group != NULL && group->state->gone != 0 ? group->state->gone : context->coll->gone;
}

uint32_t gone_word(struct context *context, uint64_t identity)
{
    return gone_mark(context, identity) << WORD_SHIFT;
}

void gone_heard(struct context *context, uint64_t identity, uint32_t word)
{
    const struct group *group = geometry_find(context, identity);

    gone_note(context, word >> WORD_SHIFT);
    if (group != NULL && group->state->gone != context->coll->gone)
        gone_look(group);
}

pami_result_t gone_found(struct context *context, uint32_t endpoint)
{
    gone_note(context, endpoint_task(endpoint) + 1);
    return error_set(PAMI_ERROR, "endpoint %u of task %u has gone", endpoint,
                     endpoint_task(endpoint));
}

uint32_t gone_look(const struct group *group)
{
    const struct group *top = group->state->top;
    struct coll_state *state = top->state;
    uint32_t last = group->context->coll->gone, mark = 0;

    for (uint32_t i = 0; i < top->size; i++) {
        uint32_t endpoint = topology_endpoint(top->topology, i);

        if (endpoint_task(endpoint) + 1 == last) {
            mark = last;
            break;
        }
        if (mark == 0 && message_has_ended(group->context, endpoint))
            mark = endpoint_task(endpoint) + 1;
    }
    state->gone = mark != 0 ? mark : state->gone;
    gone_note(group->context, state->gone);
    return state->gone;
}

pami_result_t gone_error(const struct group *group, const char *otherwise)
{
    uint32_t mark = gone_look(group);

    if (mark != 0)
        return error_set(PAMI_ERROR, "PAMI_Collective: a member, task %u, has gone", mark - 1);
    return error_set(PAMI_ERROR, "PAMI_Collective: %s", otherwise);
}

static bool gone_among(struct context *context, const struct topology *members)
{
    uint32_t mark = context->coll->gone;

    for (uint32_t i = 0; mark != 0 && i < members->size; i++) {
        uint32_t endpoint = topology_endpoint(members, i);

        if (message_has_gone(context, endpoint) ||
            (endpoint_task(endpoint) + 1 == mark && endpoint != context->endpoint &&
             message_expect(context, endpoint) == -EPIPE))
            return true;
    }
    return false;
}

bool gone_any(const struct group *group)
{
    return gone_among(group->context, group->topology);
}

bool gone_any_of(struct context *context, uint64_t identity)
{
    return geometry_look(context, identity, gone_among);
}
