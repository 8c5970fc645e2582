/*
 * Every attribute of every kind of object, and numbers that are none: a query answers what belongs
 * to the object and nothing else, and an update changes what can be changed and nothing else;
 * before there are contexts, beside them and after them. Whatever is refused says so and is left
 * as it was.
 *
 * Run:
 * Run: tasks=2,5
 * Run: tasks=2 nodes=2
 */
#include "api_test.h"

enum {
    ID = 1,
    NAMES = 1300, /* numbers below that are tried */
    ASYNC_GUARANTEE = 1016,
    UNTOUCHED = 0xa5
};

static struct job job;
static pami_geometry_t geometry;
static pami_type_t type;

/* One kind of object: its attributes are first..last and `other`; of them those from `changes` on
 * can be changed. */
struct kind {
    const char *name;
    int first, last, other, changes;
    pami_result_t (*query)(pami_configuration_t *configuration, size_t count);
    pami_result_t (*update)(pami_configuration_t *configuration, size_t count);
};

static pami_result_t client_query(pami_configuration_t *configuration, size_t count)
{
    return PAMI_Client_query(job.client, configuration, count);
}

static pami_result_t client_update(pami_configuration_t *configuration, size_t count)
{
    return PAMI_Client_update(job.client, configuration, count);
}

static pami_result_t context_query(pami_configuration_t *configuration, size_t count)
{
    return PAMI_Context_query(job.context[1], configuration, count);
}

static pami_result_t context_update(pami_configuration_t *configuration, size_t count)
{
    return PAMI_Context_update(job.context[1], configuration, count);
}

static pami_result_t dispatch_query(pami_configuration_t *configuration, size_t count)
{
    return PAMI_Dispatch_query(job.context[1], ID, configuration, count);
}

static pami_result_t dispatch_update(pami_configuration_t *configuration, size_t count)
{
    return PAMI_Dispatch_update(job.context[1], ID, configuration, count);
}

static pami_result_t geometry_query(pami_configuration_t *configuration, size_t count)
{
    return PAMI_Geometry_query(geometry, configuration, count);
}

static pami_result_t geometry_update(pami_configuration_t *configuration, size_t count)
{
    return PAMI_Geometry_update(geometry, configuration, count, job.context[0], NULL, NULL);
}

static pami_result_t type_query(pami_configuration_t *configuration, size_t count)
{
    return PAMI_Type_query(type, configuration, count);
}

static const struct kind of_client = {
    "PAMI_Client",   PAMI_CLIENT_CLOCK_MHZ, PAMI_CLIENT_MEMORY_OPTIMIZE,
    ASYNC_GUARANTEE, PAMI_CLIENT_NONCONTIG, client_query,
    client_update};
static const struct kind of_context = {"PAMI_Context",
                                       PAMI_CONTEXT_DISPATCH_ID_MAX,
                                       PAMI_CONTEXT_DISPATCH_ID_MAX,
                                       NAMES,
                                       NAMES,
                                       context_query,
                                       context_update};
static const struct kind of_dispatch = {"PAMI_Dispatch",
                                        PAMI_DISPATCH_RECV_IMMEDIATE_MAX,
                                        PAMI_DISPATCH_ATOM_SIZE_MAX,
                                        NAMES,
                                        NAMES,
                                        dispatch_query,
                                        dispatch_update};
static const struct kind of_geometry = {
    "PAMI_Geometry", PAMI_GEOMETRY_OPTIMIZE, PAMI_GEOMETRY_MEMORY_OPTIMIZE,
    NAMES,           PAMI_GEOMETRY_OPTIMIZE, geometry_query,
    geometry_update};
static const struct kind of_type = {
    "PAMI_Type", PAMI_TYPE_DATA_SIZE, PAMI_TYPE_ATOM_SIZE, NAMES, NAMES, type_query, NULL};

static bool is_filled(const pami_configuration_t *configuration)
{
    return !test_all(&configuration->value, sizeof configuration->value, UNTOUCHED);
}

/* The result that a call must have. A failure's text begins with the name of the function. */
static void expect(const struct kind *kind, const char *call, int name, pami_result_t result,
                   bool legal)
{
    char function[64];

    snprintf(function, sizeof function, "%s_%s: ", kind->name, call);
    if (result != (legal ? PAMI_SUCCESS : PAMI_INVAL))
        FAIL("%sattribute %d gave %d", function, name, (int)result);
    if (!legal && strncmp(test_text(), function, strlen(function)) != 0)
        FAIL("%sattribute %d: the text is \"%s\"", function, name, test_text());
}

