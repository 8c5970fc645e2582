/*
 * Wrong arguments of the geometry calls are refused, with a text that names them, and without a
 * trace; odd but legal ones are taken. Query and update.
 *
 * Run: tasks=1,2,3 timeout=30
 */
#include "geometry.h"

static struct job job;
static pami_geometry_range_t whole;
static pami_geometry_t geometry;

#define LIST(offset, configs, count, out, parent, id, tasks, size, context)                        \
    PAMI_Geometry_create_tasklist(job.client, offset, configs, count, out, parent, id, tasks,      \
                                  size, context, NULL, NULL)

#define REFUSED_LIST(word, ...)                                                                    \
    do {                                                                                           \
        geometry = (pami_geometry_t)&job;                                                          \
        CHECK_RESULT(LIST(__VA_ARGS__), PAMI_INVAL);                                               \
        test_check_text(__FILE__, __LINE__, "PAMI_Geometry_create_tasklist(", word);               \
        CHECK(geometry == (pami_geometry_t)&job);                                                  \
    } while (0)

#define REFUSED_RANGE(word, slices, count)                                                         \
    CHECK_REFUSED(PAMI_Geometry_create_taskrange(job.client, 0, NULL, 0, &geometry, NULL, 5,       \
                                                 slices, count, job.context[0], NULL, NULL),       \
                  PAMI_INVAL, word)

static pami_task_t *everybody(void)
{
    static pami_task_t tasks[64];

    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)i;
    return tasks;
}

static void bad_lists(void)
{
    pami_task_t *tasks = everybody();
    pami_task_t twice[2] = {(pami_task_t)job.task, (pami_task_t)job.task};
    pami_task_t outside[2] = {(pami_task_t)job.task, (pami_task_t)job.tasks};
    pami_task_t other = (pami_task_t)((job.task + 1) % job.tasks);
    pami_configuration_t odd = {.name = PAMI_CLIENT_TASK_ID};
    size_t n = job.tasks;

    REFUSED_LIST("geometry", 0, NULL, 0, NULL, NULL, 1, tasks, n, job.context[0]);
    REFUSED_LIST("id", 0, NULL, 0, &geometry, NULL, 0, tasks, n, job.context[0]);
    REFUSED_LIST("tasks", 0, NULL, 0, &geometry, NULL, 1, tasks, 0, job.context[0]);
    REFUSED_LIST("tasks", 0, NULL, 0, &geometry, NULL, 1, NULL, n, job.context[0]);
    REFUSED_LIST("tasks", 0, NULL, 0, &geometry, NULL, 1, twice, 2, job.context[0]);
    REFUSED_LIST("tasks", 0, NULL, 0, &geometry, NULL, 1, outside, 2, job.context[0]);
    REFUSED_LIST("context", 0, NULL, 0, &geometry, NULL, 1, tasks, n, NULL);
    REFUSED_LIST("context", 0, NULL, 0, &geometry, NULL, 1, tasks, n, job.client);
    REFUSED_LIST("context_offset", 64, NULL, 0, &geometry, NULL, 1, tasks, n, job.context[0]);
    REFUSED_LIST("context_offset", job.contexts, NULL, 0, &geometry, NULL, 1, tasks, n,
                 job.context[0]);
    REFUSED_LIST("context_offset", PAMI_ALL_CONTEXTS, NULL, 0, &geometry, world_of(&job), 1, tasks,
                 n, job.context[0]);
    REFUSED_LIST("parent", 0, NULL, 0, &geometry, job.client, 1, tasks, n, job.context[0]);
    REFUSED_LIST("parent", 0, NULL, 0, &geometry, &odd, 1, tasks, n, job.context[0]);
    REFUSED_LIST("configuration", 0, &odd, 1, &geometry, NULL, 1, tasks, n, job.context[0]);
    REFUSED_LIST("configuration", 0, NULL, 1, &geometry, NULL, 1, tasks, n, job.context[0]);
    if (other != job.task)
        REFUSED_LIST("tasks", 0, NULL, 0, &geometry, NULL, 1, &other, 1, job.context[0]);
    CHECK_REFUSED(PAMI_Geometry_create_tasklist(NULL, 0, NULL, 0, &geometry, NULL, 1, tasks, n,
                                                job.context[0], NULL, NULL),
                  PAMI_INVAL, "client");
}

