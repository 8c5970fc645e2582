/*
 * compose.c - an all-reduce that the program makes itself, out of collectives of two levels.
 *
 * The tasks form teams of neighbours, and the first of each team leads it. A sum over all is a
 * reduce in the team, an all-reduce among the leaders, and a broadcast in the team: three machines,
 * one behind the other in a chain. A long vector is cut into segments, which follow one another
 * through such chains in a pipeline: while the leaders of one segment exchange their sums, the
 * teams add up the next one. All of it is one machine in the end, which starts without waiting and
 * says by a callback when it is complete.
 *
 * The result is compared with that of the library's own all-reduce, and so are the times. The
 * library knows the hardware and composes its own in the same way; machines are for shapes that it
 * does not know.
 *
 * Build:  cc compose.c $(pkg-config --cflags --libs pami) -o compose
 * Run:    pamirun -n 8 ./compose 4
 */
#include <pamix.h>

#define PROGRAM "compose"
#include "collective.h"

enum {
    VALUES = 100000,
    SEGMENT = 8192, /* values */
    STAGES = 2,     /* segments that are under way at the same time */
    ROUNDS = 20
};

struct levels {
    pami_geometry_t team, leaders; /* leaders: unset for who leads nobody */
    pami_endpoint_t leader;        /* of this task's team */
    bool leads;
};

/* What carries out one segment at a time. */
struct stage {
    pamix_machine_t reduce, exchange, broadcast; /* exchange: of leaders */
    pamix_machine_t chain;
};

struct sum {
    const struct levels *levels;
    struct stage stage[STAGES];
    pamix_machine_t machine; /* all of them */
    double *from, *to;
};

/* ---- levels ---- */

static void on_created(pami_context_t context, void *cookie, pami_result_t result)
{
    bool *done = cookie;

    (void)context;
    check(result, "PAMI_Geometry_create_tasklist");
    *done = true;
}

/* All tasks of the list call this. Number 0 is the world. */
static pami_geometry_t geometry(struct job *job, unsigned id, pami_task_t *tasks, size_t count)
{
    pami_geometry_t made = PAMI_GEOMETRY_NULL;
    bool done = false;

    check(PAMI_Geometry_create_tasklist(job->client, 0, NULL, 0, &made, PAMI_GEOMETRY_NULL, id,
                                        tasks, count, job->context, on_created, &done),
          "PAMI_Geometry_create_tasklist");
    while (!done)
        PAMI_Context_advance(job->context, 100);
    return made;
}

static void destroy_geometry(struct job *job, pami_geometry_t *made)
{
    bool done = false;

    check(PAMI_Geometry_destroy(job->client, made, job->context, on_created, &done),
          "PAMI_Geometry_destroy");
    while (!done)
        PAMI_Context_advance(job->context, 100);
}

static struct levels make_levels(struct job *job, size_t team)
{
    pami_task_t *tasks = allocate(job->tasks, sizeof(*tasks));
    size_t first = job->task / team * team, count = 0;
    struct levels levels = {.leads = job->task == first};

    check(PAMI_Endpoint_create(job->client, (pami_task_t)first, 0, &levels.leader),
          "PAMI_Endpoint_create");
    for (size_t i = first; i < job->tasks && i < first + team; i++)
        tasks[count++] = (pami_task_t)i;
    levels.team = geometry(job, 2 + (unsigned)(first / team), tasks, count);
    count = 0;
    for (size_t i = 0; i < job->tasks; i += team)
        tasks[count++] = (pami_task_t)i;
    if (levels.leads)
        levels.leaders = geometry(job, 1, tasks, count);
    free(tasks);
    return levels;
}

/* ---- machines ---- */

static pamix_machine_t machine(struct job *job, pami_geometry_t members, pami_xfer_type_t type)
{
    pami_algorithm_t first;
    pamix_machine_t made;

    check(PAMI_Geometry_algorithms_query(members, type, &first, NULL, 1, NULL, NULL, 0),
          "PAMI_Geometry_algorithms_query");
    check(PAMIX_Machine_create(job->context, first, &made), "PAMIX_Machine_create");
    return made;
}

static void make_stage(struct job *job, const struct levels *levels, struct stage *stage)
{
    pamix_machine_t links[3];
    size_t count = 0;

    links[count++] = stage->reduce = machine(job, levels->team, PAMI_XFER_REDUCE);
    if (levels->leads)
        links[count++] = stage->exchange = machine(job, levels->leaders, PAMI_XFER_ALLREDUCE);
    links[count++] = stage->broadcast = machine(job, levels->team, PAMI_XFER_BROADCAST);
    check(PAMIX_Chain_create(job->context, links, count, &stage->chain), "PAMIX_Chain_create");
}

/* Gives the machines of a stage their part of the vector. The pipeline calls it for each segment;
 * a stage is idle then. */
