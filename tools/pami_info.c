/*
 * pami_info: what this library is, what it can do here and why, and how it is set up.
 *
 * Sections: build, options (value, source, range), devices (usable or why not), topology. Started
 * under a launcher it answers for the task it is; several tasks each print their own.
 */
#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "coll/collective.h"
#include "coll/explain.h"
#include "coll/report.h"
#include "coll/select.h"
#include "coll/tuned.h"
#include "context/context.h"
#include "device/device.h"
#include "util/clock.h"
#include "util/cpu.h"
#include "util/option.h"

struct section {
    const char *name;
    const char *description;
    int (*print)(void);
    bool wanted;
};

static int print_build(void)
{
    printf("libpami %s\n", PAMI_VERSION_TEXT);
    printf("  %-24s %s, C %ld\n", "compiler", __VERSION__, (long)__STDC_VERSION__);
    printf("  %-24s %zu bytes, %u bits of task in an endpoint\n", "pointer", sizeof(void *),
           ENDPOINT_TASK_BITS);
    printf("  %-24s %zu bytes\n", "packet header", sizeof(struct packet_header));
    printf("  %-24s 0..%u\n", "dispatch ids", DISPATCH_ID_MAX);
#ifdef PAMI_MISUSE_CHECKS
    printf("  %-24s on\n", "misuse checks");
#else
    printf("  %-24s off (make DEBUG=1 turns them on)\n", "misuse checks");
#endif
    return 0;
}

static int print_options(void)
{
    printf("options (environment variable, value, source)\n");
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_info *info = option_info((enum option_id)id);
        char number[128];
        char range[256];
        /* A text may be of any length. */
        const char *value = info->type == OPTION_STRING
                                ? option_string((enum option_id)id)
                                : option_format((enum option_id)id, number, sizeof(number));

        option_format_range((enum option_id)id, range, sizeof(range));
        printf("  %-24s %-12s %-12s %s\n", info->name, value,
               option_source_name(option_source((enum option_id)id)), info->description);
        printf("  %-24s %s\n", "", range);
    }
    return 0;
}

