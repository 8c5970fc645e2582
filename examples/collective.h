/*
 * collective.h - what the examples of collectives share: joining the job, and running a collective
 * of the world to its end. PROGRAM is the name for messages, defined before this is included.
 *
 * lint: not alone
 */
#ifndef EXAMPLES_COLLECTIVE_H
#define EXAMPLES_COLLECTIVE_H

#include <pami.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
    pami_client_t client;
    pami_context_t context;
    pami_geometry_t world;
    size_t task, tasks;
    bool done; /* the collective that was started last */
};

static inline void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", PROGRAM, what);
    exit(EXIT_FAILURE);
}

static inline void check(pami_result_t result, const char *call)
{
    char text[256];

    if (result == PAMI_SUCCESS)
        return;
    PAMI_Error_text(text, sizeof(text));
    fprintf(stderr, "%s: %s failed with result %d: %s\n", PROGRAM, call, (int)result, text);
    exit(EXIT_FAILURE);
}

static inline void *allocate(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);

    if (memory == NULL)
        fail("no memory");
    return memory;
}

static inline void on_done(pami_context_t context, void *cookie, pami_result_t result)
{
    struct job *job = cookie;

    (void)context;
    check(result, "collective");
    job->done = true;
}

/* The first of the algorithms that work for any arguments: the library's own choice. */
static inline pami_algorithm_t algorithm(const struct job *job, pami_xfer_type_t type)
{
    pami_algorithm_t first;

    check(PAMI_Geometry_algorithms_query(job->world, type, &first, NULL, 1, NULL, NULL, 0),
          "PAMI_Geometry_algorithms_query");
    return first;
}

/* Starts a collective and advances until it is complete; a real program would compute meanwhile. */
static inline void run(struct job *job, pami_xfer_type_t type, pami_collective_t command)
{
    pami_xfer_t xfer = {
        .cb_done = on_done, .cookie = job, .algorithm = algorithm(job, type), .cmd = command};

    job->done = false; /* before the call: the collective may be complete when it returns */
    check(PAMI_Collective(job->context, &xfer), "PAMI_Collective");
    while (!job->done)
        PAMI_Context_advance(job->context, 100);
}

static inline void join(struct job *job)
{
    pami_configuration_t query[] = {{.name = PAMI_CLIENT_TASK_ID}, {.name = PAMI_CLIENT_NUM_TASKS}};

    check(PAMI_Client_create(PROGRAM, &job->client, NULL, 0), "PAMI_Client_create");
    check(PAMI_Client_query(job->client, query, 2), "PAMI_Client_query");
    check(PAMI_Context_createv(job->client, NULL, 0, &job->context, 1), "PAMI_Context_createv");
    check(PAMI_Geometry_world(job->client, &job->world), "PAMI_Geometry_world");
    job->task = query[0].value.intval;
    job->tasks = query[1].value.intval;
}

static inline void leave(struct job *job)
{
    check(PAMI_Context_destroyv(&job->context, 1), "PAMI_Context_destroyv");
    check(PAMI_Client_destroy(&job->client), "PAMI_Client_destroy");
}

#endif
