/*
 * Collectives of very many tasks, on a simulated machine and in virtual time (doc/sim.md): the
 * world's, by Auto or by rows that are named. One process, no launcher.
 *
 *     sim_coll [type ...] [--rows A,B,...] [--tasks N,N,...] [--nodes-of N] [--bytes N,N,...]
 *              [--rounds N] [--costs]
 *
 * Types: barrier, broadcast, allreduce, reduce, reduce_scatter, allgather; of the last two BYTES is
 * what one member gets or gives. All members call at the same time, and the last callback ends it;
 * the first round makes what rows keep for their groups, and is not counted. A line is
 * "TYPE_BYTES_ROW,TASKS,us,TIME". Rows that a group cannot take are left out.
 * With --costs a line more on standard error for each: what the simulation itself took.
 */
#include "bench.h"

#include <pami/pami.h>
#include <pami/pamix.h>

#define ROWS_MOST 64
#define LIST_MOST 64
#define NAME_MOST 64

/* What is the same for all runs of a simulation. */
struct machine {
    size_t tasks, rounds;
    bool costs;
    pami_client_t *client;
    pami_context_t *context;
    pami_geometry_t *world;
    size_t made; /* bytes of each task when all were there */
};

struct member {
    struct run *run;
    uint32_t rank;
    char *send, *recv;
    pami_algorithm_t algorithm;
};

/* A collective that all have begun. */
struct run {
    const struct machine *machine;
    const char *row;
    const struct type *type;
    size_t bytes;
    struct member *member;
    size_t *counts; /* one for each member, all alike */
    size_t left;
    double last; /* callback */
};

struct type {
    const char *name;
    pami_xfer_type_t xfer;
    bool sized;          /* it moves data */
    size_t sent, blocks; /* of the buffers: 1, or 0 for as many as members */
    void (*fill)(pami_collective_t *cmd, const struct member *member, size_t words);
    bool (*check)(const struct member *member, size_t tasks, size_t words);
};

#define PAMI_OK(call) sim_ok((call), #call)

static void sim_ok(pami_result_t result, const char *what)
{
    char text[256] = "";

    if (result == PAMI_SUCCESS)
        return;
    PAMI_Error_text(text, sizeof(text));
    bench_die("%.60s: result %d: %s", what, (int)result, text);
}

/* ---- types ---- */

static uint64_t *words_of(char *buffer)
{
    return (uint64_t *)(void *)buffer;
}

static void fill_barrier(pami_collective_t *cmd, const struct member *member, size_t words)
{
    (void)cmd, (void)member, (void)words;
}

static bool check_barrier(const struct member *member, size_t tasks, size_t words)
{
    (void)member, (void)tasks, (void)words;
    return true;
}

static void fill_broadcast(pami_collective_t *cmd, const struct member *member, size_t words)
{
    char *buffer = member->rank == 0 ? member->send : member->recv;

    cmd->xfer_broadcast = (pami_broadcast_t){0, buffer, PAMI_TYPE_UNSIGNED_LONG_LONG, words};
}

static bool check_broadcast(const struct member *member, size_t tasks, size_t words)
{
    (void)tasks;
    return member->rank == 0 ||
           (words_of(member->recv)[0] == 1 && words_of(member->recv)[words - 1] == words);
}

static void fill_allreduce(pami_collective_t *cmd, const struct member *member, size_t words)
{
    const pami_type_t type = PAMI_TYPE_UNSIGNED_LONG_LONG;

    cmd->xfer_allreduce = (pami_allreduce_t){member->send,  type, words, member->recv, type, words,
                                             PAMI_DATA_SUM, NULL, 1};
}

/* Task r contributes r + 1, r + 2, ... */
static bool check_sum(const struct member *member, size_t tasks, size_t words)
{
    uint64_t sum = (uint64_t)tasks * (tasks + 1) / 2;

    return words_of(member->recv)[0] == sum &&
           words_of(member->recv)[words - 1] == sum + tasks * (words - 1);
}

