/*
 * Random and mutated bytes through the PMI-1 parsers: no crash, no read outside the input, and what
 * is accepted is consistent.
 *
 *     pmi1_line [ROUNDS [SEED]]
 *
 * Best under SANITIZE=address,undefined: every input lives in an allocation of its exact size.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/pmi1_line.h"
#include "bootstrap/pmi1_map.h"
#include "fuzz/rounds.h"

#define LENGTH_MAX 600
#define TASKS 37

/* A few words that mean something, some noise. */
static size_t make(char *text)
{
    static const char *const words[] = {
        "cmd=",
        "mcmd=spawn",
        "=",
        " ",
        "  ",
        "rc=-1",
        "rc=",
        "value=(vector,(0,1,2))",
        "key=k",
        "-9223372036854775808",
        "9223372036854775807",
        "99999999999999999999",
        "(vector,",
        "(0,",
        "(1,2,3)",
        ",",
        ")",
        "0",
        "-",
        "msg=success",
        "\n",
        "\t",
        "\x7f",
        "\xff",
    };
    size_t length = 0;

    while (length < LENGTH_MAX - 40 && pick(12) != 0) {
        const char *word = words[pick(sizeof words / sizeof words[0])];

        if (pick(6) == 0) {
            text[length++] = (char)pick(256);
            continue;
        }
        memcpy(text + length, word, strlen(word));
        length += strlen(word);
    }
    return length;
}

static void try_line(const char *text, size_t length)
{
    static const char *const names[] = {"cmd", "rc", "value", "key", "msg", "", "mcmd"};
    struct pmi1_line line;
    char copy[64];
    size_t i;
    long number;

    if (pmi1_line_parse(text, length, &line) != 0)
        return;
    CHECK(line.count >= 1 && line.count <= PMI1_FIELDS_MAX);
    for (i = 0; i < line.count; i++) {
        const struct pmi1_field *field = &line.fields[i];

        CHECK(field->name >= text && field->name_length >= 1);
        CHECK(field->name + field->name_length <= text + length);
        CHECK(memchr(field->name, '=', field->name_length) == NULL);
        CHECK(memchr(field->name, ' ', field->name_length) == NULL);
        if (field->value == NULL)
            continue;
        CHECK(field->value == field->name + field->name_length + 1);
        CHECK(field->value + field->value_length <= text + length);
        CHECK(memchr(field->value, ' ', field->value_length) == NULL);
    }
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (pmi1_line_text(&line, names[i], copy, sizeof copy) == 0)
            CHECK(pmi1_line_is(&line, names[i], copy));
        if (pmi1_line_number(&line, names[i], -1000, 1000, &number) == 0)
            CHECK(number >= -1000 && number <= 1000);
    }
}

static void try_map(const char *text)
{
    uint32_t ids[TASKS + 1];
    uint32_t tasks = 1 + pick(TASKS);

    ids[tasks] = 12345;
    if (pmi1_map_parse(text, tasks, ids) == 0)
        CHECK(strncmp(text + strspn(text, " "), "(", 1) == 0);
    CHECK(ids[tasks] == 12345);
}

int main(int argc, char **argv)
{
    long rounds = rounds_wanted(argc, argv, 200000);
    char text[LENGTH_MAX];

    for (current = 0; current < rounds; current++) {
        size_t length = make(text);
        char *exact = malloc(length + (length == 0));

        CHECK(exact != NULL);
        memcpy(exact, text, length);
        try_line(exact, length);
        exact = realloc(exact, length + 1);
        CHECK(exact != NULL);
        exact[length] = '\0';
        try_map(exact);
        free(exact);
    }
    printf("%ld inputs\n", rounds);
    return 0;
}
