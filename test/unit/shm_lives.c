/*
 * Contexts of the shm device that are destroyed and made again at the same offset: packets for an
 * earlier life never reach a later one, senders stop and are told, what comes before the first life
 * is kept, and so is what comes between two lives from a task that has ended as many, or from one
 * that is ahead; and a client that leaves says that contexts it never made will not come.
 *
 * One process with two ports of one device; the private parts let a packet come later than packets
 * of this test could.
 *
 * Run:
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/bootstrap.h"
#include "context/context.h"
#include "device/shm/shm.h"

enum {
    HERE = 0,
    THERE = 1,
    NEVER = 2,
    OTHER = 3,
    CONTEXTS = 4,
    LARGE = 3000 /* goes in a chunk */
};

struct side {
    struct port *port;
    uint64_t counters[DEVICE_COUNTERS];
    int delivered;
    int backwards;   /* packets whose aux is below that of the one before */
    uint32_t latest; /* aux of the packet delivered last */
};

static struct bootstrap *bootstrap;
static struct device *device;
static struct side sides[CONTEXTS];
static int reported;
static void (*meanwhile)(void); /* once, while a packet of OTHER's is delivered */

static void on_packet(void *cookie, const struct packet_header *head, void *body)
{
    struct side *side = cookie;

    (void)body;
    if (head->origin == endpoint_make(0, OTHER)) {
        meanwhile();
        return;
    }
    assert_int_equal(head->origin, endpoint_make(0, HERE));
    side->delivered++;
    side->backwards += head->aux < side->latest;
    side->latest = head->aux;
}

static void on_gone(void *cookie, uint32_t endpoint)
{
    (void)cookie;
    assert_int_equal(endpoint, endpoint_make(0, THERE));
    reported++;
}

static void open_side(uint32_t offset)
{
    struct side *side = &sides[offset];
    const struct port_params params = {
        .endpoint = endpoint_make(0, offset),
        .offset = offset,
        .context = side,
        .deliver = on_packet,
        .counters = side->counters,
    };

    assert_int_equal(device->ops->port_open(device, &params, &side->port), 0);
}

static void close_side(uint32_t offset)
{
    device->ops->port_close(sides[offset].port);
    sides[offset].port = NULL;
}

static int setup(void **state)
{
    const struct device_params params = {
        .bootstrap = bootstrap, .client = "lives", .contexts = CONTEXTS};
    char why[200];

    (void)state;
    memset(sides, 0, sizeof sides);
    reported = 0;
    if (device_table[0]->open(&params, &device, why, sizeof why) != 0)
        return -1;
    open_side(HERE);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CONTEXTS; i++)
        if (sides[i].port != NULL)
            close_side(i);
    device->ops->close(device);
    return 0;
}

static int open_how(unsigned how, struct path **path)
{
    return device->ops->path_open(sides[HERE].port, endpoint_make(0, THERE), how, path);
}

static struct path *open_path(void)
{
    struct path *path;

    assert_int_equal(open_how(0, &path), 0);
    return path;
}

static int send_packet(struct path *path, uint32_t aux, size_t bytes)
{
    static const char data[LARGE];
    const struct packet packet = {
        .head = {.origin = endpoint_make(0, HERE), .aux = aux, .payload_bytes = (uint16_t)bytes},
        .payload = data,
    };

    return path->am(path, &packet);
}

static void advance(uint32_t offset)
{
    for (int i = 0; i < 3; i++)
        device->ops->advance(sides[offset].port);
}

static void tend(void)
{
    device->ops->tend(sides[HERE].port, on_gone);
}

/* Before the first life everything is early. */
static void test_early(void **state)
{
    struct path *path = open_path();

    (void)state;
    assert_int_equal(send_packet(path, 5, 8), 0);
    tend();
    open_side(THERE);
    assert_false(path_is_stale(path));
    assert_int_equal(send_packet(path, 6, LARGE), 0);
    advance(THERE);
    assert_int_equal(sides[THERE].delivered, 2);
    assert_int_equal(sides[THERE].latest, 6);
    tend();
    assert_int_equal(reported, 0);
}

