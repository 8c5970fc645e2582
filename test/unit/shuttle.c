/*
 * Shuttles: two threads, each with a lane to the other and one shuttle between them. Turns, the
 * order of what goes by lane and by shuttle, and when a shuttle is used.
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
#define PACKETS 50000u
#else
#define PACKETS 500000u
#endif

struct end {
    struct lane_sender sender;
    struct lane_reader reader;
    struct shuttle shuttle;
    uint32_t sent, received, by_shuttle;
    uint64_t dice;
    bool in_order;
};

static struct lane *lanes[2];
static struct end ends[2];

/* End 1 begins; the shuttle lies in the lane of end 0. */
static void set_up(void)
{
    for (int i = 0; i < 2; i++) {
        lanes[i] = aligned_alloc(CACHE_LINE, sizeof *lanes[i]);
        assert_non_null(lanes[i]);
        memset(lanes[i], 0, sizeof *lanes[i]);
    }
    for (int i = 0; i < 2; i++) {
        ends[i] = (struct end){.dice = (uint64_t)i + 1, .in_order = true};
        assert_true(lane_take(&ends[i].sender, lanes[i], (uint32_t)i));
        shuttle_open(&ends[i].shuttle, &lanes[0]->shuttle, i == 1);
        ends[i].reader = (struct lane_reader){.lane = lanes[!i], .shuttle = &ends[i].shuttle};
    }
}

static void tear_down(void)
{
    for (int i = 0; i < 2; i++) {
        lane_give_back(&ends[!i].reader);
        free(lanes[i]);
    }
}

static void write_packet(struct slot *slot, uint32_t number)
{
    slot->head.aux = number;
    memset(slot->body, (int)number, SHUTTLE_BODY);
}

static bool send_one(struct end *end)
{
    struct slot *slot = end->shuttle.answers ? end->shuttle.slot : lane_claim(&end->sender);

    if (slot == NULL)
        return false;
    write_packet(slot, end->sent++);
    if (end->shuttle.answers) {
        shuttle_publish(&end->shuttle, end->sender.tail);
        end->by_shuttle++;
    } else {
        lane_publish(&end->sender, slot);
    }
    return true;
}

static void take(struct end *end, const struct slot *slot)
{
    for (size_t i = 0; i < SHUTTLE_BODY; i++)
        end->in_order = end->in_order && (unsigned char)slot->body[i] == (end->received & 0xff);
    end->in_order = end->in_order && slot->head.aux == end->received;
    end->received++;
}

/* Returns how many have come. */
static uint32_t receive(struct end *end)
{
    struct lane_found found = lane_find(&end->reader, false);

    if (found.ready != 0)
        shuttle_heard(&end->shuttle, found.ready, end->sender.tail);
    for (uint32_t i = 0; i < found.ready; i++) {
        take(end, &end->reader.lane->slots[end->reader.head % LANE_SLOTS]);
        lane_consume(&end->reader);
    }
    if (found.shuttles) {
        take(end, end->shuttle.slot);
        end->shuttle.mine = true;
        shuttle_heard(&end->shuttle, 1, end->sender.tail);
    }
    if (found.ready == 0)
        lane_release(&end->reader);
    return found.ready + found.shuttles;
}

/* ---- one thread ---- */

static void answers_go_by_shuttle(void **state)
{
    (void)state;
    set_up();
    /* The first question cannot: it is end 1 that begins. */
    for (uint32_t i = 0; i < 10; i++) {
        assert_true(send_one(&ends[0]));
        assert_int_equal(receive(&ends[1]), 1);
        assert_int_equal(receive(&ends[1]), 0);
        assert_true(send_one(&ends[1]));
        assert_int_equal(receive(&ends[0]), 1);
        assert_int_equal(receive(&ends[0]), 0);
    }
    assert_int_equal(ends[0].by_shuttle, 9);
    assert_int_equal(ends[1].by_shuttle, 10);
    tear_down();
}

static void streams_go_by_lane(void **state)
{
    (void)state;
    set_up();
    for (uint32_t i = 0; i < 10; i++) {
        for (uint32_t k = 0; k < 20; k++)
            assert_true(send_one(&ends[0]));
        while (receive(&ends[1]) != 0)
            continue;
        assert_true(send_one(&ends[1]));
        while (receive(&ends[0]) != 0)
            continue;
    }
    assert_int_equal(ends[0].received, 10);
    assert_int_equal(ends[1].received, 200);
    assert_true(ends[0].by_shuttle + ends[1].by_shuttle <= 2);
    tear_down();
}

/* By shuttle, then by lane, or the other way round: in the order of sending, by one look. */
static void one_order(void **state)
{
    (void)state;
    set_up();
    assert_true(send_one(&ends[0]));
    assert_int_equal(receive(&ends[1]), 1);
    for (uint32_t k = 0; k < 5; k++) /* one by shuttle, four by lane */
        assert_true(send_one(&ends[1]));
    assert_int_equal(ends[1].by_shuttle, 1);
    while (receive(&ends[0]) != 0)
        continue;
    assert_int_equal(ends[0].received, 5);

    ends[0].shuttle.answers = false;
    assert_true(send_one(&ends[0]));
    ends[0].shuttle.answers = true;
    assert_true(send_one(&ends[0]));
    assert_int_equal(ends[0].by_shuttle, 1);
    while (receive(&ends[1]) != 0)
        continue;
    assert_int_equal(ends[1].received, 3);
    assert_true(ends[0].in_order && ends[1].in_order);
    assert_true(lane_is_empty(&ends[0].reader) && lane_is_empty(&ends[1].reader));
    tear_down();
}

static void a_packet_put_back_stays(void **state)
{
    (void)state;
    set_up();
    assert_true(send_one(&ends[0]));
    assert_int_equal(receive(&ends[1]), 1);
    assert_true(send_one(&ends[1]));
    assert_false(lane_is_empty(&ends[0].reader));
    assert_int_equal(receive(&ends[0]), 1);
    shuttle_put_back(&ends[0].shuttle);
    assert_false(ends[0].shuttle.answers);
    assert_false(lane_is_empty(&ends[0].reader));
    ends[0].received--;
    assert_int_equal(receive(&ends[0]), 1);
    assert_true(ends[0].in_order);
    tear_down();
}

/* ---- two threads ---- */

static uint64_t dice(struct end *end)
{
    end->dice = end->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return end->dice >> 33;
}

static void *exchange(void *cookie)
{
    static const uint32_t bursts[] = {1, 1, 1, 1, 1, 3, 30};
    struct end *end = cookie;
    uint32_t idle = 0;

    while (end->sent < PACKETS || end->received < PACKETS) {
        uint32_t came = receive(end), burst = 0;

        if (came != 0)
            burst = bursts[dice(end) % 7];
        else if (++idle % 64 == 0) /* neither may wait for the other for ever */
            burst = 1;
        while (burst-- != 0 && end->sent < PACKETS && send_one(end))
            continue;
        if (came == 0)
            sched_yield();
    }
    return NULL;
}

static void two_threads(void **state)
{
    pthread_t thread;

    (void)state;
    set_up();
    assert_int_equal(pthread_create(&thread, NULL, exchange, &ends[1]), 0);
    exchange(&ends[0]);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(ends[i].in_order);
        assert_int_equal(ends[i].received, PACKETS);
        assert_true(ends[i].by_shuttle > PACKETS / 100);
    }
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_go_by_shuttle),
        cmocka_unit_test(streams_go_by_lane),
        cmocka_unit_test(one_order),
        cmocka_unit_test(a_packet_put_back_stays),
        cmocka_unit_test(two_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
