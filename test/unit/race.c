/*
 * The race of two ways: the faster one is found, by single pieces of work and in streams; it is
 * tried again when costs change; a way that does not work without the other end ends at once.
 *
 * Run: timeout=30
 */
#include "util/race.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define KIB 1024u

static struct race race;
static uint64_t now;

/* Between pieces of work, after those of either way; at first so long that it does not count. */
static uint64_t pause, other_pause;

/* What a piece of 1 KiB takes either way, in ticks. */
static uint64_t usual, other;

/* Of either way, before the work: for others who are to take part. */
static uint64_t wait, other_wait;

/* Pieces of work one after the other; how many of them go the other way. */
static unsigned singly(unsigned count)
{
    unsigned others = 0;

    for (unsigned i = 0; i < count; i++) {
        uint32_t ticket = race_begin(&race, now);

        others += race_way(ticket) == RACE_OTHER;
        now += race_way(ticket) == RACE_OTHER ? other_wait : wait;
        race_waited(&race, now);
        now += race_way(ticket) == RACE_OTHER ? other : usual;
        race_end(&race, ticket, now, KIB);
        now += race_way(ticket) == RACE_OTHER ? other_pause : pause;
    }
    return others;
}

/* So many begun at once again and again, which end one by one. */
static unsigned streams(unsigned count, unsigned many)
{
    unsigned others = 0;

    for (unsigned i = 0; i < count; i++) {
        uint32_t tickets[64];

        for (unsigned k = 0; k < many; k++) {
            tickets[k] = race_begin(&race, now);
            others += race_way(tickets[k]) == RACE_OTHER;
        }
        for (unsigned k = 0; k < many; k++) {
            now += race_way(tickets[k]) == RACE_OTHER ? other : usual;
            race_end(&race, tickets[k], now, KIB);
        }
    }
    return others;
}

static int setup(void **state)
{
    (void)state;
    race_init(&race, NULL);
    now = 1000;
    pause = other_pause = race.patience;
    usual = other = 100;
    wait = other_wait = 0;
    return 0;
}

static void test_the_usual_way_stays_where_it_is_level(void **state)
{
    (void)state;
    assert_in_range(singly(10000), RACE_BLOCK, 400);
    assert_int_equal(race_way(race.turn), RACE_USUAL);
}

static void test_the_faster_way_is_found(void **state)
{
    (void)state;
    other = 60;
    assert_in_range(singly(10000), 9000, 9999);
    assert_int_equal(race_way(race.turn), RACE_OTHER);
}

static void test_the_faster_way_is_found_in_streams(void **state)
{
    (void)state;
    other = 60;
    assert_in_range(streams(1000, 16), 14000, 15999);
    setup(state);
    usual = 60;
    assert_in_range(streams(1000, 16), 1, 1600);
}

/* A way that is slower, but leaves more to other work. */
static void test_short_gaps_count(void **state)
{
    (void)state;
    usual = 60;
    pause = 100;
    other = 80;
    other_pause = 20;
    assert_in_range(singly(10000), 9000, 9999);
    setup(state);
    usual = 60;
    other = 80;
    other_pause = race.patience / 2; /* long ones do not */
    assert_in_range(singly(10000), RACE_BLOCK, 1000);
}

/* What waits for its program between pieces of work works. */
static void test_gaps_are_no_failure(void **state)
{
    (void)state;
    other = 60;
    singly(1000);
    race.rest = RACE_PAUSE_LEAST; /* blocks without a trial */
    for (unsigned i = 0; i < RACE_BLOCK * RACE_PAUSE_LEAST / 2; i++) {
        uint32_t ticket = race_begin(&race, now);

        assert_int_equal(race_way(ticket), RACE_OTHER);
        now += other;
        race_end(&race, ticket, now, 10 * RACE_PATIENCE_US * KIB);
        now += 2 * race.patience; /* short for so much */
    }
}

static void test_waiting_does_not_count(void **state)
{
    (void)state;
    other = 60;
    wait = 10;
    other_wait = 500;
    assert_in_range(singly(10000), 9000, 9999);
    setup(state);
    usual = 60; /* with gaps before, the other way is the better one */
    pause = 100;
    other = 80;
    other_pause = 20;
    wait = 10;
    other_wait = 500;
    assert_in_range(singly(10000), 9000, 9999);
}

/* The second of two that begin together waits when the first one has ended, and has less to do. */
static void test_waiting_behind_another(void **state)
{
    unsigned others = 0;

    (void)state;
    other = 60;
    for (unsigned i = 0; i < 10000; i++) {
        uint32_t first = race_begin(&race, now), second = race_begin(&race, now);

        others += race_way(first) == RACE_OTHER;
        now += race_way(first) == RACE_OTHER ? other : usual;
        race_end(&race, first, now, KIB);
        now += 50;
        race_waited(&race, now);
        now += (race_way(second) == RACE_OTHER ? other : usual) / 4;
        race_end(&race, second, now, KIB);
    }
    assert_in_range(others, 9000, 9999);
}

/* What is slow at first only is not left for the other way. */
static void test_a_way_may_warm_up(void **state)
{
    (void)state;
    race_warms_up(&race);
    usual = 400;
    assert_int_equal(singly(RACE_BLOCK * 8), 0);
    usual = 60;
    assert_in_range(singly(10000), RACE_BLOCK, 400);
}

static void test_sizes(void **state)
{
    (void)state;
    assert_int_equal(race_size(1, 16, 3), 0);
    assert_int_equal(race_size(15, 16, 3), 0);
    assert_int_equal(race_size(16, 16, 3), 1);
    assert_int_equal(race_size(63, 16, 3), 1);
    assert_int_equal(race_size(64, 16, 3), 2);
    assert_int_equal(race_size(UINT64_MAX, 16, 3), 2);
}

