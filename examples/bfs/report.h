/*
 * report.h - everything the program prints; only task 0 prints.
 *
 * Results go to standard output. Progress goes to standard error: as one line that is overwritten
 * when that is a terminal, otherwise as a line for each phase and one every few seconds.
 */
#ifndef LIBPAMI_BFS_REPORT_H
#define LIBPAMI_BFS_REPORT_H

#include "names.h"
#include "options.h"
#include "search.h"

/* The searches so far. */
struct report {
    struct team *team;
    const struct graph *graph;
    const struct options *options;
    struct names names; /* filled on task 0 when there is a file of them */
    double *teps;       /* [count] edges traversed per second */
    uint32_t count, wrong;
    double sequential; /* sum of the seconds of the sequential searches */
    double edges;      /* sum of the edges traversed by the searches */
    bool terminal, line_open;
    double spoke; /* when the last line of progress was printed */
};

void report_open(struct report *report, struct team *team, const struct options *options);
void report_close(struct report *report);

/* A phase without progress of its own begins. */
void report_phase(struct report *report, const char *phase);

/* printf-like; printed only when the last line is old enough. */
void report_progress(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void report_graph(struct report *report, const struct graph *graph);

/* `verdict` is "valid", "WRONG" or "unchecked". */
void report_search(struct report *report, const struct search *search, const char *verdict);

/* Collective. How far things are from the root, and the way to one of the farthest vertices. */
void report_levels(struct report *report, const struct search *search);

void report_summary(struct report *report);

#endif
