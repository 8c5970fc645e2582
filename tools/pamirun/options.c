/*
 * Reading pamirun's command line: a table of options, each with a function for its argument.
 *
 * Ours because getopt_long knows no -np and its messages do not say what was wrong with a value.
 * Options end at the first word that is none, or at "--".
 */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/pmi1_line.h"

struct row {
    const char *name, *other; /* two spellings */
    const char *argument;     /* NULL: takes none */
    const char *help;
    /* NULL when the argument is good, or what is wrong with it */
    const char *(*set)(struct options *options, const char *argument);
};

static const char *set_count(const char *text, uint32_t *count)
{
    long number;

    if (pmi1_number(text, strlen(text), 1, TASKS_MAX, &number) != 0)
        return "is not a number from 1 to 4096";
    *count = (uint32_t)number;
    return NULL;
}

static const char *set_tasks(struct options *options, const char *argument)
{
    return set_count(argument, &options->tasks);
}

static const char *set_nodes(struct options *options, const char *argument)
{
    return set_count(argument, &options->nodes);
}

static const char *set_servers(struct options *options, const char *argument)
{
    if (strcmp(argument, "0") == 0 || set_count(argument, &options->servers) == NULL)
        return NULL;
    return "is not a number from 0 to 4096";
}

static const char *set_bind(struct options *options, const char *argument)
{
    static const char *const names[] = {"none", "core", "numa"};
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(argument, names[i]) == 0) {
            options->bind = (enum bind_to)i;
            return NULL;
        }
    }
    return "is none of none, core, numa";
}

/* The variables that tell a task who it is are pamirun's own business. */
static const char *set_variable(struct options *options, const char *argument)
{
    static const char *const own[] = {"PMI_FD",      "PMI_RANK",        "PMI_SIZE",
                                      "PMI_SERVERS", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"};
    size_t i, length = strcspn(argument, "=");

    if (length == 0 || argument[length] == '\0')
        return "is not NAME=VALUE";
    for (i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strlen(own[i]) == length && strncmp(argument, own[i], length) == 0)
            return "names a variable that pamirun sets itself";
    options->variables[options->variable_count++] = (char *)argument;
    return NULL;
}

static const char *set_timeout(struct options *options, const char *argument)
{
    char *end;
    double seconds = strtod(argument, &end);

    if (end == argument || *end != '\0' || !isfinite(seconds) || seconds < 0)
        return "is not a number of seconds";
    options->timeout = seconds;
    return NULL;
}

static const char *set_stdin(struct options *options, const char *argument)
{
    if (strcmp(argument, "none") == 0)
        options->stdin_task = -1;
    else if (pmi1_number(argument, strlen(argument), 0, TASKS_MAX - 1, &options->stdin_task) != 0)
        return "is neither a task nor none";
    return NULL;
}

static const char *set_tag(struct options *options, const char *argument)
{
    (void)argument;
    options->tag = true;
    return NULL;
}

static const char *set_no_tag(struct options *options, const char *argument)
{
    (void)argument;
    options->tag = false;
    return NULL;
}

static const char *set_keep_going(struct options *options, const char *argument)
{
    (void)argument;
    options->keep_going = true;
    return NULL;
}

static const char *set_no_aslr(struct options *options, const char *argument)
{
    (void)argument;
    options->no_aslr = true;
    return NULL;
}

static const char *set_verbose(struct options *options, const char *argument)
{
    (void)argument;
    options->verbose = true;
    return NULL;
}

static const char *print_help(struct options *options, const char *argument);

static _Noreturn void print_end(void)
{
    if (fflush(stdout) == 0)
        exit(0);
    fprintf(stderr, "pamirun: cannot write: %s\n", strerror(errno));
    exit(STATUS_TROUBLE);
}

static const char *print_version(struct options *options, const char *argument)
{
    (void)options, (void)argument;
    puts("pamirun (libpami) " PAMI_VERSION_TEXT);
    print_end();
}

static const struct row rows[] = {
    {"-n", "-np", "N", "start N tasks (default 1)", set_tasks},
    {"--nodes", NULL, "K", "pretend that the tasks are spread over K nodes, in blocks", set_nodes},
    {"--servers", NULL, "K", "start K communication servers on each node (default 0)", set_servers},
    {"--bind", NULL, "none|core|numa", "bind each task to a core or a NUMA node (default none)",
     set_bind},
    {"--env", NULL, "NAME=VALUE", "set a variable for the tasks; may be repeated", set_variable},
    {"--timeout", NULL, "SECONDS", "end the job after so long, with status 124", set_timeout},
    {"--tag", NULL, NULL, "put \"[task] \" before each line of output", set_tag},
    {"--no-tag", NULL, NULL, "pass output through as it is (default)", set_no_tag},
    {"--keep-going", NULL, NULL, "do not end the job when a task fails", set_keep_going},
    {"--no-aslr", NULL, NULL, "no address space randomisation in the tasks", set_no_aslr},
    {"--stdin", NULL, "TASK|none", "the task that gets standard input (default 0)", set_stdin},
    {"--verbose", "-v", NULL, "say what is done", set_verbose},
    {"--help", "-h", NULL, "print this and exit", print_help},
    {"--version", NULL, NULL, "print the version and exit", print_version},
};

static const char *print_help(struct options *options, const char *argument)
{
    char left[64];
    size_t i;

    (void)options, (void)argument;
    puts("Usage: pamirun [OPTION]... PROGRAM [ARGUMENT]...\n"
         "Start a parallel job of N tasks of PROGRAM on this machine.\n");
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(left, sizeof left, "%s%s%s %s", rows[i].name, rows[i].other == NULL ? "" : ", ",
                 rows[i].other == NULL ? "" : rows[i].other,
                 rows[i].argument == NULL ? "" : rows[i].argument);
        printf("  %-22s  %s\n", left, rows[i].help);
    }
    puts(
        "\nThe status is the largest one of the tasks, 128+N for a signal N; 124 after --timeout,\n"
        "127 or 126 when PROGRAM cannot be found or run, 2 for a wrong command line.");
    print_end();
}

