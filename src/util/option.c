/*
 * The option registry, see option.h: values, where they came from, and the warnings about what
 * the environment got wrong.
 *
 * Warnings come once per process, and only from task 0 of a job (the launcher's rank, which is
 * all that is known this early).
 */
#include "util/option.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/option_parse.h"

/* Longest CHOICE or STRING default or value shown, in bytes. */
#define TEXT_BYTES 256

/* Longest word of a CHOICE with its end, in bytes. */
#define CHOICE_WORD 32

#define PREFIX "PAMI_"

extern char **environ;

struct option_value {
    struct option_number parsed;
    char *text;             /* STRING, owned; NULL: the default */
    char word[CHOICE_WORD]; /* CHOICE */
    enum option_source source;
};

static const struct option_info table[] = {
#define OPTION(id, name_, type_, value_, minimum_, maximum_, unit_, description_)                  \
    [OPT_##id] = {                                                                                 \
        .name = name_,                                                                             \
        .value = value_,                                                                           \
        .unit = unit_,                                                                             \
        .description = description_,                                                               \
        .minimum = minimum_,                                                                       \
        .maximum = maximum_,                                                                       \
        .type = OPTION_##type_,                                                                    \
    },
#include "util/options.def"
#undef OPTION
};

/*
 * Names that job scripts for other implementations export.  A star matches any ending.  One MPI
 * layer refuses to start when it finds some of these set, so none may become an option of ours.
 */
static const char *const foreign[] = {
    "PAMI_VERBOSE",      "PAMI_STATISTICS",   "PAMI_OPTIMIZED_SUBCOMMS",
    "PAMI_MAXCONTEXT",   "PAMI_MAXCONTEXTS",  "PAMI_MAX_CONTEXT",
    "PAMI_MAX_CONTEXTS", "PAMI_CONTEXT_POST", "PAMI_COMMTHREAD",
    "PAMI_COMMTHREADS",  "PAMI_COMM_THREAD",  "PAMI_COMM_THREADS",
    "PAMI_SHORT",        "PAMI_RVZ",          "PAMI_RZV",
    "PAMI_EAGER",        "PAMI_EAGER_LOCAL",  "PAMI_RMA_PENDING",
    "PAMI_COLLECTIVE",   "PAMI_COLLECTIVES",  "PAMI_SHMEM_PT2PT",
    "PAMI_ALLGATHER",    "PAMI_ALLGATHERV",   "PAMI_ALLREDUCE",
    "PAMI_ALLTOALL",     "PAMI_ALLTOALLV",    "PAMI_BARRIER",
    "PAMI_BCAST",        "PAMI_GATHER",       "PAMI_GATHERV",
    "PAMI_REDUCE",       "PAMI_SCAN",         "PAMI_SCATTER",
    "PAMI_SCATTERV",     "PAMI_COREON*",
};

static struct option_value values[OPTION_COUNT];
static int load_error; /* -ENOMEM: a text of the environment could not be kept */
static pthread_once_t once = PTHREAD_ONCE_INIT;

bool option_is_foreign(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        size_t length = strcspn(foreign[i], "*");

        if (strncmp(name, foreign[i], length) == 0 &&
            (foreign[i][length] == '*' || name[length] == '\0'))
            return true;
    }
    return false;
}

int option_find(const char *name)
{
    int id;

    for (id = 0; id < OPTION_COUNT; id++)
        if (strcmp(table[id].name, name) == 0)
            return id;
    return -1;
}

int option_nearest(const char *name)
{
    /* A quarter of the name, without the common prefix, may differ. */
    size_t length =
        strlen(name) - (strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? strlen(PREFIX) : 0);
    unsigned least = (unsigned)(length / 4 + 2);
    int id, nearest = -1;

    for (id = 0; id < OPTION_COUNT; id++) {
        unsigned distance = option_edit_distance(name, table[id].name);

        if (distance < least) {
            least = distance;
            nearest = id;
        }
    }
    return nearest;
}

/* Other tasks of the job would only repeat task 0's warnings. */
static bool is_quiet(void)
{
    static const char *const ranks[] = {"PMI_RANK", "PMIX_RANK"};
    size_t i;

    for (i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        const char *rank = getenv(ranks[i]);

        if (rank != NULL && strtol(rank, NULL, 10) != 0)
            return true;
    }
    return false;
}

/* Name of the type for people: "bytes", "choice", ... */
static const char *type_name(enum option_type type)
{
    static const char *const names[] = {
        [OPTION_INT] = "number",      [OPTION_POW2] = "number", [OPTION_BYTES] = "bytes",
        [OPTION_SECONDS] = "seconds", [OPTION_BOOL] = "switch", [OPTION_CHOICE] = "choice",
        [OPTION_STRING] = "text",
    };

    return names[type];
}

static void warn_value(const struct option_info *info, const char *text, int error)
{
    char range[TEXT_BYTES];
    const char *problem = "is not a valid value";

    if (error == -ERANGE)
        problem = "is out of range";
    log_warn("%s=%s %s (%s: %s); using the default, %s", info->name, text, problem,
             type_name(info->type), option_range_format(info, range, sizeof range), info->value);
}

