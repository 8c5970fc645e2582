/*
 * Lanes: rings of one sender. Full and empty, order over many laps, the batched look ahead, and a
 * lane that goes from one owner to the next without anything old looking new.
 *
 * Run: timeout=60
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/shm/lane.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define PACKETS 100000u
#else
#define PACKETS 1000000u
#endif

static struct lane *lane_make(void)
{
    struct lane *lane = aligned_alloc(CACHE_LINE, sizeof *lane);

    assert_non_null(lane);
    memset(lane, 0, sizeof *lane);
    return lane;
}

static bool put(struct lane_sender *sender, uint32_t number)
{
    struct slot *slot = lane_claim(sender);

    if (slot == NULL)
        return false;
    slot->head.aux = number;
    memset(slot->body, (int)number, sizeof slot->body);
    lane_publish(sender, slot);
    return true;
}

static bool is_number(const struct slot *slot, uint32_t number)
{
    for (size_t i = 0; i < sizeof slot->body; i++)
        if ((unsigned char)slot->body[i] != (unsigned char)number)
            return false;
    return slot->head.aux == number;
}

static void full_and_empty(void **state)
{
    struct lane *lane = lane_make();
    struct lane_sender sender = {0};
    struct lane_reader reader = {.lane = lane};

    (void)state;
    assert_true(lane_take(&sender, lane, 3));
    for (int lap = 0; lap < 5; lap++) {
        uint32_t first = (uint32_t)lap * LANE_SLOTS;

        assert_null(lane_ready(&reader));
        for (uint32_t i = 0; i < LANE_SLOTS; i++)
            assert_true(put(&sender, first + i));
        assert_false(put(&sender, 0));
        for (uint32_t i = 0; i < LANE_SLOTS; i++) {
            struct slot *slot = lane_ready(&reader);

            assert_non_null(slot);
            assert_true(is_number(slot, first + i));
            lane_consume(&reader);
            if (i + 1 < LANE_SLOTS / 4) /* nothing is free until the reader says so */
                assert_false(put(&sender, 0));
        }
        lane_release(&reader);
    }
    free(lane);
}

static void owners(void **state)
{
    struct lane *lane = lane_make();
    struct lane_reader reader = {.lane = lane};

    (void)state;
    for (uint32_t owner = 0; owner < 300; owner++) {
        struct lane_sender sender = {0}, other = {0};
        uint32_t packets = owner * 7 % (LANE_SLOTS + 1);

        assert_true(lane_take(&sender, lane, owner));
        assert_false(lane_take(&other, lane, owner + 1));
        assert_int_equal(atomic_load(&lane->owner), owner + 1);
        for (uint32_t i = 0; i < packets; i++)
            assert_true(put(&sender, i));
        for (uint32_t i = 0; i < packets; i++) {
            assert_true(is_number(lane_ready(&reader), i));
            lane_consume(&reader);
        }
        assert_null(lane_ready(&reader));
        lane_give_back(&reader);
        assert_int_equal(atomic_load(&lane->owner), 0);
        /* The next reader starts where this one ended. */
        reader = (struct lane_reader){.lane = lane};
        reader.head = reader.published = atomic_load(&lane->head);
        assert_null(lane_ready(&reader));
    }
    free(lane);
}

/* A look never promises more than there is, nor looks past a gap. */
static void looking_ahead(void **state)
{
    struct lane *lane = lane_make();
    struct lane_sender sender = {0};
    struct lane_reader reader = {.lane = lane};
    uint32_t sent = 0, got = 0, random = 3;
    bool ahead = false;

    (void)state;
    assert_true(lane_take(&sender, lane, 0));
    for (int step = 0; step < 20000; step++) {
        uint32_t ready, want;

        random = random * 1664525u + 1013904223u;
        want = (random >> 20) % (step % 2000 < 1000 ? 30 : 2);
        for (uint32_t i = 0; i < want && put(&sender, sent); i++)
            sent++;
        ready = lane_look(&reader, random >> 31);
        assert_true(ready <= sent - got && ready <= LANE_AHEAD);
        assert_true(ready != 0 || sent == got);
        ahead = ahead || ready > 1;
        for (uint32_t i = 0; i < ready; i++) {
            assert_true(is_number(&lane->slots[reader.head % LANE_SLOTS], got++));
            lane_consume(&reader);
        }
    }
    assert_true(ahead);
    free(lane);
}

static void *produce(void *argument)
{
    struct lane_sender sender = {0};

    if (!lane_take(&sender, argument, 1))
        abort();
    for (uint32_t i = 0; i < PACKETS;)
        if (put(&sender, i))
            i++;
        else
            sched_yield();
    return NULL;
}

static void two_threads(void **state)
{
    struct lane *lane = lane_make();
    struct lane_reader reader = {.lane = lane};
    uint64_t wrong = 0;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, produce, lane), 0);
    for (uint32_t got = 0; got < PACKETS;) {
        uint32_t ready = lane_look(&reader, got % 5 == 0);

        for (uint32_t i = 0; i < ready; i++) {
            wrong += !is_number(&lane->slots[reader.head % LANE_SLOTS], got++);
            lane_consume(&reader);
        }
        if (ready == 0) {
            lane_release(&reader);
            sched_yield();
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrong, 0);
    assert_null(lane_ready(&reader));
    free(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_and_empty),
        cmocka_unit_test(owners),
        cmocka_unit_test(looking_ahead),
        cmocka_unit_test(two_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
