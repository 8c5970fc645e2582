/*
 * Where the threads of asynchronous progress run.
 *
 * Told by a list, they run there. A process that is bound to one core looks for the nearest one
 * that no task of the job is bound to, by hwloc: on the way from its own core to the machine, the
 * first object with a free core has it. When there is none, they share the program's.
 *
 * A process that may use several cores leaves it to the system, which knows which of them is idle
 * just now, but for one thing: where all have something to run, the system likes to put a thread
 * beside the program that it is to relieve, although another task may only be waiting, and give its
 * processor up all the time. So a thread that finds itself where its program was last moves, to
 * anywhere else. All that by hints: a program that moves afterwards is noticed at its next call.
 */
#include <errno.h>
#include <hwloc/glibc-sched.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/async.h"
#include "client/async_pool.h"
#include "client/client.h"
#include "util/cpu.h"
#include "util/machine.h"

/* "0,2-5": false when it is no such list. */
static bool read_list(const char *list, struct async_places *places)
{
    const char *at = list;

    do {
        char *end;
        long first = strtol(at, &end, 10);
        long last = first;

        if (end == at || first < 0)
            return false;
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
            if (end == at)
                return false;
        }
        if (last < first || last >= CPU_SETSIZE || (*end != ',' && *end != '\0'))
            return false;
        for (long cpu = first; cpu <= last && places->count < CPU_SETSIZE; cpu++)
            places->cpu[places->count++] = (int)cpu;
        at = *end == ',' ? end + 1 : end;
    } while (*at != '\0');
    places->bound = true;
    return true;
}

/* Processors that we may use and that nobody of the job is bound to. */
static void find_free(struct client *client, hwloc_topology_t topology, hwloc_const_cpuset_t own,
                      hwloc_bitmap_t spare)
{
    cpu_set_t occupied;
    hwloc_bitmap_t taken = hwloc_bitmap_alloc();

    if (taken == NULL)
        return;
    CPU_ZERO(&occupied);
    for (size_t i = 0; i < client->core.device_count; i++) {
        struct device *device = client->core.devices[i];

        if (device->ops->occupied != NULL)
            device->ops->occupied(device, &occupied);
    }
    hwloc_bitmap_copy(spare, hwloc_topology_get_allowed_cpuset(topology));
    hwloc_cpuset_from_glibc_sched_affinity(topology, taken, &occupied, sizeof(occupied));
    hwloc_bitmap_andnot(spare, spare, taken);
    hwloc_bitmap_andnot(spare, spare, own);
    hwloc_bitmap_free(taken);
}

/* All free processors, the nearest first. */
static void collect(hwloc_topology_t topology, hwloc_const_cpuset_t own, hwloc_bitmap_t spare,
                    struct async_places *places)
{
    hwloc_obj_t around = hwloc_get_obj_covering_cpuset(topology, own);

    for (; around != NULL; around = around->parent) {
        unsigned cpu;

        hwloc_bitmap_foreach_begin(cpu, spare)
        {
            if (hwloc_bitmap_isset(around->cpuset, cpu) && cpu < CPU_SETSIZE) {
                places->cpu[places->count++] = (int)cpu;
                hwloc_bitmap_clr(spare, cpu);
            }
        }
        hwloc_bitmap_foreach_end();
    }
    places->bound = places->count != 0;
}

/* Where the system does not say at all, hwloc asks for ever, with larger and larger masks. */
static bool is_placed(hwloc_topology_t topology, hwloc_bitmap_t own)
{
    cpu_set_t mine;

    return (sched_getaffinity(0, sizeof(mine), &mine) == 0 || errno == EINVAL) &&
           hwloc_get_cpubind(topology, own, HWLOC_CPUBIND_THREAD) == 0;
}