static void warn_unknown(const char *name)
{
    int nearest = option_nearest(name);

    if (nearest >= 0)
        log_warn("%s is not an option; did you mean %s?", name, table[nearest].name);
    else
        log_warn("%s is not an option; pami_info lists them", name);
}

static void warn_all_unknown(void)
{
    char **entry;

    for (entry = environ; entry != NULL && *entry != NULL; entry++) {
        char name[TEXT_BYTES];
        size_t length = strcspn(*entry, "=");

        if (strncmp(*entry, PREFIX, strlen(PREFIX)) != 0 || length >= sizeof name)
            continue;
        memcpy(name, *entry, length);
        name[length] = '\0';
        if (option_find(name) < 0 && !option_is_foreign(name))
            warn_unknown(name);
    }
}

/* Puts a parsed value in place together with its text. */
static int store(enum option_id id, const char *text, const struct option_number *parsed,
                 enum option_source source)
{
    const struct option_info *info = &table[id];
    char *copy = NULL;

    if (info->type == OPTION_CHOICE)
        option_choice_word(info->unit, (int)parsed->number, values[id].word,
                           sizeof values[id].word);
    if (info->type == OPTION_STRING && source != OPTION_FROM_DEFAULT) {
        copy = strdup(text);
        if (copy == NULL)
            return -ENOMEM;
    }
    free(values[id].text);
    values[id].text = copy;
    values[id].parsed = *parsed;
    values[id].source = source;
    if (id == OPT_LOG)
        log_set_threshold((enum log_level)parsed->number);
    return 0;
}

static void load_one(enum option_id id, bool quiet)
{
    const struct option_info *info = &table[id];
    const char *text = getenv(info->name);
    struct option_number parsed = {0, 0.0};
    int error;

    /* The defaults parse: a unit test sees to it. */
    option_parse(info, info->value, &parsed);
    store(id, info->value, &parsed, OPTION_FROM_DEFAULT);
    if (text == NULL)
        return;
    error = option_parse(info, text, &parsed);
    if (error == 0)
        error = store(id, text, &parsed, OPTION_FROM_ENVIRONMENT);
    if (error == -ENOMEM)
        load_error = error;
    else if (error != 0 && !quiet)
        warn_value(info, text, error);
}

static void load(void)
{
    bool quiet = is_quiet();
    int id;

    /* First, as the warnings about the others obey it. */
    load_one(OPT_LOG, quiet);
    for (id = 0; id < OPTION_COUNT; id++)
        if (id != OPT_LOG)
            load_one((enum option_id)id, quiet);
    if (!quiet)
        warn_all_unknown();
}

void option_init(void)
{
    pthread_once(&once, load);
}

/* There is no client yet, so nobody holds a text. */
int option_load_again(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    int id, error;

    option_init();
    pthread_mutex_lock(&lock);
    if (load_error != 0) {
        load_error = 0;
        for (id = 0; id < OPTION_COUNT; id++)
            if (table[id].type == OPTION_STRING && values[id].source == OPTION_FROM_DEFAULT)
                load_one((enum option_id)id, true);
    }
    error = load_error;
    pthread_mutex_unlock(&lock);
    return error;
}

int64_t option_int(enum option_id id)
{
    option_init();
    return values[id].parsed.number;
}

size_t option_bytes(enum option_id id)
{
    option_init();
    return (size_t)values[id].parsed.number;
}

double option_seconds(enum option_id id)
{
    option_init();
    return values[id].parsed.real;
}

bool option_bool(enum option_id id)
{
    option_init();
    return values[id].parsed.number != 0;
}

int option_choice(enum option_id id)
{
    option_init();
    return (int)values[id].parsed.number;
}

const char *option_string(enum option_id id)
{
    option_init();
    if (table[id].type == OPTION_CHOICE)
        return values[id].word;
    return values[id].text != NULL ? values[id].text : table[id].value;
}

int option_set(enum option_id id, const char *text)
{
    struct option_number parsed = {0, 0.0};

    option_init();
    if (text == NULL || option_parse(&table[id], text, &parsed) != 0)
        return -EINVAL;
    return store(id, text, &parsed, OPTION_FROM_PROGRAM);
}

enum option_source option_source(enum option_id id)
{
    option_init();
    return values[id].source;
}

const char *option_source_name(enum option_source source)
{
    static const char *const names[] = {"default", "environment", "program"};

    return names[source];
}

const struct option_info *option_info(enum option_id id)
{
    return &table[id];
}

char *option_format(enum option_id id, char *buffer, size_t room)
{
    option_init();
    if (table[id].type == OPTION_STRING)
        snprintf(buffer, room, "%s", option_string(id));
    else
        option_number_format(&table[id], &values[id].parsed, buffer, room);
    return buffer;
}

char *option_format_range(enum option_id id, char *buffer, size_t room)
{
    return option_range_format(&table[id], buffer, room);
}
