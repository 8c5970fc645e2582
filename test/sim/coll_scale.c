/*
 * Collectives of very many tasks on nodes of 16, by Auto and by Hierarchical: barrier, allreduce,
 * broadcast and allgather; of more than 10^4 tasks barrier and allreduce by Auto. Checks what
 * everybody has in the end, that nobody ends who has to wait for all before all have come, and what
 * memory a task takes.
 *
 * Run: args="--tasks 10000" timeout=120
 * Run: args="--tasks 9999" timeout=120
 * Run: args="--tasks 100000" timeout=900
 */
#include "cost.h"
#include "sim_test.h"

#define NODE 16
#define MOST 64        /* algorithms in a list */
#define WORDS 4        /* of a broadcast and a sum */
#define ALL_MOST 10000 /* members of everything else */

/* Of a task with one context, the world's group, its levels, the memory of its node, and what stays
 * of all these collectives. Measured 2026-11-24: see doc/sim.md. */
#define BYTES_MOST 81920

#ifdef __SANITIZE_ADDRESS__
#define MEMORY_FACTOR 4
#else
#define MEMORY_FACTOR 1
#endif

struct task {
    struct job *job;
    uint32_t self;
    uint64_t send[WORDS], recv[WORDS];
    unsigned char *gathered;
    double came, left;
};

struct job {
    struct sim_job sim;
    struct task *task;
    size_t ended;
    size_t before; /* bytes of the process */
};

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct task *task = cookie;

    (void)context;
    CHECK(result == PAMI_SUCCESS);
    task->left = PAMI_Wtime(task->job->sim.client[task->self]);
    task->job->ended++;
}

/* ---- what is called, and what must come of it ---- */

static uint64_t contribution(size_t task, size_t word)
{
    return (task + 1) * (word + 3);
}

static void fill(pami_xfer_type_t type, pami_collective_t *cmd, struct task *task)
{
    const pami_type_t word = PAMI_TYPE_UNSIGNED_LONG_LONG, byte = PAMI_TYPE_BYTE;
    uint32_t root = (uint32_t)(task->job->sim.tasks / 2);

    memset(task->recv, 0, sizeof(task->recv));
    for (size_t i = 0; i < WORDS; i++)
        task->send[i] = contribution(task->self, i);
    if (type == PAMI_XFER_ALLREDUCE)
        cmd->xfer_allreduce =
            (pami_allreduce_t){(char *)task->send, word, WORDS, (char *)task->recv, word, WORDS,
                               PAMI_DATA_SUM,      NULL, 1};
    else if (type == PAMI_XFER_BROADCAST)
        cmd->xfer_broadcast = (pami_broadcast_t){
            root, (char *)(task->self == root ? task->send : task->recv), word, WORDS};
    else if (type == PAMI_XFER_ALLGATHER)
        cmd->xfer_allgather =
            (pami_allgather_t){(char *)task->send, byte, 1, (char *)task->gathered, byte, 1};
}

static void check_words(const uint64_t *words, uint64_t times)
{
    for (size_t i = 0; i < WORDS; i++)
        CHECK(words[i] == times * (i + 3));
}

static void check_all(const struct job *job, pami_xfer_type_t type)
{
    size_t tasks = job->sim.tasks;
    double last = 0;

    for (size_t i = 0; i < tasks; i++)
        last = job->task[i].came > last ? job->task[i].came : last;
    for (size_t i = 0; i < tasks; i++) {
        const struct task *task = &job->task[i];

        if (type == PAMI_XFER_BARRIER)
            CHECK(task->left >= last);
        else if (type == PAMI_XFER_ALLREDUCE)
            check_words(task->recv, (uint64_t)tasks * (tasks + 1) / 2);
        else if (type == PAMI_XFER_BROADCAST)
            check_words(i == tasks / 2 ? task->send : task->recv, tasks / 2 + 1);
        for (size_t k = 0; type == PAMI_XFER_ALLGATHER && k < tasks; k++)
            CHECK(task->gathered[k] == (unsigned char)contribution(k, 0));
    }
}

/* ---- runs ---- */

static pami_algorithm_t algorithm(pami_client_t client, pami_xfer_type_t type, const char *name)
{
    pami_algorithm_t list[2][MOST];
    pami_metadata_t about[2][MOST];
    pami_geometry_t world;
    size_t count[2];

    CALL(PAMI_Geometry_world(client, &world));
    CALL(PAMI_Geometry_algorithms_num(world, type, count));
    CALL(PAMI_Geometry_algorithms_query(world, type, list[0], about[0], MOST, list[1], about[1],
                                        MOST));
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < count[k] && i < MOST; i++)
            if (strstr(about[k][i].name, name) != NULL)
                return list[k][i];
    FAIL("there is no '%s'", name);
}

