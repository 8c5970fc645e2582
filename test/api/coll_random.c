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
 * Run: tasks=2 args="--seed 1" env="PAMI_COLL_SHARED_DIRECT=1 PAMI_COLL_SHARED_BUFFER=4K"
 */
#include <pthread.h>

#include "coll_places.h"

enum {
    FLIGHTS = 24 /* of one endpoint */
};

struct driver {
    size_t offset;
    pami_endpoint_t self;
    struct op *flight[FLIGHTS];
    size_t began, ended;
};

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

int main(int argc, char **argv)
{
    static struct driver drivers[CONTEXTS_MAX];
    pthread_t thread[CONTEXTS_MAX];

    places_begin(argc, argv, "coll-random", 400);
    for (size_t i = 0; i < contexts; i++)
        drivers[i] = (struct driver){.offset = i, .self = job_endpoint(&job, job.task, i)};
    for (size_t i = 1; i < contexts; i++)
        CHECK(pthread_create(&thread[i], NULL, drive, &drivers[i]) == 0);
    drive(&drivers[0]);
    for (size_t i = 1; i < contexts; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    places_end();
    return 0;
}
