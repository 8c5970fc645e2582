/*
 * Random one-sided programs, and the model of memory that says what must become of them.
 *
 * Every task has a block of memory, and the model a copy of each. A phase cuts the blocks into
 * areas. An area belongs to one context, which alone writes there, one transfer at a time, or to
 * nobody: then everybody may read. So the model knows at every moment what a read must give and
 * what must be there when a put has ended (rdone_fn, or a fence). Counters beside the areas are
 * added to by everybody. At the end of a phase each context fences, and then memory equals the
 * model.
 *
 * Tasks that may die are mortal: what has to do with one may fail, but ends once. Areas of mortal
 * owners are not looked at.
 */
#ifndef LIBPAMI_SIM_RMA_MODEL_H
#define LIBPAMI_SIM_RMA_MODEL_H

#include "sim_test.h"

#define COUNTERS 4u /* words behind the areas of a block */
#define TYPES 4u
#define NOBODY UINT32_MAX
#define AREAS_MOST 40u /* of a block */

struct rma_limits {
    size_t memory;     /* bytes of a task's block, without counters */
    size_t area;       /* the largest area */
    size_t operations; /* of one context in one phase */
    size_t burst;
    unsigned fence_in; /* one of so many operations is a fence */
};

/* Blocks of `bytes`, `stride` apart, two of them a type. */
struct layout {
    size_t bytes, stride;
    pami_type_t type;
};

struct operation;

struct area {
    size_t task, at, bytes;
    uint32_t owner;         /* index of a context, or NOBODY */
    struct operation *busy; /* the put that has not ended, if there is one */
    size_t readers;         /* gets that have not ended */
};

enum operation_kind {
    OPERATION_PUT,
    OPERATION_GET,
    OPERATION_RMW,
    OPERATION_FENCE
};

struct operation {
    struct operation *list;
    struct model *model;
    enum operation_kind kind;
    uint32_t from;
    size_t to;     /* task; of a fence: SIZE_MAX for all */
    size_t offset; /* context of that task */
    size_t number; /* of all operations */
    size_t counter;
    bool has_done, has_rdone, is_last, has_region;
    pami_memregion_t region; /* of the local memory */
    unsigned done, rdone;
    struct area *area;
    size_t bytes;
    char *memory;   /* local */
    char *expected; /* of a get: what memory must be */
    size_t memory_bytes;
    uint64_t value, old;
};

struct starter {
    pami_work_t work;
    struct model *model;
    uint32_t self;
    size_t left; /* operations of the phase */
    bool fenced; /* the last fence of the phase has ended */
};

struct model {
    struct sim_job job;
    struct dice dice;
    struct rma_limits limits;
    const bool *mortal;
    size_t count; /* contexts */
    char **real, **wanted;
    pami_memregion_t *region;
    uint64_t *added; /* [task * COUNTERS + i] adds that must have happened */
    struct layout layout[TYPES];
    struct starter *starters;
    struct area *areas;
    size_t area_count;
    struct operation *operations;
    size_t started;
    uint64_t moved;
    bool is_inside;
};

static inline size_t model_task(const struct model *model, uint32_t index)
{
    return index / model->job.contexts;
}

static inline bool model_is_mortal(const struct model *model, size_t task)
{
    return model->mortal != NULL && model->mortal[task];
}

static inline bool may_fail(const struct operation *op)
{
    bool all = op->to == SIZE_MAX && op->model->mortal != NULL;

    return all || (op->to != SIZE_MAX && model_is_mortal(op->model, op->to));
}

/* ---- layouts ---- */

static inline size_t layout_at(const struct layout *layout, size_t x)
{
    return layout == NULL ? x : x / layout->bytes * layout->stride + x % layout->bytes;
}

/* Memory that the first `bytes` data bytes need. */
static inline size_t layout_room(const struct layout *layout, size_t bytes)
{
    if (layout == NULL || bytes == 0)
        return bytes;
    return layout_at(layout, bytes - 1) + 1;
}

static inline void layouts_create(struct model *model)
{
    static const size_t rows[TYPES][2] = {{8, 16}, {3, 5}, {100, 120}, {1, 7}};

    for (size_t i = 0; i < TYPES; i++) {
        struct layout *layout = &model->layout[i];

        layout->bytes = rows[i][0];
        layout->stride = rows[i][1];
        CALL(PAMI_Type_create(&layout->type));
        CALL(PAMI_Type_add_simple(layout->type, layout->bytes, 0, 2, layout->stride));
        CALL(PAMI_Type_complete(layout->type, 1));
    }
}

