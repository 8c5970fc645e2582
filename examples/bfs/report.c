/*
 * report.c - output of the program.
 *
 * The last line that report_summary prints, "result: key value key value ...", is meant for
 * scripts.
 */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_MAX_VERTICES = 64
};

/* Seconds between two lines of progress: on a terminal, elsewhere. */
static const double PERIOD_TERMINAL = 0.1, PERIOD_OTHER = 5.0;

void report_open(struct report *report, struct team *team, const struct options *options)
{
    *report = (struct report){.team = team, .options = options};
    report->terminal = isatty(STDERR_FILENO);
    report->spoke = team_time(team);
    report->teps = team_alloc(team, NULL, options->roots * sizeof(*report->teps));
    setvbuf(stdout, NULL, _IOLBF, 0);
}

void report_close(struct report *report)
{
    names_free(&report->names);
    free(report->teps);
}

void report_progress(struct report *report, const char *format, ...)
{
    double now = team_time(report->team);
    va_list args;

    if (report->team->task != 0 ||
        now - report->spoke < (report->terminal ? PERIOD_TERMINAL : PERIOD_OTHER))
        return;
    report->spoke = now;
    fputs(report->terminal ? "\r\033[K" : "bfs: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (!report->terminal)
        fputc('\n', stderr);
    fflush(stderr);
    report->line_open = report->terminal;
}

void report_phase(struct report *report, const char *phase)
{
    report->spoke = -INFINITY;
    report_progress(report, "%s", phase);
}

/* Forgets the line of progress, so that something else can be printed. */
static void clear_progress(struct report *report)
{
    if (report->line_open)
        fputs("\r\033[K", stderr);
    report->line_open = false;
}

/* The name of the graph, as one word. */
static void graph_name(const struct edges_source *source, char *name, size_t size)
{
    if (source->file != NULL) {
        const char *slash = strrchr(source->file, '/');

        snprintf(name, size, "%s", slash != NULL ? slash + 1 : source->file);
    } else {
        snprintf(name, size, "kronecker:%u:%u", source->scale, source->edge_factor);
    }
}

void report_graph(struct report *report, const struct graph *graph)
{
    char name[256];

    report->graph = graph;
    if (report->team->task != 0)
        return;
    clear_progress(report);
    graph_name(&report->options->source, name, sizeof(name));
    printf("graph         %s; tasks %" PRIu32 ", nodes %" PRIu32 "\n", name, report->team->tasks,
           report->team->nodes);
    printf("              %" PRIu64 " vertices, %" PRIu64 " of them connected, %" PRIu64 " edges\n",
           graph->vertices, graph->connected, graph->edges);
    printf("%-13s %.3f s\n", report->options->source.file != NULL ? "reading" : "generation",
           graph->make_seconds);
    printf("distribution  %.3f s, %" PRIu64 " messages\n", graph->distribute_seconds,
           graph->messages);
}

void report_search(struct report *report, const struct search *search, const char *verdict)
{
    double teps = search->seconds > 0 ? (double)search->edges / search->seconds : 0;
    const char *name = names_get(&report->names, search->root);

    report->teps[report->count++] = teps;
    report->edges += (double)search->edges;
    if (report->team->task != 0)
        return;
    clear_progress(report);
    if (report->count == 1)
        printf("%6s %10s %7s %10s %10s %10s %9s\n", "search", "root", "levels", "vertices", "edges",
               "seconds", "MTEPS");
    printf("%6" PRIu32 " %10" PRIu32 " %7" PRIu32 " %10" PRIu64 " %10" PRIu64 " %10.6f %9.3f",
           report->count, search->root, search->levels, search->reached, search->edges,
           search->seconds, teps / 1e6);
    printf("  %s%s%s\n", verdict, *name != '\0' ? "  " : "", name);
}

/* A vertex by its name, or by its number when it has none. */
static void vertex_print(const struct report *report, const char *before, uint32_t vertex)
{
    const char *name = names_get(&report->names, vertex);

    if (*name != '\0')
        printf("%s%s", before, name);
    else
        printf("%s%" PRIu32, before, vertex);
}

void report_levels(struct report *report, const struct search *search)
{
    uint32_t path[PATH_MAX_VERTICES];
    uint32_t farthest = search_farthest(search);
    size_t length = search_path(search, farthest, path, PATH_MAX_VERTICES);

    if (report->team->task != 0)
        return;
    clear_progress(report);
    vertex_print(report, "distance from ", search->root);
    printf("\n");
    for (uint32_t level = 0; level < search->levels; level++)
        printf("%13" PRIu32 " %10" PRIu64 " vertices\n", level, search->histogram[level]);
    printf("%13s %10" PRIu64 " vertices\n", "none", report->graph->vertices - search->reached);
    for (size_t i = 0; i < length; i++)
        vertex_print(report, i == 0 ? "farthest      " : " - ", path[i]);
    printf("%s\n", length == PATH_MAX_VERTICES ? " ..." : "");
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static const char *validated(const struct report *report)
{
    if (report->wrong > 0)
        return "no";
    return report->options->check ? "yes" : "unchecked";
}

void report_summary(struct report *report)
{
    uint32_t n = report->count;
    double inverse = 0, median;
    char name[256];

    if (report->team->task != 0)
        return;
    qsort(report->teps, n, sizeof(*report->teps), compare);
    median = (report->teps[(n - 1) / 2] + report->teps[n / 2]) / 2;
    for (uint32_t i = 0; i < n; i++)
        inverse += 1 / report->teps[i];
    clear_progress(report);
    printf("MTEPS         min %.3f, median %.3f, harmonic mean %.3f, max %.3f\n",
           report->teps[0] / 1e6, median / 1e6, n / inverse / 1e6, report->teps[n - 1] / 1e6);
    if (report->options->check)
        printf("sequential    %.3f MTEPS on one task without messages\n",
               report->edges / report->sequential / 1e6);
    graph_name(&report->options->source, name, sizeof(name));
    printf("result: graph %s tasks %" PRIu32 " nodes %" PRIu32 " vertices %" PRIu64
           " edges %" PRIu64 " roots %" PRIu32 " median_mteps %.3f validated %s\n",
           name, report->team->tasks, report->team->nodes, report->graph->vertices,
           report->graph->edges, n, median / 1e6, validated(report));
}
