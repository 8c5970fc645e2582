/*
 * Pipelines: one machine, or a few equal ones, on the segments of a long buffer. See compose.h.
 *
 * Segments are started in order; stage i % count runs segment i, so a segment waits for the one
 * `count` before it and for nothing else.
 */
#include <stdlib.h>

#include "coll/coll.h"
#include "coll/compose.h"

struct stage {
    struct pipeline *pipeline;
    struct machine *machine;
    bool busy;
};

struct pipeline {
    struct machine machine;
    bool running, inside, again;
    bool gave_up;            /* what runs, too */
    uint32_t segments, next; /* segment to start */
    uint32_t busy;           /* stages */
    uint32_t count;
    uint32_t window;      /* busy stages at most; 0: all */
    pami_result_t result; /* the first failure, */
    char *text;           /* owned: and its text */
    pipeline_bind_function *bind;
    void *cookie;
    struct stage stages[];
};

static struct pipeline *pipeline_of(struct machine *machine)
{
    return container_of(machine, struct pipeline, machine);
}

static void fail(struct pipeline *pipeline, pami_result_t result)
{
    if (pipeline->result != PAMI_SUCCESS)
        return;
    pipeline->result = result;
    pipeline->text = compose_text();
}

/* The segments that will not be started: others must not wait for them. */
static void give_up_rest(struct pipeline *pipeline)
{
    while (pipeline->next < pipeline->segments) {
        struct stage *stage = &pipeline->stages[pipeline->next % pipeline->count];

        /* A stage that runs gives its later segments up when it is done. */
        if (stage->busy)
            return;
        /* One that cannot be bound yet talks to the same members as for the segment before. */
        (void)pipeline->bind(pipeline->cookie, stage->machine, pipeline->next);
        stage->machine->ops->give_up(stage->machine, pipeline->result);
        pipeline->next++;
    }
}

static void start_segments(struct pipeline *pipeline)
{
    pami_result_t result;

    while (pipeline->next < pipeline->segments && pipeline->result == PAMI_SUCCESS) {
        struct stage *stage = &pipeline->stages[pipeline->next % pipeline->count];

        if (stage->busy || (pipeline->window != 0 && pipeline->busy >= pipeline->window))
            return;
        result = pipeline->bind(pipeline->cookie, stage->machine, pipeline->next);
        if (unlikely(result != PAMI_SUCCESS)) {
            fail(pipeline, result);
            return;
        }
        pipeline->next++;
        pipeline->busy++;
        stage->busy = true;
        stage->machine->ops->start(stage->machine);
    }
}

static void give_up_busy(struct pipeline *pipeline)
{
    pipeline->gave_up = true;
    for (uint32_t i = 0; i < pipeline->count; i++)
        if (pipeline->stages[i].busy)
            pipeline->stages[i].machine->ops->give_up(pipeline->stages[i].machine,
                                                      pipeline->result);
}

static void go_on(struct pipeline *pipeline)
{
    pipeline->inside = true;
    do {
        pipeline->again = false;
        start_segments(pipeline);
        /* Members that disagree may not have these segments. */
        if (pipeline->result == PAMI_INVAL && !pipeline->gave_up)
            give_up_busy(pipeline);
        if (pipeline->result != PAMI_SUCCESS)
            give_up_rest(pipeline);
    } while (pipeline->again);
    pipeline->inside = false;
    if (pipeline->busy != 0 || pipeline->next < pipeline->segments)
        return;
    pipeline->running = false;
    coll_ends(pipeline->machine.group);
    if (unlikely(pipeline->text != NULL)) {
        compose_say(pipeline->result, pipeline->text);
        pipeline->text = NULL;
    }
    pipeline->machine.done(&pipeline->machine, pipeline->result);
}

static void stage_done(struct machine *machine, pami_result_t result)
{
    struct stage *stage = machine->cookie;
    struct pipeline *pipeline = stage->pipeline;

    stage->busy = false;
    pipeline->busy--;
    if (unlikely(result != PAMI_SUCCESS))
        fail(pipeline, result);
    if (pipeline->inside)
        pipeline->again = true;
    else
        go_on(pipeline);
}

/* Segments that stage `index` runs. */
static uint32_t runs_of(const struct pipeline *pipeline, uint32_t index)
{
    return (pipeline->segments + pipeline->count - 1 - index) / pipeline->count;
}

static void reserve(struct machine *machine, uint32_t runs)
{
    struct pipeline *pipeline = pipeline_of(machine);

    for (uint32_t i = 0; i < pipeline->count; i++) {
        struct machine *stage = pipeline->stages[i].machine;

        stage->ops->reserve(stage, runs * runs_of(pipeline, i));
    }
    machine->numbers = runs;
}

static void start(struct machine *machine)
{
    struct pipeline *pipeline = pipeline_of(machine);

    compose_number(machine);
    pipeline->running = true;
    pipeline->next = 0;
    pipeline->result = PAMI_SUCCESS;
    pipeline->gave_up = false;
    coll_runs(machine->group);
    go_on(pipeline);
}

static void give_up(struct machine *machine, pami_result_t result)
{
    struct pipeline *pipeline = pipeline_of(machine);
    bool inside = pipeline->inside;

    if (!pipeline->running) {
        compose_number(machine);
        pipeline->next = 0;
        pipeline->result = result;
        give_up_rest(pipeline);
        return;
    }
    fail(pipeline, result);
    pipeline->inside = true;
    give_up_busy(pipeline);
    pipeline->inside = inside;
    if (!inside)
        go_on(pipeline);
}

static void release(struct machine *machine)
{
    struct pipeline *pipeline = pipeline_of(machine);

    for (uint32_t i = 0; i < pipeline->count; i++)
        pipeline->stages[i].machine->ops->release(pipeline->stages[i].machine);
    free(pipeline->text);
    free(pipeline);
}

static bool is_running(struct machine *machine)
{
    return pipeline_of(machine)->running;
}

static const struct machine_ops pipeline_ops = {
    .reserve = reserve,
    .start = start,
    .release = release,
    .give_up = give_up,
    .is_running = is_running,
};

struct machine *pipeline_make(struct group *group, struct machine *const stages[], uint32_t count,
                              uint32_t segments, pipeline_bind_function *bind, void *cookie)
{
    struct pipeline *pipeline = calloc(1, sizeof(*pipeline) + count * sizeof(pipeline->stages[0]));

    if (pipeline == NULL)
        return NULL;
    machine_init(&pipeline->machine, &pipeline_ops, group);
    pipeline->count = count;
    pipeline->segments = segments;
    pipeline->bind = bind;
    pipeline->cookie = cookie;
    for (uint32_t i = 0; i < count; i++) {
        pipeline->stages[i] = (struct stage){.pipeline = pipeline, .machine = stages[i]};
        stages[i]->done = stage_done;
        stages[i]->cookie = &pipeline->stages[i];
    }
    return &pipeline->machine;
}

void pipeline_set_segments(struct machine *machine, uint32_t segments)
{
    pipeline_of(machine)->segments = segments;
}

void pipeline_set_window(struct machine *machine, uint32_t window)
{
    pipeline_of(machine)->window = window;
}