/* Five lives, more than the packets' mark can tell apart. The paths stay the same. */
static void test_again(void **state)
{
    struct path *path, *packets_only, *again;

    (void)state;
    open_side(THERE);
    path = open_path();
    assert_int_equal(open_how(PATH_PACKETS_ONLY, &packets_only), 0);
    for (uint32_t life = 0; life < 5; life++) {
        assert_int_equal(send_packet(path, 100 + life, 8), 0);
        advance(THERE);
        assert_int_equal(sides[THERE].delivered, (int)life + 1);
        assert_int_equal(sides[THERE].latest, 100 + life);
        assert_int_equal(send_packet(path, 7, LARGE), 0); /* not read any more */
        close_side(THERE);
        assert_true(path_is_stale(path));
        assert_int_equal(send_packet(path, 8, 8), -EAGAIN);
        open_side(THERE);
        assert_true(path_is_stale(path));
        assert_int_equal(send_packet(path, 9, LARGE), -EAGAIN);
        advance(THERE);
        assert_int_equal(sides[THERE].delivered, (int)life + 1);
        tend();
        tend();
        assert_int_equal(reported, (int)life + 1);
        assert_int_equal(send_packet(path, 10, 8), -EPIPE);
        assert_ptr_equal(open_path(), path);
        assert_false(path_is_stale(path));
        assert_int_equal(open_how(PATH_PACKETS_ONLY, &again), 0);
        assert_ptr_equal(again, packets_only);
    }
    assert_int_equal(sides[THERE].counters[DEVICE_STALE], 0);
}

static struct segment *segment(void)
{
    return container_of(device, struct shm_device, device)->segment;
}

/* As if the task of THERE had destroyed all its contexts so often. */
static void set_ended(uint32_t ended)
{
    struct segment_member *member = segment_member(segment(), segment()->self);

    atomic_store(&member->ending, ended);
    atomic_store(&member->ended, ended);
}

/* HERE is of a later life than the task of THERE. */
static void be_ahead(void)
{
    close_side(HERE);
    set_ended(1);
    open_side(HERE);
    set_ended(0);
}

/* The other task is a life ahead. */
static void test_closed(void **state)
{
    struct path *path;

    (void)state;
    open_side(THERE);
    close_side(THERE);
    set_ended(1);
    assert_int_equal(open_how(0, &path), -EPIPE);
    assert_int_equal(open_how(PATH_EVEN_CLOSED, &path), 0);
    /* It leads to the life that has ended, not to one to come. */
    assert_true(path_is_stale(path));
    assert_int_equal(send_packet(path, 1, 8), -EAGAIN);
    open_side(THERE);
    advance(THERE);
    assert_int_equal(sides[THERE].delivered, 0);
}

/* Both tasks have ended as many lives: the next one is waited for, until there will be none. */
static void test_between(void **state)
{
    struct path *path;

    (void)state;
    open_side(THERE);
    path = open_path();
    close_side(THERE);
    set_ended(0);
    assert_int_equal(send_packet(path, 1, 8), -EAGAIN);
    tend();
    tend();
    assert_int_equal(reported, 1); /* the life that has ended */
    assert_ptr_equal(open_path(), path);
    assert_int_equal(send_packet(path, 2, 8), 0);
    assert_int_equal(send_packet(path, 3, LARGE), 0);
    tend();
    open_side(THERE);
    advance(THERE);
    assert_int_equal(sides[THERE].delivered, 2);
    tend();
    assert_int_equal(reported, 1);
    close_side(THERE);
    set_ended(0);
    tend();
    tend();
    assert_int_equal(reported, 2);
    assert_int_equal(open_how(0, &path), 0);
    device->ops->leave(device);
    tend();
    tend();
    assert_int_equal(reported, 3);
    assert_int_equal(open_how(0, &path), -EPIPE);
}

/* The other task has begun to end its contexts: this one of them will not come before this task has
 * ended its own, so nothing waits for it. */
static void test_one_of_several(void **state)
{
    struct path *path;

    (void)state;
    open_side(OTHER);
    open_side(THERE);
    open_path();
    close_side(THERE);
    tend();
    tend();
    assert_int_equal(reported, 1);
    assert_int_equal(open_how(0, &path), -EPIPE);
}

/* A life without the context: what waited for it is not for the one after that. */
static void test_missed(void **state)
{
    (void)state;
    open_side(THERE);
    close_side(THERE);
    close_side(HERE);
    open_side(HERE);
    assert_int_equal(send_packet(open_path(), 1, 8), 0);
    close_side(HERE);
    open_side(HERE);
    open_side(THERE);
    assert_int_equal(send_packet(open_path(), 2, 8), 0);
    advance(THERE);
    assert_int_equal(sides[THERE].counters[DEVICE_STALE], 1);
    assert_int_equal(sides[THERE].delivered, 1);
    assert_int_equal(sides[THERE].latest, 2);
}

/* The other task is a life behind: nothing is for the context that it still has, unless that has
 * said something. */
