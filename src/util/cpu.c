/*
 * How many processors may be used, see cpu.h.
 *
 * A control group is found the way the kernel describes it: /proc/self/cgroup names the group
 * inside its hierarchy, /proc/self/mountinfo says where that hierarchy is mounted and from which
 * group on (containers see a part of it).  Every level from the group up to the mount can set a
 * quota; the smallest holds.  Anything that cannot be read counts as "no limit".
 */
#include "util/cpu.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Masks are asked for in growing sizes up to this many processors. */
#define PROCESSORS_MAX (1u << 16)

static unsigned affinity_count(void)
{
    unsigned processors;
    long online;

    for (processors = 1024; processors <= PROCESSORS_MAX; processors *= 2) {
        cpu_set_t *set = CPU_ALLOC(processors);
        size_t bytes = CPU_ALLOC_SIZE(processors);
        int count = 0;

        if (set == NULL)
            break;
        if (sched_getaffinity(0, bytes, set) == 0)
            count = CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (count > 0)
            return (unsigned)count;
    }
    online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

/* Reads "quota period" of version 2 (where `name` is cpu.max), or one number; -1: no limit. */
static bool read_numbers(const char *directory, const char *name, long long *first,
                         long long *second)
{
    char path[PATH_MAX], text[64];
    int count = 0;
    FILE *file;

    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return false;
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    if (fgets(text, sizeof text, file) != NULL)
        count = sscanf(text, "%lld %lld", first, second);
    fclose(file);
    return count >= 1;
}

/* The quota of one group in processors, rounded up; 0: none. */
static unsigned group_quota(const char *directory, bool version2)
{
    long long quota = -1, period = 100000, unused;

    if (version2) {
        /* "max 100000" does not parse as a number: no limit. */
        if (!read_numbers(directory, "cpu.max", &quota, &period))
            return 0;
    } else {
        if (!read_numbers(directory, "cpu.cfs_quota_us", &quota, &unused) ||
            !read_numbers(directory, "cpu.cfs_period_us", &period, &unused))
            return 0;
    }
    if (quota <= 0 || period <= 0)
        return 0;
    quota = (quota - 1) / period + 1;
    return quota > UINT_MAX ? UINT_MAX : (unsigned)quota;
}

static bool list_has(const char *list, const char *word)
{
    size_t length = strlen(word);

    while (list != NULL) {
        if (strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == '\0'))
            return true;
        list = strchr(list, ',');
        if (list != NULL)
            list++;
    }
    return false;
}

/* The path of this process's group: of the unified hierarchy, or of the one that has "cpu". */
static bool group_path(const char *root, bool version2, char *path, size_t room)
{
    char name[PATH_MAX], line[PATH_MAX + 256];
    bool found = false;
    FILE *file;

    if (snprintf(name, sizeof name, "%s/proc/self/cgroup", root) >= (int)sizeof name)
        return false;
    file = fopen(name, "re");
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        /* hierarchy:controllers:path */
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');

        if (group == NULL)
            continue;
        *group++ = '\0';
        controllers++;
        group[strcspn(group, "\n")] = '\0';
        if (version2 ? *controllers == '\0' : list_has(controllers, "cpu"))
            found = snprintf(path, room, "%s", group) < (int)room;
    }
    fclose(file);
    return found;
}

/* Where that hierarchy is mounted, and which of its groups is the top of the mount. */
static bool group_mount(const char *root, bool version2, char *top, char *mount, size_t room)
{
    char name[PATH_MAX], line[3 * PATH_MAX];
    bool found = false;
    FILE *file;

    if (snprintf(name, sizeof name, "%s/proc/self/mountinfo", root) >= (int)sizeof name)
        return false;
    file = fopen(name, "re");
    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        /* id parent major:minor top mount options [tags ...] - type source options */
        char from[PATH_MAX], at[PATH_MAX], type[32], options[512];
        char *rest = strstr(line, " - ");

        if (rest == NULL || sscanf(line, "%*s %*s %*s %4095s %4095s", from, at) != 2 ||
            sscanf(rest, " - %31s %*s %511s", type, options) != 2)
            continue;
        if (version2 ? strcmp(type, "cgroup2") != 0
                     : strcmp(type, "cgroup") != 0 || !list_has(options, "cpu"))
            continue;
        found = snprintf(top, room, "%s", from) < (int)room &&
                snprintf(mount, room, "%s%s", root, at) < (int)room;
    }
    fclose(file);
    return found;
}

static unsigned hierarchy_quota(const char *root, bool version2)
{
    char group[PATH_MAX], top[PATH_MAX], mount[PATH_MAX], path[2 * PATH_MAX];
    const char *below = "";
    unsigned least = 0, quota;
    size_t length, floor;

    if (!group_path(root, version2, group, sizeof group) ||
        !group_mount(root, version2, top, mount, sizeof top))
        return 0;
    /* The part of the group's path below the top of the mount; a path outside of it (a container
     * that shows the host's names) can only be judged at the mount itself. */
    length = strcmp(top, "/") == 0 ? 0 : strlen(top);
    if (strncmp(group, top, length) == 0 && (group[length] == '/' || group[length] == '\0'))
        below = group + length;
    if (snprintf(path, sizeof path, "%s%s", mount, below) >= (int)sizeof path)
        return 0;
    floor = strlen(mount);
    for (;;) {
        char *slash;

        quota = group_quota(path, version2);
        if (quota > 0 && (least == 0 || quota < least))
            least = quota;
        slash = strrchr(path, '/');
        if (strlen(path) <= floor || slash == NULL)
            return least;
        *slash = '\0';
    }
}

unsigned cpu_quota(const char *root)
{
    unsigned unified = hierarchy_quota(root, true);
    unsigned legacy = hierarchy_quota(root, false);

    if (unified == 0)
        return legacy;
    return legacy == 0 || unified < legacy ? unified : legacy;
}

unsigned cpu_available(void)
{
    unsigned processors = affinity_count();
    unsigned quota = cpu_quota("");

    return quota > 0 && quota < processors ? quota : processors;
}
