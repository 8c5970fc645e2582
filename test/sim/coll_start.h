/*
 * Starting collectives of the world on simulated tasks: which algorithm, and in which order.
 */
#ifndef LIBPAMI_SIM_COLL_START_H
#define LIBPAMI_SIM_COLL_START_H

#include "sim_test.h"

/* An algorithm: one of the two lists of its type, and where it is there. */
struct choice {
    size_t list, position;
};

static inline struct choice coll_choose(const struct sim_job *job, struct dice *dice,
                                        pami_xfer_type_t type)
{
    struct choice choice;
    size_t lengths[2];
    pami_geometry_t world;

    CALL(PAMI_Geometry_world(job->client[0], &world));
    CALL(PAMI_Geometry_algorithms_num(world, type, lengths));
    CHECK(lengths[0] >= 1);
    choice.list = lengths[1] != 0 && dice_one_in(dice, 4);
    choice.position = dice_below(dice, lengths[choice.list]);
    return choice;
}

/* The chosen algorithm on a member, for these arguments; Auto when they do not suit it. */
static inline const char *coll_set_algorithm(const struct sim_job *job, size_t self,
                                             pami_xfer_type_t type, struct choice choice,
                                             pami_xfer_t *xfer)
{
    enum {
        MOST = 64
    };
    pami_algorithm_t handles[2][MOST];
    pami_metadata_t metadata[2][MOST];
    const pami_metadata_t *chosen = &metadata[choice.list][choice.position];
    pami_geometry_t world;

    CALL(PAMI_Geometry_world(job->client[self], &world));
    CALL(PAMI_Geometry_algorithms_query(world, type, handles[0], metadata[0], MOST, handles[1],
                                        metadata[1], MOST));
    xfer->algorithm = handles[choice.list][choice.position];
    if (choice.list == 1) {
        CHECK(chosen->check_correct.values.checkrequired);
        CHECK(chosen->check_fn != NULL);
        if (chosen->check_fn(xfer).bitmask != 0 || chosen->check_correct.values.nonlocal)
            xfer->algorithm = handles[0][0];
    }
    return chosen->name;
}

/* Every member starts the operations in the same order, each at its own pace. */
static inline void coll_start_all(const struct sim_job *job, struct dice *dice, size_t operations,
                                  void (*start)(void *cookie, size_t operation, size_t self),
                                  void *cookie)
{
    size_t *next = calloc(job->tasks, sizeof(*next));
    size_t left = job->tasks * operations;
    bool together = dice_one_in(dice, 3);

    CHECK(next != NULL);
    while (left != 0) {
        size_t self = dice_below(dice, job->tasks);

        if (next[self] == operations)
            continue;
        start(cookie, next[self]++, self);
        left--;
        if (!together && dice_one_in(dice, 2))
            PAMIX_Sim_run(job->client[0], NULL, NULL, 1 + dice_below(dice, 200), 0);
    }
    free(next);
}

#endif