static void test_behind(void **state)
{
    struct path *path;

    (void)state;
    be_ahead();
    open_side(THERE);
    path = open_path();
    assert_int_equal(send_packet(path, 1, 8), -EAGAIN);
    tend();
    assert_int_equal(reported, 0);
    close_side(THERE);
    assert_int_equal(send_packet(path, 2, 8), -EAGAIN);
    set_ended(1);
    assert_int_equal(send_packet(path, 3, 8), 0); /* waits for the next one */
    tend();
    open_side(THERE);
    assert_int_equal(send_packet(path, 4, 8), 0);
    advance(THERE);
    assert_int_equal(sides[THERE].delivered, 2);
    assert_int_equal(sides[THERE].latest, 4);
    assert_int_equal(reported, 0);

    set_ended(0);
    assert_int_equal(send_packet(path, 5, 8), 0); /* a path that leads somewhere stays */
    be_ahead();
    assert_int_equal(open_how(PATH_HEARD, &path), 0);
    assert_int_equal(send_packet(path, 6, 8), 0);
    advance(THERE);
    assert_int_equal(sides[THERE].latest, 6);
}

/* ... or does not end it in time. */
static void test_patience(void **state)
{
    struct path *path;

    (void)state;
    be_ahead();
    open_side(THERE);
    path = open_path();
    assert_int_equal(send_packet(path, 1, 8), -EAGAIN);
    container_of(path, struct shm_path, path)->patience = 0;
    assert_int_equal(send_packet(path, 2, 8), 0);
    assert_int_equal(open_how(PATH_PACKETS_ONLY, &path), 0); /* the same way */
    assert_int_equal(send_packet(path, 3, 8), 0);
    advance(THERE);
    assert_int_equal(sides[THERE].delivered, 2);
}

/* A packet that was written when the next life had begun, by a sender that had looked before. */
static void test_late(void **state)
{
    struct shm_path *path;

    (void)state;
    open_side(THERE);
    path = container_of(open_path(), struct shm_path, path);
    for (uint32_t i = 0; i < 3; i++) {
        struct chunk_pool *chunks = &container_of(sides[HERE].port, struct shm_port, port)->chunks;
        uint64_t old = path->mark, now;

        close_side(THERE);
        open_side(THERE);
        tend();
        tend();
        open_path();
        now = path->mark;
        assert_true(now != old);
        path->mark = old;
        assert_int_equal(send_packet(&path->path, 11, 8), 0);
        assert_int_equal(send_packet(&path->path, 12, LARGE), 0);
        assert_int_equal(chunks->sent_count, 1);
        advance(THERE);
        assert_int_equal(sides[THERE].delivered, (int)i);
        assert_int_equal(sides[THERE].counters[DEVICE_STALE], 2 * (i + 1));
        /* The chunk has come back. */
        for (uint32_t n = 0; n < chunks->count; n++)
            assert_int_equal(segment_chunk(chunks->segment, 0, HERE, n)->busy, 0);
        path->mark = now;
        assert_int_equal(send_packet(&path->path, 13, 8), 0);
        advance(THERE);
        assert_int_equal(sides[THERE].delivered, (int)i + 1);
        assert_int_equal(sides[THERE].latest, 13);
    }
}

static uint32_t lives_to_pass;

/* A data function that takes its time; OTHER's packet lies behind the one that is filled. */
static void fill_slowly(void *to, const struct packet *packet)
{
    const struct packet behind = {.head = {.origin = endpoint_make(0, OTHER)}};
    struct path *path;

    memset(to, 0, packet->head.payload_bytes);
    assert_int_equal(device->ops->path_open(sides[OTHER].port, endpoint_make(0, THERE), 0, &path),
                     0);
    assert_int_equal(path->am(path, &behind), 0);
    for (uint32_t i = 0; i < lives_to_pass; i++) {
        close_side(THERE);
        open_side(THERE);
    }
}

static void not_delivered(void)
{
    fail_msg("a packet of an earlier life was delivered");
}

