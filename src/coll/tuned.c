/*
 * Tables of choices: files, and the card by which task 0 gives its own to the others; see tuned.h.
 *
 * The card has the lines joined by ';', and '-' stands for none. Task 0 drops what no longer fits,
 * for itself, too.
 */
#include "coll/tuned.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "context/context.h"
#include "util/error.h"
#include "util/log.h"
#include "util/option.h"

#define FILE_BYTES_MAX ((off_t)1 << 20)
#define WARNINGS_MAX 10u
#define NO_TABLE "-"

/* ---- files ---- */

/* A whole regular file; *bytes of it. NULL with errno. */
static char *read_file(const char *path, size_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    char *text = NULL;
    ssize_t got = 1;

    if (fd < 0)
        return NULL;
    *bytes = 0;
    if (fstat(fd, &status) == 0) {
        if (!S_ISREG(status.st_mode))
            errno = EINVAL;
        else if (status.st_size > FILE_BYTES_MAX)
            errno = EFBIG;
        else
            text = malloc((size_t)status.st_size + 1);
    }
    while (text != NULL && got > 0 && *bytes < (size_t)status.st_size) {
        got = read(fd, text + *bytes, (size_t)status.st_size - *bytes);
        *bytes += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        free(text);
        text = NULL;
    }
    close(fd);
    return text;
}

/* Lines end with `end`; path NULL: no warnings. */
static int read_lines(const char *path, const char *text, size_t bytes, char end,
                      struct choice_list *list)
{
    uint32_t line = 0, bad = 0;
    int error = 0;

    for (size_t at = 0; at < bytes && error == 0; line++) {
        const char *stop = memchr(text + at, end, bytes - at);
        size_t length = stop != NULL ? (size_t)(stop - text) - at : bytes - at;
        struct choice choice;
        char why[192];
        int parsed = choice_parse(text + at, length, &choice, why, sizeof(why));

        if (parsed > 0) {
            choice.line = line + 1;
            error = choice_add(list, &choice);
        } else if (parsed < 0 && path != NULL && bad++ < WARNINGS_MAX) {
            log_warn("PAMI_COLL_TABLE: %s:%u: %s; the line is ignored", path, line + 1, why);
        }
        at += length + 1;
    }
    if (bad > WARNINGS_MAX)
        log_warn("PAMI_COLL_TABLE: %s: %u more lines are ignored", path, bad - WARNINGS_MAX);
    return error;
}

int tuned_read(const char *path, struct choice_list *list)
{
    size_t bytes;
    char *text = read_file(path, &bytes);
    int error = -errno;

    if (text == NULL) {
        log_warn("PAMI_COLL_TABLE: %s cannot be read: %s; using what is built in", path,
                 error == -EINVAL ? "not a regular file" : strerror(-error));
        return error;
    }
    error = read_lines(path, text, bytes, '\n', list);
    free(text);
    return error;
}

/* ---- the card ---- */

static void key_of(const char *client, char key[BOOTSTRAP_KEY_MAX + 1])
{
    snprintf(key, BOOTSTRAP_KEY_MAX + 1, "choices.%s-0", client);
}

/* The list becomes what the text says. */
static void write_card(struct choice_list *list, char *text, size_t room)
{
    size_t used = 0;

    for (size_t i = 0; i < list->count; i++) {
        char line[CHOICE_TEXT_MAX];
        size_t length = choice_format(&list->choices[i], ':', line, sizeof(line));

        if (length + 1 >= room - used) {
            log_warn("PAMI_COLL_TABLE: too many lines: from line %u on they are ignored",
                     list->choices[i].line);
            list->count = i;
            break;
        }
        memcpy(text + used, line, length);
        used += length;
        text[used++] = ';';
    }
    text[used] = '\0';
    if (used == 0)
        snprintf(text, room, "%s", NO_TABLE);
}

/* Publishes this task's lines, or reads those that were published. */
static int move_card(struct client_core *core, const char *client, bool publishes)
{
    char key[BOOTSTRAP_KEY_MAX + 1];
    char *text = malloc(BOOTSTRAP_VALUE_MAX + 1);
    int error;

    if (text == NULL)
        return -ENOMEM;
    key_of(client, key);
    if (publishes) {
        write_card(core->choices, text, BOOTSTRAP_VALUE_MAX + 1);
        error = bootstrap_put(core->bootstrap, key, text);
    } else {
        error = bootstrap_get(core->bootstrap, key, text, BOOTSTRAP_VALUE_MAX + 1);
        if (error == 0 && strcmp(text, NO_TABLE) != 0)
            error = read_lines(NULL, text, strlen(text), ';', core->choices);
    }
    free(text);
    return error;
}

/* ---- the job's table ---- */

/* Tasks of one process, and tasks that are alone, have one environment. */
static bool has_cards(const struct client_core *core)
{
    return core->tasks > 1 && core->bootstrap->ops->put != NULL &&
           core->bootstrap->ops->get != NULL;
}

static int fail(int error)
{
    error_set(error_from_errno(error), "the table of collectives of task 0: %s", strerror(-error));
    return error;
}

int tuned_offer(struct client_core *core, const char *key)
{
    const char *path = option_string(OPT_COLL_TABLE);
    int error = 0;

    if (!has_cards(core) && *path == '\0')
        return 0;
    core->choices = calloc(1, sizeof(*core->choices));
    if (core->choices == NULL)
        return fail(-ENOMEM);
    if (has_cards(core) && core->task != 0)
        return 0;
    if (*path != '\0' && tuned_read(path, core->choices) == -ENOMEM)
        return fail(-ENOMEM);
    if (has_cards(core))
        error = move_card(core, key, true);
    return error == 0 ? 0 : fail(error);
}

int tuned_join(struct client_core *core, const char *key)
{
    int error = has_cards(core) && core->task != 0 ? move_card(core, key, false) : 0;

    return error == 0 ? 0 : fail(error);
}

void tuned_finish(struct client_core *core)
{
    if (core->choices != NULL)
        choice_list_finish(core->choices);
    free(core->choices);
    core->choices = NULL;
}