/* The row for the word, and the argument in "--name=argument". */
static const struct row *row_find(const char *word, const char **argument)
{
    size_t i, length = strncmp(word, "--", 2) == 0 ? strcspn(word, "=") : strlen(word);

    *argument = word[length] == '=' ? word + length + 1 : NULL;
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strlen(rows[i].name) == length && strncmp(word, rows[i].name, length) == 0)
            return &rows[i];
        if (rows[i].other != NULL && strcmp(word, rows[i].other) == 0)
            return &rows[i];
    }
    return NULL;
}

__attribute__((format(printf, 1, 2))) static int usage_error(const char *format, ...)
{
    va_list arguments;

    fputs("pamirun: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\npamirun: try 'pamirun --help'\n", stderr);
    return STATUS_USAGE;
}

static int options_check(const struct options *options)
{
    if (options->program[0] == NULL)
        return usage_error("no program given");
    if (options->nodes > options->tasks)
        return usage_error("--nodes: %u nodes are too many for %u task%s", options->nodes,
                           options->tasks, options->tasks == 1 ? "" : "s");
    if (options->servers > (TASKS_MAX - options->tasks) / options->nodes)
        return usage_error("--servers: %u on each of %u nodes are too many for %u tasks: together "
                           "they are %d at most",
                           options->servers, options->nodes, options->tasks, TASKS_MAX);
    if (options->stdin_task >= (long)options->tasks)
        return usage_error("--stdin: there is no task %ld among %u", options->stdin_task,
                           options->tasks);
    return -1;
}

int options_parse(int argc, char **argv, struct options *options)
{
    int i;

    *options = (struct options){.tasks = 1, .nodes = 1};
    options->variables = calloc((size_t)argc + 1, sizeof *options->variables);
    if (options->variables == NULL)
        return usage_error("%s", strerror(ENOMEM));
    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        const char *argument, *wrong;
        const struct row *row;

        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        row = row_find(argv[i], &argument);
        if (row == NULL)
            return usage_error("unknown option %s", argv[i]);
        if (row->argument == NULL && argument != NULL)
            return usage_error("%s takes no argument", row->name);
        if (row->argument != NULL && argument == NULL) {
            if (i + 1 >= argc)
                return usage_error("%s needs an argument: %s", argv[i], row->argument);
            argument = argv[++i];
        }
        wrong = row->set(options, argument);
        if (wrong != NULL)
            return usage_error("%s: '%s' %s", row->name, argument, wrong);
    }
    options->program = argv + i;
    return options_check(options);
}

void options_finish(struct options *options)
{
    free(options->variables);
}
