/*
 * The one place of what this version does not provide: collectives.
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