static void find_nearest(struct client *client, struct async_places *places)
{
    hwloc_topology_t topology = machine_topology();
    hwloc_bitmap_t own = hwloc_bitmap_alloc();
    hwloc_bitmap_t spare = hwloc_bitmap_alloc();

    if (topology != NULL && own != NULL && spare != NULL && is_placed(topology, own) &&
        hwloc_get_nbobjs_inside_cpuset_by_type(topology, own, HWLOC_OBJ_CORE) <= 1) {
        find_free(client, topology, own, spare);
        collect(topology, own, spare, places);
    }
    hwloc_bitmap_free(own);
    hwloc_bitmap_free(spare);
    if (topology != NULL)
        hwloc_topology_destroy(topology);
}

static bool has_choice(void)
{
    cpu_set_t mine;

    return sched_getaffinity(0, sizeof(mine), &mine) == 0 && CPU_COUNT(&mine) > 1;
}

int async_places_find(struct client *client, const char *list, struct async_places *places)
{
    int state;

    memset(places, 0, sizeof(*places));
    if (strcmp(list, "any") == 0)
        return 0;
    if (strcmp(list, "auto") != 0)
        return read_list(list, places) ? 0 : -EINVAL;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* hwloc reads files */
    find_nearest(client, places);
    pthread_setcancelstate(state, NULL);
    places->avoids = !places->bound && client->core.yield != YIELD_SOON && has_choice();
    return 0;
}

/* Between two moves of a thread, ns: a move takes the system some 10 us. */
#define MOVE_NS 1000000u

/* Where the program was last, of all contexts that the thread advances. */
static void find_program(const struct async_thread *thread, cpu_set_t *program)
{
    CPU_ZERO(program);
    for (size_t i = 0; i < ENDPOINT_OFFSETS_MAX; i++) {
        struct async_slot *slot = &thread->pool->slots[i];
        int place;

        if (atomic_load_explicit(&slot->serving, memory_order_acquire) == 0 /* A0 */ ||
            slot->thread != thread)
            continue;
        place = atomic_load_explicit(&slot->context->share.place, memory_order_relaxed);
        if (place > 0 && place <= CPU_SETSIZE)
            CPU_SET((size_t)place - 1, program);
    }
}

/* All processors it may have but the program's; where there are no others, all. */
static void move(struct async_thread *thread)
{
    cpu_set_t now, program, rest;

    if (sched_getaffinity(0, sizeof(now), &now) != 0)
        return;
    if (!CPU_EQUAL(&now, &thread->granted))
        thread->cpus = now; /* somebody else has placed it */
    find_program(thread, &program);
    CPU_AND(&rest, &thread->cpus, &program);
    CPU_XOR(&rest, &rest, &thread->cpus);
    thread->clear = CPU_COUNT(&rest) != 0;
    if (!thread->clear)
        rest = thread->cpus;
    if (!CPU_EQUAL(&now, &rest) && sched_setaffinity(0, sizeof(rest), &rest) != 0)
        thread->clear = false;
    else
        thread->granted = rest;
}

void async_place_apart(struct async_thread *thread, struct context *context, uint64_t now)
{
    struct async_pool *pool = thread->pool;
    int place = atomic_load_explicit(&context->share.place, memory_order_relaxed);
    bool apart = atomic_load_explicit(&pool->avoids, memory_order_relaxed);

    if (apart != atomic_load_explicit(&context->share.apart, memory_order_relaxed))
        atomic_store_explicit(&context->share.apart, apart, memory_order_relaxed);
    if (!apart) {
        thread->clear = false;
        return;
    }
    if (place == 0 || (thread->clear && place != 1 + sched_getcpu()) ||
        now < thread->placed_at + MOVE_NS)
        return;
    thread->placed_at = now;
    if (pthread_mutex_trylock(&pool->place_lock) != 0)
        return;
    if (atomic_load_explicit(&pool->avoids, memory_order_relaxed))
        move(thread);
    pthread_mutex_unlock(&pool->place_lock);
}

unsigned async_spare(const struct client *client)
{
    double spare = (double)cpu_available();

    for (size_t i = 0; i < client->core.device_count; i++) {
        struct device *device = client->core.devices[i];

        if (device->ops->load != NULL)
            spare -= device->ops->load(device);
    }
    return spare < 1 ? 0 : (unsigned)spare;
}