static void bad_ranges(void)
{
    pami_geometry_range_t ranges[2] = {whole, whole};

    REFUSED_RANGE("task_slices", &whole, 0);
    REFUSED_RANGE("task_slices", NULL, 1);
    REFUSED_RANGE("task_slices", ranges, 2);
    ranges[0] = (pami_geometry_range_t){1, 0};
    REFUSED_RANGE("task_slices[0]", ranges, 1);
    ranges[0] = (pami_geometry_range_t){0, (pami_task_t)job.tasks};
    REFUSED_RANGE("task_slices[0]", ranges, 1);
    ranges[0] = (pami_geometry_range_t){0, 0xffffffffu};
    REFUSED_RANGE("task_slices[0]", ranges, 1);
}

static void bad_endpoints(void)
{
    pami_endpoint_t own = job_endpoint(&job, job.task, 0);
    pami_endpoint_t twice[3] = {own, job_endpoint(&job, job.task, 1), own};
    pami_endpoint_t bad[4] = {PAMI_ENDPOINT_NULL, (pami_endpoint_t)job.tasks, own | 63u << 24,
                              own + ((pami_endpoint_t)job.contexts << 24)};

    for (size_t i = 0; i < 4; i++)
        CHECK_REFUSED(PAMI_Geometry_create_endpointlist(job.client, NULL, 0, &geometry, 5, &bad[i],
                                                        1, job.context[0], NULL, NULL),
                      PAMI_INVAL, "endpoints");
    CHECK_REFUSED(PAMI_Geometry_create_endpointlist(job.client, NULL, 0, &geometry, 5, twice, 3,
                                                    job.context[0], NULL, NULL),
                  PAMI_INVAL, "endpoints");
    CHECK_REFUSED(PAMI_Geometry_create_endpointlist(job.client, NULL, 0, &geometry, 5, twice, 0,
                                                    job.context[0], NULL, NULL),
                  PAMI_INVAL, "endpoints");
    CHECK_REFUSED(PAMI_Geometry_create_endpointlist(job.client, NULL, 0, NULL, 5, twice, 1,
                                                    job.context[0], NULL, NULL),
                  PAMI_INVAL, "geometry");
}

static size_t query_one(pami_geometry_t which, pami_attribute_name_t name)
{
    pami_configuration_t query = {.name = name};

    CHECK_OK(PAMI_Geometry_query(which, &query, 1));
    return query.value.intval;
}

static void attributes(pami_geometry_t which)
{
    struct told told = {.context = job.context[1]};
    pami_configuration_t set[3] = {{.name = PAMI_GEOMETRY_OPTIMIZE, .value.intval = 0xdeadbeef},
                                   {.name = PAMI_GEOMETRY_NONCONTIG, .value.intval = 1},
                                   {.name = PAMI_GEOMETRY_MEMORY_OPTIMIZE, .value.intval = 2}};
    pami_configuration_t mixed[2] = {{.name = PAMI_CLIENT_TASK_ID},
                                     {.name = PAMI_GEOMETRY_OPTIMIZE}};

    CHECK_SIZE(query_one(which, PAMI_GEOMETRY_OPTIMIZE), 0);
    CHECK_OK(TEST_CALL(PAMI_Geometry_update(which, set, 3, job.context[1], on_told, &told)));
    WAIT(&job, told.count != 0);
    CHECK_SIZE(query_one(which, PAMI_GEOMETRY_OPTIMIZE), 0xdeadbeef);
    CHECK_SIZE(query_one(which, PAMI_GEOMETRY_NONCONTIG), 1);
    CHECK_SIZE(query_one(which, PAMI_GEOMETRY_MEMORY_OPTIMIZE), 2);
    CHECK_REFUSED(PAMI_Geometry_query(which, mixed, 2), PAMI_INVAL, "configuration[0]");
    CHECK_SIZE(mixed[1].value.intval, 0xdeadbeef);
    CHECK_REFUSED(PAMI_Geometry_update(which, mixed, 2, job.context[0], NULL, NULL), PAMI_INVAL,
                  "configuration[0]");
    set[0].value.intval = 0;
    CHECK_OK(PAMI_Geometry_update(which, set, 1, job.context[0], NULL, NULL));
    CHECK_SIZE(query_one(which, PAMI_GEOMETRY_OPTIMIZE), 0);
    CHECK_OK(PAMI_Geometry_query(which, NULL, 0));
    CHECK_REFUSED(PAMI_Geometry_query(NULL, NULL, 0), PAMI_INVAL, "geometry");
    CHECK_REFUSED(PAMI_Geometry_query(job.context[0], NULL, 0), PAMI_INVAL, "geometry");
    CHECK_REFUSED(PAMI_Geometry_query(which, NULL, 1), PAMI_INVAL, "configuration");
    CHECK_REFUSED(PAMI_Geometry_update(&job, NULL, 0, job.context[0], NULL, NULL), PAMI_INVAL,
                  "geometry");
    CHECK_REFUSED(PAMI_Geometry_update(which, NULL, 0, NULL, NULL, NULL), PAMI_INVAL, "context");
}

