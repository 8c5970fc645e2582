/*
 * Topologies against plain lists: every form answers both questions as the list of its members
 * does, has one form only, and finds what is in it twice; maps with 64-bit keys and the numbers of
 * messages against plain models.
 *
 * Run: timeout=60
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "context/context.h"
#include "geometry/neighbour.h"
#include "geometry/topology.h"

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ z >> 31;
}

/* Rank of an endpoint by looking at all. */
static uint32_t rank_in(const uint32_t *list, uint32_t size, uint32_t endpoint)
{
    for (uint32_t i = 0; i < size; i++)
        if (list[i] == endpoint)
            return i;
    return TOPOLOGY_NO_RANK;
}

static void check(const struct topology *topology, const uint32_t *list, uint32_t size)
{
    assert_int_equal(topology->size, size);
    for (uint32_t rank = 0; rank < size; rank++) {
        uint32_t e = list[rank];
        uint32_t near[] = {e,
                           e + 1,
                           e - 1,
                           e + (1u << ENDPOINT_TASK_BITS),
                           e - (1u << ENDPOINT_TASK_BITS),
                           endpoint_task(e)};

        assert_int_equal(topology_endpoint(topology, rank), e);
        for (size_t i = 0; i < sizeof near / sizeof near[0]; i++)
            assert_int_equal(topology_rank(topology, near[i]), rank_in(list, size, near[i]));
    }
}

static void strides(void **state)
{
    static uint32_t list[4096];

    (void)state;
    for (int32_t stride = -7; stride <= 7; stride++)
        for (uint32_t tasks = 1; tasks <= 9; tasks++)
            for (uint32_t contexts = 1; contexts <= 4; contexts++) {
                struct topology made, found;
                uint32_t size = 0;

                if (stride == 0)
                    continue;
                for (uint32_t i = 0; i < tasks; i++)
                    for (uint32_t j = 0; j < contexts; j++)
                        list[size++] = endpoint_make((uint32_t)(100 + (int32_t)i * stride), 2 + j);
                topology_init_stride(&made, 100, stride, tasks, 2, contexts);
                check(&made, list, size);
                assert_int_equal(topology_init_list(&found, list, size), 0);
                assert_int_equal(found.kind, TOPOLOGY_STRIDE);
                assert_memory_equal(&found, &made, offsetof(struct topology, endpoints));
                assert_int_equal(topology_digest(&found), topology_digest(&made));
                topology_finish(&found);
            }
}

/* The largest job: no overflow, nothing allocated. */
static void large(void **state)
{
    struct topology topology;
    uint32_t last = ENDPOINT_TASKS_MAX - 1;

    (void)state;
    topology_init_stride(&topology, 0, 1, ENDPOINT_TASKS_MAX, 0, 1);
    assert_int_equal(topology_endpoint(&topology, last), last);
    assert_int_equal(topology_rank(&topology, last), last);
    topology_init_stride(&topology, last, -1, ENDPOINT_TASKS_MAX, 0, ENDPOINT_OFFSETS_MAX);
    assert_int_equal(topology_endpoint(&topology, topology.size - 1), endpoint_make(0, 63));
    assert_int_equal(topology_rank(&topology, endpoint_make(0, 63)), topology.size - 1);
    assert_int_equal(topology_rank(&topology, last), 0);
    assert_null(topology.endpoints);
}

static void lists(void **state)
{
    static uint32_t list[600];
    uint64_t seed = 1;

    (void)state;
    for (int round = 0; round < 600; round++) {
        uint32_t size = 1 + (uint32_t)(random_next(&seed) % (round % 10 == 0 ? 600 : 12));
        uint32_t tasks = 1 + (uint32_t)(random_next(&seed) % (2 * size));
        uint32_t offsets = 1 + (uint32_t)(random_next(&seed) % 4);
        uint32_t count = 0;
        struct topology topology, other;

        for (uint32_t i = 0; i < size; i++) {
            uint32_t endpoint = endpoint_make((uint32_t)(random_next(&seed) % tasks),
                                              (uint32_t)(random_next(&seed) % offsets));

            if (rank_in(list, count, endpoint) == TOPOLOGY_NO_RANK)
                list[count++] = endpoint;
        }
        assert_int_equal(topology_init_list(&topology, list, count), 0);
        check(&topology, list, count);
        /* Another order is another group. */
        if (count > 1) {
            uint32_t first = list[0];

            list[0] = list[count - 1];
            list[count - 1] = first;
            assert_int_equal(topology_init_list(&other, list, count), 0);
            assert_true(topology_digest(&other) != topology_digest(&topology));
            topology_finish(&other);
            list[random_next(&seed) % (count - 1)] = list[count - 1];
            assert_int_equal(topology_init_list(&other, list, count), -EEXIST);
        }
        topology_finish(&topology);
    }
}

/* One that has not come before is noted. */
static bool takes_as_new(struct u64map *map, uint32_t task, uint64_t number)
{
    if (neighbour_is_new(map, task, number) != 1)
        return false;
    neighbour_seen(map, task, number);
    return true;
}

/* Three copies of each number, each shuffled within a window, one of them very late. */
static void numbers(void **state)
{
    enum {
        NUMBERS = 500,
        COPIES = 3
    };
    struct u64map of = {0};
    uint64_t seed = 3, at[COPIES] = {0};
    static unsigned seen[NUMBERS + 1];
    unsigned left = NUMBERS * COPIES;
    static uint64_t order[COPIES][NUMBERS];

    (void)state;
    for (int copy = 0; copy < COPIES; copy++) {
        for (uint64_t i = 0; i < NUMBERS; i++)
            order[copy][i] = i + 1;
        for (uint64_t i = 0; i + 1 < NUMBERS; i++) {
            uint64_t j = i + random_next(&seed) % 9, other;

            if (j >= NUMBERS)
                continue;
            other = order[copy][i];
            order[copy][i] = order[copy][j];
            order[copy][j] = other;
        }
    }
    while (left != 0) {
        int copy = (int)(random_next(&seed) % COPIES);

        if (copy == 2 && at[0] + at[1] < 2 * NUMBERS)
            continue;
        if (at[copy] == NUMBERS)
            continue;
        left--;
        if (takes_as_new(&of, 5, order[copy][at[copy]]))
            seen[order[copy][at[copy]]]++;
        at[copy]++;
    }
    for (uint64_t i = 1; i <= NUMBERS; i++)
        assert_int_equal(seen[i], 1);
    assert_false(takes_as_new(&of, 5, 0));
    assert_true(takes_as_new(&of, 6, 1));
    assert_true(takes_as_new(&of, 6, UINT64_MAX));
    assert_int_equal(neighbour_next(&of, 6), 1);
    assert_int_equal(neighbour_next(&of, 6), 2);
    neighbours_free(&of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides),
        cmocka_unit_test(large),
        cmocka_unit_test(lists),
        cmocka_unit_test(numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
