/*
 * bfs.c - breadth-first search in a distributed graph, in the manner of the Graph500 benchmark.
 *
 * The graph is read from a file or generated; its edges are sent to the owners of their ends; then
 * searches from several roots are timed and compared with a sequential search. The files:
 *
 *   team.c    the job: barrier and all-reduce over active messages
 *   outbox.c  coalescing of small things into larger messages
 *   edges.c   generator and reader; graph.c: distribution, rows of neighbours
 *   search.c  the search itself; check.c: the sequential search and the comparison
 *   options.c, names.c, report.c: what a user gives and sees
 *
 * Try:  pamirun -n 4 bfs --kronecker 16
 */
#include "check.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    USAGE = 2
};

/* The searches' state, too large for parameters. */
struct run {
    struct team team;
    struct options options;
    struct report report;
    struct graph graph;
    struct search search;
    struct check check;
};

/*
 * Collective. The first vertex at or after `from`, going round at the end, that has a neighbour and
 * is not among the `count` used ones. There must be one. The choice does not depend on the
 * number of tasks.
 */
static uint32_t root_find(const struct graph *graph, uint32_t from, const uint32_t *used,
                          uint32_t count)
{
    uint32_t task = graph->team->task, tasks = graph->team->tasks;
    size_t rows = graph->rows.count;
    size_t row = from > task ? ((size_t)from - task + tasks - 1) / tasks : 0;
    uint64_t nearness = 0; /* vertices - distance from `from`, 0 when there is none here */

    for (size_t i = 0; i < rows && nearness == 0; i++, row++) {
        uint32_t vertex = graph_vertex(graph, row < rows ? row : row - rows);
        bool fit = graph_degree(graph, row < rows ? row : row - rows) > 0;

        for (uint32_t k = 0; k < count && fit; k++)
            fit = used[k] != vertex;
        if (fit)
            nearness = graph->vertices - (vertex + graph->vertices - from) % graph->vertices;
    }
    team_reduce(graph->team, TEAM_MAX, &nearness, 1);
    return (uint32_t)((from + graph->vertices - nearness) % graph->vertices);
}

/* On task 0: the vertex that --root means, or a complaint. */
static const char *root_read(const struct run *run, uint64_t *vertex)
{
    const char *text = run->options.root;
    char *end;
    uint32_t found = names_find(&run->report.names, text);

    if (found != UINT32_MAX) {
        *vertex = found;
    } else {
        *vertex = strtoull(text, &end, 10);
        if (*text < '0' || *text > '9' || *end != '\0')
            return run->options.names != NULL ? "no vertex has this name"
                                              : "not a vertex number (for a name, add --names)";
    }
    return *vertex < run->graph.vertices ? NULL : "the graph has no such vertex";
}

/* Collective. The vertex that --root means; returns 0, or -1 after task 0 has explained why. */
static int root_given(struct run *run, uint32_t *root)
{
    struct team *team = &run->team;
    const char *complaint = NULL;
    uint64_t vertex = 0;

    if (team->task == 0)
        complaint = root_read(run, &vertex);
    if (team_first(team, complaint != NULL) < 0) {
        team_reduce(team, TEAM_MAX, &vertex, 1);
        *root = (uint32_t)vertex;
        if (root_find(&run->graph, *root, NULL, 0) == *root)
            return 0;
        complaint = "this vertex has no edges";
    }
    if (team->task == 0)
        fprintf(stderr, "bfs: --root: '%s': %s\n", run->options.root, complaint);
    return -1;
}

/* Collective. Chooses all roots; returns 0 or -1 like root_given. */
static int roots_choose(struct run *run, uint32_t *roots)
{
    const struct graph *graph = &run->graph;
    uint32_t count = 0;

    if (run->options.root != NULL && root_given(run, &roots[count++]) != 0)
        return -1;
    for (; count < run->options.roots; count++) {
        uint64_t random = edges_random(~run->options.source.seed, count);

        roots[count] = root_find(graph, (uint32_t)(random % graph->vertices), roots, count);
    }
    return 0;
}

/* Collective. Task 0 loads the names; returns 0 or -1. */
static int names_share(struct run *run)
{
    char error[256] = "";
    int rc = 0;

    if (run->team.task == 0 && run->options.names != NULL)
        rc = names_load(&run->report.names, run->options.names, error, sizeof(error));
    if (rc != 0)
        fprintf(stderr, "bfs: --names: %s\n", error);
    return team_first(&run->team, rc != 0) < 0 ? 0 : -1;
}

static void progress(void *cookie, uint32_t level, uint64_t frontier)
{
    struct report *report = cookie;

    report_progress(report,
                    "search %" PRIu32 " of %" PRIu32 ": level %" PRIu32 ", %" PRIu64 " vertices",
                    report->count + 1, report->options->roots, level, frontier);
}

static void searches(struct run *run, const uint32_t *roots)
{
    struct report *report = &run->report;

    for (uint32_t i = 0; i < run->options.roots; i++) {
        const char *verdict = "unchecked";

        search_run(&run->search, roots[i], progress, report);
        if (run->options.check) {
            bool right = check_run(&run->check, &run->search);

            verdict = right ? "valid" : "WRONG";
            report->wrong += !right;
            report->sequential += run->check.seconds;
        }
        if (i == 0)
            report_levels(report, &run->search);
        report_search(report, &run->search, verdict);
    }
    report_summary(report);
}

/* Collective, with the graph made. Returns the exit status. */
static int run_searches(struct run *run)
{
    uint32_t *roots;
    int status = EXIT_FAILURE;

    if (run->options.roots > run->graph.connected)
        run->options.roots = (uint32_t)run->graph.connected;
    roots = team_alloc(&run->team, NULL, run->options.roots * sizeof(*roots));
    if (run->options.check)
        report_phase(&run->report, "making the graph again on task 0, for the check");
    if (roots_choose(run, roots) == 0 &&
        (!run->options.check ||
         check_open(&run->check, &run->graph, &run->options.source, run->options.buffer) == 0)) {
        search_open(&run->search, &run->graph, run->options.buffer);
        searches(run, roots);
        if (run->report.wrong == 0)
            status = EXIT_SUCCESS;
        search_close(&run->search);
        if (run->options.check)
            check_close(&run->check);
    }
    free(roots);
    return status;
}

static int run_all(struct run *run)
{
    int status = EXIT_FAILURE;

    report_open(&run->report, &run->team, &run->options);
    report_phase(&run->report, "making the graph");
    if (names_share(run) == 0 &&
        graph_make(&run->graph, &run->team, &run->options.source, run->options.buffer) == 0) {
        report_graph(&run->report, &run->graph);
        status = run_searches(run);
        graph_free(&run->graph);
    }
    report_close(&run->report);
    return status;
}

int main(int argc, char **argv)
{
    static struct run run;
    char error[512];
    int status = EXIT_SUCCESS;

    team_start(&run.team);
    if (options_parse(&run.options, argc, argv, error, sizeof(error)) != 0) {
        if (run.team.task == 0)
            fprintf(stderr, "bfs: %s\n", error);
        status = USAGE;
    } else if (run.options.help) {
        if (run.team.task == 0)
            fputs(options_help, stdout);
    } else {
        status = run_all(&run);
    }
    /* Behind the barrier in team_finish every message of task 0 is out: when this status ends the
     * job, nothing is lost. */
    team_finish(&run.team);
    return status;
}