/* What is in the list is no member's list, whose values are garbage, is not looked at. */
static void life(void)
{
    pami_configuration_t garbage = {.name = PAMI_GEOMETRY_OPTIMIZE,
                                    .value.intval = (size_t)0x5a5a5a5a5a};
    pami_geometry_t kept, stale, second = NULL;
    struct told told = {.context = job.context[0]};
    pami_client_t other;

    CHECK_OK(PAMI_Geometry_create_tasklist(job.client, 0, &garbage, 1, &kept, NULL, 5, everybody(),
                                           job.tasks, job.context[0], on_told, &told));
    REFUSED_LIST("id", 0, NULL, 0, &geometry, NULL, 5, everybody(), job.tasks, job.context[0]);
    CHECK_REFUSED(PAMI_Geometry_destroy(job.client, &kept, job.context[0], NULL, NULL), PAMI_INVAL,
                  "geometry");
    REFUSED_LIST("parent", 0, NULL, 0, &second, kept, 6, everybody(), job.tasks, job.context[0]);
    WAIT(&job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
    CHECK_SIZE(query_one(kept, PAMI_GEOMETRY_OPTIMIZE), (size_t)0x5a5a5a5a5a);
    REFUSED_LIST("id", 0, NULL, 0, &geometry, NULL, 5, everybody(), job.tasks, job.context[0]);
    garbage.value.intval = 0;
    CHECK_OK(PAMI_Geometry_update(kept, &garbage, 1, job.context[0], NULL, NULL));
    attributes(kept);

    CHECK_OK(PAMI_Client_create("other", &other, NULL, 0));
    stale = kept;
    CHECK_REFUSED(PAMI_Geometry_destroy(other, &stale, job.context[0], NULL, NULL), PAMI_INVAL,
                  "geometry");
    CHECK_OK(PAMI_Client_destroy(&other));
    CHECK_REFUSED(PAMI_Geometry_destroy(job.client, NULL, job.context[0], NULL, NULL), PAMI_INVAL,
                  "geometry");
    CHECK_REFUSED(PAMI_Geometry_destroy(job.client, &stale, NULL, NULL, NULL), PAMI_INVAL,
                  "context");
    CHECK(stale == kept);
    destroy_geometry(&job, &kept);
    CHECK_REFUSED(PAMI_Geometry_destroy(job.client, &stale, job.context[0], NULL, NULL), PAMI_INVAL,
                  "geometry");
    CHECK_REFUSED(PAMI_Geometry_query(stale, NULL, 0), PAMI_INVAL, "geometry");
    CHECK_REFUSED(PAMI_Geometry_destroy(job.client, &kept, job.context[0], NULL, NULL), PAMI_INVAL,
                  "geometry");
}

/* Not in the parent. Task 0 is in it alone. */
static void not_in_parent(void)
{
    pami_geometry_t alone = NULL;
    pami_task_t zero = 0;

    create_list(&job, job.task == 0 ? &alone : NULL, world_of(&job), 5, &zero, 1, 0);
    if (job.task != 0)
        return;
    if (job.tasks > 1)
        REFUSED_LIST("tasks", 0, NULL, 0, &geometry, alone, 6, everybody(), job.tasks,
                     job.context[0]);
    destroy_geometry(&job, &alone);
}

int main(void)
{
    job_start(&job, "geometry arguments", 2);
    whole = (pami_geometry_range_t){0, (pami_task_t)job.tasks - 1};
    CHECK_REFUSED(PAMI_Geometry_world(NULL, &geometry), PAMI_INVAL, "client");
    CHECK_REFUSED(PAMI_Geometry_world(job.context[0], &geometry), PAMI_INVAL, "client");
    CHECK_REFUSED(PAMI_Geometry_world(job.client, NULL), PAMI_INVAL, "world_geometry");
    bad_lists();
    bad_ranges();
    bad_endpoints();
    life();
    not_in_parent();
    attributes(world_of(&job));
    job_finish(&job);
    return 0;
}
