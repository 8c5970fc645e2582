/*
 * What the tests of geometries share: making one and waiting for it.
 */
#ifndef LIBPAMI_API_GEOMETRY_H
#define LIBPAMI_API_GEOMETRY_H

#include "api_test.h"

/* What fn of a creation or a destroy has told. */
struct told {
    pami_context_t context; /* expected */
    unsigned count;
    pami_result_t result;
};

static inline void on_told(pami_context_t context, void *cookie, pami_result_t result)
{
    struct told *told = cookie;

    CHECK_CALLBACK();
    CHECK(context == told->context);
    CHECK(told->count == 0);
    told->count++;
    told->result = result;
}

static inline pami_geometry_t world_of(struct job *job)
{
    pami_geometry_t world = NULL;

    CHECK_OK(PAMI_Geometry_world(job->client, &world));
    CHECK(world != PAMI_GEOMETRY_NULL);
    return world;
}

/* Begin only; *geometry is set at once. */
static inline void begin_list(struct job *job, pami_geometry_t *geometry, pami_geometry_t parent,
                              unsigned id, pami_task_t *tasks, size_t count, size_t offset,
                              struct told *told)
{
    *told = (struct told){.context = job->context[0]};
    if (geometry != NULL)
        *geometry = PAMI_GEOMETRY_NULL;
    CHECK_OK(
        TEST_CALL(PAMI_Geometry_create_tasklist(job->client, offset, NULL, 0, geometry, parent, id,
                                                tasks, count, job->context[0], on_told, told)));
    if (geometry != NULL)
        CHECK(*geometry != PAMI_GEOMETRY_NULL);
}

static inline void create_list(struct job *job, pami_geometry_t *geometry, pami_geometry_t parent,
                               unsigned id, pami_task_t *tasks, size_t count, size_t offset)
{
    struct told told;

    begin_list(job, geometry, parent, id, tasks, count, offset, &told);
    WAIT(job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
}

static inline void destroy_geometry(struct job *job, pami_geometry_t *geometry)
{
    struct told told = {.context = job->context[0]};

    CHECK_OK(
        TEST_CALL(PAMI_Geometry_destroy(job->client, geometry, job->context[0], on_told, &told)));
    CHECK(*geometry == PAMI_GEOMETRY_NULL);
    WAIT(job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
}

#endif
