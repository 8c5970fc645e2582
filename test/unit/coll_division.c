/*
 * Divisions into domains against what looking at every member says: arithmetic ones of all shapes
 * (blocks, in rounds, one by one, members that are every so many tasks, upwards and downwards, with
 * one context or several, a part of a block in front or behind) and tables; and parts of topologies
 * against lists.
 *
 * Run: timeout=60
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "coll/division.h"
#include "context/context.h"

#define SIZE_MOST 256u

/* Where the tasks are, and who of them are members. */
struct shape {
    struct topology topology;
    uint32_t run, places; /* task t is in place t / run % places */
};

static uint32_t place_of(const void *cookie, uint32_t rank)
{
    const struct shape *shape = cookie;
    uint32_t task = endpoint_task(topology_endpoint(&shape->topology, rank));

    return task / shape->run % shape->places;
}

/* By looking at all. */
struct model {
    uint32_t domains, domain[SIZE_MOST], count[SIZE_MOST];
    uint32_t member[SIZE_MOST][SIZE_MOST];
    bool ordered;
};

static struct model model;

static void make_model(const struct shape *shape)
{
    uint32_t place[SIZE_MOST], next = 0;

    model.domains = 0;
    for (uint32_t rank = 0; rank < shape->topology.size; rank++) {
        uint32_t here = place_of(shape, rank), domain = 0;

        while (domain < model.domains && place[domain] != here)
            domain++;
        if (domain == model.domains) {
            place[domain] = here;
            model.count[model.domains++] = 0;
        }
        model.domain[rank] = domain;
        model.member[domain][model.count[domain]++] = rank;
    }
    model.ordered = true;
    for (uint32_t domain = 0; domain < model.domains; domain++)
        for (uint32_t i = 0; i < model.count[domain]; i++)
            model.ordered = model.ordered && model.member[domain][i] == next++;
}

static void check(const struct division *division, uint32_t size)
{
    uint32_t least = UINT32_MAX, most = 0, start = 0, said_least, said_most;

    assert_int_equal(division->size, size);
    assert_int_equal(division->domains, model.domains);
    assert_int_equal(division->ordered, model.ordered);
    for (uint32_t domain = 0; domain < model.domains; domain++) {
        uint32_t count = model.count[domain];

        assert_int_equal(division_start(division, domain), start);
        assert_int_equal(division_count(division, domain), count);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t rank = model.member[domain][i];

            assert_int_equal(division_rank(division, domain, i), rank);
            assert_int_equal(division_domain(division, rank), domain);
            assert_int_equal(division_index(division, rank), i);
        }
        start += count;
        least = count < least ? count : least;
        most = count > most ? count : most;
    }
    assert_int_equal(division_start(division, model.domains), size);
    division_extremes(division, &said_least, &said_most);
    assert_int_equal(said_least, least);
    assert_int_equal(said_most, most);
}

/* Tables always, arithmetic where there is; whether there is. */
static bool try(const struct shape *shape)
{
    struct division division;
    bool regular;

    make_model(shape);
    assert_int_equal(division_init_tables(&division, shape->topology.size, place_of, shape), 0);
    assert_int_equal(division.run, 0);
    check(&division, shape->topology.size);
    division_finish(&division);
    regular = division_init_regular(&division, &shape->topology, shape->run, shape->places);
    if (regular) {
        assert_null(division.order);
        check(&division, shape->topology.size);
        division_finish(&division);
    }
    return regular;
}

/* As many tasks from `first` on, every stride-th; downwards from the last of them. */
static struct shape make_shape(uint32_t first, uint32_t stride, bool down, uint32_t tasks,
                               uint32_t contexts, uint32_t run, uint32_t places)
{
    struct shape shape = {.run = run, .places = places};

    if (down)
        topology_init_stride(&shape.topology, first + (tasks - 1) * stride, -(int32_t)stride, tasks,
                             1, contexts);
    else
        topology_init_stride(&shape.topology, first, (int32_t)stride, tasks, 0, contexts);
    return shape;
}