/* ---- ends ---- */

static void model_more(struct model *model, uint32_t self);

static inline void enter(struct model *model)
{
    CHECK(!model->is_inside);
    model->is_inside = true;
}

static inline void leave(struct model *model, uint32_t self)
{
    model->is_inside = false;
    if (dice_one_in(&model->dice, 3))
        model_more(model, self);
}

/* The put has ended: what it wrote is there. */
static inline void check_area(struct model *model, struct area *area)
{
    struct operation *put = area->busy;

    area->busy = NULL;
    if (model_is_mortal(model, area->task))
        return;
    if (memcmp(model->real[area->task] + area->at, model->wanted[area->task] + area->at,
               area->bytes) != 0)
        FAIL("task %zu: %zu bytes at %zu are not what was put there (operation %zu from %u)",
             area->task, area->bytes, area->at, put != NULL ? put->number : 0,
             put != NULL ? put->from : 0);
}

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct operation *op = cookie;
    struct model *model = op->model;

    enter(model);
    CHECK(context == model->job.context[op->from]);
    CHECK(op->has_done && op->done == 0 && op->rdone == 0);
    CHECK(result == PAMI_SUCCESS || may_fail(op));
    op->done++;
    if (op->kind == OPERATION_GET)
        op->area->readers--;
    if (op->kind == OPERATION_GET && result == PAMI_SUCCESS)
        CHECK(memcmp(op->memory, op->expected, op->memory_bytes) == 0);
    else if (op->kind == OPERATION_PUT)
        memset(op->memory, 0xee, op->memory_bytes);
    else if (op->kind == OPERATION_RMW && result == PAMI_SUCCESS)
        CHECK(op->old < model->added[op->to * COUNTERS + op->counter]);
    leave(model, op->from);
}

static void on_rdone(pami_context_t context, void *cookie, pami_result_t result)
{
    struct operation *op = cookie;
    struct model *model = op->model;

    enter(model);
    CHECK(context == model->job.context[op->from]);
    CHECK(op->kind == OPERATION_PUT && op->has_rdone && op->done == op->has_done && op->rdone == 0);
    CHECK(result == PAMI_SUCCESS || may_fail(op));
    op->rdone++;
    if (op->area->busy == op)
        check_area(model, op->area);
    leave(model, op->from);
}

/* Everything that this context had started before, towards the fence's endpoints, has ended. */
static void on_fence(pami_context_t context, void *cookie, pami_result_t result)
{
    struct operation *op = cookie;
    struct model *model = op->model;

    enter(model);
    CHECK(context == model->job.context[op->from]);
    CHECK(op->done == 0);
    CHECK(result == PAMI_SUCCESS || may_fail(op));
    op->done++;
    for (size_t i = 0; i < model->area_count; i++) {
        struct area *area = &model->areas[i];

        if (area->busy != NULL && area->owner == op->from && area->busy->number < op->number &&
            (op->to == SIZE_MAX || (op->to == area->task && op->offset == area->busy->offset)))
            check_area(model, area);
    }
    if (op->is_last)
        model->starters[op->from].fenced = true;
    leave(model, op->from);
}

/* ---- beginnings ---- */

static inline struct operation *operation_new(struct model *model, enum operation_kind kind,
                                              uint32_t from, size_t to)
{
    struct operation *op = calloc(1, sizeof(*op));

    CHECK(op != NULL);
    op->model = model;
    op->kind = kind;
    op->from = from;
    op->to = to;
    op->offset = dice_below(&model->dice, model->job.contexts);
    op->number = model->started++;
    op->has_done = true;
    op->list = model->operations;
    model->operations = op;
    return op;
}

/* A call to a task that may be dead may be refused; then there is no callback. */
static inline bool was_started(struct operation *op, pami_result_t result)
{
    op->model->is_inside = false;
    if (result == PAMI_SUCCESS)
        return true;
    if (!may_fail(op))
        FAIL("kind %d to task %zu: result %d: %s", (int)op->kind, op->to, (int)result, test_text());
    op->has_done = op->has_rdone = false;
    return false;
}