static void call(struct job *job, size_t self, pami_xfer_type_t type, const char *name)
{
    struct task *task = &job->task[self];
    pami_xfer_t xfer = {.cb_done = on_done, .cookie = task};

    xfer.algorithm = algorithm(job->sim.client[self], type, name);
    fill(type, &xfer.cmd, task);
    task->came = PAMI_Wtime(job->sim.client[self]);
    CALL(PAMI_Collective(job->sim.context[self], &xfer));
}

/* Half of the members, and time for what these have to do; then the others. */
static void run(struct job *job, pami_xfer_type_t type, const char *name)
{
    size_t tasks = job->sim.tasks;
    double start = test_now();

    job->ended = 0;
    for (size_t i = 0; i < tasks; i += 2)
        call(job, i, type, name);
    PAMIX_Sim_run(job->sim.client[0], NULL, NULL, 0, 20e-6);
    CHECK(job->ended == 0 || type == PAMI_XFER_BROADCAST);
    for (size_t i = 1; i < tasks; i += 2)
        call(job, i, type, name);
    job_settle(&job->sim);
    CHECK(job->ended == tasks);
    check_all(job, type);
    printf("%s, type %d: %.2f s, %zu bytes for each task\n", name, (int)type, test_now() - start,
           (resident_bytes() - job->before) / tasks);
}

/* Its result is as long as there are members, on each of them. */
static void run_allgather(struct job *job)
{
    unsigned char *memory = calloc(job->sim.tasks, job->sim.tasks);

    CHECK(memory != NULL);
    for (size_t i = 0; i < job->sim.tasks; i++)
        job->task[i].gathered = memory + i * job->sim.tasks;
    run(job, PAMI_XFER_ALLGATHER, ":Auto:");
    run(job, PAMI_XFER_ALLGATHER, ":Hierarchical:");
    free(memory);
}

static void open_job(struct job *job, size_t tasks, size_t node)
{
    pamix_sim_config_t config;

    *job = (struct job){.before = resident_bytes()};
    PAMIX_Sim_default(&config);
    config.contexts = 1;
    config.tasks_per_core = 1;
    config.tasks_per_node = (uint32_t)node;
    job_create(&job->sim, &config, tasks, 1);
    job->task = calloc(tasks, sizeof(*job->task));
    CHECK(job->task != NULL);
    for (size_t i = 0; i < tasks; i++)
        job->task[i] = (struct task){.job = job, .self = (uint32_t)i};
}

static void close_job(struct job *job)
{
    job_destroy(&job->sim);
    free(job->task);
}

/* Virtual time of the second of two sums of 8 tasks on two nodes. */
static double time_of(const char *name)
{
    struct job job;
    double start = 0;

    open_job(&job, 8, 4);
    for (int round = 0; round < 2; round++) {
        start = PAMIX_Sim_time(job.sim.client[0]);
        for (size_t i = 0; i < 8; i++)
            call(&job, i, PAMI_XFER_ALLREDUCE, name);
        job_settle(&job.sim);
        check_all(&job, PAMI_XFER_ALLREDUCE);
    }
    start = job.task[7].left - start;
    close_job(&job);
    return start;
}

/* Auto knows that there is a network between nodes, and not the memory of one host. */
static void check_choice(void)
{
    CHECK(time_of(":Auto:") < 0.9 * time_of(":LastSpeaks:"));
}

int main(int argc, char **argv)
{
    struct test_arguments arguments = test_arguments(argc, argv, 1);
    size_t tasks = arguments.tasks != 0 ? arguments.tasks : 10000;
    struct job job;

    check_choice();
    if (available_bytes() < MEMORY_FACTOR * tasks * BYTES_MOST) {
        printf("skip: %zu tasks need up to %zu MiB\n", tasks,
               MEMORY_FACTOR * tasks * BYTES_MOST >> 20);
        return 77;
    }
    open_job(&job, tasks, NODE);
    run(&job, PAMI_XFER_BARRIER, ":Auto:");
    run(&job, PAMI_XFER_ALLREDUCE, ":Auto:");
    if (tasks <= ALL_MOST) {
        run(&job, PAMI_XFER_BROADCAST, ":Auto:");
        run(&job, PAMI_XFER_BARRIER, ":Hierarchical:");
        run(&job, PAMI_XFER_ALLREDUCE, ":Hierarchical:");
        run(&job, PAMI_XFER_BROADCAST, ":Hierarchical:");
    }
    if (MEMORY_FACTOR == 1)
        CHECK((resident_bytes() - job.before) / tasks <= BYTES_MOST);
    if (tasks <= ALL_MOST)
        run_allgather(&job);
    close_job(&job);
    return 0;
}
