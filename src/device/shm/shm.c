/*
 * Shared-memory device: tasks of one host, through the node segment.
 *
 * When a launcher pretends that the tasks of one host are spread over several nodes, all of them
 * are members of the one segment, and those of other "nodes" are reached by packets only, as if
 * the segment were a network: no single copy, no shared addresses.
 */
#include "device/shm/shm.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "device/network.h"

/* Relative costs for reach. */
#define COST_LOCAL 1
#define COST_PRETENDED 100

int64_t shm_member_of(const struct shm_device *device, uint32_t task)
{
    uint32_t low = 0;
    uint32_t high = device->member_count;

    /* Members are nearly always consecutive. */
    if (task >= device->members[0] && task - device->members[0] < high &&
        device->members[task - device->members[0]] == task)
        return task - device->members[0];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (device->members[middle] == task)
            return middle;
        if (device->members[middle] < task)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

static int find_members(struct shm_device *device, struct bootstrap *bootstrap, bool servers)
{
    uint32_t count;

    device->pretended = network_by_segment(bootstrap);
    count = device->pretended ? bootstrap->tasks : bootstrap->local_count;
    if (!device->pretended && network_is_pretended(bootstrap))
        device->tasks_here = bootstrap->tasks;
    if (servers)
        count += device->pretended ? bootstrap->servers : bootstrap->local_servers;
    device->members = calloc(count, sizeof(*device->members));
    if (device->members == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        device->members[i] = device->pretended ? i : bootstrap->local_tasks[i];
    device->member_count = count;
    return 0;
}

static void shm_close(struct device *base)
{
    struct shm_device *device = container_of(base, struct shm_device, device);

    shm_watch_end(device);
    shared_heap_close(device->heap);
    if (device->segment != NULL)
        segment_close(device->segment);
    free(device->copy_works);
    free(device->members);
    free(device);
}

static void shm_leave(struct device *base)
{
    struct shm_device *device = container_of(base, struct shm_device, device);
    struct segment *segment = device->segment;

    atomic_store_explicit(&segment_member(segment, segment->self)->left, 1, memory_order_release);
    for (uint32_t i = 0; i < segment->layout.contexts; i++) {
        struct inbox *inbox = NULL;

        if ((device->open >> i & 1) == 0)
            inbox = segment_take_inbox(segment, segment->self, i, false);
        if (inbox != NULL)
            atomic_store_explicit(&inbox->closed, 1, memory_order_release);
    }
}

extern const struct device_ops shm_device_ops;

static int shm_open(const struct device_params *params, struct device **out, char *why, size_t size)
{
    struct shm_device *device = calloc(1, sizeof(*device));
    struct segment_params segment = {
        .bootstrap = params->bootstrap,
        .client = params->client,
        .contexts = params->contexts,
    };
    int error;

    if (device == NULL)
        return -ENOMEM;
    device->device.ops = &shm_device_ops;
    device->bootstrap = params->bootstrap;
    error = find_members(device, params->bootstrap, params->servers);
    if (error == 0) {
        device->watched = calloc(device->member_count, sizeof(*device->watched));
        device->copy_works = calloc(device->member_count, sizeof(*device->copy_works));
        if (device->watched == NULL || device->copy_works == NULL)
            error = -ENOMEM;
    }
    if (error == 0) {
        /* Where the kernel restricts tracing to ancestors, let our peers read our memory. */
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        segment.barriers = shm_sleep_init();
        shm_copy_init(device);
        segment.members = device->members;
        segment.member_count = device->member_count;
        segment.self = (uint32_t)shm_member_of(device, params->bootstrap->task);
        error = segment_open(&segment, &device->segment, why, size);
        device->can_barrier = error == 0 && segment_has_barriers(device->segment);
        if (error == 0 && shared_heap_open(device->segment, &device->heap) != 0) {
            snprintf(why, size, "out of memory");
            error = -ENOMEM;
        }
    } else {
        snprintf(why, size, "out of memory");
    }
    if (error != 0) {
        shm_close(&device->device);
        return error;
    }
    *out = &device->device;
    return 0;
}

static int shm_reach(struct device *base, uint32_t task)
{
    struct shm_device *device = container_of(base, struct shm_device, device);
    int64_t member = shm_member_of(device, task);

    if (member < 0)
        return 0;
    return segment_member(device->segment, (uint32_t)member)->node == device->bootstrap->node
               ? COST_LOCAL
               : COST_PRETENDED;
}

/*
 * Of tasks on other pretended nodes of this host nothing is known: they are taken to be spread over
 * the processors that the launcher may use.
 */
static double load_by_all(const struct shm_device *device, const cpu_set_t *mine)
{
    cpu_set_t all;

    if (device->tasks_here == 0)
        return 0;
    if (sched_getaffinity(getppid(), sizeof(all), &all) != 0)
        all = *mine;
    CPU_OR(&all, &all, mine);
    return (double)device->tasks_here * CPU_COUNT(mine) / CPU_COUNT(&all);
}

static double shm_load(struct device *base)
{
    struct shm_device *device = container_of(base, struct shm_device, device);
    const struct segment_member *me = segment_member(device->segment, device->segment->self);
    double load = 0, least = load_by_all(device, &me->cpus);

    for (uint32_t i = 0; i < device->member_count; i++) {
        const struct segment_member *member = segment_member(device->segment, i);
        cpu_set_t shared;

        if (member->task >= device->bootstrap->tasks)
            continue; /* sleeps when it has nothing to do; when it has, we wait for it */
        int all = CPU_COUNT(&member->cpus);

        CPU_AND(&shared, &member->cpus, &me->cpus);
        if (all > 0)
            load += (double)CPU_COUNT(&shared) / all;
    }
    return load < least ? least : load;
}

/* Who may run everywhere is bound to nothing. */
static void shm_occupied(struct device *base, cpu_set_t *cpus)
{
    struct shm_device *device = container_of(base, struct shm_device, device);
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    for (uint32_t i = 0; i < device->member_count; i++) {
        const struct segment_member *member = segment_member(device->segment, i);

        if (i != device->segment->self && CPU_COUNT(&member->cpus) < online)
            CPU_OR(cpus, cpus, &member->cpus);
    }
}

static void shm_bound(struct device *base, uint32_t task, cpu_set_t *cpus)
{
    struct shm_device *device = container_of(base, struct shm_device, device);
    int64_t member = shm_member_of(device, task);

    if (member >= 0)
        *cpus = segment_member(device->segment, (uint32_t)member)->cpus;
}

const struct device_ops shm_device_ops = {
    .name = "shm",
    .description = "shared memory of one host: one inbox per context, single copy for large data",
    .open = shm_open,
    .close = shm_close,
    .reach = shm_reach,
    .port_open = shm_port_open,
    .port_close = shm_port_close,
    .path_open = shm_path_open,
    .get = shm_get,
    .put = shm_put,
    .map = shm_map,
    .heap_alloc = shm_heap_alloc,
    .heap_free = shm_heap_free,
    .heap_view = shm_heap_view,
    .copyv = shm_copyv,
    .advance = shm_advance,
    .interrupt = shm_interrupt,
    .put_back = shm_put_back,
    .pending = shm_pending,
    .arm = shm_arm,
    .disarm = shm_disarm,
    .sleep = shm_sleep,
    .wake = shm_wake,
    .load = shm_load,
    .occupied = shm_occupied,
    .bound = shm_bound,
    .tend = shm_tend,
    .leave = shm_leave,
};