static inline pami_rma_t operation_head(struct operation *op)
{
    struct model *model = op->model;
    uint64_t garbage = dice_next(&model->dice);
    pami_rma_t head = {
        .dest = job_endpoint(&model->job, op->to, op->offset),
        .bytes = op->bytes,
        .cookie = op,
        .done_fn = op->has_done ? on_done : NULL,
    };

    memcpy(&head.hints, &garbage, sizeof(head.hints));
    return head;
}

/* One of the eight calls. Layouts may be NULL; `at` is in the target's block. */
static inline pami_result_t operation_call(struct operation *op, const struct layout *local,
                                           const struct layout *remote, size_t at)
{
    struct model *model = op->model;
    pami_context_t context = model->job.context[op->from];
    bool is_typed = local != NULL || remote != NULL;
    pami_rma_typed_t type = {local == NULL ? PAMI_TYPE_BYTE : local->type,
                             remote == NULL ? PAMI_TYPE_BYTE : remote->type};
    pami_rma_t head = operation_head(op);
    pami_rma_put_t tail = {op->has_rdone ? on_rdone : NULL};
    pami_rma_addr_t addr = {op->memory, model->real[op->to] + at};
    pami_memregion_t remote_region;
    pami_rdma_t rdma = {{&op->region, 0}, {&remote_region, at}};
    pami_put_typed_t put = {head, addr, type, tail};
    pami_get_typed_t get = {head, addr, type};
    pami_put_simple_t plain_put = {head, addr, tail};
    pami_get_simple_t plain_get = {head, addr};
    pami_rput_typed_t rput = {head, rdma, type, tail};
    pami_rget_typed_t rget = {head, rdma, type};
    pami_rput_simple_t plain_rput = {head, rdma, tail};
    pami_rget_simple_t plain_rget = {head, rdma};
    bool is_put = op->kind == OPERATION_PUT;
    size_t usable;

    if (op->memory_bytes == 0 || dice_one_in(&model->dice, 2)) {
        if (is_put)
            return is_typed ? PAMI_Put_typed(context, &put) : PAMI_Put(context, &plain_put);
        return is_typed ? PAMI_Get_typed(context, &get) : PAMI_Get(context, &plain_get);
    }
    CALL(PAMI_Memregion_create(context, op->memory, op->memory_bytes, &usable, &op->region));
    op->has_region = true;
    memcpy(&remote_region, &model->region[op->to], sizeof(remote_region));
    if (is_put)
        return is_typed ? PAMI_Rput_typed(context, &rput) : PAMI_Rput(context, &plain_rput);
    return is_typed ? PAMI_Rget_typed(context, &rget) : PAMI_Rget(context, &plain_rget);
}

static inline const struct layout *layout_any(struct model *model)
{
    size_t i = dice_below(&model->dice, 2 * TYPES);

    return i < TYPES ? &model->layout[i] : NULL;
}

/* Between some of the area and memory of its own. */
static inline void model_transfer(struct model *model, uint32_t self, struct area *area, bool put)
{
    struct operation *op =
        operation_new(model, put ? OPERATION_PUT : OPERATION_GET, self, area->task);
    const struct layout *local = layout_any(model), *remote = layout_any(model);
    size_t at, room;

    op->area = area;
    op->bytes = dice_size(&model->dice, area->bytes);
    if (dice_one_in(&model->dice, 4))
        op->bytes = area->bytes;
    if (layout_room(remote, op->bytes) > area->bytes)
        remote = NULL;
    room = area->bytes - layout_room(remote, op->bytes);
    at = area->at + dice_below(&model->dice, room + 1);
    op->has_rdone = put && !dice_one_in(&model->dice, 3);
    op->has_done = !dice_one_in(&model->dice, 5) || !put;
    op->memory_bytes = layout_room(local, op->bytes);
    op->memory = malloc(op->memory_bytes + 1);
    CHECK(op->memory != NULL);
    pattern_fill(op->memory, op->memory_bytes, dice_next(&model->dice));
    if (put) {
        for (size_t x = 0; x < op->bytes; x++)
            model->wanted[area->task][at + layout_at(remote, x)] = op->memory[layout_at(local, x)];
        area->busy = op;
    } else {
        area->readers++;
        op->expected = malloc(op->memory_bytes + 1);
        CHECK(op->expected != NULL);
        memcpy(op->expected, op->memory, op->memory_bytes);
        for (size_t x = 0; x < op->bytes; x++)
            op->expected[layout_at(local, x)] =
                model->wanted[area->task][at + layout_at(remote, x)];
    }
    model->moved += op->bytes;
    enter(model);
    if (was_started(op, operation_call(op, local, remote, at)))
        return;
    if (put)
        area->busy = NULL;
    else
        area->readers--;
}

