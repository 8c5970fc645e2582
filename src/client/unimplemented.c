/*
 * The one place of what this version does not provide: geometries and collectives.
 *
 * Each function is complete as an interface, touches nothing and answers PAMI_UNIMPL with a text.
 * Whoever implements one deletes it here.
 */
#include <pami/pami.h>

#include "util/error.h"

static pami_result_t unimplemented(const char *function)
{
    return error_set(PAMI_UNIMPL, "%s: not provided by this version", function);
}

pami_result_t PAMI_Geometry_world(pami_client_t client, pami_geometry_t *world_geometry)
{
    (void)client;
    (void)world_geometry;
    return unimplemented("PAMI_Geometry_world");
}

pami_result_t PAMI_Geometry_create_taskrange(pami_client_t client, size_t context_offset,
                                             pami_configuration_t configuration[],
                                             size_t num_configs, pami_geometry_t *geometry,
                                             pami_geometry_t parent, unsigned id,
                                             pami_geometry_range_t *task_slices, size_t slice_count,
                                             pami_context_t context, pami_event_function fn,
                                             void *cookie)
{
    (void)client;
    (void)context_offset;
    (void)configuration;
    (void)num_configs;
    (void)geometry;
    (void)parent;
    (void)id;
    (void)task_slices;
    (void)slice_count;
    (void)context;
    (void)fn;
    (void)cookie;
    return unimplemented("PAMI_Geometry_create_taskrange");
}

pami_result_t PAMI_Geometry_create_tasklist(pami_client_t client, size_t context_offset,
                                            pami_configuration_t configuration[],
                                            size_t num_configs, pami_geometry_t *geometry,
                                            pami_geometry_t parent, unsigned id, pami_task_t *tasks,
                                            size_t task_count, pami_context_t context,
                                            pami_event_function fn, void *cookie)
{
    (void)client;
    (void)context_offset;
    (void)configuration;
    (void)num_configs;
    (void)geometry;
    (void)parent;
    (void)id;
    (void)tasks;
    (void)task_count;
    (void)context;
    (void)fn;
    (void)cookie;
    return unimplemented("PAMI_Geometry_create_tasklist");
}

pami_result_t PAMI_Geometry_create_endpointlist(pami_client_t client,
                                                pami_configuration_t configuration[],
                                                size_t num_configs, pami_geometry_t *geometry,
                                                unsigned id, pami_endpoint_t *endpoints,
                                                size_t endpoint_count, pami_context_t context,
                                                pami_event_function fn, void *cookie)
{
    (void)client;
    (void)configuration;
    (void)num_configs;
    (void)geometry;
    (void)id;
    (void)endpoints;
    (void)endpoint_count;
    (void)context;
    (void)fn;
    (void)cookie;
    return unimplemented("PAMI_Geometry_create_endpointlist");
}

pami_result_t PAMI_Geometry_destroy(pami_client_t client, pami_geometry_t *geometry,
                                    pami_context_t context, pami_event_function fn, void *cookie)
{
    (void)client;
    (void)geometry;
    (void)context;
    (void)fn;
    (void)cookie;
    return unimplemented("PAMI_Geometry_destroy");
}

pami_result_t PAMI_Geometry_query(pami_geometry_t geometry, pami_configuration_t configuration[],
                                  size_t num_configs)
{
    (void)geometry;
    (void)configuration;
    (void)num_configs;
    return unimplemented("PAMI_Geometry_query");
}

pami_result_t PAMI_Geometry_update(pami_geometry_t geometry, pami_configuration_t configuration[],
                                   size_t num_configs, pami_context_t context,
                                   pami_event_function fn, void *cookie)
{
    (void)geometry;
    (void)configuration;
    (void)num_configs;
    (void)context;
    (void)fn;
    (void)cookie;
    return unimplemented("PAMI_Geometry_update");
}

pami_result_t PAMI_Geometry_algorithms_num(pami_geometry_t geometry, pami_xfer_type_t coll_type,
                                           size_t *lists_lengths)
{
    (void)geometry;
    (void)coll_type;
    (void)lists_lengths;
    return unimplemented("PAMI_Geometry_algorithms_num");
}

pami_result_t PAMI_Geometry_algorithms_query(pami_geometry_t geometry, pami_xfer_type_t colltype,
                                             pami_algorithm_t *algs0, pami_metadata_t *mdata0,
                                             size_t num0, pami_algorithm_t *algs1,
                                             pami_metadata_t *mdata1, size_t num1)
{
    (void)geometry;
    (void)colltype;
    (void)algs0;
    (void)mdata0;
    (void)num0;
    (void)algs1;
    (void)mdata1;
    (void)num1;
    return unimplemented("PAMI_Geometry_algorithms_query");
}

pami_result_t PAMI_Collective(pami_context_t context, pami_xfer_t *cmd)
{
    (void)context;
    (void)cmd;
    return unimplemented("PAMI_Collective");
}

pami_result_t PAMI_AMCollective_dispatch_set(pami_context_t context, pami_algorithm_t algorithm,
                                             size_t dispatch, pami_dispatch_callback_function fn,
                                             void *cookie, pami_collective_hint_t options)
{
    (void)context;
    (void)algorithm;
    (void)dispatch;
    (void)fn;
    (void)cookie;
    (void)options;
    return unimplemented("PAMI_AMCollective_dispatch_set");
}