/* The same when the packets' mark has come round meanwhile, by the ring and by a lane. */
static void slow_sender(uint32_t before, size_t bytes)
{
    const struct packet packet = {
        .head = {.origin = endpoint_make(0, HERE), .payload_bytes = (uint16_t)bytes},
        .fill = fill_slowly,
    };

    meanwhile = not_delivered;
    for (lives_to_pass = 1; lives_to_pass <= 9; lives_to_pass++) {
        struct path *path;

        open_side(OTHER);
        open_side(THERE);
        path = open_path();
        for (uint32_t i = 0; i < before; i++)
            assert_int_equal(send_packet(path, i, 8), 0);
        advance(THERE);
        assert_int_equal(container_of(path, struct shm_path, path)->lane.lane != NULL, before != 0);
        sides[THERE].delivered = 0;
        assert_int_equal(path->am(path, &packet), 0);
        advance(THERE);
        assert_int_equal(sides[THERE].delivered, 0);
        assert_int_equal(sides[THERE].counters[DEVICE_STALE], before == 0 ? 2 : 1);
        tend();
        tend();
        assert_int_equal(send_packet(open_path(), 1, 8), 0);
        advance(THERE);
        assert_int_equal(sides[THERE].delivered, 1);
        close_side(HERE);
        close_side(OTHER);
        device->ops->tend(sides[THERE].port, on_gone); /* the lane is free again */
        close_side(THERE);
        memset(sides, 0, sizeof sides);
        open_side(HERE);
    }
}

static void test_slow(void **state)
{
    (void)state;
    slow_sender(0, 8);
    slow_sender(0, LARGE);
}

static void test_slow_in_lane(void **state)
{
    (void)state;
    slow_sender(LANE_AFTER + 2, 8);
    slow_sender(LANE_AFTER + 2, LARGE);
}

/* A sender that is made again: what its first life has put into a lane comes first. */
static void test_sender(void **state)
{
    enum {
        FIRST = 140,
        SECOND = 20
    };
    uint32_t count = 0;

    (void)state;
    open_side(THERE);
    for (int life = 0; life < 4; life++) {
        struct path *path = open_path();

        for (int i = 0; i < FIRST; i++) {
            if (i == LANE_AFTER + 2 && life % 2 == 0)
                advance(THERE); /* reads the marker; else it reads it and what follows at once */
            assert_int_equal(send_packet(path, ++count, 8), 0);
        }
        assert_non_null(container_of(path, struct shm_path, path)->lane.lane);
        close_side(HERE);
        open_side(HERE);
        path = open_path();
        for (int i = 0; i < SECOND; i++)
            assert_int_equal(send_packet(path, ++count, 8), 0);
        while (sides[THERE].delivered < (int)count)
            advance(THERE);
        device->ops->tend(sides[THERE].port, on_gone); /* the lane is free again */
        assert_int_equal(sides[THERE].backwards, 0);
        assert_int_equal(sides[THERE].latest, count);
        close_side(HERE);
        open_side(HERE);
        device->ops->tend(sides[THERE].port, on_gone);
    }
}

static void leave_and_return(void)
{
    struct path *path = open_path();

    for (uint32_t i = 100; i < 104; i++)
        assert_int_equal(send_packet(path, i, 8), 0);
    assert_non_null(container_of(path, struct shm_path, path)->lane.lane);
    close_side(HERE);
    open_side(HERE);
    assert_int_equal(send_packet(open_path(), 104, 8), 0);
}

/* ... even if both have come while the receiver reads the ring. */
static void test_sender_meanwhile(void **state)
{
    const struct packet packet = {.head = {.origin = endpoint_make(0, OTHER)}};
    struct path *path;

    (void)state;
    open_side(OTHER);
    open_side(THERE);
    path = open_path();
    for (uint32_t i = 0; i < LANE_AFTER + 2; i++)
        assert_int_equal(send_packet(path, i, 8), 0);
    advance(THERE);
    meanwhile = leave_and_return;
    assert_int_equal(device->ops->path_open(sides[OTHER].port, endpoint_make(0, THERE), 0, &path),
                     0);
    assert_int_equal(path->am(path, &packet), 0);
    advance(THERE);
    assert_int_equal(sides[THERE].delivered, LANE_AFTER + 2 + 5);
    assert_int_equal(sides[THERE].backwards, 0);
}

static void test_leave(void **state)
{
    struct path *path;

    (void)state;
    open_side(THERE);
    assert_int_equal(device->ops->path_open(sides[HERE].port, endpoint_make(0, NEVER), 0, &path),
                     0);
    device->ops->leave(device);
    assert_int_equal(device->ops->path_open(sides[HERE].port, endpoint_make(0, NEVER), 0, &path),
                     -EPIPE);
    path = open_path();
    assert_int_equal(send_packet(path, 14, 8), 0);
    advance(THERE);
    assert_int_equal(sides[THERE].latest, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_early, setup, teardown),
        cmocka_unit_test_setup_teardown(test_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_between, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_of_several, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_patience, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_in_lane, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sender, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sender_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leave, setup, teardown),
    };
    int failed;

    if (bootstrap_open(&bootstrap) != 0)
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    bootstrap_close(bootstrap);
    return failed;
}
