/*
 * Tasks of shared memory that are threads of a scenario: each has a device and a port of its own,
 * in one small segment, and paths to the others. Packets say who sent them, which one they are, and
 * for which life, and are checked when they are delivered.
 */
#ifndef LIBPAMI_TEST_UNIT_EXPLORE_TASKS_H
#define LIBPAMI_TEST_UNIT_EXPLORE_TASKS_H

#include <errno.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "context/context.h"
#include "device/shm/shm.h"

#include "explore.h"

enum {
    TASKS = 3,
    SLOTS = 4,
    CHUNKS = 2,
    CHUNK_BYTES = 192,
    SHORT = 16,         /* goes in a slot, or by shuttle */
    LONG = CHUNK_BYTES, /* goes in a chunk */
    NUMBERS_MOST = 16,
};

/* A task: what another process would have. */
struct task {
    struct bootstrap bootstrap;
    struct segment segment;
    struct shm_device device;
    struct port *port;
    struct path *paths[TASKS];
    uint64_t counters[DEVICE_COUNTERS];
    unsigned sent[TASKS], received[TASKS];
    unsigned life; /* packets that are delivered have to be for this one */
    void (*on_packet)(struct task *task, unsigned from);
};

static struct task *tasks;
static char *memory;
static unsigned due; /* packets that a receiver waits for */

static inline struct segment_layout make_layout(void)
{
    struct segment_layout layout = {
        .members = TASKS,
        .contexts = 1,
        .slots = SLOTS,
        .chunks = CHUNKS,
        .chunk_bytes = CHUNK_BYTES,
        .lanes = 1,
    };

    layout.chunk_stride = sizeof(struct chunk) + CHUNK_BYTES;
    layout.joint_offset = sizeof(struct inbox) + SLOTS * SLOT_BYTES;
    layout.lane_offset = layout.joint_offset + JOINT_BERTHS * sizeof(struct joint_berth);
    layout.chunk_offset = layout.lane_offset + layout.lanes * sizeof(struct lane);
    layout.context_stride = layout.chunk_offset + CHUNKS * layout.chunk_stride;
    layout.member_stride = SEGMENT_PAGE + layout.context_stride;
    layout.bytes = SEGMENT_PAGE + TASKS * layout.member_stride;
    return layout;
}

static inline void deliver(void *context, const struct packet_header *head, void *body)
{
    struct task *task = context;
    unsigned from = head->origin & 0xffffffu;
    const unsigned char *bytes = body;

    REQUIRE(from < TASKS && head->aux >> 8 == task->life);
    REQUIRE((head->aux & 0xff) == task->received[from]);
    for (unsigned i = 0; i < head->payload_bytes; i++)
        REQUIRE(bytes[i] == (unsigned char)(head->aux + from));
    task->received[from]++;
    if (task->on_packet != NULL)
        task->on_packet(task, from);
}

static inline void open_port(unsigned index)
{
    struct task *task = &tasks[index];
    const struct port_params params = {
        .endpoint = endpoint_make(index, 0),
        .context = task,
        .deliver = deliver,
        .counters = task->counters,
    };

    REQUIRE(shm_port_open(&task->device.device, &params, &task->port) == 0);
}

static inline void make_task(unsigned index, const struct segment_layout *layout)
{
    static uint32_t members[TASKS] = {0, 1, 2};
    struct task *task = &tasks[index];
    struct segment_member *facts;

    task->bootstrap = (struct bootstrap){.task = index, .tasks = TASKS};
    task->segment = (struct segment){.layout = *layout, .base = memory, .self = index, .fd = -1};
    task->device = (struct shm_device){
        .bootstrap = &task->bootstrap,
        .segment = &task->segment,
        .members = members,
        .member_count = TASKS,
        .can_barrier = true,
        .watched = explore_alloc(TASKS * sizeof(int32_t), 8),
        .copy_works = explore_alloc(TASKS, 8),
    };
    for (unsigned i = 0; i < TASKS; i++) {
        task->device.watched[i] = -3; /* nothing tells of its end */
        task->device.copy_works[i] = COPY_FAILS;
    }
    facts = segment_member(&task->segment, index);
    facts->state = MEMBER_PRESENT;
    facts->task = index;
    facts->pid = 1;
}

static inline void open_path(unsigned from, unsigned to)
{
    REQUIRE(shm_path_open(tasks[from].port, endpoint_make(to, 0), 0, &tasks[from].paths[to]) == 0);
}

static inline void make_tasks(void)
{
    const struct segment_layout layout = make_layout();

    memory = explore_alloc(layout.bytes, CACHE_LINE);
    tasks = explore_alloc(TASKS * sizeof(*tasks), CACHE_LINE);
    due = 0;
    for (unsigned i = 0; i < TASKS; i++)
        make_task(i, &layout);
    for (unsigned i = 0; i < TASKS; i++)
        open_port(i);
    for (unsigned i = 0; i < TASKS; i++)
        for (unsigned k = 0; k < TASKS; k++)
            if (i != k)
                open_path(i, k);
}

/* 0, or as the device says. */
static inline int try_to_send(unsigned from, unsigned to, unsigned bytes)
{
    struct task *task = &tasks[from];
    unsigned number = tasks[from].sent[to] | task->paths[to]->life << 8;
    char data[CHUNK_BYTES];
    const struct packet packet = {
        .head = {.origin = endpoint_make(from, 0), .aux = number, .payload_bytes = (uint16_t)bytes},
        .payload = data,
    };
    int error;

    memset(data, (int)(number + from), bytes);
    error = task->paths[to]->am(task->paths[to], &packet);
    task->sent[to] += error == 0;
    return error;
}

static inline void send_one(unsigned from, unsigned to, unsigned bytes)
{
    int error, tries = 0;

    while ((error = try_to_send(from, to, bytes)) != 0) {
        REQUIRE(error == -EAGAIN || error == -ENOBUFS);
        if (error == -ENOBUFS && ++tries % 10 != 0)
            continue; /* a pool without chunks is looked at seldom */
        if (shm_advance(tasks[from].port) == 0)
            explore_yield();
    }
}

static inline void receive(unsigned self, unsigned from, unsigned count)
{
    while (tasks[self].received[from] < count)
        if (shm_advance(tasks[self].port) == 0)
            explore_yield();
}

/* The next packet asks for a lane. */
static inline void hurry(unsigned from, unsigned to)
{
    struct shm_path *path = container_of(tasks[from].paths[to], struct shm_path, path);

    path->countdown = 1;
}

#endif
