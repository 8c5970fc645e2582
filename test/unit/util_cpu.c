/*
 * Processors available: control-group quotas of both versions in made-up file trees, and the
 * affinity mask of the real system.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/cpu.h"

static char root[] = "/tmp/libpami-cpu-XXXXXX";

static int setup(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/libpami-cpu-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_entry(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
    (void)status;
    (void)flag;
    (void)walk;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    return nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes root/path, making directories on the way. */
static void put(const char *path, const char *text)
{
    char full[PATH_MAX], *slash;
    FILE *file;

    snprintf(full, sizeof full, "%s%s", root, path);
    for (slash = strchr(full + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0777);
        *slash = '/';
    }
    file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#define UNIFIED "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

static void nothing_known(void **state)
{
    (void)state;
    assert_int_equal(cpu_quota(root), 0);
    put("/proc/self/cgroup", "0::/\n");
    assert_int_equal(cpu_quota(root), 0);
    put("/proc/self/mountinfo", UNIFIED);
    assert_int_equal(cpu_quota(root), 0);
}

static void unified(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/job/step\n");
    put("/proc/self/mountinfo", "29 1 0:25 / /proc rw - proc proc rw\n" UNIFIED);
    put("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    assert_int_equal(cpu_quota(root), 0);
    put("/sys/fs/cgroup/job/step/cpu.max", "250000 100000\n");
    assert_int_equal(cpu_quota(root), 3);
    put("/sys/fs/cgroup/job/cpu.max", "200000 100000\n");
    assert_int_equal(cpu_quota(root), 2);
    put("/sys/fs/cgroup/job/cpu.max", "800000 100000\n");
    assert_int_equal(cpu_quota(root), 3);
    put("/sys/fs/cgroup/job/step/cpu.max", "1000 100000\n");
    assert_int_equal(cpu_quota(root), 1);
    put("/sys/fs/cgroup/job/step/cpu.max", "rubbish\n");
    assert_int_equal(cpu_quota(root), 8);
}

/* A container that sees the mount from its own group on, under the host's names. */
static void unified_in_container(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/kube/pod7/inner\n");
    put("/proc/self/mountinfo", "30 1 0:26 /kube/pod7 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
    put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
    assert_int_equal(cpu_quota(root), 4);
    put("/sys/fs/cgroup/inner/cpu.max", "150000 100000\n");
    assert_int_equal(cpu_quota(root), 2);
    put("/proc/self/cgroup", "0::/../elsewhere\n");
    assert_int_equal(cpu_quota(root), 4);
}

static void legacy(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "12:cpuset:/x\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n0::/\n");
    put("/proc/self/mountinfo",
        "33 32 0:28 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
        "34 32 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpu_quota(root), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100001\n");
    assert_int_equal(cpu_quota(root), 2);
}

static void affinity_counts(void **state)
{
    unsigned before = cpu_available();
    cpu_set_t all, one;
    int i;

    (void)state;
    assert_true(before >= 1);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_true(before <= (unsigned)CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (i = 0; !CPU_ISSET(i, &all); i++)
        continue;
    CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cpu_available(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(cpu_available(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_known, setup, teardown),
        cmocka_unit_test_setup_teardown(unified, setup, teardown),
        cmocka_unit_test_setup_teardown(unified_in_container, setup, teardown),
        cmocka_unit_test_setup_teardown(legacy, setup, teardown),
        cmocka_unit_test(affinity_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
