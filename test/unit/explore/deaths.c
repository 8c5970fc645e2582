/*
 * Scenarios in which a task dies, between any two stores that others see. What it has sent before
 * arrives, in order; its end is told once, behind that; what it held is free again; and the others
 * go on as if it had never been there.
 */
#include "tasks.h"

static unsigned told; /* ends that a task has heard of */

static void on_gone(void *context, uint32_t endpoint)
{
    (void)context;
    REQUIRE((endpoint & 0xffffff) == 0);
    told++;
}

/* What the kernel says of task 0 from now on. */
static void task_0_dies(void)
{
    for (unsigned i = 1; i < TASKS; i++)
        atomic_store(&tasks[i].device.watched[0], -2);
}

static bool is_dead(unsigned self)
{
    return atomic_load_explicit(&tasks[self].device.watched[0], memory_order_relaxed) == -2;
}

static void on_packet(struct task *task, unsigned from)
{
    (void)task;
    REQUIRE(from != 0 || told == 0);
}

static void make_mortal(void)
{
    make_tasks();
    told = 0;
    tasks[2].on_packet = on_packet;
}

/* Until task 0 has sent all that it wants to, or is dead, and so has task 1. */
static void receive_until(unsigned self, unsigned from_0, unsigned from_1)
{
    struct task *task = &tasks[self];

    while ((task->received[0] < from_0 && told == 0) || task->received[1] < from_1) {
        int events = shm_advance(task->port);

        shm_tend(task->port, on_gone);
        REQUIRE(told == 0 || is_dead(self));
        if (events == 0)
            explore_nap(); /* tending goes on by the clock */
    }
}

/* Nothing of the dead one is left with task 2: its lanes are free, nothing holds up the ring. */
static void nothing_is_held(void)
{
    const struct segment *segment = &tasks[2].segment;
    uint32_t owner;

    for (int i = 0; i < 3; i++) {
        shm_advance(tasks[2].port);
        shm_tend(tasks[2].port, on_gone);
    }
    REQUIRE(told == (is_dead(2) ? 1 : 0));
    REQUIRE(tasks[2].received[0] <= 1u + tasks[0].sent[2]);
    REQUIRE(tasks[2].received[1] == tasks[1].sent[2]);
    REQUIRE(!shm_pending(tasks[2].port) && inbox_stuck(&shm_port_of(tasks[2].port)->reader) < 0);
    owner = atomic_load(&segment_lane(segment, 2, 0, 0)->owner);
    REQUIRE(owner == 0 || owner == 2 || !is_dead(2));
}

/* ---- a sender ---- */

static void send_three(void)
{
    for (int i = 0; i < 3; i++)
        send_one(0, 2, SHORT);
}

static void send_two(void)
{
    for (int i = 0; i < 2; i++) {
        hurry(1, 2);
        send_one(1, 2, SHORT);
    }
}

static void receive_both(void)
{
    receive_until(2, 3, 2);
}

static void make_mortal_lane(void)
{
    make_mortal();
    hurry(0, 2);
}

static void send_in_chunks(void)
{
    for (int i = 0; i < 3; i++)
        send_one(0, 2, LONG);
}

static void receive_chunks(void)
{
    receive_until(2, 3, 0);
}

const struct explore_scenario explore_deaths[] = {
    {
        .name = "death: a sender in the ring",
        .setup = make_mortal,
        .threads = {receive_both, send_three, send_two},
        .check = nothing_is_held,
        .mortal = 2,
        .died = task_0_dies,
        .bounds = {2, 1, 0},
    },
    {
        .name = "death: a sender in a lane",
        .setup = make_mortal_lane,
        .threads = {receive_both, send_three, send_two},
        .check = nothing_is_held,
        .mortal = 2,
        .died = task_0_dies,
        .bounds = {1, 1, 1},
    },
    {
        .name = "death: a sender of chunks",
        .setup = make_mortal,
        .threads = {receive_chunks, send_in_chunks},
        .check = nothing_is_held,
        .mortal = 2,
        .died = task_0_dies,
        .bounds = {2, 1, 1},
    },
    {.name = NULL},
};
