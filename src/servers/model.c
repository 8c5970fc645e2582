/*
 * The table of model.h: reading and asking it.
 */
#include "servers/model.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coll/choice.h"
#include "util/log.h"

#define LINES_MAX 4096u
#define WARNINGS_MAX 10u
#define BLANKS " \t\r\n"

static bool parse_kind(const char *word, enum request_kind *kind)
{
    if (strcmp(word, "put") == 0)
        *kind = REQUEST_PUT;
    else if (strcmp(word, "get") == 0)
        *kind = REQUEST_GET;
    else if (strcmp(word, "send") == 0)
        *kind = REQUEST_SEND;
    else
        return false;
    return true;
}

int model_parse(char *text, struct model_line *line)
{
    char *rest = NULL, *word[5];
    size_t count = 0;

    text[strcspn(text, "#")] = '\0';
    for (char *at = strtok_r(text, BLANKS, &rest); at != NULL && count < 5;
         at = strtok_r(NULL, BLANKS, &rest))
        word[count++] = at;
    if (count == 0)
        return 0;
    if (count != 4 || !parse_kind(word[0], &line->kind) ||
        !choice_parse_range(word[1], UINT64_MAX, &line->bytes_min, &line->bytes_max) ||
        !choice_parse_range(word[2], UINT64_MAX, &line->outstanding_min, &line->outstanding_max) ||
        !choice_parse_range(word[3], UINT64_MAX, &line->servers_min, &line->servers_max))
        return -EINVAL;
    return 1;
}

/* NULL with errno. */
static FILE *open_table(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    FILE *file;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        errno = EINVAL;
        return NULL;
    }
    file = fdopen(fd, "r");
    if (file == NULL)
        close(fd);
    return file;
}

static int add(struct model **model, const struct model_line *line)
{
    size_t count = (*model)->count + 1;
    struct model *more = realloc(*model, sizeof(*more) + count * sizeof(more->lines[0]));

    if (more == NULL)
        return -ENOMEM;
    more->lines[count - 1] = *line;
    more->count = count;
    *model = more;
    return 0;
}

static void skip_rest(FILE *file)
{
    int c;

    do
        c = getc(file);
    while (c != EOF && c != '\n');
}

/* What is behind a comment's mark may be of any length. */
static int read_lines(const char *path, FILE *file, struct model **model)
{
    unsigned number = 0, bad = 0;
    char text[256];

    while (number < LINES_MAX && fgets(text, sizeof(text), file) != NULL) {
        bool ends = strchr(text, '\n') != NULL || strlen(text) < sizeof(text) - 1;
        struct model_line line;
        int parsed = ends || strchr(text, '#') != NULL ? model_parse(text, &line) : -EINVAL;

        number++;
        if (!ends)
            skip_rest(file);
        if (parsed < 0 && bad++ < WARNINGS_MAX)
            log_warn("PAMI_SERVERS_TABLE: %s:%u: makes no sense; the line is ignored", path,
                     number);
        if (parsed > 0 && add(model, &line) != 0)
            return -ENOMEM;
    }
    return 0;
}

static int read_table(const char *path, struct model **model)
{
    FILE *file = open_table(path);
    int error;

    *model = NULL;
    if (file == NULL) {
        log_warn("PAMI_SERVERS_TABLE: %s cannot be read: %s", path,
                 errno == EINVAL ? "not a regular file" : strerror(errno));
        return 0;
    }
    *model = calloc(1, sizeof(**model));
    error = *model != NULL ? read_lines(path, file, model) : -ENOMEM;
    fclose(file);
    if (error != 0) {
        free(*model);
        *model = NULL;
    }
    return error;
}

/* No cancellation point. */
int model_read(const char *path, struct model **model)
{
    int state, error;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    error = read_table(path, model);
    pthread_setcancelstate(state, NULL);
    return error;
}

bool model_pays(const struct model *model, enum request_kind kind, uint64_t bytes,
                size_t outstanding, unsigned servers)
{
    if (kind == REQUEST_IMMEDIATE)
        kind = REQUEST_SEND;
    if (kind == REQUEST_FETCH)
        kind = REQUEST_GET;
    for (size_t i = 0; i < model->count; i++) {
        const struct model_line *line = &model->lines[i];

        if (line->kind == kind && bytes >= line->bytes_min && bytes <= line->bytes_max &&
            servers >= line->servers_min && servers <= line->servers_max &&
            (outstanding == MODEL_ANY ||
             (outstanding >= line->outstanding_min && outstanding <= line->outstanding_max)))
            return true;
    }
    return false;
}
