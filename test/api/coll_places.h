/*
 * Overlapping geometries of every kind, for programs in which each endpoint is driven by a thread
 * of its own that advances nothing else: the world through each context, a range, a list backwards,
 * a strided one, a random one, lists of endpoints, all contexts.
 */
#ifndef LIBPAMI_API_COLL_PLACES_H
#define LIBPAMI_API_COLL_PLACES_H

#include "coll_run.h"

enum {
    CONTEXTS_MAX = 8,
    PLACES_MAX = 9 + CONTEXTS_MAX
};

/* Every task knows all members of all geometries, also of those that it is not in. */
struct place {
    pami_geometry_t geometry;
    pami_endpoint_t *member;
    size_t size;
};

static struct job job;
static struct place places[PLACES_MAX];
static size_t place_count;
static uint64_t seed = 1;
static size_t contexts = 1;
static size_t steps; /* of the random program */

static inline struct place *add_place(size_t most)
{
    struct place *place = &places[place_count++];

    place->member = test_alloc(most * sizeof(*place->member));
    return place;
}

static inline bool is_here(const struct place *place)
{
    for (size_t i = 0; i < place->size; i++)
        if (test_origin(place->member[i]) == job.task)
            return true;
    return false;
}

/* Members are tasks of one offset, in the order of a list. */
static inline void make_list(const pami_task_t *tasks, size_t count, size_t offset, bool parent)
{
    struct place *place = add_place(count);
    pami_task_t *list = test_alloc(count * sizeof(*list));
    pami_geometry_t *mine = NULL;

    for (size_t i = 0; i < count; i++) {
        list[i] = tasks[i];
        place->member[place->size++] = job_endpoint(&job, tasks[i], offset);
    }
    if (is_here(place))
        mine = &place->geometry;
    if (mine != NULL || parent)
        create_list(&job, mine, parent ? world_of(&job) : NULL, 10 + (unsigned)place_count, list,
                    count, offset);
    free(list);
}

static inline void make_range(size_t low, size_t offset)
{
    pami_geometry_range_t slices[2] = {{(pami_task_t)low, (pami_task_t)job.tasks - 1},
                                       {0, (pami_task_t)low - 1}};
    struct told told = {.context = job.context[0]};
    struct place *place;
    size_t each = offset == PAMI_ALL_CONTEXTS ? contexts : 1;

    place = add_place(job.tasks * each);
    for (size_t i = 0; i < job.tasks; i++)
        for (size_t x = 0; x < each; x++)
            place->member[place->size++] =
                job_endpoint(&job, (low + i) % job.tasks, each == 1 && contexts > 1 ? offset : x);
    CHECK_OK(TEST_CALL(PAMI_Geometry_create_taskrange(
        job.client, offset, NULL, 0, &place->geometry, NULL, 10 + (unsigned)place_count, slices,
        low == 0 ? 1 : 2, job.context[0], on_told, &told)));
    WAIT(&job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
}

/* About two thirds of all endpoints, in random order. */
static inline void make_endpoints(uint64_t *state)
{
    struct told told = {.context = job.context[0]};
    struct place *place = add_place(job.tasks * contexts);

    for (size_t i = 0; i < job.tasks * contexts; i++)
        if (place->size == 0 || op_below(state, 3) != 0) {
            size_t at = op_below(state, place->size + 1);

            place->member[place->size++] = place->member[at];
            place->member[at] = job_endpoint(&job, i % job.tasks, i / job.tasks);
        }
    if (!is_here(place))
        return;
    CHECK_OK(TEST_CALL(PAMI_Geometry_create_endpointlist(
        job.client, NULL, 0, &place->geometry, 10 + (unsigned)place_count, place->member,
        place->size, job.context[0], on_told, &told)));
    WAIT(&job, told.count != 0);
    CHECK(told.result == PAMI_SUCCESS);
}

static inline void make_places(void)
{
    pami_task_t *tasks = test_alloc(job.tasks * sizeof(*tasks));
    uint64_t state = seed;
    size_t count = 0;

    for (size_t offset = 0; offset < contexts; offset++) {
        struct place *place = add_place(job.tasks);

        place->geometry = world_of(&job);
        for (size_t i = 0; i < job.tasks; i++)
            place->member[place->size++] = job_endpoint(&job, i, offset);
    }
    for (size_t i = 0; i < job.tasks; i++)
        tasks[i] = (pami_task_t)(job.tasks - 1 - i);
    make_list(tasks, job.tasks, contexts - 1, false);
    for (size_t i = 0; i < job.tasks; i += 2)
        tasks[count++] = (pami_task_t)i;
    make_list(tasks, count, 0, true);
    for (size_t i = count = 0; i < job.tasks; i++)
        if (count == 0 || op_below(&state, 2) == 0)
            tasks[count++] = (pami_task_t)(job.tasks - 1 - i);
    make_list(tasks, count, op_below(&state, contexts), false);
    make_list(tasks, 1, 0, true);
    make_range(job.tasks / 2, contexts - 1);
    make_range(0, PAMI_ALL_CONTEXTS);
    make_endpoints(&state);
    make_endpoints(&state);
    free(tasks);
}

/* All have ended what they had here. */
static inline void destroy_places(void)
{
    for (size_t i = contexts; i < place_count; i++)
        if (places[i].geometry != NULL)
            destroy_geometry(&job, &places[i].geometry);
    for (size_t i = 0; i < place_count; i++)
        free(places[i].member);
}

/* Others may still need a context whose own program is over. */
static inline bool barrier_over(struct told *told)
{
    for (size_t i = 0; i < contexts; i++)
        if (told[i].count == 0)
            return false;
    return true;
}

static inline void all_over(void)
{
    struct told told[CONTEXTS_MAX];
    pami_algorithm_t algorithm = algorithm_of(world_of(&job), PAMI_XFER_BARRIER);

    for (size_t i = 0; i < contexts; i++) {
        pami_xfer_t xfer = coll_xfer(algorithm, &told[i]);

        coll_start(job.context[i], &xfer);
    }
    WAIT(&job, barrier_over(told));
}

/* The job and its places. The command line: [--seed N] [--contexts N] [--steps N]; without the last
 * there are `usual`. */
static inline void places_begin(int argc, char **argv, const char *name, size_t usual)
{
    steps = usual;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);

        if (strcmp(argv[i], "--seed") == 0)
            seed = value;
        else if (strcmp(argv[i], "--contexts") == 0)
            contexts = value;
        else if (strcmp(argv[i], "--steps") == 0)
            steps = value;
    }
    CHECK(contexts >= 1 && contexts <= CONTEXTS_MAX);
    job_start(&job, name, contexts);
    op_begin();
    make_places();
}

static inline void places_end(void)
{
    all_over();
    destroy_places();
    op_end();
    job_finish(&job);
}

#endif