static void fill_reduce(pami_collective_t *cmd, const struct member *member, size_t words)
{
    const pami_type_t type = PAMI_TYPE_UNSIGNED_LONG_LONG;

    cmd->xfer_reduce = (pami_reduce_t){0,    member->send, type,          words, member->recv,
                                       type, words,        PAMI_DATA_SUM, NULL,  1};
}

static bool check_reduce(const struct member *member, size_t tasks, size_t words)
{
    return member->rank != 0 || check_sum(member, tasks, words);
}

static void fill_reduce_scatter(pami_collective_t *cmd, const struct member *member, size_t words)
{
    const pami_type_t type = PAMI_TYPE_UNSIGNED_LONG_LONG;
    const struct run *run = member->run;

    cmd->xfer_reduce_scatter =
        (pami_reduce_scatter_t){member->send,  type, run->machine->tasks * words,
                                member->recv,  type, run->counts,
                                PAMI_DATA_SUM, NULL, 1};
}

/* A member's block begins where those of the members before it end. */
static bool check_reduce_scatter(const struct member *member, size_t tasks, size_t words)
{
    uint64_t sum = (uint64_t)tasks * (tasks + 1) / 2 + tasks * member->rank * words;

    return words_of(member->recv)[0] == sum &&
           words_of(member->recv)[words - 1] == sum + tasks * (words - 1);
}

static void fill_allgather(pami_collective_t *cmd, const struct member *member, size_t words)
{
    const pami_type_t type = PAMI_TYPE_UNSIGNED_LONG_LONG;

    cmd->xfer_allgather = (pami_allgather_t){member->send, type, words, member->recv, type, words};
}

static bool check_allgather(const struct member *member, size_t tasks, size_t words)
{
    for (size_t i = 0; i < tasks; i++)
        if (words_of(member->recv)[i * words] != i + 1)
            return false;
    return true;
}

static const struct type types[] = {
    {"barrier", PAMI_XFER_BARRIER, false, 1, 1, fill_barrier, check_barrier},
    {"broadcast", PAMI_XFER_BROADCAST, true, 1, 1, fill_broadcast, check_broadcast},
    {"allreduce", PAMI_XFER_ALLREDUCE, true, 1, 1, fill_allreduce, check_sum},
    {"reduce", PAMI_XFER_REDUCE, true, 1, 1, fill_reduce, check_reduce},
    {"reduce_scatter", PAMI_XFER_REDUCE_SCATTER, true, 0, 1, fill_reduce_scatter,
     check_reduce_scatter},
    {"allgather", PAMI_XFER_ALLGATHER, true, 1, 0, fill_allgather, check_allgather},
};

/* ---- the machine ---- */

static size_t resident_bytes(void)
{
    return (size_t)(bench_memory_kib("Rss:") * 1024);
}

static void machine_make(struct machine *machine, size_t tasks, size_t node)
{
    size_t before = resident_bytes();
    pamix_sim_config_t config;
    uint64_t start = bench_now();

    machine->tasks = tasks;
    machine->client = bench_alloc(tasks * sizeof(machine->client[0]));
    machine->context = bench_alloc(tasks * sizeof(machine->context[0]));
    machine->world = bench_alloc(tasks * sizeof(machine->world[0]));
    PAMIX_Sim_default(&config);
    config.contexts = 1;
    config.tasks_per_core = 1;
    config.tasks_per_node = (uint32_t)node;
    config.node_ports = 1;
    PAMI_OK(PAMIX_Sim_create(&config, tasks, machine->client));
    for (size_t i = 0; i < tasks; i++) {
        PAMI_OK(PAMI_Context_createv(machine->client[i], NULL, 0, &machine->context[i], 1));
        PAMI_OK(PAMI_Geometry_world(machine->client[i], &machine->world[i]));
    }
    machine->made = (resident_bytes() - before) / tasks;
    if (machine->costs)
        fprintf(stderr, "%zu tasks: %zu bytes each, made in %.3f s\n", tasks, machine->made,
                1e-9 * (double)(bench_now() - start));
}

