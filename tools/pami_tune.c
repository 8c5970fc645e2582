/*
 * pami_tune: measures the algorithms of collectives on this machine and writes a table of the best
 * ones, which PAMI_COLL_TABLE makes libpami use.
 *
 * It starts jobs of itself by pamirun, one for each type and number of tasks; such a job runs a
 * contest (pami_tune/contest.c) and prints what came out. The pieces are in tools/pami_tune/: lab
 * and contest (in the jobs), start (of jobs), results (what is there already), judge (the table).
 * The manual page is doc/man/pami_tune.1.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "coll/collective.h"
#include "coll/select.h"
#include "pami_tune/judge.h"
#include "pami_tune/lab.h"
#include "pami_tune/results.h"
#include "pami_tune/servers.h"
#include "pami_tune/sizes.h"
#include "pami_tune/start.h"
#include "util/cpu.h"

#define COUNTS_MAX 16
#define TASKS_MAX 1024u
#define BAR 24

struct settings {
    struct start start;
    uint32_t tasks[COUNTS_MAX], nodes[2];
    size_t task_count, node_count;
    bool wanted[PAMI_XFER_COUNT]; /* types */
    const char *output, *contest;
    char real_output[PATH_MAX]; /* what output points to, if that is a link */
    bool built_in, verbose, again, servers;
};

struct progress {
    const struct settings *settings;
    struct results *results;
    const struct job *job;
    double begin, weight_done, weight_all, weight_before; /* before: of an earlier run */
    bool is_terminal;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the command line ---- */

static void usage(FILE *to)
{
    fprintf(to,
            "Usage: pami_tune [OPTION]...\n"
            "Measures the algorithms of collectives on this machine and writes a table of the\n"
            "best ones; PAMI_COLL_TABLE=FILE makes programs use it. Run it on a quiet machine.\n"
            "Started again after an interruption it goes on where it stopped.\n"
            "  -n TASKS,...     numbers of tasks, ascending (default 2,4,8 ... by the processors)\n"
            "  --types TYPE,... only these types of collectives (default all)\n"
            "  --nodes NODES    pretend so many nodes; 1,K measures both (default 1)\n"
            "  --bind HOW       bind tasks as pamirun --bind does\n"
            "  -o FILE          the table (default pami.table); FILE.part while it is measured\n"
            "  --quick          some seconds, rough: to see whether it works\n"
            "  --again          forget what FILE.part has\n"
            "  --built-in       write FILE as src/coll/measured.def\n"
            "  --servers        measure where communication servers pay instead; -o pami.servers,\n"
            "                   which PAMI_SERVERS_TABLE names\n"
            "  -v, --verbose    say what was measured\n"
            "  --help           this text\n"
            "  --version        the version\n");
}

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int complain(const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "pami_tune: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "; pami_tune --help lists the options\n");
    return 2;
}

/* Ascending numbers from `least` to `most` with commas; their count, 0: makes no sense. */
static size_t parse_list(const char *text, uint32_t least, uint32_t most, uint32_t *list,
                         size_t room)
{
    size_t count = 0;

    for (;;) {
        char *end;
        unsigned long number = strtoul(text, &end, 10);

        if (end == text || *text == '-' || *text == '+' || number < least || number > most ||
            count == room || (count != 0 && number <= list[count - 1]))
            return 0;
        list[count++] = (uint32_t)number;
        if (*end == '\0')
            return count;
        if (*end != ',')
            return 0;
        text = end + 1;
    }
}

/* Powers of two up to eight tasks on each processor, but not very many. */
static void default_tasks(struct settings *settings)
{
    uint32_t most = 8 * cpu_available();

    most = most > 64 ? 64 : most;
    for (uint32_t tasks = 2; tasks <= most && settings->task_count < COUNTS_MAX; tasks *= 2)
        settings->tasks[settings->task_count++] = tasks;
}

/* 0, or 2 with a message. */
static int set_types(struct settings *settings, const char *list)
{
    memset(settings->wanted, 0, sizeof(settings->wanted));
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        char name[32];
        size_t i = 0;

        snprintf(name, sizeof(name), "%.*s", (int)length, list);
        while (i < tuned_type_count && strcmp(collective_name(tuned_types[i]), name) != 0)
            i++;
        if (i == tuned_type_count)
            return complain("--types: '%s' is not a type that can be measured", name);
        settings->wanted[tuned_types[i]] = true;
        list += length;
        list += *list == ',';
    }
    return 0;
}

