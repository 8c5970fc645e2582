/*
 * What the tests of collectives share: lists of algorithms, starting a collective and waiting.
 */
#ifndef LIBPAMI_API_COLL_H
#define LIBPAMI_API_COLL_H

#include "api/coll_arguments.h"
#include "geometry.h"

/* Both lists of a geometry for one type. */
struct algorithms {
    size_t count[2];
    pami_algorithm_t *handle[2];
    pami_metadata_t *metadata[2];
};

static inline struct algorithms algorithms_of(pami_geometry_t geometry, pami_xfer_type_t type)
{
    struct algorithms all;

    CHECK_OK(PAMI_Geometry_algorithms_num(geometry, type, all.count));
    CHECK(all.count[0] >= 1);
    for (int i = 0; i < 2; i++) {
        all.handle[i] = test_zalloc((all.count[i] + 1) * sizeof(pami_algorithm_t));
        all.metadata[i] = test_zalloc((all.count[i] + 1) * sizeof(pami_metadata_t));
    }
    CHECK_OK(PAMI_Geometry_algorithms_query(geometry, type, all.handle[0], all.metadata[0],
                                            all.count[0], all.handle[1], all.metadata[1],
                                            all.count[1]));
    return all;
}

static inline void algorithms_free(struct algorithms *all)
{
    for (int i = 0; i < 2; i++) {
        free(all->handle[i]);
        free(all->metadata[i]);
    }
}

/* The first algorithm of list 0. */
static inline pami_algorithm_t algorithm_of(pami_geometry_t geometry, pami_xfer_type_t type)
{
    pami_algorithm_t handle;

    CHECK_OK(PAMI_Geometry_algorithms_query(geometry, type, &handle, NULL, 1, NULL, NULL, 0));
    return handle;
}

/* The algorithm of this name, in either list: the second part of "I0:Ring:AM:AM". Or none. */
static inline pami_algorithm_t algorithm_named(pami_geometry_t geometry, pami_xfer_type_t type,
                                               const char *name)
{
    struct algorithms all = algorithms_of(geometry, type);
    pami_algorithm_t handle = PAMI_ALGORITHM_NULL;
    size_t length = strlen(name);

    for (int list = 0; list < 2; list++)
        for (size_t i = 0; i < all.count[list]; i++) {
            const char *part = strchr(all.metadata[list][i].name, ':');

            CHECK(part != NULL);
            if (strncmp(part + 1, name, length) == 0 && part[1 + length] == ':')
                handle = all.handle[list][i];
        }
    algorithms_free(&all);
    return handle;
}

/* An xfer as careless programs make it: what does not matter holds garbage. */
static inline pami_xfer_t coll_xfer(pami_algorithm_t algorithm, struct told *told)
{
    pami_xfer_t xfer;

    memset(&xfer, 0xa5, sizeof xfer);
    xfer.cb_done = on_told;
    xfer.cookie = told;
    xfer.algorithm = algorithm;
    return xfer;
}

/* Start it on a context; the structure is gone afterwards. */
static inline void coll_start(pami_context_t context, pami_xfer_t *xfer)
{
    struct told *told = xfer->cookie;

    *told = (struct told){.context = context};
    CHECK_OK(TEST_CALL(PAMI_Collective(context, xfer)));
    memset(xfer, 0x5a, sizeof *xfer);
}

static inline void coll_run(struct job *job, pami_context_t context, pami_xfer_t *xfer)
{
    struct told *told = xfer->cookie;

    coll_start(context, xfer);
    WAIT(job, told->count != 0);
    if (told->result != PAMI_SUCCESS)
        FAIL("a collective ended with %d: %s", (int)told->result, test_text());
}

/* The sum of what the members say, by their contexts 0. */
static inline int coll_total(struct job *job, pami_geometry_t geometry, int mine)
{
    int total = -1;
    struct told told;
    pami_xfer_t xfer = coll_xfer(algorithm_of(geometry, PAMI_XFER_ALLREDUCE), &told);

    xfer.cmd.xfer_allreduce = coll_sum(&mine, &total, PAMI_TYPE_SIGNED_INT, 1);
    coll_run(job, job->context[0], &xfer);
    return total;
}

#endif
