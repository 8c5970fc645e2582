/*
 * Creations of geometries under trouble: any groups, ids that come again at once, several under
 * way, parents, any of the contexts, slow tasks, and tasks that die. fn runs once for each call,
 * never before all have called, and with an error only where somebody has died.
 *
 * With more than 70 tasks: one geometry of all, for the time and memory it takes.
 *
 * Run: args="--seeds 1500" timeout=120
 * Run: args="--tasks 100000" timeout=120
 */
#include "sim_test.h"
#include "trouble.h"

enum {
    PLANS_MAX = 60,
    TASKS_MAX = 70,
    CONTEXTS_MAX = 3,
    WINDOW_MAX = 4
};

/* One creation; the same for all. */
struct plan {
    unsigned id;
    bool parent; /* the world */
    bool by_tasks;
    size_t offset; /* by_tasks: of the contexts, or PAMI_ALL_CONTEXTS */
    pami_task_t tasks[TASKS_MAX];
    pami_endpoint_t endpoints[TASKS_MAX * CONTEXTS_MAX];
    size_t count;
    bool member[TASKS_MAX];
    size_t callers, called;
};

struct call {
    size_t task, plan;
    pami_context_t context;
    pami_geometry_t geometry;
    unsigned told;
    pami_result_t result;
    bool begun;
};

static struct sim_job job;
static struct plan plans[PLANS_MAX];
static size_t plan_count;
static struct call calls[TASKS_MAX][PLANS_MAX];
static size_t next[TASKS_MAX], under_way[TASKS_MAX], window[TASKS_MAX];
static bool mortal[TASKS_MAX];
static bool deaths;
static struct dice choices;

/* ---- plans ---- */

static void shuffle(pami_task_t *tasks, size_t count, struct dice *dice)
{
    for (size_t i = 0; i + 1 < count; i++) {
        size_t j = i + dice_below(dice, count - i);
        pami_task_t other = tasks[i];

        tasks[i] = tasks[j];
        tasks[j] = other;
    }
}

static void plan_tasks(struct plan *plan, struct dice *dice)
{
    size_t step = 1 + dice_below(dice, 3), first = dice_below(dice, job.tasks);

    plan->by_tasks = true;
    plan->offset = dice_below(dice, job.contexts);
    plan->parent = dice_one_in(dice, 3);
    if (!plan->parent && dice_one_in(dice, 4))
        plan->offset = PAMI_ALL_CONTEXTS;
    for (size_t i = first; i < job.tasks; i += step)
        plan->tasks[plan->count++] = (pami_task_t)i;
    if (dice_one_in(dice, 2))
        shuffle(plan->tasks, plan->count, dice);
    if (dice_one_in(dice, 2))
        plan->count = 1 + dice_below(dice, plan->count);
    for (size_t i = 0; i < plan->count; i++)
        plan->member[plan->tasks[i]] = true;
}

static void plan_endpoints(struct plan *plan, struct dice *dice)
{
    for (size_t task = 0; task < job.tasks; task++)
        for (size_t offset = 0; offset < job.contexts; offset++)
            if (dice_one_in(dice, 2)) {
                plan->endpoints[plan->count++] = job_endpoint(&job, task, offset);
                plan->member[task] = true;
            }
    if (plan->count == 0) {
        plan->endpoints[plan->count++] = job_endpoint(&job, 0, 0);
        plan->member[0] = true;
    }
    if (dice_one_in(dice, 2))
        shuffle(plan->endpoints, plan->count, dice);
}

static void plans_make(struct dice *dice)
{
    plan_count = 1 + dice_below(dice, PLANS_MAX);
    memset(plans, 0, sizeof(plans));
    for (size_t i = 0; i < plan_count; i++) {
        struct plan *plan = &plans[i];

        plan->id = 1 + (unsigned)dice_below(dice, 3);
        if (dice_one_in(dice, 3))
            plan_endpoints(plan, dice);
        else
            plan_tasks(plan, dice);
        for (size_t task = 0; task < job.tasks; task++)
            plan->callers += plan->member[task] || plan->parent;
    }
}

/* ---- calls ---- */

static void begin_next(size_t task);

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct call *call = cookie;
    const struct plan *plan = &plans[call->plan];

    CHECK(context == call->context && call->told == 0);
    call->told = 1;
    call->result = result;
    under_way[call->task]--;
    if (result == PAMI_SUCCESS)
        CHECK(plan->called == plan->callers);
    else
        CHECK(deaths && result == PAMI_ERROR);
    if (call->geometry != NULL)
        CALL(PAMI_Geometry_destroy(
            job.client[call->task], &call->geometry,
            job_context(&job, call->task, dice_below(&choices, job.contexts)), NULL, NULL));
    begin_next(call->task);
}

