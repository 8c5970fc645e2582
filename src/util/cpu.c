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
#include <pthread.h>
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

/* "<first><second>" on the heap: threads with small stacks create clients as well. */
static char *joined(const char *first, const char *second)
{
    char *text;

    return asprintf(&text, "%s%s", first, second) >= 0 ? text : NULL;
}

static FILE *open_in(const char *directory, const char *name)
{
    char *path = joined(directory, name);
    FILE *file = path != NULL ? fopen(path, "re") : NULL;

    free(path);
    return file;
}

/* Reads "quota period" of version 2 (where `name` is /cpu.max), or one number; -1: no limit. */
static bool read_numbers(const char *directory, const char *name, long long *first,
                         long long *second)
{
    char text[64];
    int count = 0;
    FILE *file = open_in(directory, name);

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
        if (!read_numbers(directory, "/cpu.max", &quota, &period))
            return 0;
    } else {
        if (!read_numbers(directory, "/cpu.cfs_quota_us", &quota, &unused) ||
            !read_numbers(directory, "/cpu.cfs_period_us", &period, &unused))
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
static char *group_path(const char *root, bool version2)
{
    FILE *file = open_in(root, "/proc/self/cgroup");
    char *line = NULL, *path = NULL;
    size_t room = 0;

    while (file != NULL && path == NULL && getline(&line, &room, file) >= 0) {
        /* hierarchy:controllers:path */
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');

        if (group == NULL)
            continue;
        *group++ = '\0';
        controllers++;
        group[strcspn(group, "\n")] = '\0';
        if (version2 ? *controllers == '\0' : list_has(controllers, "cpu"))
            path = strdup(group);
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return path;
}

/* A line of mountinfo: id parent major:minor top mount options [tags ...] - type source options */
static bool is_mount(const char *line, bool version2)
{
    const char *rest = strstr(line, " - ");
    char type[32], options[512];

    if (rest == NULL || sscanf(rest, " - %31s %*s %511s", type, options) != 2)
        return false;
    return version2 ? strcmp(type, "cgroup2") == 0
                    : strcmp(type, "cgroup") == 0 && list_has(options, "cpu");
}

/* Where that hierarchy is mounted, and which of its groups is the top of the mount. */
static char *group_mount(const char *root, bool version2, char **top)
{
    FILE *file = open_in(root, "/proc/self/mountinfo");
    char *line = NULL, *at = NULL, *mount = NULL;
    size_t room = 0;

    *top = NULL;
    while (file != NULL && mount == NULL && getline(&line, &room, file) >= 0) {
        if (is_mount(line, version2) && sscanf(line, "%*s %*s %*s %ms %ms", top, &at) == 2)
            mount = joined(root, at);
        free(at);
        at = NULL;
        if (mount == NULL) {
            free(*top);
            *top = NULL;
        }
    }
    free(line);
    if (file != NULL)
        fclose(file);
    return mount;
}

/* The least quota from the group at `path` up to that at its first `floor` characters. */
static unsigned least_quota(char *path, size_t floor, bool version2)
{
    unsigned least = 0;

    for (;;) {
        unsigned quota = group_quota(path, version2);
        char *slash = strrchr(path, '/');

        if (quota > 0 && (least == 0 || quota < least))
            least = quota;
        if (strlen(path) <= floor || slash == NULL)
            return least;
        *slash = '\0';
    }
}

/* The part of the group's path below the top of the mount; a path outside of it (a container that
 * shows the host's names) can only be judged at the mount itself. */
static const char *below(const char *group, const char *top)
{
    size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);

    if (strncmp(group, top, length) == 0 && (group[length] == '/' || group[length] == '\0'))
        return group + length;
    return "";
}

static unsigned hierarchy_quota(const char *root, bool version2)
{
    char *top = NULL, *path = NULL;
    char *group = group_path(root, version2);
    char *mount = group != NULL ? group_mount(root, version2, &top) : NULL;
    unsigned least = 0;

    if (mount != NULL)
        path = joined(mount, below(group, top));
    if (path != NULL)
        least = least_quota(path, strlen(mount), version2);
    free(path);
    free(mount);
    free(top);
    free(group);
    return least;
}

/* No cancellation point: collectives ask as well. */
unsigned cpu_quota(const char *root)
{
    unsigned unified, legacy;
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    unified = hierarchy_quota(root, true);
    legacy = hierarchy_quota(root, false);
    pthread_setcancelstate(state, NULL);
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
