/*
 * A random program of collectives on overlapping geometries of every kind, compared with an oracle:
 * the world through each context, a range, a list backwards, a strided one, a random one, lists of
 * endpoints, all contexts. Every endpoint is driven by a thread of its own that advances nothing
 * else; it goes through the one program, starts what it is a member of, and has many in flight on
 * all geometries at once.
 *
 *     coll_random [--seed N] [--contexts N] [--steps N]
 *
 * Run: tasks=1,2,3,5,8 nodes=1,2 timeout=60
 * Run: tasks=2,3 nodes=1,2 args="--contexts 3 --steps 300" timeout=60
 * Run: tasks=4 args="--contexts 2 --seed 3" env="PAMI_COLL_SHARED_BYTES=0" timeout=60
 * Run: tasks=4 nodes=2 args="--seed 4" env="PAMI_RNDV_BYTES=0" timeout=60
 * Run: tasks=5 args="--seed 5" env="PAMI_SHM_RING_SLOTS=8" timeout=60
 * Run: tasks=2,5 args="--seed 6" env="PAMI_COLL_SLICES=1" timeout=60
 * Run: tasks=3 args="--seed 7" env="PAMI_COLL_SLICES=2" timeout=60
 * Run: tasks=7 args="--seed 9" env="PAMI_YIELD=never PAMI_COLL_SHARED_TREE=3 PAMI_COLL_ASK=1ms"
 * Run: tasks=5,8 args="--seed 10" env="PAMI_COLL_SHARED_RELAY=64" timeout=60
 * Run: tasks=7 args="--seed 8" env="PAMI_YIELD=never PAMI_COLL_SHARED_TREE=3" timeout=60
 */
#include <pthread.h>

#include "coll_run.h"

enum {
    GEOMETRIES = 9,
    FLIGHTS = 24, /* of one endpoint */
    CONTEXTS_MAX = 8
};

/* Every task knows all members of all geometries, also of those that it is not in. */
struct place {
    pami_geometry_t geometry;
    pami_endpoint_t *member;
    size_t size;
};

struct driver {
    size_t offset;
    pami_endpoint_t self;
    struct op *flight[FLIGHTS];
    size_t began, ended;
};

static struct job job;
static struct place places[GEOMETRIES + CONTEXTS_MAX];
static size_t place_count;
static uint64_t seed = 1;
static size_t contexts = 1, steps = 400;

/* ---- geometries ---- */

static struct place *add_place(size_t most)
{
    struct place *place = &places[place_count++];

    place->member = test_alloc(most * sizeof(*place->member));
    return place;
}

static bool is_here(const struct place *place)
{
    for (size_t i = 0; i < place->size; i++)
        if (test_origin(place->member[i]) == job.task)
            return true;
    return false;
}

/* Members are tasks of one offset, in the order of a list. */
static void make_list(const pami_task_t *tasks, size_t count, size_t offset, bool parent)
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

static void make_range(size_t low, size_t offset)
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
static void make_endpoints(uint64_t *state)
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

static void make_places(void)
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
static void destroy_places(void)
{
    for (size_t i = contexts; i < place_count; i++)
        if (places[i].geometry != NULL)
            destroy_geometry(&job, &places[i].geometry);
    for (size_t i = 0; i < place_count; i++)
        free(places[i].member);
}

/* ---- the program ---- */

static void end_oldest(struct driver *driver)
{
    struct op *o = driver->flight[driver->ended++ % FLIGHTS];

    WAIT_WITH(test_advance(job.context[driver->offset], 10), o->told.count != 0);
    op_check(o);
    op_free(o);
}

static void step(struct driver *driver, uint64_t number)
{
    uint64_t state = seed * 1000003 + number * 7919;
    const struct place *place = &places[op_below(&state, place_count)];
    pami_xfer_type_t type = op_types[op_below(&state, OP_TYPES)];
    size_t words = op_below(&state, 20) == 0 ? op_below(&state, 20000) : op_below(&state, 400);
    size_t position = op_below(&state, 1000), self = 0;
    struct algorithms all;
    struct op *o;

    while (self < place->size && place->member[self] != driver->self)
        self++;
    if (self == place->size)
        return;
    if (driver->began == driver->ended + FLIGHTS)
        end_oldest(driver);
    all = algorithms_of(place->geometry, type);
    position = position < 500 ? 0 : position % all.count[0];
    o = op_make(type, place->size, self, words, test_random(&state), false);
    o->name = all.metadata[0][position].name;
    op_start(o, job.context[driver->offset], all.handle[0][position], place->member[o->root], NULL,
             0);
    algorithms_free(&all);
    driver->flight[driver->began++ % FLIGHTS] = o;
    if (op_below(&o->own, 3) == 0)
        test_advance(job.context[driver->offset], 1 + op_below(&o->own, 5));
    if (op_below(&o->own, 100) == 0)
        test_sleep(0.003);
    if (op_below(&o->own, 40) == 0)
        while (driver->ended != driver->began)
            end_oldest(driver);
}

static void *drive(void *argument)
{
    struct driver *driver = argument;

    for (size_t number = 0; number < steps; number++)
        step(driver, number);
    while (driver->ended != driver->began)
        end_oldest(driver);
    return NULL;
}

/* Others may still need a context whose own program is over. */
static bool barrier_over(struct told *told)
{
    for (size_t i = 0; i < contexts; i++)
        if (told[i].count == 0)
            return false;
    return true;
}

static void all_over(void)
{
    struct told told[CONTEXTS_MAX];
    pami_algorithm_t algorithm = algorithm_of(world_of(&job), PAMI_XFER_BARRIER);

    for (size_t i = 0; i < contexts; i++) {
        pami_xfer_t xfer = coll_xfer(algorithm, &told[i]);

        coll_start(job.context[i], &xfer);
    }
    WAIT(&job, barrier_over(told));
}

int main(int argc, char **argv)
{
    static struct driver drivers[CONTEXTS_MAX];
    pthread_t thread[CONTEXTS_MAX];

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
    job_start(&job, "coll-random", contexts);
    op_begin();
    make_places();
    for (size_t i = 0; i < contexts; i++)
        drivers[i] = (struct driver){.offset = i, .self = job_endpoint(&job, job.task, i)};
    for (size_t i = 1; i < contexts; i++)
        CHECK(pthread_create(&thread[i], NULL, drive, &drivers[i]) == 0);
    drive(&drivers[0]);
    for (size_t i = 1; i < contexts; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    all_over();
    destroy_places();
    op_end();
    job_finish(&job);
    return 0;
}
