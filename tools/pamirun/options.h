/*
 * The command line of pamirun.
 */
#ifndef PAMIRUN_OPTIONS_H
#define PAMIRUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit statuses of pamirun's own making, beside those of the tasks. */
#define STATUS_USAGE 2
#define STATUS_TIMEOUT 124
#define STATUS_TROUBLE 125 /* pamirun itself failed */
#define STATUS_CANNOT_RUN 126
#define STATUS_NOT_FOUND 127

#define TASKS_MAX 4096

enum bind_to {
    BIND_NONE,
    BIND_CORE,
    BIND_NUMA,
};

struct options {
    uint32_t tasks, nodes;
    uint32_t servers; /* communication servers, per node */
    enum bind_to bind;
    double timeout;  /* seconds; 0: none */
    long stdin_task; /* -1: none */
    bool tag, keep_going, no_aslr, verbose;
    char **variables; /* NAME=VALUE as given, variable_count of them */
    size_t variable_count;
    char **program; /* its arguments, NULL at the end */
};

/* Processes that take part in the job: its tasks, then the servers, node by node. */
static inline uint32_t options_processes(const struct options *options)
{
    return options->tasks + options->nodes * options->servers;
}

/* Returns -1 to go on, or the status to exit with; has said why. */
int options_parse(int argc, char **argv, struct options *options);
void options_finish(struct options *options);

#endif
