/*
 * Geometries that are optimised and not any more, again and again, while reductions by aggregation
 * nodes, of all members or of leaders, are under way in them, on a simulated network with trouble
 * and with few slots: members update at different times, with different values, or out of order,
 * and some die.
 *
 * All that is in order ends well, with the right sums, whether slots were granted or not. Where a
 * member has its update and a collective the other way round, or has died, the collectives of that
 * geometry end, and what ends well is right; who has died does not disagree with anybody.
 *
 * Run: args="--seeds 400" env="PAMI_COLL_AGGREGATE_SLOTS=4" timeout=120
 * Run: args="--seed 70192" env="PAMI_COLL_AGGREGATE_SLOTS=4"
 * Run: args="--seeds 800 --seed 20000" env="PAMI_COLL_AGGREGATE_RADIX=2"
 * Run: args="--seeds 300 --seed 5000" env="PAMI_COLL_AGGREGATE_RADIX=2 PAMI_COLL_AGGREGATE_SLOTS=9"
 * Run: args="--seeds 300 --seed 9000" env="PAMI_COLL_AGGREGATE_SEGMENT=64"
 */
#include "coll_start.h"
#include "trouble.h"

enum {
    MEMBERS = 24,
    GEOMETRIES = 3,
    STEPS = 30,
    WORDS = 200
};

enum kind {
    UPDATE,
    BARRIER,
    ALLREDUCE,
    REDUCE,
    KINDS
};

struct step {
    enum kind kind;
    size_t geometry;
    const char *row;
    int value;
    bool quarrel; /* about the value */
    size_t count, root;
};

struct call {
    bool done;
    pami_result_t result;
    unsigned long source[WORDS], target[WORDS];
};

struct scene {
    struct sim_job job;
    struct dice dice;
    bool deadly, mortal[MEMBERS];
    size_t first[GEOMETRIES], members[GEOMETRIES]; /* tasks; geometry 0 is the world */
    bool disorder[GEOMETRIES];
    pami_geometry_t geometry[GEOMETRIES][MEMBERS];
    struct step step[STEPS];
    size_t order[MEMBERS][STEPS];
    struct call (*call)[STEPS]; /* [member] */
};

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct call *call = cookie;

    (void)context;
    CHECK(!call->done);
    call->done = true;
    call->result = result;
}

static bool takes_part(const struct scene *s, size_t geometry, size_t self)
{
    return self - s->first[geometry] < s->members[geometry];
}

/* ---- what is to be done ---- */

static void choose(struct scene *s)
{
    static const char *const rows[] = {
        ":Aggregated:",   ":Aggregated:", ":HierarchicalAggregated:", ":HierarchicalAggregated:",
        ":Hierarchical:", ":Auto"};

    for (size_t i = 0; i < STEPS; i++) {
        struct step *step = &s->step[i];

        step->kind = dice_one_in(&s->dice, 2) ? UPDATE : dice_below(&s->dice, KINDS);
        step->geometry = s->deadly ? 0 : dice_below(&s->dice, GEOMETRIES);
        step->row = rows[dice_below(&s->dice, sizeof(rows) / sizeof(rows[0]))];
        step->value = (int)dice_below(&s->dice, 2);
        step->quarrel = dice_one_in(&s->dice, 6);
        step->count = dice_one_in(&s->dice, 5) ? 0 : 1 + dice_size(&s->dice, WORDS - 1);
        step->root = s->first[step->geometry] + dice_below(&s->dice, s->members[step->geometry]);
    }
    for (size_t self = 0; self < s->job.tasks; self++)
        for (size_t i = 0; i < STEPS; i++)
            s->order[self][i] = i;
}

/* A member has an update and what follows it the other way round. */
static void confuse(struct scene *s)
{
    size_t at = dice_below(&s->dice, STEPS - 1), self = dice_below(&s->dice, s->job.tasks);
    size_t *order = s->order[self];

    if (s->step[at].geometry != s->step[at + 1].geometry ||
        (s->step[at].kind != UPDATE && s->step[at + 1].kind != UPDATE))
        return;
    order[at] = at + 1;
    order[at + 1] = at;
    s->disorder[s->step[at].geometry] = true;
}

/* ---- doing it ---- */

static pami_algorithm_t named(pami_geometry_t geometry, pami_xfer_type_t type, const char *name)
{
    pami_algorithm_t handle = sim_algorithm(geometry, type, name);

    return handle != PAMI_ALGORITHM_NULL ? handle : sim_algorithm(geometry, type, ":Auto:");
}

static void update(struct scene *s, const struct step *step, size_t self, struct call *call)
{
    pami_configuration_t wish = {.name = PAMI_GEOMETRY_OPTIMIZE, .value.intval = step->value};

    if (step->quarrel)
        wish.value.intval = (intptr_t)dice_below(&s->dice, 3);
    CALL(PAMI_Geometry_update(s->geometry[step->geometry][self], &wish, 1, s->job.context[self],
                              on_done, call));
}