static inline void model_rmw(struct model *model, uint32_t self)
{
    size_t to = dice_below(&model->dice, model->job.tasks);
    struct operation *op = operation_new(model, OPERATION_RMW, self, to);
    size_t counter = dice_below(&model->dice, COUNTERS);
    pami_result_t result;
    pami_rmw_t rmw = {
        .dest = job_endpoint(&model->job, to, op->offset),
        .cookie = op,
        .done_fn = on_done,
        .local = &op->old,
        .remote = model->real[to] + model->limits.memory + counter * sizeof(uint64_t),
        .value = &op->value,
        .operation = PAMI_ATOMIC_FETCH_ADD,
        .type = PAMI_TYPE_UNSIGNED_LONG,
    };

    op->value = 1;
    op->counter = counter;
    op->old = UINT64_MAX;
    model->added[to * COUNTERS + counter]++;
    enter(model);
    result = PAMI_Rmw(model->job.context[self], &rmw);
    op->value = 1000; /* it was read during the call */
    if (!was_started(op, result))
        model->added[to * COUNTERS + counter]--;
}

static inline void model_fence(struct model *model, uint32_t self, bool is_last)
{
    bool all = is_last || dice_one_in(&model->dice, 3);
    size_t to = all ? SIZE_MAX : dice_below(&model->dice, model->job.tasks);
    struct operation *op = operation_new(model, OPERATION_FENCE, self, to);
    pami_context_t context = model->job.context[self];

    op->is_last = is_last;
    enter(model);
    if (all)
        was_started(op, PAMI_Fence_all(context, on_fence, op));
    else
        was_started(op, PAMI_Fence_endpoint(context, on_fence, op,
                                            job_endpoint(&model->job, to, op->offset)));
}

/* Another operation of this context, or the last fence of the phase. */
static inline void model_one(struct model *model, uint32_t self)
{
    struct starter *starter = &model->starters[self];
    struct area *area = &model->areas[dice_below(&model->dice, model->area_count)];

    if (starter->left == 0)
        return;
    if (--starter->left == 0) {
        model_fence(model, self, true);
        return;
    }
    if (dice_one_in(&model->dice, model->limits.fence_in))
        model_fence(model, self, false);
    else if (dice_one_in(&model->dice, 6))
        model_rmw(model, self);
    else if (area->owner == self && area->busy == NULL)
        model_transfer(model, self, area, area->readers == 0 && !dice_one_in(&model->dice, 4));
    else if (area->owner == NOBODY)
        model_transfer(model, self, area, false);
}

static void model_more(struct model *model, uint32_t self)
{
    for (size_t i = dice_below(&model->dice, model->limits.burst) + 1; i != 0; i--)
        model_one(model, self);
}

/* Until the context has done all its operations; a pause now and then. */
static pami_result_t model_work(pami_context_t context, void *cookie)
{
    struct starter *starter = cookie;

    enter(starter->model);
    CHECK(context == starter->model->job.context[starter->self]);
    starter->model->is_inside = false;
    model_more(starter->model, starter->self);
    return starter->left == 0 ? PAMI_SUCCESS : PAMI_EAGAIN;
}

/* ---- phases ---- */

/* Cuts all blocks into areas and gives two thirds of these to contexts. */
static inline void phase_cut(struct model *model)
{
    model->area_count = 0;
    for (size_t task = 0; task < model->job.tasks; task++)
        for (size_t at = 0; at < model->limits.memory;) {
            size_t left = model->limits.memory - at;
            size_t bytes = 1 + dice_size(&model->dice, model->limits.area - 1);
            struct area *area = &model->areas[model->area_count++];

            *area = (struct area){.task = task, .at = at, .owner = NOBODY};
            area->bytes = bytes < left && model->area_count % AREAS_MOST != 0 ? bytes : left;
            if (!dice_one_in(&model->dice, 3))
                area->owner = (uint32_t)dice_below(&model->dice, model->count);
            at += area->bytes;
        }
}

