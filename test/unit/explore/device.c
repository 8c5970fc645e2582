/*
 * Scenarios of the shared-memory device: tasks that are threads here, with ports of their own in
 * one small segment. What is sent arrives once, whole and in order, by ring, lane, shuttle and
 * chunks, and wakes who sleeps; lanes and chunks come back; lives keep apart.
 */
#include "tasks.h"

static void nothing_is_left(void)
{
    for (unsigned i = 0; i < TASKS; i++)
        for (unsigned k = 0; k < TASKS; k++)
            REQUIRE(tasks[i].received[k] == tasks[k].sent[i]);
    for (unsigned i = 0; i < TASKS; i++) {
        REQUIRE(!shm_pending(tasks[i].port));
        for (uint32_t k = 0; k < CHUNKS; k++)
            REQUIRE(atomic_load(&segment_chunk(&tasks[0].segment, i, 0, k)->busy) == 0);
    }
}

/* ---- a ring, and from that to a lane ---- */

static void send_short_0(void)
{
    for (int i = 0; i < 3; i++)
        send_one(0, 2, SHORT);
}

static void send_short_1(void)
{
    for (int i = 0; i < 2; i++)
        send_one(1, 2, SHORT);
}

static void receive_short(void)
{
    receive(2, 0, 3);
    receive(2, 1, 2);
}

static void make_lane(void)
{
    make_tasks();
    hurry(0, 1);
}

static void make_lanes(void)
{
    make_tasks();
    hurry(0, 2);
    hurry(1, 2);
}

static void send_by_lane(void)
{
    for (int i = 0; i < 4; i++)
        send_one(0, 1, SHORT);
}

static void receive_by_lane(void)
{
    receive(1, 0, 4);
}

/* ---- chunks ---- */

static void send_long(void)
{
    for (int i = 0; i < 4; i++)
        send_one(0, 1, LONG);
}

/* ---- a shuttle ---- */

/* Lanes both ways, and the shuttle. */
static void make_shuttle(void)
{
    make_tasks();
    for (unsigned i = 0; i < 2; i++) {
        hurry(i, !i);
        REQUIRE(try_to_send(i, !i, SHORT) == 0);
    }
    for (int i = 0; i < 3; i++)
        for (unsigned k = 0; k < 2; k++)
            shm_advance(tasks[k].port);
    REQUIRE(container_of(tasks[0].paths[1], struct shm_path, path)->shuttled);
    REQUIRE(container_of(tasks[1].paths[0], struct shm_path, path)->shuttled);
    for (int i = 0; i < 2; i++)
        for (unsigned k = 0; k < 2; k++) {
            REQUIRE(try_to_send(k, !k, SHORT) == 0);
            shm_advance(tasks[!k].port);
        }
}

/* An answer to each packet, and one packet besides. */
static void exchange(unsigned self, bool begins)
{
    unsigned first = tasks[self].received[!self];

    for (unsigned i = 0; i < 3; i++) {
        if (begins || i != 0)
            send_one(self, !self, SHORT);
        if (i == 1 && begins)
            send_one(self, !self, SHORT);
        receive(self, !self, first + i + 1);
    }
    if (!begins) {
        send_one(self, !self, SHORT);
        receive(self, !self, first + 4);
    }
}

static void exchange_0(void)
{
    exchange(0, true);
}

static void exchange_1(void)
{
    exchange(1, false);
}

/* ---- sleeping ---- */

static void sleep_and_receive(unsigned self, unsigned from, unsigned count)
{
    struct task *task = &tasks[self];

    while (task->received[from] < count) {
        if (shm_advance(task->port) != 0)
            continue;
        shm_arm(task->port, false);
        if (!shm_pending(task->port))
            shm_sleep(task->port, 1000000);
        shm_disarm(task->port);
    }
}

static void sleep_for_lane(void)
{
    sleep_and_receive(1, 0, 4);
}

static void make_blind(void)
{
    make_lane();
    tasks[1].device.can_barrier = false;
}

/* ---- ends ---- */