static void shapes(void **state)
{
    static const uint32_t strides[] = {1, 2, 3, 4, 6, 12}, sizes[] = {1, 2, 3, 7, 12, 25, 48};
    uint32_t regular = 0, count = 0;

    (void)state;
    for (uint32_t run = 1; run <= 12; run += run < 4 ? 1 : 4)
        for (uint32_t places = 1; places <= 9; places += places < 4 ? 1 : 5)
            for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++)
                for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); n++)
                    for (uint32_t first = 0; first < 14; first += 1 + first / 3)
                        for (uint32_t kind = 0; kind < 4; kind++) {
                            struct shape shape =
                                make_shape(first, strides[s], (kind & 1) != 0, sizes[n],
                                           1 + kind / 2 * 2, run, places);

                            count++;
                            regular += try(&shape);
                        }
    assert_true(regular > count / 2);
}

/* What jobs have: these must be arithmetic. */
static void usual(void **state)
{
    struct shape world = make_shape(0, 1, false, 100, 1, 8, 13);
    struct shape cyclic = make_shape(0, 1, false, 100, 1, 1, 13);
    struct shape rounds = make_shape(0, 1, false, 100, 1, 4, 7);
    struct shape backwards = make_shape(0, 1, true, 100, 1, 8, 13);
    struct shape several = make_shape(3, 1, false, 60, 4, 8, 13);
    struct shape middle = make_shape(5, 1, false, 50, 1, 8, 13);
    struct shape one_each = make_shape(3, 8, false, 12, 1, 8, 13);
    struct shape every_third = make_shape(0, 3, false, 30, 1, 1, 12);

    (void)state;
    assert_true(try(&world) && try(&cyclic) && try(&rounds) && try(&backwards));
    assert_true(try(&several) && try(&middle) && try(&one_each) && try(&every_third));
}

/* Places at random: tables. */
static uint32_t scattered(const void *cookie, uint32_t rank)
{
    const uint32_t *key = cookie;
    uint64_t z = (rank + *key) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)(z >> 40) % (1 + *key % 19) * 1000003;
}

static void random_tables(void **state)
{
    (void)state;
    for (uint32_t key = 0; key < 200; key++) {
        uint32_t size = 1 + key % SIZE_MOST, seen[SIZE_MOST] = {0};
        struct division division;

        assert_int_equal(division_init_tables(&division, size, scattered, &key), 0);
        for (uint32_t rank = 0; rank < size; rank++) {
            uint32_t domain = division_domain(&division, rank);
            uint32_t first = division_rank(&division, domain, 0);

            assert_true(first <= rank);
            assert_int_equal(scattered(&key, first), scattered(&key, rank));
            assert_int_equal(division_index(&division, rank), seen[domain]++);
            assert_int_equal(division_rank(&division, domain, seen[domain] - 1), rank);
        }
        for (uint32_t domain = 0; domain < division.domains; domain++)
            assert_int_equal(division_count(&division, domain), seen[domain]);
        division_finish(&division);
    }
}

/* Every part of a few topologies is, where it is made without a list, what its list is. */
static void check_part(const struct topology *whole, uint32_t first, uint32_t step, uint32_t count)
{
    struct topology part, listed;
    uint32_t members[SIZE_MOST];

    if (!topology_init_part(&part, whole, first, step, count)) {
        assert_true(whole->contexts > 1);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        members[i] = topology_endpoint(whole, first + i * step);
    assert_int_equal(topology_init_list(&listed, members, count), 0);
    assert_int_equal(topology_digest(&part), topology_digest(&listed));
    topology_finish(&listed);
}

static void parts(void **state)
{
    (void)state;
    for (uint32_t contexts = 1; contexts <= 3; contexts++)
        for (uint32_t down = 0; down < 2; down++) {
            struct shape shape = make_shape(5, 1 + contexts, down != 0, 8, contexts, 1, 1);
            uint32_t size = shape.topology.size;

            for (uint32_t first = 0; first < size; first++)
                for (uint32_t step = 1; step < size; step++)
                    for (uint32_t count = 1; first + (count - 1) * step < size; count++)
                        check_part(&shape.topology, first, step, count);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(usual),
        cmocka_unit_test(random_tables),
        cmocka_unit_test(parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