static void try_one(const struct kind *kind, int name)
{
    bool mine = (name >= kind->first && name <= kind->last) || name == kind->other;
    bool changes = mine && name >= kind->changes && name <= kind->last;
    pami_configuration_t before[3], after;

    memset(before, UNTOUCHED, sizeof before);
    before[0].name = before[2].name = (pami_attribute_name_t)kind->first;
    before[1].name = (pami_attribute_name_t)name;
    expect(kind, "query", name, kind->query(before, 3), mine);
    CHECK((int)before[1].name == name && is_filled(&before[1]) == mine);
    CHECK(is_filled(&before[0]) && is_filled(&before[2])); /* whatever the other one is */
    if (kind->update == NULL)
        return;
    after = before[1];
    after.value.intval = mine ? before[1].value.intval : 1;
    expect(kind, "update", name, kind->update(&after, 1), changes);
    if (!mine)
        return;
    CHECK_OK(kind->query(&after, 1));
    CHECK(memcmp(&after.value, &before[1].value, sizeof after.value) == 0);
}

static void try_all(const struct kind *kind)
{
    for (int name = -2; name < NAMES; name++)
        try_one(kind, name);
    CHECK_OK(kind->query(NULL, 0));
    expect(kind, "query", 0, kind->query(NULL, 1), false);
    if (kind->update == NULL)
        return;
    CHECK_OK(kind->update(NULL, 0));
    expect(kind, "update", 0, kind->update(NULL, 1), false);
}

static void on_message(pami_context_t context, void *cookie, const void *header,
                       size_t header_bytes, const void *data, size_t bytes, pami_endpoint_t origin,
                       pami_recv_t *recv)
{
    (void)context, (void)cookie, (void)header, (void)header_bytes;
    (void)data, (void)bytes, (void)origin, (void)recv;
}

static void on_event(pami_context_t context, void *cookie, pami_result_t result)
{
    CHECK(context == job.context[0] && result == PAMI_SUCCESS);
    ++*(size_t *)cookie;
}

/* Each has values of its own, and keeps them. */
static void geometries(void)
{
    pami_geometry_range_t all = {0, (pami_task_t)(job.tasks - 1)};
    pami_configuration_t optimise = {.name = PAMI_GEOMETRY_OPTIMIZE, .value.intval = 1};
    pami_geometry_t world, made;
    size_t events = 0;

    CHECK_OK(PAMI_Geometry_world(job.client, &world));
    CHECK_OK(PAMI_Geometry_create_taskrange(job.client, 0, &optimise, 1, &made, NULL, 1, &all, 1,
                                            job.context[0], on_event, &events));
    WAIT(&job, events == 1);
    geometry = made;
    try_all(&of_geometry);
    CHECK_OK(geometry_query(&optimise, 1));
    CHECK(optimise.value.intval != 0);
    geometry = world;
    try_all(&of_geometry);
    CHECK_OK(geometry_query(&optimise, 1));
    CHECK_SIZE(optimise.value.intval, 0);
    CHECK_OK(PAMI_Geometry_destroy(job.client, &made, job.context[0], on_event, &events));
    WAIT(&job, events == 2);
}

static void types(void)
{
    pami_configuration_t query[] = {{.name = PAMI_TYPE_DATA_EXTENT},
                                    {.name = PAMI_TYPE_DATA_SIZE},
                                    {.name = PAMI_TYPE_ATOM_SIZE}};

    type = PAMI_TYPE_LOC_DOUBLE_INT;
    try_all(&of_type);
    CHECK_OK(PAMI_Type_create(&type));
    expect(&of_type, "query", 0, type_query(query, 3), false);
    CHECK_OK(PAMI_Type_add_simple(type, 8, 0, 3, (size_t)-16));
    CHECK_OK(PAMI_Type_complete(type, 4));
    try_all(&of_type);
    CHECK_OK(type_query(query, 3));
    CHECK_SIZE(query[0].value.intval, (size_t)-48);
    CHECK_SIZE(query[1].value.intval, 24);
    CHECK_SIZE(query[2].value.intval, 4);
    CHECK_OK(PAMI_Type_destroy(&type));
}

int main(void)
{
    job_create_client(&job, "attributes");
    try_all(&of_client);
    types();
    CHECK_OK(PAMI_Geometry_world(job.client, &geometry));
    CHECK_OK(geometry_query(NULL, 0));

    job_create_contexts(&job, 2);
    try_all(&of_client);
    try_all(&of_context);
    expect(&of_dispatch, "query", 0, dispatch_query(NULL, 0), false); /* the id is not set */
    expect(&of_dispatch, "update", 0, dispatch_update(NULL, 0), false);
    test_dispatch(job.context[1], ID, on_message, NULL, test_ordered());
    try_all(&of_dispatch);
    geometries();

    job_barrier(&job);
    job_destroy_contexts(&job);
    try_all(&of_client);
    CHECK_OK(PAMI_Client_destroy(&job.client));
    expect(&of_client, "query", 0, client_query(NULL, 0), false);
    expect(&of_client, "update", 0, client_update(NULL, 0), false);
    return 0;
}