static void machine_free(struct machine *machine)
{
    for (size_t i = 0; i < machine->tasks; i++)
        PAMI_OK(PAMI_Context_destroyv(&machine->context[i], 1));
    PAMI_OK(PAMIX_Sim_destroy(machine->client, machine->tasks));
    free(machine->client);
    free(machine->context);
    free(machine->world);
}

/* Names are "I0:ROW:AM:AM" or the like; what ends in ":AUTO" is Auto by another name. */
static bool is_row(const char *name, const char *row)
{
    size_t length = strlen(row);

    name = strchr(name, ':');
    return name != NULL && strncmp(name + 1, row, length) == 0 && name[1 + length] == ':' &&
           strstr(name, ":AUTO") == NULL;
}

/* Of the first list, or of the second. PAMI_ALGORITHM_NULL: there is none. */
static pami_algorithm_t find_row(pami_geometry_t world, const struct type *type, const char *row)
{
    pami_algorithm_t handles[2][ROWS_MOST];
    pami_metadata_t metadata[2][ROWS_MOST];
    size_t counts[2];

    PAMI_OK(PAMI_Geometry_algorithms_num(world, type->xfer, counts));
    PAMI_OK(PAMI_Geometry_algorithms_query(world, type->xfer, handles[0], metadata[0], ROWS_MOST,
                                           handles[1], metadata[1], ROWS_MOST));
    for (size_t list = 0; list < 2; list++)
        for (size_t i = 0; i < counts[list] && i < ROWS_MOST; i++)
            if (is_row(metadata[list][i].name, row))
                return handles[list][i];
    return PAMI_ALGORITHM_NULL;
}

/* ---- runs ---- */

static void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct member *member = cookie;
    struct run *run = member->run;
    double now = PAMI_Wtime(run->machine->client[member->rank]);

    (void)context;
    sim_ok(result, run->row);
    run->last = now > run->last ? now : run->last;
    run->left--;
}

static void start(struct run *run, const struct member *member)
{
    pami_xfer_t xfer = {.cb_done = on_done};

    xfer.cookie = (void *)(uintptr_t)member;
    xfer.algorithm = member->algorithm;
    run->type->fill(&xfer.cmd, member, run->bytes / 8);
    PAMI_OK(PAMI_Collective(run->machine->context[member->rank], &xfer));
}

/* Seconds of virtual time. */
static double run_once(struct run *run)
{
    const struct machine *machine = run->machine;
    double begin;

    PAMI_OK(PAMIX_Sim_run(machine->client[0], NULL, NULL, 0, 0));
    begin = PAMIX_Sim_time(machine->client[0]);
    run->left = machine->tasks;
    run->last = begin;
    for (size_t i = 0; i < machine->tasks; i++)
        start(run, &run->member[i]);
    PAMI_OK(PAMIX_Sim_run(machine->client[0], NULL, NULL, 0, 0));
    if (run->left != 0)
        bench_die("%s %s: %zu have not ended", run->type->name, run->row, run->left);
    return run->last - begin;
}

/* False: there is no such row for this world. */
static bool prepare(struct run *run, struct member *member)
{
    size_t tasks = run->machine->tasks;
    size_t sent = run->type->sent != 0 ? run->type->sent : tasks;
    size_t blocks = run->type->blocks != 0 ? run->type->blocks : tasks;
    size_t words = sent * run->bytes / 8;

    member->algorithm = find_row(run->machine->world[member->rank], run->type, run->row);
    if (member->algorithm == PAMI_ALGORITHM_NULL)
        return false;
    member->send = calloc(sent * run->bytes + 8, 1);
    member->recv = calloc(blocks * run->bytes + 8, 1);
    if (member->send == NULL || member->recv == NULL)
        bench_die("out of memory");
    for (size_t i = 0; i < words; i++)
        words_of(member->send)[i] = member->rank + i + 1;
    return true;
}