static pami_result_t bind(pamix_machine_t chain, size_t index, void *cookie)
{
    const struct sum *sum = cookie;
    const struct stage *stage = &sum->stage[index % STAGES];
    size_t first = index * SEGMENT;
    size_t count = VALUES - first < SEGMENT ? VALUES - first : SEGMENT;
    char *to = (char *)(sum->to + first);
    pami_collective_t command = {.xfer_reduce = {.root = sum->levels->leader,
                                                 .sndbuf = (char *)(sum->from + first),
                                                 .stype = PAMI_TYPE_DOUBLE,
                                                 .stypecount = count,
                                                 .rcvbuf = to,
                                                 .rtype = PAMI_TYPE_DOUBLE,
                                                 .rtypecount = count,
                                                 .op = PAMI_DATA_SUM,
                                                 .commutative = 1}};
    pami_result_t result = PAMIX_Machine_reset(stage->reduce, &command);

    (void)chain;
    if (result == PAMI_SUCCESS && sum->levels->leads) {
        command = (pami_collective_t){.xfer_allreduce = {.sndbuf = to, /* in place */
                                                         .stype = PAMI_TYPE_DOUBLE,
                                                         .stypecount = count,
                                                         .rcvbuf = to,
                                                         .rtype = PAMI_TYPE_DOUBLE,
                                                         .rtypecount = count,
                                                         .op = PAMI_DATA_SUM,
                                                         .commutative = 1}};
        result = PAMIX_Machine_reset(stage->exchange, &command);
    }
    if (result == PAMI_SUCCESS) {
        command = (pami_collective_t){.xfer_broadcast = {.root = sum->levels->leader,
                                                         .buf = to,
                                                         .type = PAMI_TYPE_DOUBLE,
                                                         .typecount = count}};
        result = PAMIX_Machine_reset(stage->broadcast, &command);
    }
    return result;
}

static void make_sum(struct job *job, const struct levels *levels, struct sum *sum)
{
    pamix_machine_t stages[STAGES];

    sum->levels = levels;
    for (size_t i = 0; i < STAGES; i++) {
        make_stage(job, levels, &sum->stage[i]);
        stages[i] = sum->stage[i].chain;
    }
    check(PAMIX_Pipeline_create(job->context, stages, STAGES, bind, sum, &sum->machine),
          "PAMIX_Pipeline_create");
    check(PAMIX_Pipeline_reset(sum->machine, (VALUES + SEGMENT - 1) / SEGMENT),
          "PAMIX_Pipeline_reset");
}

/* The machine stays as it is, and can be started again and again. */
static void run_sum(struct job *job, const struct sum *sum)
{
    job->done = false;
    check(PAMIX_Machine_start(sum->machine, on_done, job), "PAMIX_Machine_start");
    while (!job->done)
        PAMI_Context_advance(job->context, 100);
}

/* ---- the comparison ---- */

static void run_library(struct job *job, double *from, double *to)
{
    run(job, PAMI_XFER_ALLREDUCE,
        (pami_collective_t){.xfer_allreduce = {.sndbuf = (char *)from,
                                               .stype = PAMI_TYPE_DOUBLE,
                                               .stypecount = VALUES,
                                               .rcvbuf = (char *)to,
                                               .rtype = PAMI_TYPE_DOUBLE,
                                               .rtypecount = VALUES,
                                               .op = PAMI_DATA_SUM,
                                               .commutative = 1}});
}

/* The numbers are small integers, so no order of adding rounds them. */
static bool is_right(const struct job *job, const double *to, size_t round)
{
    double tasks = (double)job->tasks;

    for (size_t i = 0; i < VALUES; i++)
        if (to[i] != tasks * (double)(i % 1000 + round) + tasks * (tasks - 1) / 2)
            return false;
    return true;
}

static void fill(const struct job *job, struct sum *sum, size_t round)
{
    for (size_t i = 0; i < VALUES; i++) {
        sum->from[i] = (double)(i % 1000 + round + job->task);
        sum->to[i] = -1;
    }
}

/* Seconds of one after the other, or less than 0 for a wrong result. */
static double measure(struct job *job, struct sum *sum, bool composed)
{
    double seconds = 0;

    for (size_t round = 0; round < ROUNDS; round++) {
        double start;

        fill(job, sum, round);
        run(job, PAMI_XFER_BARRIER, (pami_collective_t){0});
        start = PAMI_Wtime(job->client);
        if (composed)
            run_sum(job, sum);
        else
            run_library(job, sum->from, sum->to);
        seconds += PAMI_Wtime(job->client) - start;
        if (!is_right(job, sum->to, round))
            return -1;
    }
    return seconds / ROUNDS;
}

int main(int argc, char **argv)
{
    struct job job = {0};
    struct sum sum = {.from = allocate(VALUES, sizeof(double)),
                      .to = allocate(VALUES, sizeof(double))};
    struct levels levels;
    double mine, theirs;
    char *end = NULL;
    size_t team = argc > 1 ? strtoul(argv[1], &end, 10) : 2;

    if (argc > 2 || team == 0 || (end != NULL && *end != '\0')) {
        fprintf(stderr, "Usage: pamirun -n TASKS compose [TASKS OF A TEAM]\n");
        return EXIT_FAILURE;
    }
    join(&job);
    levels = make_levels(&job, team);
    make_sum(&job, &levels, &sum);
    mine = measure(&job, &sum, true);
    theirs = measure(&job, &sum, false);
    if (mine < 0 || theirs < 0)
        fail("a sum is wrong");
    if (job.task == 0)
        printf("sums of %d numbers by %zu tasks in teams of %zu: verified\n"
               "composed %.0f us, the library's own %.0f us\n",
               VALUES, job.tasks, team, mine * 1e6, theirs * 1e6);
    check(PAMIX_Machine_destroy(&sum.machine), "PAMIX_Machine_destroy");
    if (levels.leads)
        destroy_geometry(&job, &levels.leaders);
    destroy_geometry(&job, &levels.team);
    leave(&job);
    free(sum.from);
    free(sum.to);
    return 0;
}