static void test_a_slow_way_is_tried_rarely(void **state)
{
    (void)state;
    other = 300;
    singly(10000);
    assert_in_range(singly(100000), 1, 500);
}

static void test_changes_are_found(void **state)
{
    (void)state;
    singly(20000);
    usual = 150; /* the other one is better now */
    assert_in_range(singly(1000), 700, 1000);
    other = 300;
    assert_in_range(singly(1000), 1, 300);
}

/* One piece is there to warm up, the next one tells. */
static void test_who_is_not_there_is_not_waited_for_often(void **state)
{
    (void)state;
    other = race.patience + 1;
    assert_in_range(singly(64), 1, 2);
    assert_in_range(singly(100000), 1, 100);
}

static void test_who_has_left_is_noticed_at_once(void **state)
{
    (void)state;
    other = 60;
    singly(10000);
    assert_int_equal(race_way(race.turn), RACE_OTHER);
    other = 2 * race.patience;
    assert_in_range(singly(64), 1, RACE_BLOCK);
    assert_int_equal(race_way(race.turn), RACE_USUAL);
}

/* Another program had the processor. */
static void test_an_interruption_does_not_matter(void **state)
{
    (void)state;
    other = 60;
    singly(10000);
    other = 60 * RACE_FAILED * RACE_BLOCK;
    singly(1);
    other = 60;
    assert_in_range(singly(1000), 900, 1000);
    usual = 5000;
    singly(RACE_BLOCK);
    usual = 100;
    assert_in_range(singly(1000), 900, 1000);
}

static void test_a_neighbour_is_taken_over_from(void **state)
{
    struct race neighbour;

    (void)state;
    other = 60;
    singly(10000);
    neighbour = race;
    race_init(&race, &neighbour);
    assert_true(race_is_known(&race));
    assert_int_equal(singly(RACE_BLOCK), RACE_BLOCK);
    other = 2 * race.patience;
    assert_in_range(singly(64), 1, 2 * RACE_BLOCK);
}

static void test_a_row_has_neighbours(void **state)
{
    struct race row[3] = {{0}};

    (void)state;
    other = 60;
    singly(10000);
    row[1] = race;
    assert_ptr_equal(race_in(row, 3, 1), &row[1]);
    assert_ptr_equal(race_in(row, 3, 0), &row[0]);
    assert_int_equal(race_way(row[0].turn), RACE_OTHER);
    assert_ptr_equal(race_in(row, 3, 2), &row[2]);
    assert_int_equal(race_way(row[2].turn), RACE_OTHER);
    memset(row, 0, sizeof(row));
    race_in(row, 3, 2);
    assert_int_equal(race_way(row[2].turn), RACE_USUAL);
    assert_true(race_is_known(&row[2]));
    assert_false(race_is_known(&row[0]));
}

/* Work that is given up beside other work, and at once: neither looks fast by it. */
static void test_what_is_given_up_does_not_count(void **state)
{
    unsigned others = 0;

    (void)state;
    other = 150;
    for (unsigned i = 0; i < 10000; i++) {
        uint32_t first = race_begin(&race, now);
        uint32_t given_up = race_begin(&race, now);

        others += race_way(first) == RACE_OTHER;
        now += race_way(first) == RACE_OTHER ? other : usual;
        if (race_way(given_up) == RACE_OTHER)
            race_cancel(&race, given_up);
        race_end(&race, first, now, KIB);
        if (race_way(given_up) == RACE_USUAL) {
            now += usual;
            race_end(&race, given_up, now, KIB);
        }
    }
    assert_in_range(others, 1, 1000);
    assert_int_equal(race.active, 0);
}

/* What was begun before a turn is not waited for when it is given up. */
static void test_a_turn_goes_on_without_what_is_given_up(void **state)
{
    uint32_t old;

    (void)state;
    other = 60;
    singly(RACE_BLOCK * (RACE_FIRST - 1) + 1);
    old = race_begin(&race, now);
    assert_in_range(singly(200), 150, 200);
    assert_int_equal(race.trial, RACE_TRIAL); /* it waits for that one */
    race_cancel(&race, old);
    singly(50);
    assert_int_equal(race.trial, 0);
    assert_int_equal(race_way(race.turn), RACE_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_usual_way_stays_where_it_is_level, setup),
        cmocka_unit_test_setup(test_the_faster_way_is_found, setup),
        cmocka_unit_test_setup(test_the_faster_way_is_found_in_streams, setup),
        cmocka_unit_test_setup(test_short_gaps_count, setup),
        cmocka_unit_test_setup(test_gaps_are_no_failure, setup),
        cmocka_unit_test_setup(test_waiting_does_not_count, setup),
        cmocka_unit_test_setup(test_waiting_behind_another, setup),
        cmocka_unit_test_setup(test_a_way_may_warm_up, setup),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test_setup(test_a_slow_way_is_tried_rarely, setup),
        cmocka_unit_test_setup(test_changes_are_found, setup),
        cmocka_unit_test_setup(test_who_is_not_there_is_not_waited_for_often, setup),
        cmocka_unit_test_setup(test_who_has_left_is_noticed_at_once, setup),
        cmocka_unit_test_setup(test_an_interruption_does_not_matter, setup),
        cmocka_unit_test_setup(test_a_neighbour_is_taken_over_from, setup),
        cmocka_unit_test_setup(test_a_row_has_neighbours, setup),
        cmocka_unit_test_setup(test_what_is_given_up_does_not_count, setup),
        cmocka_unit_test_setup(test_a_turn_goes_on_without_what_is_given_up, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
