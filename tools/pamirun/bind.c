/*
 * Binding, by hwloc: one task per core in turn, or runs of neighbouring tasks per NUMA node.
 *
 * The topology is loaded only when asked for (3 ms), without the plug-ins that open displays, and
 * restricted to what pamirun may use itself, so that an outer binding is respected.
 */
#include "bind.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "say.h"

/* The objects that tasks are bound to; those without usable processors do not count. */
static int collect(struct bind *bind, hwloc_topology_t topology, hwloc_obj_type_t type)
{
    hwloc_obj_t object = NULL;
    int last = hwloc_bitmap_last(hwloc_topology_get_topology_cpuset(topology));
    int objects = hwloc_get_nbobjs_by_type(topology, type);

    if (last < 0 || objects < 1)
        return -1;
    bind->size = CPU_ALLOC_SIZE(last + 1);
    bind->sets = calloc((size_t)objects, bind->size);
    if (bind->sets == NULL)
        return -1;
    while ((object = hwloc_get_next_obj_by_type(topology, type, object)) != NULL) {
        cpu_set_t *set = (cpu_set_t *)(void *)(bind->sets + bind->count * bind->size);
        unsigned cpu;

        if (object->cpuset == NULL || hwloc_bitmap_iszero(object->cpuset))
            continue;
        hwloc_bitmap_foreach_begin(cpu, object->cpuset) CPU_SET_S(cpu, bind->size, set);
        hwloc_bitmap_foreach_end();
        bind->count++;
    }
    return bind->count > 0 ? 0 : -1;
}

static int load(struct bind *bind, hwloc_obj_type_t type)
{
    hwloc_topology_t topology;
    int failed;

    setenv("HWLOC_COMPONENTS", "-gl,-opencl", 0);
    if (hwloc_topology_init(&topology) != 0)
        return -1;
    failed = hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM |
                                                    HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING) ||
             hwloc_topology_load(topology) || collect(bind, topology, type);
    hwloc_topology_destroy(topology);
    return failed ? -1 : 0;
}

int bind_open(struct bind *bind, const struct options *options)
{
    uint32_t processes = options_processes(options), task;

    *bind = (struct bind){0};
    if (options->bind == BIND_NONE)
        return 0;
    bind->place = calloc(processes, sizeof *bind->place);
    if (bind->place == NULL ||
        load(bind, options->bind == BIND_CORE ? HWLOC_OBJ_CORE : HWLOC_OBJ_NUMANODE) != 0) {
        say("--bind: cannot find out about the machine's %s",
            options->bind == BIND_CORE ? "cores" : "NUMA nodes");
        bind_close(bind);
        return -1;
    }
    for (task = 0; task < options->tasks; task++)
        bind->place[task] = options->bind == BIND_CORE || options->tasks < bind->count
                                ? task % bind->count
                                : (unsigned)((uint64_t)task * bind->count / options->tasks);
    /* Behind the tasks: cores of their own while there are any, and every NUMA node in turn. */
    for (; task < processes; task++)
        bind->place[task] =
            (options->bind == BIND_CORE ? task : task - options->tasks) % bind->count;
    if (options->bind == BIND_CORE && options->tasks > bind->count)
        say("--bind core: %u tasks share %u core%s", options->tasks, bind->count,
            bind->count == 1 ? "" : "s");
    return 0;
}

void bind_close(struct bind *bind)
{
    free(bind->sets);
    free(bind->place);
    *bind = (struct bind){0};
}

const cpu_set_t *bind_of(const struct bind *bind, uint32_t task)
{
    return bind->sets == NULL
               ? NULL
               : (const cpu_set_t *)(const void *)(bind->sets + bind->place[task] * bind->size);
}

char *bind_text(const struct bind *bind, uint32_t task, char *text, size_t size)
{
    const cpu_set_t *set = bind_of(bind, task);
    size_t cpu, last, cpus = bind->size * 8, used = 0;

    text[0] = '\0';
    for (cpu = 0; set != NULL && cpu < cpus && used + 1 < size; cpu = last + 1) {
        last = cpu;
        if (!CPU_ISSET_S(cpu, bind->size, set))
            continue;
        while (last + 1 < cpus && CPU_ISSET_S(last + 1, bind->size, set))
            last++;
        used += (size_t)snprintf(text + used, size - used, last > cpu ? "%s%zu-%zu" : "%s%zu",
                                 used > 0 ? "," : "", cpu, last);
    }
    return text;
}
