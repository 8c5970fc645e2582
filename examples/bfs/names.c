/*
 * names.c - reads a whole file and remembers where its lines begin.
 */
#include "names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The contents with a zero byte at the end, or NULL with errno set. */
static char *file_read(const char *name)
{
    FILE *file = fopen(name, "r");
    char *text = NULL;
    long size;

    if (file == NULL)
        return NULL;
    /* A directory can be opened; reading it tells. */
    if ((getc(file) != EOF || !ferror(file)) && fseek(file, 0, SEEK_END) == 0 &&
        (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0 &&
        (text = malloc((size_t)size + 1)) != NULL) {
        text[fread(text, 1, (size_t)size, file)] = '\0';
        if (ferror(file)) {
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

int names_load(struct names *names, const char *file, char *error, size_t error_size)
{
    size_t lines = 1;

    *names = (struct names){.text = file_read(file)};
    if (names->text == NULL) {
        snprintf(error, error_size, "%s: %s", file, strerror(errno));
        return -1;
    }
    for (const char *c = names->text; *c != '\0'; c++)
        lines += *c == '\n';
    names->list = malloc(lines * sizeof(*names->list));
    if (names->list == NULL) {
        snprintf(error, error_size, "%s: no memory", file);
        names_free(names);
        return -1;
    }
    for (char *line = names->text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        char *next = line + length + (line[length] == '\n');

        line[length] = '\0';
        names->list[names->count++] = line;
        line = next;
    }
    return 0;
}

void names_free(struct names *names)
{
    free(names->list);
    free(names->text);
    *names = (struct names){0};
}

uint32_t names_find(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count && i < UINT32_MAX; i++)
        if (strcmp(names->list[i], name) == 0)
            return (uint32_t)i;
    return UINT32_MAX;
}

const char *names_get(const struct names *names, uint32_t vertex)
{
    return vertex < names->count ? names->list[vertex] : "";
}