/* A real copy from a real neighbour, as the shm device does it. NULL when it works. */
static const char *single_copy_fault(void)
{
    uint64_t theirs = 0x70616d69;
    uint64_t mine = 0;
    struct iovec local = {.iov_base = &mine, .iov_len = sizeof(mine)};
    struct iovec remote = {.iov_base = &theirs, .iov_len = sizeof(theirs)};
    const char *fault = NULL;
    int hold[2];
    pid_t child;

    if (pipe(hold) != 0)
        return strerror(errno);
    child = fork();
    if (child == 0) {
        char byte;

        close(hold[1]);
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(hold[0]);
    if (child < 0)
        fault = strerror(errno);
    else if (process_vm_readv(child, &local, 1, &remote, 1, 0) != (ssize_t)sizeof(mine))
        fault = strerror(errno);
    else if (mine != theirs)
        fault = "another process's memory reads wrong";
    close(hold[1]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return fault;
}

/* What PAMIX_Mem_alloc would give, and who could cast to it. */
static void print_heap(const struct device_ops *ops, struct device *device,
                       const struct bootstrap *bootstrap)
{
    struct heap_view view;
    uint32_t castable = 0;

    if (ops->heap_view == NULL) {
        printf("    shared heap: none\n");
        return;
    }
    if (ops->heap_view(device, bootstrap->task, &view) != 0) {
        printf("    shared heap: none (no address space left?)\n");
        return;
    }
    for (uint32_t i = 0; i < bootstrap->local_count; i++)
        castable += ops->heap_view(device, bootstrap->local_tasks[i], &view) == 0;
    printf("    shared heap: %zu MiB per task at most, castable from here: %u of %u local\n",
           view.bytes >> 20, castable, bootstrap->local_count);
}

static void print_line(void *cookie, const char *line)
{
    (void)cookie;
    printf("      %s\n", line);
}

static void print_text(void *cookie, const char *line)
{
    (void)cookie;
    puts(line);
}

static void print_device(struct bootstrap *bootstrap, const struct device_ops *ops)
{
    const struct device_params params = {
        .bootstrap = bootstrap,
        .client = "pami_info",
        .contexts = (uint32_t)option_int(OPT_NUM_CONTEXTS),
    };
    char why[256] = "no reason given";
    struct device *device;
    uint32_t reached = 0;

    printf("  %s: %s\n", ops->name, ops->description);
    if (ops->open(&params, &device, why, sizeof(why)) != 0) {
        printf("    not usable here: %s\n", why);
        if (ops->explain != NULL)
            ops->explain(bootstrap, print_line, NULL);
        return;
    }
    for (uint32_t task = 0; task < bootstrap->tasks; task++)
        reached += device->ops->reach(device, task) != 0;
    print_heap(ops, device, bootstrap);
    printf("    usable: reaches %u of %u task%s\n", reached, bootstrap->tasks,
           bootstrap->tasks == 1 ? "" : "s");
    if (device->ops->explain != NULL)
        device->ops->explain(bootstrap, print_line, NULL);
    device->ops->close(device);
}

static int print_devices(void)
{
    struct bootstrap *bootstrap;
    const char *fault = single_copy_fault();
    char text[256];

    printf("devices (cheapest first)\n");
    if (bootstrap_open(&bootstrap) != 0) {
        PAMI_Error_text(text, sizeof(text));
        fprintf(stderr, "pami_info: no devices without a bootstrap: %s\n", text);
        return -1;
    }
    printf("  bootstrap: %s: task %u of %u, node %u of %u, %u local\n", bootstrap->ops->name,
           bootstrap->task, bootstrap->tasks, bootstrap->node, bootstrap->nodes,
           bootstrap->local_count);
    /* Opening a device has fences, in which the servers would take us for the first client. */
    if (bootstrap->servers != 0)
        printf(
            "  not opened: the communication servers of this job wait for its first client; start "
            "pami_info without them\n");
    for (size_t i = 0; device_table[i] != NULL && bootstrap->servers == 0; i++)
        print_device(bootstrap, device_table[i]);
    printf("  single copy (process_vm_readv): %s%s\n",
           fault == NULL ? "works between processes of this user" : "does not work: ",
           fault == NULL ? "" : fault);
    bootstrap_close(bootstrap);
    return 0;
}

static void print_level(hwloc_topology_t topology, hwloc_obj_type_t type, const char *name)
{
    int count = hwloc_get_nbobjs_by_type(topology, type);

    if (count > 0)
        printf("  %-24s %d\n", name, count);
}

static int print_topology(void)
{
    hwloc_topology_t topology;

    printf("topology\n");
    /* Plugins that open displays and compute devices have no place in a start-up. */
    setenv("HWLOC_COMPONENTS", "-gl,-opencl", 0);
    if (hwloc_topology_init(&topology) != 0 || hwloc_topology_load(topology) != 0) {
        fprintf(stderr, "pami_info: hwloc cannot read the topology\n");
        return -1;
    }
    print_level(topology, HWLOC_OBJ_PACKAGE, "packages");
    print_level(topology, HWLOC_OBJ_NUMANODE, "NUMA nodes");
    print_level(topology, HWLOC_OBJ_L3CACHE, "L3 caches");
    print_level(topology, HWLOC_OBJ_L2CACHE, "L2 caches");
    print_level(topology, HWLOC_OBJ_CORE, "cores");
    print_level(topology, HWLOC_OBJ_PU, "hardware threads");
    hwloc_topology_destroy(topology);
    printf("  %-24s %u (affinity and quota)\n", "usable here", cpu_available());
    printf("  %-24s %.1f ticks per us\n", "clock", clock_ticks_per_us());
    return 0;
}

/* What --explain asks about, in the order of the command line; NULL ends it. */
static const char **questions;

static int explain_all(void)
{
    const char *path = option_string(OPT_COLL_TABLE);
    struct choice_list tuned = {NULL, 0, 0};
    struct select_table table;
    int status = 0;

    if (*path != '\0')
        tuned_read(path, &tuned);
    if (select_table_init(&table, &tuned, true) != 0) {
        fprintf(stderr, "pami_info: out of memory\n");
        return -1;
    }
    for (size_t i = 0; questions[i] != NULL; i++) {
        struct explain_question question;
        char why[256];

        if (explain_parse(questions[i], &question, why, sizeof(why)) == 0) {
            explain(&table, &question, print_text, NULL);
            continue;
        }
        fprintf(stderr, "pami_info: --explain %s\n", why);
        status = -1;
    }
    select_table_finish(&table);
    choice_list_finish(&tuned);
    return status;
}

static int print_algorithms(void)
{
    if (questions[0] != NULL)
        return explain_all();
    printf("algorithms of collectives, by type; the first of each list is Auto, which chooses\n");
    for (int type = 0; type < PAMI_XFER_COUNT; type++) {
        bool titled = false;

        for (size_t i = 0; i < algorithm_count; i++) {
            const struct algorithm *row = &algorithm_table[i];
            char needs[REPORT_NEEDS_MAX];

            if ((int)row->type != type)
                continue;
            if (!titled)
                printf("  %s (%s)\n", collective_name(row->type), select_option_name(row->type));
            titled = true;
            report_needs(row->needs, needs, sizeof(needs));
            printf("    %-24s %s%s%s%s\n", row->name, row->description,
                   needs[0] != '\0' ? " (" : "", needs, needs[0] != '\0' ? ")" : "");
        }
    }
    return 0;
}

static struct section sections[] = {
    {"build", "version and compile-time limits", print_build, false},
    {"options", "every option: value, where it came from, permitted values", print_options, false},
    {"devices", "what moves packets, usable or why not", print_devices, false},
    {"algorithms", "what carries out collectives, and what each needs", print_algorithms, false},
    {"topology", "the hardware as hwloc sees it", print_topology, false},
};

#define SECTIONS (sizeof(sections) / sizeof(sections[0]))

static void usage(FILE *to)
{
    fprintf(to,
            "Usage: pami_info [SECTION]...\n"
            "Tells what libpami is, can do and is set to here. Without a section, everything.\n");
    for (size_t i = 0; i < SECTIONS; i++)
        fprintf(to, "  --%-10s %s\n", sections[i].name, sections[i].description);
    fprintf(to,
            "  --explain TYPE:BYTES:MEMBERS[:NODES]\n"
            "               instead of --algorithms: which of them Auto takes, and why no other;\n"
            "               such as allreduce:8:16, broadcast:64K:32:4\n"
            "  --%-10s %s\n  --%-10s %s\n",
            "help", "this text", "version", "the version");
}

static struct section *section_of(const char *argument)
{
    for (size_t i = 0; i < SECTIONS; i++)
        if (strncmp(argument, "--", 2) == 0 && strcmp(argument + 2, sections[i].name) == 0)
            return &sections[i];
    return NULL;
}

/* Takes a question off the command line if there is one at argv[*at]. */
static bool take_question(char **argv, int *at, size_t *count)
{
    static const char name[] = "--explain";

    if (strncmp(argv[*at], name, sizeof(name) - 1) != 0)
        return false;
    if (argv[*at][sizeof(name) - 1] == '=')
        questions[(*count)++] = argv[*at] + sizeof(name);
    else if (argv[*at][sizeof(name) - 1] == '\0' && argv[*at + 1] != NULL)
        questions[(*count)++] = argv[++*at];
    else
        return false;
    section_of("--algorithms")->wanted = true;
    return true;
}

/* -1 to go on, or the status to exit with. */
static int read_arguments(int argc, char **argv)
{
    size_t count = 0;

    for (int i = 1; i < argc; i++) {
        struct section *section = section_of(argv[i]);

        if (strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return EXIT_SUCCESS;
        }
        if (strcmp(argv[i], "--version") == 0) {
            puts("pami_info (libpami) " PAMI_VERSION_TEXT);
            return EXIT_SUCCESS;
        }
        if (take_question(argv, &i, &count))
            continue;
        if (strcmp(argv[i], "--explain") == 0) {
            fprintf(stderr, "pami_info: --explain needs TYPE:BYTES:MEMBERS[:NODES]\n");
            return 2;
        }
        if (section == NULL) {
            fprintf(stderr, "pami_info: unknown argument '%s'; pami_info --help lists them\n",
                    argv[i]);
            return 2;
        }
        section->wanted = true;
    }
    return -1;
}

int main(int argc, char **argv)
{
    int status;

    questions = calloc((size_t)argc + 1, sizeof(*questions));
    if (questions == NULL)
        return EXIT_FAILURE;
    status = read_arguments(argc, argv);
    if (status < 0) {
        status = EXIT_SUCCESS;
        for (size_t i = 0; i < SECTIONS; i++)
            if ((argc == 1 || sections[i].wanted) && sections[i].print() != 0)
                status = EXIT_FAILURE;
    }
    free(questions);
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "pami_info: cannot write the output: %s\n",
                errno != 0 ? strerror(errno) : "a part of it is lost");
        status = EXIT_FAILURE;
    }
    return status;
}
