/*
 * PAMI_Rmw on random networks, with and without deaths: each operation is executed once or not at
 * all and ends once; what is fetched from a counter is never the same twice; without deaths nothing
 * fails and every sum is right. The counters are in shared heaps, which tasks of one node can cast.
 *
 * Run: args="--seeds 3000" timeout=120
 */
#include "sim_test.h"
#include "trouble.h"

#define TASKS_MAX 70u
#define PER_CONTEXT 40u
#define VALUES (TASKS_MAX * 4 * PER_CONTEXT)

/* Of one task. */
struct counter {
    uint64_t *word;
    size_t issued, succeeded;
    bool *fetched; /* [old value] */
};

struct origin {
    struct atomics *atomics;
    size_t task, offset;
    size_t issued, done;
    struct operation *operation; /* [PER_CONTEXT] */
};

struct operation {
    struct origin *origin;
    size_t target;
    uint64_t old;
    bool done;
};

struct atomics {
    struct sim_job job;
    struct dice dice;
    struct counter counter[TASKS_MAX];
    bool mortal[TASKS_MAX];
    struct origin *origin;
};

static void issue(struct origin *origin);

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct operation *operation = cookie;
    struct origin *origin = operation->origin;
    struct atomics *a = origin->atomics;
    struct counter *counter = &a->counter[operation->target];

    CHECK(!operation->done);
    CHECK(context == job_context(&a->job, origin->task, origin->offset));
    operation->done = true;
    origin->done++;
    if (result == PAMI_SUCCESS) {
        CHECK(operation->old < counter->issued && !counter->fetched[operation->old]);
        counter->fetched[operation->old] = true;
        counter->succeeded++;
    } else {
        CHECK(a->mortal[operation->target] || a->mortal[origin->task]);
    }
    if (dice_one_in(&a->dice, 2))
        issue(origin);
}

static void issue(struct origin *origin)
{
    struct atomics *a = origin->atomics;
    struct operation *operation;
    uint64_t one = 1;
    pami_rmw_t rmw;

    if (origin->issued == PER_CONTEXT)
        return;
    operation = &origin->operation[origin->issued];
    operation->origin = origin;
    operation->target = dice_below(&a->dice, a->job.tasks);
    origin->issued++;
    a->counter[operation->target].issued++;
    rmw = (pami_rmw_t){
        .dest = job_endpoint(&a->job, operation->target, dice_below(&a->dice, a->job.contexts)),
        .cookie = operation,
        .done_fn = on_done,
        .local = &operation->old,
        .remote = a->counter[operation->target].word,
        .value = &one,
        .operation = PAMI_ATOMIC_FETCH_ADD,
        .type = PAMI_TYPE_UNSIGNED_LONG,
    };
    CALL(PAMI_Rmw(job_context(&a->job, origin->task, origin->offset), &rmw));
    if (!dice_one_in(&a->dice, 3))
        issue(origin);
}

static void check_casting(struct atomics *a, const pamix_sim_config_t *config)
{
    size_t from = dice_below(&a->dice, a->job.tasks);
    size_t to = dice_below(&a->dice, a->job.tasks);
    void *cast =
        PAMIX_Mem_local_address(a->job.client[from], (pami_task_t)to, a->counter[to].word, 8);

    if (from / config->tasks_per_node == to / config->tasks_per_node)
        CHECK(cast == a->counter[to].word);
    else
        CHECK(cast == NULL);
}

static void begin(struct atomics *a, const pamix_sim_config_t *config, size_t tasks,
                  size_t contexts)
{
    job_create(&a->job, config, tasks, contexts);
    a->origin = calloc(tasks * contexts, sizeof(*a->origin));
    CHECK(a->origin != NULL);
    for (size_t i = 0; i < tasks; i++) {
        CALL(
            PAMIX_Mem_alloc(a->job.client[i], 8, 0, PAMIX_MEM_LOCAL, (void **)&a->counter[i].word));
        *a->counter[i].word = 0;
        a->counter[i].fetched = calloc(VALUES, sizeof(bool));
        CHECK(a->counter[i].fetched != NULL);
    }
    check_casting(a, config);
    for (size_t i = 0; i < tasks * contexts; i++) {
        a->origin[i] = (struct origin){.atomics = a, .task = i / contexts, .offset = i % contexts};
        a->origin[i].operation = calloc(PER_CONTEXT, sizeof(struct operation));
        CHECK(a->origin[i].operation != NULL);
    }
    for (size_t i = 0; i < tasks * contexts; i++)
        issue(&a->origin[i]);
}

static void finish(struct atomics *a, bool deaths)
{
    for (size_t i = 0; i < a->job.tasks * a->job.contexts; i++)
        CHECK(a->mortal[i / a->job.contexts] || a->origin[i].done == a->origin[i].issued);
    for (size_t i = 0; i < a->job.tasks; i++) {
        struct counter *counter = &a->counter[i];

        CHECK(*counter->word >= counter->succeeded && *counter->word <= counter->issued);
        CHECK(deaths || *counter->word == counter->issued);
        CALL(PAMIX_Mem_free(a->job.client[i], counter->word));
        CHECK(PAMIX_Mem_free(a->job.client[i], counter->word) == PAMI_INVAL);
        free(counter->fetched);
    }
    for (size_t i = 0; i < a->job.tasks * a->job.contexts; i++)
        free(a->origin[i].operation);
    job_destroy(&a->job);
    free(a->origin);
}

static void run_seed(uint64_t seed, size_t tasks)
{
    struct atomics a = {.dice = {seed}};
    pamix_sim_config_t config = trouble_config(&a.dice, seed);
    size_t contexts = 1 + dice_below(&a.dice, 3);
    bool deaths = dice_one_in(&a.dice, 2);
    uint32_t dead[TASKS_MAX];

    if (tasks == 0)
        tasks = trouble_tasks(&a.dice);
    if (deaths)
        trouble_deaths(&config, &a.dice, tasks, (tasks + 3) / 4, 30e-6, dead, a.mortal);
    begin(&a, &config, tasks, contexts);
    job_settle(&a.job);
    finish(&a, deaths);
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 1000);

    test_each_seed(&arguments, run_seed);
    return 0;
}