/* An option with an argument; 0, or 2 with a message. */
static int set(struct settings *settings, const char *name, const char *value)
{
    if (strcmp(name, "-n") == 0) {
        settings->task_count = parse_list(value, 2, TASKS_MAX, settings->tasks, COUNTS_MAX);
        if (settings->task_count == 0)
            return complain("-n %s: not ascending numbers from 2 to %u with commas", value,
                            TASKS_MAX);
    } else if (strcmp(name, "--nodes") == 0) {
        settings->node_count = parse_list(value, 1, TASKS_MAX, settings->nodes, 2);
        if (settings->node_count == 0 || (settings->node_count == 2 && settings->nodes[0] != 1))
            return complain("--nodes %s: not a number, or 1 and another one", value);
    } else if (strcmp(name, "--bind") == 0) {
        if (strcmp(value, "none") != 0 && strcmp(value, "core") != 0 && strcmp(value, "numa") != 0)
            return complain("--bind %s: is none of none, core, numa", value);
        settings->start.bind = value;
    } else if (strcmp(name, "--types") == 0) {
        return set_types(settings, value);
    } else if (strcmp(name, "-o") == 0) {
        settings->output = value;
    } else if (strcmp(name, "--contest") == 0) {
        settings->contest = value;
    } else {
        return complain("unknown argument '%s'", name);
    }
    return 0;
}

static bool set_flag(struct settings *settings, const char *name)
{
    if (strcmp(name, "--quick") == 0)
        settings->start.quick = true;
    else if (strcmp(name, "--again") == 0)
        settings->again = true;
    else if (strcmp(name, "--built-in") == 0)
        settings->built_in = true;
    else if (strcmp(name, "--servers") == 0)
        settings->servers = true;
    else if (strcmp(name, "-v") == 0 || strcmp(name, "--verbose") == 0)
        settings->verbose = true;
    else
        return false;
    return true;
}