static void start(void *cookie, size_t position, size_t self)
{
    struct scene *s = cookie;
    size_t at = s->order[self][position];
    const struct step *step = &s->step[at];
    struct call *call = &s->call[self][at];
    char *from = (char *)call->source, *into = (char *)call->target;
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = call};
    static const pami_xfer_type_t types[] = {
        [BARRIER] = PAMI_XFER_BARRIER,
        [ALLREDUCE] = PAMI_XFER_ALLREDUCE,
        [REDUCE] = PAMI_XFER_REDUCE,
    };

    if (!takes_part(s, step->geometry, self))
        return;
    if (step->kind == UPDATE) {
        update(s, step, self, call);
        return;
    }
    xfer.algorithm = named(s->geometry[step->geometry][self], types[step->kind], step->row);
    if (step->kind == ALLREDUCE)
        xfer.cmd.xfer_allreduce = (pami_allreduce_t){
            from,        PAMI_TYPE_UNSIGNED_LONG, step->count, into, PAMI_TYPE_UNSIGNED_LONG,
            step->count, PAMI_DATA_SUM,           NULL,        1};
    else if (step->kind == REDUCE)
        xfer.cmd.xfer_reduce = (pami_reduce_t){job_endpoint(&s->job, step->root, 0),
                                               from,
                                               PAMI_TYPE_UNSIGNED_LONG,
                                               step->count,
                                               into,
                                               PAMI_TYPE_UNSIGNED_LONG,
                                               step->count,
                                               PAMI_DATA_SUM,
                                               NULL,
                                               1};
    CALL(PAMI_Collective(s->job.context[self], &xfer));
}

/* ---- and how it ends ---- */

static unsigned long value(size_t member, size_t at, size_t word)
{
    return (member + 1) * 1000003ul + at * 1009 + word;
}

static void check_sum(const struct scene *s, size_t at, size_t self)
{
    const struct step *step = &s->step[at];

    for (size_t k = 0; k < step->count; k++) {
        unsigned long sum = 0;

        for (size_t i = 0; i < s->members[step->geometry]; i++)
            sum += value(s->first[step->geometry] + i, at, k);
        CHECK(s->call[self][at].target[k] == sum);
    }
}

static void check(const struct scene *s)
{
    for (size_t self = 0; self < s->job.tasks; self++)
        for (size_t at = 0; at < STEPS; at++) {
            const struct step *step = &s->step[at];
            const struct call *call = &s->call[self][at];

            if (!takes_part(s, step->geometry, self) || s->mortal[self])
                continue;
            if (!call->done)
                FAIL("member %zu waits in step %zu (kind %d, %s, geometry %zu), deadly %d disorder "
                     "%d",
                     self, at, (int)step->kind, step->row, step->geometry, s->deadly,
                     s->disorder[step->geometry]);
            CHECK(call->result == PAMI_SUCCESS ||
                  (step->kind != UPDATE && (s->deadly || s->disorder[step->geometry])));
            CHECK(call->result != PAMI_INVAL || s->disorder[step->geometry]);
            if (call->result == PAMI_SUCCESS &&
                (step->kind == ALLREDUCE || (step->kind == REDUCE && step->root == self)))
                check_sum(s, at, self);
        }
}

static void create(struct scene *s)
{
    for (size_t g = 0; g < GEOMETRIES; g++) {
        s->first[g] = g == 0 ? 0 : dice_below(&s->dice, s->job.tasks);
        s->members[g] = s->job.tasks - s->first[g];
        if (g != 0)
            s->members[g] = 1 + dice_below(&s->dice, s->members[g]);
        for (size_t i = s->first[g]; takes_part(s, g, i); i++) {
            pami_geometry_range_t range = {(pami_task_t)s->first[g],
                                           (pami_task_t)(s->first[g] + s->members[g] - 1)};
            pami_configuration_t wish = {.name = PAMI_GEOMETRY_OPTIMIZE,
                                         .value.intval = (intptr_t)dice_below(&s->dice, 2)};
            struct call *call = &s->call[i][g];

            CALL(PAMI_Geometry_world(s->job.client[i], &s->geometry[g][i]));
            if (g != 0 && !s->deadly)
                CALL(PAMI_Geometry_create_taskrange(s->job.client[i], 0, &wish, 1,
                                                    &s->geometry[g][i], NULL, (unsigned)g, &range,
                                                    1, s->job.context[i], on_done, call));
        }
    }
    if (!s->deadly)
        job_settle(&s->job);
}

static void prepare(struct scene *s)
{
    for (size_t self = 0; self < s->job.tasks; self++)
        for (size_t at = 0; at < STEPS; at++) {
            struct call *call = &s->call[self][at];

            call->done = false;
            for (size_t k = 0; k < WORDS; k++)
                call->source[k] = value(self, at, k);
        }
}

static void run(uint64_t seed, size_t tasks)
{
    static struct call calls[MEMBERS][STEPS];
    struct scene s = {.dice = {seed}, .call = calls};
    pamix_sim_config_t config = trouble_config(&s.dice, seed);
    uint32_t dead[MEMBERS];

    memset(calls, 0, sizeof(calls));
    tasks = tasks != 0 ? tasks : 1 + dice_below(&s.dice, MEMBERS);
    s.deadly = dice_one_in(&s.dice, 4);
    if (s.deadly)
        trouble_deaths(&config, &s.dice, tasks, (tasks + 3) / 4, 300e-6, dead, s.mortal);
    job_create(&s.job, &config, tasks, 1);
    create(&s);
    choose(&s);
    if (dice_one_in(&s.dice, 3))
        confuse(&s);
    prepare(&s);
    coll_start_all(&s.job, &s.dice, STEPS, start, &s);
    job_settle(&s.job);
    check(&s);
    job_destroy(&s.job);
}

int main(int argc, char **argv)
{
    struct test_arguments given = test_arguments(argc, argv, 100);

    test_each_seed(&given, run);
    return 0;
}