static void no_gone(void *context, uint32_t endpoint)
{
    (void)context;
    (void)endpoint;
}

/* A sender leaves, and another one takes its lane. */
static void send_and_leave(void)
{
    for (int i = 0; i < 2; i++)
        send_one(0, 2, SHORT);
    shm_port_close(tasks[0].port);
    tasks[0].port = NULL;
}

static void send_when_free(void)
{
    for (int i = 0; i < 3; i++) {
        hurry(1, 2);
        send_one(1, 2, SHORT);
    }
}

static void receive_and_tend(void)
{
    while (tasks[2].received[0] < 2 || tasks[2].received[1] < 3) {
        int events = shm_advance(tasks[2].port);

        shm_tend(tasks[2].port, no_gone);
        if (events == 0)
            explore_yield();
    }
}

static void all_have_come(void)
{
    shm_advance(tasks[2].port); /* a lane may have begun behind the last packet */
    REQUIRE(tasks[2].received[0] == 2 && tasks[2].received[1] == 3);
    REQUIRE(!shm_pending(tasks[2].port));
}

/* The receiver's context ends and another one begins; what is sent is for the first one. */
static void send_for_one_life(void)
{
    for (int i = 0; i < 4; i++)
        try_to_send(0, 1, i % 2 == 0 ? LONG : SHORT);
}

static void live_twice(void)
{
    shm_advance(tasks[1].port);
    shm_port_close(tasks[1].port);
    tasks[1].life = 1;
    tasks[1].received[0] = 0;
    open_port(1);
    for (int i = 0; i < 2; i++)
        shm_advance(tasks[1].port);
}

static void chunks_are_back(void)
{
    for (int i = 0; i < 3; i++)
        shm_advance(tasks[1].port);
    REQUIRE(!shm_pending(tasks[1].port));
    for (uint32_t k = 0; k < CHUNKS; k++)
        REQUIRE(atomic_load(&segment_chunk(&tasks[0].segment, 0, 0, k)->busy) == 0);
}

const struct explore_scenario explore_device[] = {
    {
        .name = "device: two senders and a ring",
        .setup = make_tasks,
        .threads = {receive_short, send_short_0, send_short_1},
        .check = nothing_is_left,
        .bounds = {1, 1, 1},
        .orders = 5,
    },
    {
        .name = "device: from the ring to a lane",
        .setup = make_lane,
        .threads = {receive_by_lane, send_by_lane},
        .check = nothing_is_left,
        .bounds = {2, 2, 2},
        .orders = 2,
    },
    {
        .name = "device: two senders, one lane",
        .setup = make_lanes,
        .threads = {receive_short, send_short_0, send_short_1},
        .check = nothing_is_left,
        .bounds = {1, 1, 1},
    },
    {
        .name = "device: chunks",
        .setup = make_tasks,
        .threads = {receive_by_lane, send_long},
        .check = nothing_is_left,
        .bounds = {2, 2, 2},
    },
    {
        .name = "device: a shuttle",
        .setup = make_shuttle,
        .threads = {exchange_0, exchange_1},
        .check = nothing_is_left,
        .bounds = {2, 2, 2},
        .orders = 3,
    },
    {
        .name = "device: sleeping",
        .setup = make_lane,
        .threads = {sleep_for_lane, send_by_lane},
        .check = nothing_is_left,
        .bounds = {2, 2, 2},
        .orders = 2,
    },
    {
        .name = "device: sleeping without a barrier",
        .setup = make_blind,
        .threads = {sleep_for_lane, send_by_lane},
        .check = nothing_is_left,
        .bounds = {2, 2, 2},
        .broken = true,
    },
    {
        .name = "device: a lane for the next one",
        .setup = make_lanes,
        .threads = {receive_and_tend, send_and_leave, send_when_free},
        .check = all_have_come,
        .bounds = {1, 1, 1},
    },
    {
        .name = "device: two lives",
        .setup = make_lane,
        .threads = {live_twice, send_for_one_life},
        .check = chunks_are_back,
        .bounds = {2, 2, 2},
    },
    {.name = NULL},
};