static void tell_costs(const struct run *run, const uint64_t at[3], size_t before)
{
    fprintf(stderr, "%s %zu %s %zu: first %.3f s, each %.3f s, %zd bytes more for each task\n",
            run->type->name, run->bytes, run->row, run->machine->tasks,
            1e-9 * (double)(at[1] - at[0]),
            1e-9 * (double)(at[2] - at[1]) / (double)run->machine->rounds,
            ((ssize_t)resident_bytes() - (ssize_t)before) / (ssize_t)run->machine->tasks);
}

static void measure(const struct machine *machine, const struct type *type, const char *row,
                    size_t bytes)
{
    struct run run = {.machine = machine, .type = type, .row = row, .bytes = bytes};
    char name[2 * NAME_MOST];
    uint64_t at[3];
    size_t before, made = 0;
    double time = 0;

    run.member = bench_alloc(machine->tasks * sizeof(run.member[0]));
    memset(run.member, 0, machine->tasks * sizeof(run.member[0]));
    run.counts = bench_alloc(machine->tasks * sizeof(run.counts[0]));
    for (size_t i = 0; i < machine->tasks; i++)
        run.counts[i] = bytes / 8;
    for (; made < machine->tasks; made++) {
        run.member[made] = (struct member){.run = &run, .rank = (uint32_t)made};
        if (!prepare(&run, &run.member[made]))
            break;
    }
    if (made == machine->tasks) {
        before = resident_bytes();
        at[0] = bench_now();
        run_once(&run);
        at[1] = bench_now();
        for (size_t i = 0; i < machine->rounds; i++)
            time += run_once(&run);
        at[2] = bench_now();
        for (size_t i = 0; i < machine->tasks; i++)
            if (!type->check(&run.member[i], machine->tasks, bytes / 8))
                bench_die("%s %s: wrong data at task %zu", type->name, row, i);
        snprintf(name, sizeof(name), "%s_%zu_%s", type->name, bytes, row);
        bench_emit(name, machine->tasks, "us", 1e6 * time / (double)machine->rounds);
        fflush(stdout);
        if (machine->costs)
            tell_costs(&run, at, before);
    }
    for (size_t i = 0; i < made; i++) {
        free(run.member[i].send);
        free(run.member[i].recv);
    }
    free(run.member);
    free(run.counts);
}

/* ---- arguments ---- */

static const char *text_option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return otherwise;
}

static size_t numbers(const char *text, size_t list[])
{
    size_t count = 0;
    char *end;

    for (; *text != '\0' && count < LIST_MOST; text = *end == ',' ? end + 1 : end) {
        list[count++] = strtoull(text, &end, 10);
        if (end == text || (*end != ',' && *end != '\0'))
            bench_die("'%s' is no list of numbers", text);
    }
    return count;
}

static void measure_type(const struct machine *machine, const struct type *type, const char *rows,
                         const size_t sizes[], size_t count)
{
    for (size_t i = 0; i < (type->sized ? count : 1); i++)
        for (const char *row = rows; *row != '\0'; row += strspn(row, ",")) {
            size_t length = strcspn(row, ",");
            char name[NAME_MOST];

            snprintf(name, sizeof(name), "%.*s", (int)length, row);
            measure(machine, type, name, type->sized ? sizes[i] : 0);
            row += length;
        }
}

int main(int argc, char **argv)
{
    struct machine machine = {.rounds = bench_option(argc, argv, "--rounds", 2)};
    const char *rows = text_option(argc, argv, "--rows", "Auto");
    size_t tasks[LIST_MOST], sizes[LIST_MOST];
    size_t tasks_count = numbers(text_option(argc, argv, "--tasks", "32,256,2048"), tasks);
    size_t sizes_count = numbers(text_option(argc, argv, "--bytes", "8"), sizes);
    size_t node = bench_option(argc, argv, "--nodes-of", 32);

    machine.costs = bench_flag(argc, argv, "--costs");
    for (size_t i = 0; i < tasks_count; i++) {
        machine_make(&machine, tasks[i], node);
        for (size_t k = 0; k < sizeof(types) / sizeof(types[0]); k++)
            if (bench_wanted(argc, argv, types[k].name))
                measure_type(&machine, &types[k], rows, sizes, sizes_count);
        machine_free(&machine);
    }
    return 0;
}