static bool is_of_algorithms(const char *name)
{
    static const char *const names[] = {"-n", "--types", "--again", "--built-in"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The exit status of who only prints. */
static int printed(void)
{
    if (fflush(stdout) == 0)
        return 0;
    fprintf(stderr, "pami_tune: cannot write: %s\n", strerror(errno));
    return 1;
}

/* -1 to go on, or the exit status. */
static int parse(int argc, char **argv, struct settings *settings)
{
    const char *of_algorithms = NULL;

    for (int i = 1; i < argc; i++) {
        int status;

        if (strcmp(argv[i], "--help") == 0) {
            usage(stdout);
            return printed();
        }
        if (strcmp(argv[i], "--version") == 0) {
            puts("pami_tune (libpami) " PAMI_VERSION_TEXT);
            return printed();
        }
        if (is_of_algorithms(argv[i]))
            of_algorithms = argv[i];
        if (set_flag(settings, argv[i]))
            continue;
        status = set(settings, argv[i], i + 1 < argc ? argv[i + 1] : "");
        if (status == 0 && ++i == argc)
            status = complain("%s needs an argument", argv[i - 1]);
        if (status != 0)
            return status;
    }
    if (settings->servers && of_algorithms != NULL)
        return complain("%s means nothing with --servers", of_algorithms);
    if (settings->task_count == 0)
        default_tasks(settings);
    return -1;
}

/* The table replaces what is there, which must be a file; a link keeps pointing to it. 0, or 2 with
 * a message. */
static int find_output(struct settings *settings)
{
    struct stat there;

    if (settings->output == NULL)
        settings->output = settings->servers ? "pami.servers" : "pami.table";
    if (lstat(settings->output, &there) != 0)
        return 0;
    if (S_ISLNK(there.st_mode)) {
        if (realpath(settings->output, settings->real_output) == NULL ||
            stat(settings->real_output, &there) != 0)
            return complain("-o %s: %s", settings->output, strerror(errno));
        settings->output = settings->real_output;
    }
    if (!S_ISREG(there.st_mode))
        return complain("-o %s: is not a regular file", settings->output);
    return 0;
}

/* ---- progress ---- */

static void show(const struct progress *progress)
{
    double share = progress->weight_done / progress->weight_all, left;
    double fresh = progress->weight_done - progress->weight_before;
    char bar[BAR + 1];

    if (!progress->is_terminal)
        return;
    for (int i = 0; i < BAR; i++)
        bar[i] = i < (int)(share * BAR) ? '#' : '.';
    bar[BAR] = '\0';
    fprintf(stderr, "\r\033[K[%s] %3d %%  %u tasks", bar, (int)(share * 100), progress->job->tasks);
    if (progress->job->nodes > 1)
        fprintf(stderr, " on %u nodes", progress->job->nodes);
    fprintf(stderr, ", %s", collective_name(progress->job->type));
    left = fresh > 0
               ? (now() - progress->begin) / fresh * (progress->weight_all - progress->weight_done)
               : 0;
    if (left > 1)
        fprintf(stderr, ", about %.0f s left", left);
    fflush(stderr);
}

static void clear(const struct progress *progress)
{
    if (progress->is_terminal)
        fprintf(stderr, "\r\033[K");
}

static void on_line(void *cookie, const char *text)
{
    struct progress *progress = cookie;

    results_take(progress->results, progress->job, text);
    if (!progress->settings->verbose)
        return;
    clear(progress);
    printf("%u node%s: %s\n", progress->job->nodes, progress->job->nodes == 1 ? "" : "s", text);
}

/* ---- measuring ---- */

/* Larger jobs take longer. */
static double weight_of(const struct job *job)
{
    return (double)job->tasks + 2;
}

/* The jobs in their order; their number. `jobs` has room for all of them. */
static size_t plan(const struct settings *settings, struct job *jobs)
{
    size_t count = 0;

    for (size_t n = 0; n < settings->node_count; n++)
        for (size_t i = 0; i < settings->task_count; i++)
            for (size_t t = 0; t < tuned_type_count; t++)
                if (settings->nodes[n] <= settings->tasks[i] && settings->wanted[tuned_types[t]])
                    jobs[count++] =
                        (struct job){tuned_types[t], settings->tasks[i], settings->nodes[n]};
    return count;
}

/* The number of jobs that failed. */
static size_t run_jobs(const struct settings *settings, struct results *results,
                       const struct job *jobs, size_t count)
{
    struct progress progress = {
        .settings = settings,
        .results = results,
        .begin = now(),
        .is_terminal = isatty(STDERR_FILENO),
    };
    size_t failed = 0;

    for (size_t i = 0; i < count; i++) {
        progress.weight_all += weight_of(&jobs[i]);
        if (results_has(results, &jobs[i]))
            progress.weight_before += weight_of(&jobs[i]);
    }
    progress.weight_done = progress.weight_before;
    for (size_t i = 0; i < count; i++) {
        int status;

        progress.job = &jobs[i];
        if (results_has(results, &jobs[i]))
            continue;
        show(&progress);
        status = start_job(&settings->start, &jobs[i], on_line, &progress);
        results_end(results, &jobs[i], status == 0);
        progress.weight_done += weight_of(&jobs[i]);
        if (status == 0)
            continue;
        clear(&progress);
        fprintf(stderr, "pami_tune: %s with %u tasks ended with status %d; it is left out\n",
                collective_name(jobs[i].type), jobs[i].tasks, status);
        failed++;
    }
    clear(&progress);
    return failed;
}

/* ---- the table ---- */

static void write_head(FILE *to, const struct settings *settings)
{
    char host[65] = "unknown", date[32];
    time_t t = time(NULL);
    struct tm tm;

    gethostname(host, sizeof(host) - 1);
    strftime(date, sizeof(date), "%Y-%m-%d", localtime_r(&t, &tm));
    if (settings->built_in) {
        fprintf(
            to,
            "/*\n"
            " * Choices that were measured: what Auto takes before its usual order of costs. "
            "Written by\n"
            " * pami_tune --built-in; empty when nothing has been found to be faster than "
            "that.\n"
            " *\n"
            " *     MEASURED(TYPE, \"Algorithm\", bytes from, to, members from, to, nodes: ANY, "
            "ONE, SEVERAL or NETWORK)\n"
            " *\n"
            " * %s, %u processors.\n"
            " */\n",
            date, cpu_available());
        return;
    }
    fprintf(to,
            "# Algorithms of collectives that were the fastest on %s (%u processors).\n"
            "# Written by pami_tune %s on %s; PAMI_COLL_TABLE names this file to libpami.\n"
            "# type algorithm bytes members nodes\n",
            host, cpu_available(), PAMI_VERSION_TEXT, date);
}

/* Written beside it and put in its place when it is whole. The number of lines, -1: failed. */
static int write_table(const struct settings *settings, const struct results *results)
{
    char path[4096 + 8];
    FILE *to;
    int lines = 0;

    errno = ENAMETOOLONG;
    if ((size_t)snprintf(path, sizeof(path), "%s.new", settings->output) >= sizeof(path) ||
        (to = fopen(path, "we")) == NULL) {
        fprintf(stderr, "pami_tune: %s: %s\n", path, strerror(errno));
        return -1;
    }
    write_head(to, settings);
    for (size_t n = 0; n < settings->node_count && lines >= 0; n++) {
        int more = judge_write(to, results, settings->tasks, settings->task_count,
                               settings->nodes[n], settings->built_in);

        lines = more < 0 ? -1 : lines + more;
    }
    errno = lines < 0 ? ENOMEM : 0;
    if (fclose(to) != 0 || lines < 0 || rename(path, settings->output) != 0) {
        fprintf(stderr, "pami_tune: %s: %s\n", settings->output, strerror(errno));
        unlink(path);
        return -1;
    }
    return lines;
}

static int tune(struct settings *settings)
{
    struct job *jobs =
        calloc(settings->task_count * settings->node_count * tuned_type_count, sizeof(*jobs));
    char host[65] = "unknown", heading[256];
    struct results results;
    size_t count, failed;
    int lines;

    if (jobs == NULL || start_init(&settings->start) != 0) {
        free(jobs);
        return 1;
    }
    count = plan(settings, jobs);
    if (count == 0) {
        free(jobs);
        return complain("there is nothing to measure: no types, or fewer tasks than nodes");
    }
    gethostname(host, sizeof(host) - 1);
    snprintf(heading, sizeof(heading), "pami_tune %s on %s, %u processors, bind %s%s%s",
             PAMI_VERSION_TEXT, host, cpu_available(),
             settings->start.bind != NULL ? settings->start.bind : "none",
             judge_has_network() ? ", network" : "", settings->start.quick ? ", quick" : "");
    if (results_open(&results, settings->output, heading, settings->again) != 0) {
        free(jobs);
        return 1;
    }
    if (results.done_count != 0)
        fprintf(stderr, "pami_tune: %zu of %zu measurements are there already\n",
                results.done_count, count);
    failed = run_jobs(settings, &results, jobs, count);
    free(jobs);
    if (results.count == 0)
        fprintf(stderr, "pami_tune: nothing was measured; there is no table to write\n");
    lines = results.count != 0 ? write_table(settings, &results) : -1;
    results_close(&results, results.count == 0 || (failed == 0 && lines >= 0));
    if (lines < 0)
        return 1;
    printf("%s: %d line%s\n", settings->output, lines, lines == 1 ? "" : "s");
    return failed == 0 ? 0 : 1;
}

/* Whatever the user has set would take part. */
static void forget_choices(void)
{
    unsetenv("PAMI_COLL_TABLE");
    unsetenv("PAMI_SERVERS_TABLE");
    for (int type = 0; type < PAMI_XFER_COUNT; type++)
        if (*select_option_name((pami_xfer_type_t)type) != '\0')
            unsetenv(select_option_name((pami_xfer_type_t)type));
}

int main(int argc, char **argv)
{
    struct settings settings = {
        .nodes = {1},
        .node_count = 1,
        .start = {.seconds = 300},
    };
    int status;

    memset(settings.wanted, true, sizeof(settings.wanted));
    status = parse(argc, argv, &settings);
    if (status >= 0)
        return status;
    forget_choices();
    if (settings.contest != NULL && strcmp(settings.contest, SERVERS_CONTEST) == 0)
        return servers_contest(settings.start.quick);
    if (settings.contest != NULL)
        return contest_main(settings.contest, settings.start.quick);
    if (getenv("PMI_RANK") != NULL || getenv("PMIX_RANK") != NULL)
        return complain("starts its jobs itself, and is not to be started by a launcher");
    status = find_output(&settings);
    if (status != 0)
        return status;
    if (settings.servers)
        return servers_tune(&settings.start, settings.nodes[settings.node_count - 1],
                            settings.output, settings.verbose);
    return tune(&settings);
}
