/*
 * What a simulation of very many tasks costs: time, and memory of this process and of the machine.
 */
#ifndef LIBPAMI_TEST_SIM_COST_H
#define LIBPAMI_TEST_SIM_COST_H

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static inline size_t resident_bytes(void)
{
    size_t all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%zu %zu", &all, &resident) != 2)
        resident = 0;
    if (file != NULL)
        fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static inline size_t available_bytes(void)
{
    char line[200];
    size_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "MemAvailable: %zu", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib * 1024;
}

#endif
