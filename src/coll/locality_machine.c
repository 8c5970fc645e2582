/*
 * What the tasks of this node are bound to, by hwloc; see locality.h. A task that may run in
 * several domains of a level is in none of them, and all such tasks count as one domain.
 */
#include <hwloc/glibc-sched.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "coll/locality.h"
#include "geometry/state.h"
#include "util/machine.h"

struct machine_places {
    uint32_t count;
    struct {
        uint32_t task, domain[LEVELS];
    } task[];
};

/* The object of this type that has all of the processors. */
static uint32_t domain_of(hwloc_topology_t topology, hwloc_const_cpuset_t cpus,
                          hwloc_obj_type_t type)
{
    hwloc_obj_t object = NULL;

    while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != NULL)
        if (hwloc_bitmap_isincluded(cpus, object->cpuset))
            return object->logical_index;
    return UINT32_MAX;
}

static void find_domains(struct machine_places *places, const struct client_core *core,
                         hwloc_topology_t topology)
{
    static const hwloc_obj_type_t types[LEVELS] = {HWLOC_OBJ_MACHINE, HWLOC_OBJ_PACKAGE,
                                                   HWLOC_OBJ_NUMANODE, HWLOC_OBJ_L3CACHE,
                                                   HWLOC_OBJ_CORE};
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();

    for (uint32_t i = 0; i < places->count && cpus != NULL; i++) {
        cpu_set_t bound;

        CPU_ZERO(&bound);
        for (size_t d = 0; d < core->device_count; d++) {
            struct device *device = core->devices[d];

            if (device->ops->bound != NULL)
                device->ops->bound(device, places->task[i].task, &bound);
        }
        hwloc_cpuset_from_glibc_sched_affinity(topology, cpus, &bound, sizeof(bound));
        if (hwloc_bitmap_iszero(cpus))
            continue;
        for (unsigned level = LEVEL_PACKAGE; level < LEVELS; level++)
            places->task[i].domain[level] = domain_of(topology, cpus, types[level]);
    }
    hwloc_bitmap_free(cpus);
}

static struct machine_places *find_places(const struct client_core *core)
{
    const struct bootstrap *bootstrap = core->bootstrap;
    struct machine_places *places =
        malloc(sizeof(*places) + bootstrap->local_count * sizeof(places->task[0]));
    hwloc_topology_t topology;

    if (places == NULL)
        return NULL;
    places->count = bootstrap->local_count;
    for (uint32_t i = 0; i < places->count; i++) {
        memset(&places->task[i], 0xff, sizeof(places->task[i]));
        places->task[i].task = bootstrap->local_tasks[i];
    }
    topology = machine_topology();
    if (topology != NULL) {
        find_domains(places, core, topology);
        hwloc_topology_destroy(topology);
    }
    return places;
}

const struct machine_places *machine_places(const struct client_core *core)
{
    struct geometry_client *client = core->geometry;

    pthread_mutex_lock(&client->lock);
    if (client->places == NULL)
        client->places = find_places(core);
    pthread_mutex_unlock(&client->lock);
    return client->places;
}

uint32_t machine_domain(const struct machine_places *places, unsigned level, uint32_t task)
{
    for (uint32_t i = 0; i < places->count; i++)
        if (places->task[i].task == task)
            return places->task[i].domain[level];
    return UINT32_MAX;
}
