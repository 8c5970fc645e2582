/*
 * Where the threads of asynchronous progress run.
 *
 * Told by a list, they run there. Otherwise a process that may use several cores leaves it to the
 * system, which knows which of them is idle just now. A process that is bound to one core looks for
 * the nearest one that no task of the job is bound to, by hwloc: on the way from its own core to
 * the machine, the first object with a free core has it. When there is none, they share the
 * program's.
 */
#include <errno.h>
#include <hwloc/glibc-sched.h>
#include <stdlib.h>
#include <string.h>

#include "client/async.h"
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

static void find_nearest(struct client *client, struct async_places *places)
{
    hwloc_topology_t topology = machine_topology();
    hwloc_bitmap_t own = hwloc_bitmap_alloc();
    hwloc_bitmap_t spare = hwloc_bitmap_alloc();

    if (topology != NULL && hwloc_get_cpubind(topology, own, HWLOC_CPUBIND_THREAD) == 0 &&
        hwloc_get_nbobjs_inside_cpuset_by_type(topology, own, HWLOC_OBJ_CORE) <= 1) {
        find_free(client, topology, own, spare);
        collect(topology, own, spare, places);
    }
    hwloc_bitmap_free(own);
    hwloc_bitmap_free(spare);
    if (topology != NULL)
        hwloc_topology_destroy(topology);
}

int async_places_find(struct client *client, const char *list, struct async_places *places)
{
    memset(places, 0, sizeof(*places));
    if (strcmp(list, "any") == 0)
        return 0;
    if (strcmp(list, "auto") != 0)
        return read_list(list, places) ? 0 : -EINVAL;
    find_nearest(client, places);
    return 0;
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