static void begin(struct call *call)
{
    struct plan *plan = &plans[call->plan];
    pami_client_t client = job.client[call->task];
    bool member = plan->member[call->task];
    pami_geometry_t world, *out = member ? &call->geometry : NULL;

    CALL(PAMI_Geometry_world(client, &world));
    call->begun = true;
    plan->called++;
    under_way[call->task]++;
    if (plan->by_tasks)
        CALL(PAMI_Geometry_create_tasklist(client, plan->offset, NULL, 0, out,
                                           plan->parent ? world : NULL, plan->id, plan->tasks,
                                           plan->count, call->context, on_done, call));
    else
        CALL(PAMI_Geometry_create_endpointlist(client, NULL, 0, out, plan->id, plan->endpoints,
                                               plan->count, call->context, on_done, call));
    CHECK(call->told == 0 && (!member || call->geometry != NULL));
}

static bool id_is_used(size_t task, unsigned id)
{
    for (size_t i = 0; i < next[task]; i++)
        if (calls[task][i].begun && calls[task][i].told == 0 && plans[i].id == id)
            return true;
    return false;
}

/* In the order of the plans, as many at once as the task likes. */
static void begin_next(size_t task)
{
    while (next[task] < plan_count && under_way[task] < window[task]) {
        struct call *call = &calls[task][next[task]];
        const struct plan *plan = &plans[next[task]];

        if (plan->member[task] && id_is_used(task, plan->id))
            return;
        call->task = task;
        call->plan = next[task]++;
        call->context = job_context(&job, task, dice_below(&choices, job.contexts));
        if (plan->member[task] || plan->parent)
            begin(call);
    }
}

/* A task may own one context while another of its contexts has the turn: the simulation has one
 * thread. */
static void check_end(void)
{
    for (size_t task = 0; task < job.tasks; task++) {
        if (mortal[task])
            continue;
        if (next[task] != plan_count || under_way[task] != 0)
            FAIL("task %zu of %zu began %zu of %zu creations, and %zu did not end", task, job.tasks,
                 next[task], plan_count, under_way[task]);
    }
    if (!deaths)
        for (size_t i = 0; i < plan_count; i++)
            CHECK(plans[i].called == plans[i].callers);
}

static void run_seed(uint64_t seed)
{
    struct dice dice = {seed};
    pamix_sim_config_t config;
    uint32_t dead[TASKS_MAX];
    size_t contexts = 1 + dice_below(&dice, CONTEXTS_MAX);
    size_t tasks = trouble_tasks(&dice);

    config = trouble_config(&dice, seed);
    config.contexts = CONTEXTS_MAX;
    memset(mortal, 0, sizeof(mortal));
    deaths = dice_one_in(&dice, 3);
    if (deaths) {
        trouble_deaths(&config, &dice, tasks, (tasks + 3) / 4, 200e-6, dead, mortal);
        config.dead_spread *= 2;
    }
    choices.state = ~seed;
    job_create(&job, &config, tasks, contexts);
    plans_make(&dice);
    memset(calls, 0, sizeof(calls));
    for (size_t task = 0; task < tasks; task++) {
        next[task] = under_way[task] = 0;
        window[task] = 1 + dice_below(&dice, WINDOW_MAX);
    }
    for (size_t task = 0; task < tasks; task++)
        begin_next(task);
    job_settle(&job);
    check_end();
    job_destroy(&job);
}

/* ---- scale ---- */

static size_t told;

static void on_told(pami_context_t context, void *cookie, pami_result_t result)
{
    (void)context, (void)cookie;
    CHECK(result == PAMI_SUCCESS);
    told++;
}

static void run_large(size_t tasks)
{
    pami_geometry_range_t all = {0, (pami_task_t)tasks - 1};
    pami_geometry_t *geometry = calloc(tasks, sizeof(*geometry));
    double begun;

    CHECK(geometry != NULL);
    job_create(&job, NULL, tasks, 1);
    begun = PAMIX_Sim_time(job.client[0]);
    for (size_t i = 0; i < tasks; i++)
        CALL(PAMI_Geometry_create_taskrange(job.client[i], 0, NULL, 0, &geometry[i], NULL, 1, &all,
                                            1, job_context(&job, i, 0), on_told, NULL));
    job_settle(&job);
    CHECK(told == tasks);
    printf("%zu tasks: %.1f us of virtual time, %.2f packets per task\n", tasks,
           (PAMIX_Sim_time(job.client[0]) - begun) * 1e6,
           (double)job_counters(&job).packets / (double)tasks);
    for (size_t i = 0; i < tasks; i++)
        CALL(PAMI_Geometry_destroy(job.client[i], &geometry[i], job_context(&job, i, 0), on_told,
                                   NULL));
    job_settle(&job);
    CHECK(told == 2 * tasks);
    job_destroy(&job);
    free(geometry);
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 500);

    if (arguments.tasks > TASKS_MAX) {
        run_large(arguments.tasks);
        return 0;
    }
    for (uint64_t i = 0; i < arguments.seeds; i++) {
        test_seed = arguments.seed + i;
        run_seed(test_seed);
    }
    return 0;
}