/* One phase from start to end; time goes on here. */
static inline void model_phase(struct model *model)
{
    phase_cut(model);
    for (uint32_t i = 0; i < model->count; i++) {
        struct starter *starter = &model->starters[i];

        *starter = (struct starter){.model = model, .self = i};
        starter->left = 1 + dice_below(&model->dice, model->limits.operations);
        CALL(PAMI_Context_post(model->job.context[i], &starter->work, model_work, starter));
    }
    job_settle(&model->job);
    for (uint32_t i = 0; i < model->count; i++)
        CHECK(model->starters[i].fenced || model->mortal != NULL);
    for (size_t i = 0; i < model->area_count; i++) {
        struct area *area = &model->areas[i];

        if (area->owner == NOBODY || !model_is_mortal(model, model_task(model, area->owner)))
            check_area(model, area);
    }
    for (size_t i = 0; i < model->job.tasks * COUNTERS && model->mortal == NULL; i++) {
        uint64_t value;

        memcpy(&value, model->real[i / COUNTERS] + model->limits.memory + i % COUNTERS * 8, 8);
        CHECK(value == model->added[i]);
    }
}

static inline void model_create(struct model *model, const pamix_sim_config_t *config, size_t tasks,
                                size_t contexts, const bool *mortal,
                                const struct rma_limits *limits, uint64_t seed)
{
    size_t block = limits->memory + COUNTERS * sizeof(uint64_t);

    *model = (struct model){
        .dice = {.state = seed * UINT64_C(0x2545f4914f6cdd1d)},
        .limits = *limits,
        .mortal = mortal,
        .count = tasks * contexts,
    };
    job_create(&model->job, config, tasks, contexts);
    layouts_create(model);
    model->real = calloc(tasks, sizeof(*model->real));
    model->wanted = calloc(tasks, sizeof(*model->wanted));
    model->region = calloc(tasks, sizeof(*model->region));
    model->added = calloc(tasks * COUNTERS, sizeof(*model->added));
    model->starters = calloc(model->count, sizeof(*model->starters));
    model->areas = calloc(tasks * AREAS_MOST, sizeof(*model->areas));
    CHECK(model->real && model->wanted && model->region && model->added && model->starters);
    CHECK(model->areas != NULL);
    for (size_t i = 0; i < tasks; i++) {
        size_t usable;

        model->real[i] = malloc(block);
        model->wanted[i] = malloc(block);
        CHECK(model->real[i] != NULL && model->wanted[i] != NULL);
        pattern_fill(model->real[i], limits->memory, seed + i);
        memset(model->real[i] + limits->memory, 0, block - limits->memory);
        memcpy(model->wanted[i], model->real[i], block);
        CALL(PAMI_Memregion_create(job_context(&model->job, i, 0), model->real[i], block, &usable,
                                   &model->region[i]));
        CHECK(usable == block);
    }
}

/* Every callback has run that must, and once; frees everything. */
static inline void model_finish(struct model *model)
{
    struct operation *op;

    for (op = model->operations; op != NULL; op = op->list) {
        bool dies = model_is_mortal(model, model_task(model, op->from));

        CHECK(dies || (op->done == op->has_done && op->rdone == op->has_rdone));
        if (op->has_region)
            CALL(PAMI_Memregion_destroy(model->job.context[op->from], &op->region));
    }
    for (size_t i = 0; i < model->job.tasks; i++)
        CALL(PAMI_Memregion_destroy(job_context(&model->job, i, 0), &model->region[i]));
    for (size_t i = 0; i < TYPES; i++)
        CALL(PAMI_Type_destroy(&model->layout[i].type));
    job_destroy(&model->job);
    while ((op = model->operations) != NULL) {
        model->operations = op->list;
        free(op->memory);
        free(op->expected);
        free(op);
    }
    for (size_t i = 0; i < model->job.tasks; i++) {
        free(model->real[i]);
        free(model->wanted[i]);
    }
    free(model->real), free(model->wanted), free(model->region), free(model->added);
    free(model->starters), free(model->areas);
}

#endif
